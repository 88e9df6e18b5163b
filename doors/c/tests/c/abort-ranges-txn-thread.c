/* sapwood_ranges_txn_take: the transaction belongs to another thread */
#include "check.h"

#include <pthread.h>

static int never(const sapwood_range *entry, void *ctx)
{
	(void)entry;
	(void)ctx;
	return 1;
}

static void *other(void *txn)
{
	sapwood_ranges_txn_take((sapwood_ranges_txn *)txn, 1, 9, never, NULL);
	return NULL;
}

int main(void)
{
	sapwood_ranges_options options = {sizeof options, SAPWOOD_CHECKED, 0, 0};
	sapwood_ranges *ranges = NULL;
	sapwood_ranges_txn *txn = NULL;
	pthread_t thread;

	IS(sapwood_ranges_new(NULL, &options, &ranges), 0);
	IS(sapwood_ranges_store(ranges, 1, 9, 1), 0);
	IS(sapwood_ranges_begin(ranges, &txn), 0);
	CHECK(pthread_create(&thread, NULL, other, txn) == 0);
	pthread_join(thread, NULL);
	return 0;
}
