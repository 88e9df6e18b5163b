/* Range maps: stores, gaps, walks, plans and reservations, snapshots and files, misuse. */
#include <errno.h>
#include <pthread.h>
#include <string.h>

#include "check.h"

static int sum(const sapwood_range *entry, void *ctx)
{
	*(uint64_t *)ctx += entry->value;
	return entry->value == 99 ? 7 : 0;
}

struct work {
	sapwood_ranges *ranges;
	sapwood_ranges_reservation *reservation;
	int result;
};

static void *elsewhere(void *ctx)
{
	struct work *work = (struct work *)ctx;

	work->result = sapwood_ranges_reservation_store(work->reservation, 1);
	sapwood_ranges_reservation_free(work->reservation); /* Refused, too. */
	return NULL;
}

static void *waits(void *ctx)
{
	struct work *work = (struct work *)ctx;

	work->result = sapwood_ranges_store(work->ranges, 5000, 5000, 5);
	return NULL;
}

static void reservations(sapwood_ranges *ranges)
{
	sapwood_ranges_plan *plan = NULL;
	sapwood_ranges_reservation *reservation = NULL, *second = NULL;
	sapwood_ranges_later *later = NULL;
	sapwood_window window;
	size_t nodes = 0, bytes = 0, left = 0;
	uint64_t start = 0, end = 0, value = 0;
	struct work work;
	pthread_t thread;

	IS(sapwood_ranges_plan_store(ranges, 1000, 1999, &plan), 0);
	IS(sapwood_ranges_plan_cost(plan, &nodes, &bytes), 0);
	CHECK(nodes >= 1 && bytes > 0);
	IS(sapwood_ranges_reserve(ranges, plan, &reservation), 0);
	IS(sapwood_ranges_reservation_range(reservation, &start, &end), 0);
	CHECK(start == 1000 && end == 1999);
	IS(sapwood_ranges_reservation_erase(reservation), -ENOTSUP);
	/* This thread would wait for itself, another one waits. */
	IS(sapwood_ranges_store(ranges, 1, 1, 1), -EDEADLK);
	IS(sapwood_ranges_reserve(ranges, plan, &second), -EDEADLK);
	work.ranges = ranges;
	work.reservation = reservation;
	CHECK(pthread_create(&thread, NULL, elsewhere, &work) == 0);
	pthread_join(thread, NULL);
	IS(work.result, -EPERM);
	CHECK(pthread_create(&thread, NULL, waits, &work) == 0);
	IS(sapwood_ranges_get(ranges, NULL, 5000, &value), -ENOENT);
	IS(sapwood_ranges_reservation_store(reservation, 10), 0);
	pthread_join(thread, NULL);
	IS(work.result, 0);
	IS(sapwood_ranges_get(ranges, NULL, 1500, &value), 0);
	CHECK(value == 10);
	sapwood_ranges_plan_free(plan);

	IS(sapwood_ranges_plan_remove(ranges, 1500, &plan), 0);
	IS(sapwood_ranges_reserve(ranges, plan, &reservation), 0);
	IS(sapwood_ranges_reservation_range(reservation, &start, &end), -ENOTSUP);
	IS(sapwood_ranges_reservation_store(reservation, 1), -ENOTSUP);
	IS(sapwood_ranges_reservation_erase(reservation), 0);
	sapwood_ranges_plan_free(plan);
	IS(sapwood_ranges_get(ranges, NULL, 1500, &value), -ENOENT);
	IS(sapwood_ranges_plan_clear(ranges, 5000, 5000, &plan), 0);
	IS(sapwood_ranges_reserve(ranges, plan, &reservation), 0);
	sapwood_ranges_reservation_free(reservation);
	sapwood_ranges_plan_free(plan);
	IS(sapwood_ranges_get(ranges, NULL, 5000, &value), 0);

	memset(&window, 0, sizeof window);
	window.size = sizeof window;
	window.start = 6000;
	window.end = 6999;
	window.align = 64;
	window.flags = SAPWOOD_FROM_END;
	IS(sapwood_ranges_plan_alloc(ranges, 10, &window, &plan), 0);
	IS(sapwood_ranges_reserve(ranges, plan, &reservation), 0);
	IS(sapwood_ranges_reservation_range(reservation, &start, &end), 0);
	CHECK(start == 6976 && end == 6985);
	IS(sapwood_ranges_reservation_store(reservation, 11), 0);
	sapwood_ranges_plan_free(plan);

	IS(sapwood_ranges_reserve_later(ranges, 2, &later), 0);
	IS(sapwood_ranges_later_store(later, 7000, 7009, 12), 0);
	window.flags = 0;
	IS(sapwood_ranges_later_alloc(later, 10, &window, 13, &start), 0);
	CHECK(start == 6016);
	IS(sapwood_ranges_later_left(later, &left), 0);
	CHECK(left == 0);
	IS(sapwood_ranges_later_clear(later, 7000, 7000), -ENOBUFS);
	sapwood_ranges_later_free(later);
}

