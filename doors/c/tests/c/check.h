/* What the programs share: a check that says where it failed. */
#ifndef CHECK_H
#define CHECK_H

#include <stdio.h>
#include <stdlib.h>

#include "sapwood.h"

#define CHECK(condition)                                                                           \
	do {                                                                                       \
		if (!(condition)) {                                                                \
			char message_[300];                                                        \
			sapwood_last_error(message_, sizeof message_);                             \
			fprintf(stderr, "%s:%d: %s\nlast failure: %s\n", __FILE__, __LINE__,       \
				#condition, message_);                                             \
			exit(1);                                                                   \
		}                                                                                  \
	} while (0)

/* The same for a result, which is printed. */
#define IS(call, result)                                                                           \
	do {                                                                                       \
		int is_ = (call);                                                                  \
		if (is_ != (result)) {                                                             \
			char message_[300];                                                        \
			sapwood_last_error(message_, sizeof message_);                             \
			fprintf(stderr, "%s:%d: %s is %d (%s), not %s\nlast failure: %s\n",        \
				__FILE__, __LINE__, #call, is_, sapwood_strerror(is_), #result,    \
				message_);                                                         \
			exit(1);                                                                   \
		}                                                                                  \
	} while (0)

#endif
