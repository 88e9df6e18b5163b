/* sapwood_store_get: the reader belongs to another thread */
#include "check.h"

#include <pthread.h>

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

static void *other(void *unused)
{
	sapwood_value value;
	sapwood_store_get(store, reader, "elm", 3, &value);
	return unused;
}

int main(void)
{
	pthread_t thread;
	prepare();
	CHECK(pthread_create(&thread, NULL, other, NULL) == 0);
	pthread_join(thread, NULL);
	return 0;
}
