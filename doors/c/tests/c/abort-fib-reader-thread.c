/* sapwood_fib_lookup4: the reader belongs to another thread */
#include <pthread.h>

#include "check.h"

static sapwood_fib *fib;

static void *other(void *reader)
{
	uint64_t value;

	sapwood_fib_lookup4(fib, (sapwood_reader *)reader, 1, &value);
	return NULL;
}

int main(void)
{
	sapwood_domain_options options = {sizeof options, SAPWOOD_CHECKED, 0, 0, 0, 0};
	sapwood_domain *domain = NULL;
	sapwood_reader *reader = NULL;
	pthread_t thread;

	IS(sapwood_domain_new(&options, &domain), 0);
	IS(sapwood_fib_new(domain, NULL, &fib), 0);
	IS(sapwood_reader_new(domain, "first", &reader), 0);
	CHECK(pthread_create(&thread, NULL, other, reader) == 0);
	pthread_join(thread, NULL);
	return 0;
}
