/*
 * Range maps as address spaces: transactions, what changes of whole ranges tell and ask, windows,
 * plans that keep their place, differences, misuse.
 */
#include <errno.h>
#include <pthread.h>
#include <string.h>

#include "check.h"

/* What a function was told, and when it stops. */
struct list {
	sapwood_ranges *ranges;
	sapwood_ranges_txn *txn;
	sapwood_range of[16];
	size_t len, most;
};

static struct list list_of(sapwood_ranges *ranges, sapwood_ranges_txn *txn, size_t most)
{
	struct list list;

	memset(&list, 0, sizeof list);
	list.ranges = ranges;
	list.txn = txn;
	list.most = most;
	return list;
}

static int note(const sapwood_range *entry, void *ctx)
{
	struct list *list = (struct list *)ctx;

	CHECK(list->len < 16);
	list->of[list->len++] = *entry;
	return list->len == list->most ? 7 : 0;
}

/* Checks an entry that was noted. */
static void noted(const struct list *list, size_t at, uint64_t start, uint64_t end, uint64_t value)
{
	CHECK(at < list->len);
	CHECK(list->of[at].start == start && list->of[at].end == end);
	CHECK(list->of[at].value == value);
}

/* The map, or the transaction if there is one, has these entries: start, end, value; the last is
 * 0, 0, 0. */
static void has(sapwood_ranges *ranges, sapwood_ranges_txn *txn, const uint64_t (*wanted)[3])
{
	struct list list = list_of(ranges, txn, 16);
	size_t i;

	if (txn)
		IS(sapwood_ranges_txn_each(txn, 0, UINT64_MAX, note, &list), 0);
	else
		IS(sapwood_ranges_each(ranges, NULL, 0, UINT64_MAX, note, &list), 0);
	for (i = 0; wanted[i][2] != 0; i++)
		noted(&list, i, wanted[i][0], wanted[i][1], wanted[i][2]);
	CHECK(list.len == i);
}

/* As mprotect: values become 9, and the map may be read and not changed. */
static int protect(const sapwood_range *part, uint64_t *value, void *ctx)
{
	struct list *list = (struct list *)ctx;
	uint64_t there = 0;

	CHECK(*value == part->value);
	IS(sapwood_ranges_store(list->ranges, 1, 1, 1), -EDEADLK);
	IS(sapwood_ranges_get(list->ranges, NULL, part->start, &there), 0);
	if (list->txn) {
		IS(sapwood_ranges_txn_get(list->txn, part->start, &there), 0);
		CHECK(there == part->value);
		IS(sapwood_ranges_txn_clear(list->txn, 0, 9), -EBUSY);
		IS(sapwood_ranges_txn_commit(list->txn), -EBUSY);
		IS(sapwood_ranges_txn_rollback(list->txn), -EBUSY);
	}
	*value = 9;
	return note(part, ctx);
}

/* Uses the map, or the transaction, that has told it of what it removed. */
static int put_back(const sapwood_range *part, void *ctx)
{
	struct list *list = (struct list *)ctx;

	if (list->txn)
		IS(sapwood_ranges_txn_store(list->txn, part->start, part->end, part->value), 0);
	else
		IS(sapwood_ranges_store(list->ranges, part->start, part->end, part->value), 0);
	return note(part, ctx);
}

static int changes_it(const sapwood_range *entry, void *ctx)
{
	struct list *list = (struct list *)ctx;
	uint64_t value;

	IS(sapwood_ranges_txn_get(list->txn, entry->start, &value), 0);
	IS(sapwood_ranges_txn_store(list->txn, 5, 5, 5), -EBUSY);
	return note(entry, ctx);
}

