/* sapwood_store_get: the reader is of another domain */
#include "check.h"

static sapwood_domain *domain;
static sapwood_reader *reader;
static sapwood_store *store;

static void prepare(void)
{
	sapwood_domain_options checked = {sizeof checked, SAPWOOD_CHECKED, 0, 0, 0, 0};
	sapwood_options options = {sizeof options, 0, 0, NULL, NULL, 0, 0, NULL};
	sapwood_value value;

	value.number = 1;
	IS(sapwood_domain_new(&checked, &domain), 0);
	IS(sapwood_reader_new(domain, "main", &reader), 0);
	options.domain = domain;
	IS(sapwood_store_new(&options, &store), 0);
	IS(sapwood_store_insert(store, "elm", 3, &value), 1);
}

int main(void)
{
	sapwood_store *first;
	prepare();
	first = store;
	prepare();
	sapwood_store_get(first, reader, "elm", 3, NULL);
	return 0;
}