int main(int argc, char **argv)
{
	sapwood_domain *domain = NULL;
	sapwood_reader *reader = NULL;
	sapwood_ranges *ranges = NULL, *again = NULL;
	sapwood_ranges_snapshot *snapshot = NULL;
	sapwood_ranges_options options;
	sapwood_window window;
	sapwood_range entry;
	uint64_t value = 0, start = 0, end = 0, total = 0, i;
	size_t len = 0, bytes = 0;
	char path[400];

	CHECK(argc == 2);
	IS(sapwood_domain_new(NULL, &domain), 0);
	IS(sapwood_ranges_new(domain, NULL, &ranges), 0);
	IS(sapwood_reader_new(domain, "walker", &reader), 0);
	IS(sapwood_ranges_store(ranges, 0, 99, 1), 0);
	IS(sapwood_ranges_store(ranges, 40, 59, 2), 0);
	IS(sapwood_ranges_len(ranges, &len), 0);
	CHECK(len == 3);
	IS(sapwood_ranges_get(ranges, reader, 45, &value), 0);
	CHECK(value == 2);
	IS(sapwood_ranges_get_entry(ranges, reader, 60, &entry), 0);
	CHECK(entry.start == 60 && entry.end == 99 && entry.value == 1);
	IS(sapwood_ranges_insert_new(ranges, 90, 120, 3), -EEXIST);
	IS(sapwood_ranges_insert_new(ranges, 110, 120, 99), 0);
	IS(sapwood_ranges_store(ranges, 9, 8, 3), -ERANGE);
	IS(sapwood_ranges_store_coalescing(ranges, 100, 105, 1, &entry), 0);
	CHECK(entry.start == 60 && entry.end == 105 && entry.value == 1);

	IS(sapwood_ranges_next(ranges, reader, 106, &entry), 0);
	CHECK(entry.start == 110);
	IS(sapwood_ranges_next(ranges, reader, 121, &entry), -ENOENT);
	IS(sapwood_ranges_prev(ranges, NULL, 109, &entry), 0);
	CHECK(entry.start == 60);
	IS(sapwood_ranges_each(ranges, reader, 50, 104, sum, &total), 0);
	CHECK(total == 3);
	IS(sapwood_ranges_each(ranges, reader, 0, UINT64_MAX, sum, &total), 7);
	IS(sapwood_ranges_each(ranges, reader, 0, 1, NULL, &total), -EINVAL);
	IS(sapwood_ranges_next_gap(ranges, reader, 0, 200, &start, &end), 0);
	CHECK(start == 106 && end == 109);
	IS(sapwood_ranges_next_gap(ranges, reader, 0, 50, &start, &end), -ENOENT);

	IS(sapwood_ranges_find_gap(ranges, reader, 5, NULL, &start), 0);
	CHECK(start == 121);
	memset(&window, 0, sizeof window);
	window.size = sizeof window;
	window.end = 120;
	IS(sapwood_ranges_find_gap(ranges, reader, 5, &window, &start), -ENOSPC);
	IS(sapwood_ranges_alloc(ranges, 4, &window, 4, &start), 0);
	CHECK(start == 106);
	IS(sapwood_ranges_alloc(ranges, 4, &window, 4, &start), -ENOSPC);
	IS(sapwood_ranges_alloc(ranges, 400, &window, 4, &start), -ERANGE);
	IS(sapwood_ranges_alloc(ranges, 0, &window, 4, &start), -EINVAL);
	window.align = 3;
	IS(sapwood_ranges_alloc(ranges, 1, &window, 4, &start), -EINVAL);
	window.end = 1000;
	window.align = 0;
	window.near = 500;
	window.flags = SAPWOOD_NEAR;
	IS(sapwood_ranges_alloc(ranges, 1, &window, 5, &start), 0);
	CHECK(start == 500);
	window.flags = 16;
	IS(sapwood_ranges_alloc(ranges, 1, &window, 5, &start), -EINVAL);
	IS(sapwood_ranges_remove(ranges, 500, &entry), 0);
	CHECK(entry.start == 500 && entry.end == 500 && entry.value == 5);
	IS(sapwood_ranges_remove(ranges, 500, &entry), -ENOENT);
	IS(sapwood_ranges_clear(ranges, 45, 49), 0);
	IS(sapwood_ranges_get(ranges, reader, 47, &value), -ENOENT);

	reservations(ranges);

	IS(sapwood_ranges_snapshot_new(ranges, &snapshot), 0);
	snprintf(path, sizeof path, "%s/ranges", argv[1]);
	IS(sapwood_ranges_snapshot_save(snapshot, path), 0);
	IS(sapwood_ranges_len(ranges, &len), 0);
	IS(sapwood_ranges_clear(ranges, 0, UINT64_MAX), 0);
	IS(sapwood_ranges_snapshot_next(snapshot, 0, &entry), 0);
	CHECK(entry.start == 0 && entry.end == 39);
	total = 0;
	IS(sapwood_ranges_snapshot_each(snapshot, 0, 105, sum, &total), 0);
	CHECK(total == 1 + 2 + 2 + 1);
	sapwood_ranges_snapshot_free(snapshot);
	IS(sapwood_ranges_open(NULL, NULL, path, &again), 0);
	IS(sapwood_ranges_len(again, &bytes), 0);
	CHECK(bytes == len);
	IS(sapwood_ranges_verify(again), 0);
	sapwood_ranges_free(again);
	IS(sapwood_ranges_open(NULL, NULL, argv[0], &again), -EPROTO);

	/* A limit of memory refuses, and the map is as it was. */
	memset(&options, 0, sizeof options);
	options.size = sizeof options;
	options.memory_limit = 64 << 10;
	IS(sapwood_ranges_new(NULL, &options, &again), 0);
	for (i = 0; i < 100000; i++) {
		int result = sapwood_ranges_store(again, 10 * i, 10 * i + 5, i);

		if (result != 0) {
			IS(result, -ENOMEM);
			break;
		}
	}
	CHECK(i < 100000);
	IS(sapwood_ranges_get(again, NULL, 10 * (i - 1), &value), 0);
	CHECK(value == i - 1);
	IS(sapwood_ranges_verify(again), 0);
	sapwood_ranges_free(again);

	IS(sapwood_reader_quiescent(reader), 0);
	IS(sapwood_ranges_reclaim(ranges, 1000) >= 0, 1);
	IS(sapwood_ranges_memory(ranges, &bytes), 0);
	IS(sapwood_ranges_verify(ranges), 0);
	IS(sapwood_ranges_get(NULL, reader, 1, &value), -EINVAL);
	IS(sapwood_ranges_get(ranges, (sapwood_reader *)(void *)domain, 1, &value), -EINVAL);
	sapwood_ranges_free(ranges);
	sapwood_ranges_free(NULL);
	sapwood_reader_free(reader);
	sapwood_domain_free(domain);
	return 0;
}