/* What is told of removals and asked for new values, by the map itself. */
static void whole_ranges(void)
{
	static const uint64_t whole[][3] = {{0, 9, 1}, {20, 29, 2}, {0, 0, 0}};
	static const uint64_t taken[][3] = {{0, 4, 1}, {25, 29, 2}, {0, 0, 0}};
	static const uint64_t replaced[][3] = {{0, 4, 1}, {5, 24, 3}, {25, 29, 2}, {0, 0, 0}};
	static const uint64_t changed[][3] = {{0, 2, 1}, {3, 26, 9}, {27, 29, 2}, {0, 0, 0}};
	static const uint64_t moved[][3] = {{0, 2, 1}, {13, 36, 9}, {0, 0, 0}};
	sapwood_ranges *ranges = NULL;
	struct list list;
	uint64_t indices = 0;
	char why[200];

	IS(sapwood_ranges_new(NULL, NULL, &ranges), 0);
	IS(sapwood_ranges_covered(ranges, NULL, &indices), 0);
	CHECK(indices == 0);
	IS(sapwood_ranges_store(ranges, 0, 9, 1), 0);
	IS(sapwood_ranges_store(ranges, 20, 29, 2), 0);
	IS(sapwood_ranges_covered(ranges, NULL, &indices), 0);
	CHECK(indices == 20);
	IS(sapwood_ranges_covered(ranges, NULL, NULL), -EINVAL);

	list = list_of(ranges, NULL, 16);
	IS(sapwood_ranges_take(ranges, 9, 8, note, &list), -ERANGE);
	IS(sapwood_ranges_take(ranges, 5, 24, NULL, &list), -EINVAL);
	IS(sapwood_ranges_replace(ranges, 5, 24, 3, NULL, &list), -EINVAL);
	IS(sapwood_ranges_modify(ranges, 5, 24, NULL, &list), -EINVAL);
	sapwood_last_error(why, sizeof why);
	CHECK(strcmp(why, "sapwood_ranges_modify: the function is NULL") == 0);
	has(ranges, NULL, whole);
	IS(sapwood_ranges_take(ranges, 5, 24, note, &list), 0);
	CHECK(list.len == 2);
	noted(&list, 0, 5, 9, 1);
	noted(&list, 1, 20, 24, 2);
	has(ranges, NULL, taken);
	list = list_of(ranges, NULL, 16);
	IS(sapwood_ranges_take(ranges, 10, 19, note, &list), 0);
	CHECK(list.len == 0);
	IS(sapwood_ranges_replace(ranges, 5, 24, 3, note, &list), 0);
	CHECK(list.len == 0);
	has(ranges, NULL, replaced);
	/* A function that stops is told no more; the change stays, and it may use the map. */
	list = list_of(ranges, NULL, 2);
	IS(sapwood_ranges_take(ranges, 3, 29, put_back, &list), 7);
	CHECK(list.len == 2);
	noted(&list, 0, 3, 4, 1);
	noted(&list, 1, 5, 24, 3);
	IS(sapwood_ranges_store_coalescing(ranges, 3, 4, 1, NULL), 0);
	IS(sapwood_ranges_store(ranges, 25, 29, 2), 0);
	has(ranges, NULL, replaced);

	/* One that stops leaves all values as they are. */
	list = list_of(ranges, NULL, 2);
	IS(sapwood_ranges_modify(ranges, 3, 26, protect, &list), 7);
	CHECK(list.len == 2);
	has(ranges, NULL, replaced);
	list = list_of(ranges, NULL, 16);
	IS(sapwood_ranges_modify(ranges, 8, 7, protect, &list), -ERANGE);
	IS(sapwood_ranges_modify(ranges, 100, 200, protect, &list), 0);
	CHECK(list.len == 0);
	IS(sapwood_ranges_modify(ranges, 3, 26, protect, &list), 0);
	CHECK(list.len == 3);
	noted(&list, 0, 3, 4, 1);
	noted(&list, 1, 5, 24, 3);
	noted(&list, 2, 25, 26, 2);
	has(ranges, NULL, changed);

	IS(sapwood_ranges_move(ranges, 9, 3, 13), -ERANGE);
	IS(sapwood_ranges_move(ranges, 3, 26, UINT64_MAX - 22), -ERANGE);
	has(ranges, NULL, changed);
	IS(sapwood_ranges_move(ranges, 3, 26, 13), 0);
	has(ranges, NULL, moved);
	IS(sapwood_ranges_store(ranges, 0, UINT64_MAX, 1), 0);
	IS(sapwood_ranges_covered(ranges, NULL, &indices), 0);
	CHECK(indices == UINT64_MAX);
	IS(sapwood_ranges_verify(ranges), 0);
	sapwood_ranges_free(ranges);
}

