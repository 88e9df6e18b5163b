/* A checked reader of a new live map, for programs that use it wrongly. */
#include "check.h"

static sapwood_live_reader *checked_reader(const char *base)
{
	sapwood_options options = {sizeof options, 0, SAPWOOD_NUMBERS, NULL, NULL, 0, 0, NULL};
	sapwood_live_reader *reader = NULL;
	sapwood_live *live = NULL;
	sapwood_store *store = NULL;
	sapwood_value value;
	char folder[400];

	snprintf(folder, sizeof folder, "%s/live", base);
	value.number = 1;
	IS(sapwood_store_live_create(folder, NULL, &options, &live, &store), 0);
	IS(sapwood_store_insert(store, "elm", 3, &value), 1);
	IS(sapwood_live_reader_open(folder, SAPWOOD_LIVE_STORE, SAPWOOD_NUMBERS, SAPWOOD_CHECKED,
				    &reader),
	   0);
	return reader;
}
