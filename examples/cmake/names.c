/* A shared map with two names, of which the longer prefix of a key is found. C99 and C++11. */
#include <stdio.h>
#include <string.h>

#include <sapwood.h>

/* Ends the function with what went wrong. */
#define MUST(call)                                                                                 \
	do {                                                                                       \
		if ((call) < 0)                                                                    \
			return failed(#call);                                                      \
	} while (0)

static int failed(const char *what)
{
	char message[300];

	sapwood_last_error(message, sizeof message);
	fprintf(stderr, "%s: %s\n", what, message);
	return 1;
}

int main(void)
{
	sapwood_domain *domain = NULL;
	sapwood_reader *reader = NULL;
	sapwood_shared *map = NULL;
	sapwood_options options;
	sapwood_value value;
	sapwood_view view;
	sapwood_entry entry;

	MUST(sapwood_domain_new(NULL, &domain));
	MUST(sapwood_reader_new(domain, "main", &reader));
	memset(&options, 0, sizeof options);
	options.size = sizeof options;
	options.values = SAPWOOD_NUMBERS;
	options.domain = domain;
	MUST(sapwood_shared_new(&options, &map));
	value.number = 1;
	MUST(sapwood_shared_insert(map, "/usr", 4, &value));
	value.number = 2;
	MUST(sapwood_shared_insert(map, "/usr/lib", 8, &value));

	MUST(sapwood_shared_view(map, reader, &view));
	MUST(sapwood_view_longest_prefix(&view, "/usr/lib/libc.so", 16, &entry));
	printf("%.*s has %d\n", (int)entry.key.len, (const char *)entry.key.data,
	       (int)entry.value.number);
	MUST(sapwood_reader_quiescent(reader));

	sapwood_shared_free(map);
	sapwood_reader_free(reader);
	sapwood_domain_free(domain);
	return 0;
}