struct work {
	sapwood_ranges *ranges;
	sapwood_ranges_txn *txn;
	int results[4];
};

static void *elsewhere(void *ctx)
{
	struct work *work = (struct work *)ctx;
	uint64_t value = 0;

	work->results[0] = sapwood_ranges_txn_store(work->txn, 1, 1, 1);
	work->results[1] = sapwood_ranges_txn_get(work->txn, 1, &value);
	work->results[2] = sapwood_ranges_txn_commit(work->txn);
	work->results[3] = sapwood_ranges_txn_rollback(work->txn);
	return NULL;
}

static void *waits(void *ctx)
{
	struct work *work = (struct work *)ctx;

	work->results[0] = sapwood_ranges_store(work->ranges, 5000, 5000, 5);
	return NULL;
}

static void transactions(void)
{
	static const uint64_t before[][3] = {{0, 9, 1}, {20, 29, 2}, {0, 0, 0}};
	static const uint64_t inside[][3] = {{0, 9, 1}, {100, 104, 2}, {105, 109, 3}, {0, 0, 0}};
	static const uint64_t all[][3] = {
		{0, 4, 1}, {5, 7, 9}, {8, 9, 1}, {100, 104, 4}, {0, 0, 0}};
	sapwood_ranges *ranges = NULL;
	sapwood_ranges_txn *txn = NULL, *second = NULL;
	sapwood_ranges_plan *plan = NULL;
	sapwood_ranges_reservation *reservation = NULL;
	sapwood_ranges_snapshot *snapshot = NULL;
	sapwood_range entry;
	sapwood_window window;
	struct list list;
	struct work work;
	pthread_t thread;
	uint64_t value = 0, start = 0, indices = 0;
	size_t len = 0;

	IS(sapwood_ranges_new(NULL, NULL, &ranges), 0);
	IS(sapwood_ranges_store(ranges, 0, 9, 1), 0);
	IS(sapwood_ranges_store(ranges, 20, 29, 2), 0);
	IS(sapwood_ranges_begin(ranges, NULL), -EINVAL);
	IS(sapwood_ranges_begin(ranges, &txn), 0);

	/* The thread changes the map through the transaction only. */
	IS(sapwood_ranges_begin(ranges, &second), -EDEADLK);
	IS(sapwood_ranges_try_begin(ranges, &second), -EDEADLK);
	CHECK(second == NULL);
	IS(sapwood_ranges_store(ranges, 1, 1, 1), -EDEADLK);
	IS(sapwood_ranges_move(ranges, 1, 1, 2), -EDEADLK);
	IS(sapwood_ranges_snapshot_new(ranges, &snapshot), -EDEADLK);
	IS(sapwood_ranges_plan_store(ranges, 1, 1, &plan), -EDEADLK);

	/* It sees what it has changed, and nobody else does. */
	IS(sapwood_ranges_txn_move(txn, 20, 24, 100), 0);
	IS(sapwood_ranges_txn_clear(txn, 20, 29), 0);
	IS(sapwood_ranges_txn_insert_new(txn, 100, 109, 3), -EEXIST);
	IS(sapwood_ranges_txn_insert_new(txn, 105, 109, 3), 0);
	IS(sapwood_ranges_txn_store(txn, 9, 8, 3), -ERANGE);
	has(ranges, txn, inside);
	has(ranges, NULL, before);
	IS(sapwood_ranges_txn_get(txn, 103, &value), 0);
	CHECK(value == 2);
	IS(sapwood_ranges_txn_get(txn, 20, &value), -ENOENT);
	IS(sapwood_ranges_get(ranges, NULL, 20, &value), 0);
	IS(sapwood_ranges_txn_next(txn, 10, &entry), 0);
	CHECK(entry.start == 100 && entry.end == 104 && entry.value == 2);
	IS(sapwood_ranges_txn_next(txn, 110, &entry), -ENOENT);
	IS(sapwood_ranges_txn_find_gap(txn, 20, NULL, &start), 0);
	CHECK(start == 10);
	IS(sapwood_ranges_txn_len(txn, &len), 0);
	IS(sapwood_ranges_txn_covered(txn, &indices), 0);
	CHECK(len == 3 && indices == 20);
	IS(sapwood_ranges_txn_each(txn, 0, 9, NULL, NULL), -EINVAL);
	list = list_of(ranges, txn, 16);
	IS(sapwood_ranges_txn_each(txn, 0, 104, changes_it, &list), 0);
	CHECK(list.len == 2);

	/* Other threads wait for its end, and cannot use it. */
	work.ranges = ranges;
	work.txn = txn;
	CHECK(pthread_create(&thread, NULL, elsewhere, &work) == 0);
	pthread_join(thread, NULL);
	IS(work.results[0], -EPERM);
	IS(work.results[1], -EPERM);
	IS(work.results[2], -EPERM);
	IS(work.results[3], -EPERM);
	CHECK(pthread_create(&thread, NULL, waits, &work) == 0);
	IS(sapwood_ranges_get(ranges, NULL, 5000, &value), -ENOENT);
	IS(sapwood_ranges_txn_rollback(txn), 0);
	pthread_join(thread, NULL);
	IS(work.results[0], 0);
	IS(sapwood_ranges_remove(ranges, 5000, NULL), 0);
	has(ranges, NULL, before);
	IS(sapwood_ranges_txn_rollback(NULL), 0);

	/* All kinds of changes, and a commit. The handle of the map may go first. */
	IS(sapwood_ranges_snapshot_new(ranges, &snapshot), 0);
	IS(sapwood_ranges_begin(ranges, &txn), 0);
	list = list_of(ranges, txn, 16);
	IS(sapwood_ranges_txn_modify(txn, 5, 7, protect, &list), 0);
	noted(&list, 0, 5, 7, 1);
	IS(sapwood_ranges_txn_modify(txn, 0, 9, NULL, &list), -EINVAL);
	list = list_of(ranges, txn, 1);
	IS(sapwood_ranges_txn_modify(txn, 0, 9, protect, &list), 7);
	list = list_of(ranges, txn, 16);
	IS(sapwood_ranges_txn_take(txn, 20, 29, note, &list), 0);
	noted(&list, 0, 20, 29, 2);
	memset(&window, 0, sizeof window);
	window.size = sizeof window;
	window.start = 100;
	window.end = 109;
	IS(sapwood_ranges_txn_alloc(txn, 11, &window, 4, &start), -ERANGE);
	IS(sapwood_ranges_txn_alloc(txn, 10, &window, 4, &start), 0);
	CHECK(start == 100);
	IS(sapwood_ranges_txn_alloc(txn, 1, &window, 4, &start), -ENOSPC);
	list = list_of(ranges, txn, 16);
	IS(sapwood_ranges_txn_replace(txn, 105, 120, 5, note, &list), 0);
	noted(&list, 0, 105, 109, 4);
	IS(sapwood_ranges_txn_store_coalescing(txn, 121, 130, 5, &entry), 0);
	CHECK(entry.start == 105 && entry.end == 130);
	IS(sapwood_ranges_txn_remove(txn, 130, &entry), 0);
	CHECK(entry.start == 105 && entry.value == 5);
	IS(sapwood_ranges_txn_remove(txn, 130, &entry), -ENOENT);
	/* What is told of a removal may change the transaction. */
	list = list_of(ranges, txn, 16);
	IS(sapwood_ranges_txn_take(txn, 0, 4, put_back, &list), 0);
	noted(&list, 0, 0, 4, 1);
	has(ranges, txn, all);
	has(ranges, NULL, before);
	IS(sapwood_ranges_txn_commit(txn), 0);
	has(ranges, NULL, all);
	IS(sapwood_ranges_snapshot_len(snapshot, &len), 0);
	IS(sapwood_ranges_snapshot_covered(snapshot, &indices), 0);
	CHECK(len == 2 && indices == 20);
	IS(sapwood_ranges_snapshot_get(snapshot, 25, &value), 0);
	CHECK(value == 2);
	IS(sapwood_ranges_snapshot_get(snapshot, 30, &value), -ENOENT);
	IS(sapwood_ranges_snapshot_find_gap(snapshot, 11, NULL, &start), 0);
	CHECK(start == 30);
	sapwood_ranges_snapshot_free(snapshot);

	IS(sapwood_ranges_begin(ranges, &txn), 0);
	IS(sapwood_ranges_txn_store(txn, 200, 209, 1), 0);
	IS(sapwood_ranges_txn_commit((sapwood_ranges_txn *)(void *)ranges), -EINVAL);
	IS(sapwood_ranges_txn_store((sapwood_ranges_txn *)(void *)ranges, 1, 1, 1), -EINVAL);
	sapwood_ranges_free(ranges);
	IS(sapwood_ranges_txn_get(txn, 205, &value), 0);
	IS(sapwood_ranges_txn_commit(txn), 0);

	/* A reservation and a transaction exclude each other. */
	IS(sapwood_ranges_new(NULL, NULL, &ranges), 0);
	IS(sapwood_ranges_plan_store(ranges, 1, 1, &plan), 0);
	IS(sapwood_ranges_reserve(ranges, plan, &reservation), 0);
	IS(sapwood_ranges_begin(ranges, &txn), -EDEADLK);
	sapwood_ranges_reservation_free(reservation);
	IS(sapwood_ranges_begin(ranges, &txn), 0);
	IS(sapwood_ranges_reserve(ranges, plan, &reservation), -EDEADLK);
	IS(sapwood_ranges_txn_commit(txn), 0);
	sapwood_ranges_plan_free(plan);
	sapwood_ranges_free(ranges);
}

