/* sapwood_ranges_reservation_store: the reservation belongs to another thread */
#include <pthread.h>

#include "check.h"

static void *other(void *reservation)
{
	sapwood_ranges_reservation_store((sapwood_ranges_reservation *)reservation, 1);
	return NULL;
}

int main(void)
{
	sapwood_ranges_options options = {sizeof options, SAPWOOD_CHECKED, 0, 0};
	sapwood_ranges *ranges = NULL;
	sapwood_ranges_plan *plan = NULL;
	sapwood_ranges_reservation *reservation = NULL;
	pthread_t thread;

	IS(sapwood_ranges_new(NULL, &options, &ranges), 0);
	IS(sapwood_ranges_plan_store(ranges, 1, 9, &plan), 0);
	IS(sapwood_ranges_reserve(ranges, plan, &reservation), 0);
	CHECK(pthread_create(&thread, NULL, other, reservation) == 0);
	pthread_join(thread, NULL);
	return 0;
}