/* A limit of memory refuses a change; what the transaction did before it is committed. */
static void without_memory(void)
{
	sapwood_ranges *ranges = NULL;
	sapwood_ranges_txn *txn = NULL;
	sapwood_ranges_options options;
	uint64_t i, value = 0;
	size_t len = 0;
	int result = 0;

	memset(&options, 0, sizeof options);
	options.size = sizeof options;
	options.memory_limit = 64 << 10;
	IS(sapwood_ranges_new(NULL, &options, &ranges), 0);
	IS(sapwood_ranges_begin(ranges, &txn), 0);
	for (i = 0; i < 100000 && result == 0; i++)
		result = sapwood_ranges_txn_store(txn, 10 * i, 10 * i + 5, i);
	IS(result, -ENOMEM);
	IS(sapwood_ranges_txn_commit(txn), 0);
	IS(sapwood_ranges_len(ranges, &len), 0);
	CHECK(len == i - 1);
	IS(sapwood_ranges_get(ranges, NULL, 10 * (i - 2), &value), 0);
	CHECK(value == i - 2);
	IS(sapwood_ranges_verify(ranges), 0);
	sapwood_ranges_free(ranges);
}

/* Searches a gap of four indices. */
static uint64_t place(sapwood_ranges *ranges, const sapwood_window *window)
{
	uint64_t start = 0;

	IS(sapwood_ranges_find_gap(ranges, NULL, 4, window, &start), 0);
	return start;
}

static void refused(sapwood_ranges *ranges, const sapwood_window *window, const char *why)
{
	uint64_t start = 0;
	char message[200];

	IS(sapwood_ranges_find_gap(ranges, NULL, 4, window, &start), -EINVAL);
	sapwood_last_error(message, sizeof message);
	if (strstr(message, why) == NULL) {
		fprintf(stderr, "\"%s\" is not \"%s\"\n", message, why);
		exit(1);
	}
}

static void windows(void)
{
	sapwood_ranges *ranges = NULL;
	sapwood_window window, all;

	IS(sapwood_ranges_new(NULL, NULL, &ranges), 0);
	IS(sapwood_ranges_store(ranges, 0, 9, 1), 0);
	IS(sapwood_ranges_store(ranges, 40, 49, 1), 0);
	IS(sapwood_ranges_store(ranges, 56, 59, 1), 0);
	memset(&all, 0, sizeof all);
	all.size = sizeof all;
	all.end = 99;

	window = all;
	CHECK(place(ranges, &window) == 10);
	window.align = 16;
	CHECK(place(ranges, &window) == 16);
	window = all;
	window.modulus = 7;
	CHECK(place(ranges, &window) == 14);
	window.rest = 5;
	CHECK(place(ranges, &window) == 12);
	window.rest = 5 + 7 * 9;
	CHECK(place(ranges, &window) == 12);
	window.flags = SAPWOOD_FROM_END;
	CHECK(place(ranges, &window) == 96);
	window = all;
	window.guard = 2;
	CHECK(place(ranges, &window) == 12);
	window.flags = SAPWOOD_TIGHTEST;
	window.guard = 1;
	CHECK(place(ranges, &window) == 51);
	window.guard = 0;
	CHECK(place(ranges, &window) == 50);
	window.flags = SAPWOOD_TIGHTEST | SAPWOOD_FROM_END;
	CHECK(place(ranges, &window) == 52);
	window = all;
	window.near = 44;
	window.flags = SAPWOOD_NEAREST;
	CHECK(place(ranges, &window) == 50);
	window.near = 40;
	CHECK(place(ranges, &window) == 36);
	window.flags = SAPWOOD_NEAR;
	CHECK(place(ranges, &window) == 50);
	window.flags = SAPWOOD_NEAR | SAPWOOD_FROM_END;
	CHECK(place(ranges, &window) == 36);

	window.flags = SAPWOOD_NEAREST | SAPWOOD_NEAR;
	refused(ranges, &window, "SAPWOOD_NEAREST excludes SAPWOOD_FROM_END and SAPWOOD_NEAR");
	window.flags = SAPWOOD_NEAREST | SAPWOOD_FROM_END;
	refused(ranges, &window, "SAPWOOD_NEAREST excludes");
	window.flags = 16;
	refused(ranges, &window, "flags 0x10 are not known here");
	window = all;
	window.rest = 1;
	refused(ranges, &window, "a window with a rest has a modulus");
	window.align = 16;
	refused(ranges, &window, "a window with a rest has a modulus");
	window.modulus = 7;
	refused(ranges, &window, "a window has an alignment or a modulus, not both");
	window = all;
	window.size = 0;
	refused(ranges, &window, "set it to sizeof(sapwood_window)");
	sapwood_ranges_free(ranges);
}

static void plans(void)
{
	sapwood_ranges *ranges = NULL;
	sapwood_ranges_plan *plan = NULL;
	sapwood_ranges_reservation *reservation = NULL;
	uint64_t start = 0, value = 0;
	char why[200];

	IS(sapwood_ranges_new(NULL, NULL, &ranges), 0);
	IS(sapwood_ranges_store(ranges, 0, 9, 1), 0);
	IS(sapwood_ranges_plan_insert_new(ranges, 5, 14, &plan), -EEXIST);
	IS(sapwood_ranges_plan_insert_new(ranges, 15, 14, &plan), -ERANGE);
	CHECK(plan == NULL);
	IS(sapwood_ranges_plan_insert_new(ranges, 10, 14, &plan), 0);
	IS(sapwood_ranges_store(ranges, 14, 14, 2), 0);
	IS(sapwood_ranges_reserve(ranges, plan, &reservation), -EEXIST);
	sapwood_last_error(why, sizeof why);
	CHECK(strcmp(why, "sapwood_ranges_reserve: the entry 14..=14 is in the way") == 0);
	CHECK(reservation == NULL);
	IS(sapwood_ranges_clear(ranges, 14, 14), 0);
	IS(sapwood_ranges_reserve(ranges, plan, &reservation), 0);
	IS(sapwood_ranges_reservation_store(reservation, 3), 0);
	IS(sapwood_ranges_get(ranges, NULL, 14, &value), 0);
	CHECK(value == 3);
	sapwood_ranges_plan_free(plan);

	/* Another place, unless the plan keeps its own. */
	IS(sapwood_ranges_plan_alloc(ranges, 5, NULL, &plan), 0);
	IS(sapwood_ranges_store(ranges, 17, 17, 4), 0);
	IS(sapwood_ranges_reserve(ranges, plan, &reservation), 0);
	IS(sapwood_ranges_reservation_range(reservation, &start, NULL), 0);
	CHECK(start == 18);
	sapwood_ranges_reservation_free(reservation);
	reservation = NULL;
	IS(sapwood_ranges_plan_if_free(plan), 0);
	IS(sapwood_ranges_reserve(ranges, plan, &reservation), -EEXIST);
	CHECK(reservation == NULL);
	sapwood_ranges_plan_free(plan);
	IS(sapwood_ranges_plan_clear(ranges, 0, 9, &plan), 0);
	IS(sapwood_ranges_plan_if_free(plan), -ENOTSUP);
	sapwood_last_error(why, sizeof why);
	CHECK(strcmp(why, "sapwood_ranges_plan_if_free: the plan is for a removal") == 0);
	sapwood_ranges_plan_free(plan);
	IS(sapwood_ranges_plan_if_free(NULL), -EINVAL);
	sapwood_ranges_free(ranges);
}

struct told {
	sapwood_range_change of[8];
	size_t len, most;
};

static int tell(const sapwood_range_change *change, void *ctx)
{
	struct told *told = (struct told *)ctx;

	CHECK(told->len < 8 && change->size == sizeof *change);
	told->of[told->len++] = *change;
	return told->len == told->most ? -3 : 0;
}

static void is_change(const sapwood_range_change *change, int kind, uint64_t start, uint64_t end,
		      uint64_t old_value, uint64_t new_value)
{
	CHECK(change->kind == kind && change->start == start && change->end == end);
	CHECK(change->old_value == old_value && change->new_value == new_value);
}

static void differences(void)
{
	sapwood_ranges *ranges = NULL;
	sapwood_ranges_snapshot *before = NULL, *after = NULL;
	struct told told;

	IS(sapwood_ranges_new(NULL, NULL, &ranges), 0);
	IS(sapwood_ranges_store(ranges, 0, 99, 1), 0);
	IS(sapwood_ranges_snapshot_new(ranges, &before), 0);
	IS(sapwood_ranges_store(ranges, 40, 49, 2), 0);
	IS(sapwood_ranges_clear(ranges, 90, 99), 0);
	IS(sapwood_ranges_store(ranges, UINT64_MAX, UINT64_MAX, 3), 0);
	IS(sapwood_ranges_snapshot_new(ranges, &after), 0);
	memset(&told, 0, sizeof told);
	IS(sapwood_ranges_snapshot_diff(before, after, tell, &told), 0);
	CHECK(told.len == 3);
	is_change(&told.of[0], SAPWOOD_CHANGED, 40, 49, 1, 2);
	is_change(&told.of[1], SAPWOOD_REMOVED, 90, 99, 1, 0);
	is_change(&told.of[2], SAPWOOD_ADDED, UINT64_MAX, UINT64_MAX, 0, 3);
	memset(&told, 0, sizeof told);
	told.most = 2;
	IS(sapwood_ranges_snapshot_diff(after, before, tell, &told), -3);
	CHECK(told.len == 2);
	is_change(&told.of[1], SAPWOOD_ADDED, 90, 99, 0, 1);
	memset(&told, 0, sizeof told);
	IS(sapwood_ranges_snapshot_diff(after, after, tell, &told), 0);
	CHECK(told.len == 0);
	IS(sapwood_ranges_snapshot_diff(before, after, NULL, &told), -EINVAL);
	IS(sapwood_ranges_snapshot_diff(before, NULL, tell, &told), -EINVAL);
	IS(sapwood_ranges_snapshot_diff(before, (sapwood_ranges_snapshot *)(void *)ranges, tell,
					&told),
	   -EINVAL);
	sapwood_ranges_snapshot_free(before);
	sapwood_ranges_snapshot_free(after);
	sapwood_ranges_free(ranges);
}

int main(void)
{
	whole_ranges();
	transactions();
	without_memory();
	windows();
	plans();
	differences();
	return 0;
}
