/*
 * Children of fork, and live maps of the parent: all that belongs to one is -EPERM in the child,
 * and the parent's map and readers stay as they are. The child opens its own readers, and may be
 * the heir.
 */
#include <errno.h>
#include <signal.h>
#include <string.h>

#include "fork.h"

#ifdef VALGRIND
enum { CHANGES = 200 };
#else
enum { CHANGES = 5000 };
#endif

/* A call that must be refused because it uses what is the parent's. */
#define REFUSED(call)                                                                              \
	do {                                                                                       \
		char why_[400];                                                                    \
		IS(call, -EPERM);                                                                  \
		sapwood_last_error(why_, sizeof why_);                                             \
		CHECK(strstr(why_, "child of fork") != NULL);                                      \
	} while (0)

static int never(const sapwood_entry *entry, void *ctx)
{
	(void)entry;
	(void)ctx;
	return 1;
}

/* A store, with everything that can be made of it. */
static void stores(void)
{
	sapwood_live *live = NULL;
	sapwood_store *store = NULL;
	sapwood_domain *domain = NULL;
	sapwood_reader *reader = NULL;
	sapwood_snapshot *snapshot = NULL;
	sapwood_txn *txn = NULL;
	sapwood_iter *iter = NULL;
	sapwood_view view, kept;
	sapwood_entry entry;
	sapwood_value value = number(1);
	sapwood_memory memory;
	uint64_t n = 0;
	size_t len = 0;
	pid_t pid;

	memory.size = sizeof memory;
	IS(sapwood_store_live_create(folder("store"), NULL, &options, &live, &store), 0);
	IS(sapwood_store_insert(store, "elm", 3, &value), 1);
	IS(sapwood_live_domain(live, &domain), 0);
	IS(sapwood_reader_new(domain, "parent", &reader), 0);
	IS(sapwood_store_snapshot(store, &snapshot), 0);
	IS(sapwood_snapshot_view(snapshot, &kept), 0);
	IS(sapwood_store_view(store, reader, &view), 0);
	IS(sapwood_iter_new(&view, &iter), 0);
	IS(sapwood_store_begin(store, 0, &txn), 0);
	IS(sapwood_txn_insert(txn, "oak", 3, &value), 1);

	pid = begin();
	if (pid == 0) {
		REFUSED(sapwood_store_insert(store, "ash", 3, &value));
		REFUSED(sapwood_store_remove(store, "elm", 3));
		REFUSED(sapwood_store_get(store, reader, "elm", 3, &value));
		REFUSED(sapwood_store_len(store, &len));
		REFUSED(sapwood_store_reclaim(store, 10));
		REFUSED(sapwood_store_compact_step(store, 10));
		REFUSED(sapwood_store_memory(store, &memory));
		REFUSED(sapwood_store_view(store, reader, &view));
		REFUSED(sapwood_store_begin(store, 0, &txn));
		REFUSED(sapwood_store_begin(store, SAPWOOD_TRY, &txn));
		REFUSED(sapwood_txn_get(txn, "elm", 3, &value));
		REFUSED(sapwood_txn_insert(txn, "ash", 3, &value));
		REFUSED(sapwood_txn_view(txn, &view));
		REFUSED(sapwood_txn_commit(txn, &n));
		REFUSED(sapwood_snapshot_get(snapshot, "elm", 3, &value));
		REFUSED(sapwood_snapshot_save(snapshot, folder("copy")));
		REFUSED(sapwood_view_get(&kept, "elm", 3, &value));
		REFUSED(sapwood_view_get(&view, "elm", 3, &value));
		REFUSED(sapwood_iter_next(iter, &entry));
		REFUSED(sapwood_reader_quiescent(reader));
		REFUSED(sapwood_reader_synchronize(reader));
		REFUSED(sapwood_domain_poll(domain, 10));
		REFUSED(sapwood_domain_synchronize(domain));
		REFUSED(sapwood_domain_stalls(domain, NULL, NULL));
		REFUSED(sapwood_live_generation(live, &n));
		REFUSED(sapwood_live_readers(live, NULL, NULL));
		sapwood_iter_free(iter);
		sapwood_txn_rollback(txn);
		sapwood_snapshot_free(snapshot);
		sapwood_reader_free(reader);
		sapwood_domain_free(domain);
		sapwood_store_free(store);
		/* The handle is freed, and the parent's folder stays. */
		REFUSED(sapwood_live_remove(live));
	}
	ended(pid);

	IS(sapwood_txn_commit(txn, &n), 0);
	IS(sapwood_store_len(store, &len), 0);
	CHECK(len == 2);
	IS(sapwood_iter_next(iter, &entry), 0);
	sapwood_iter_free(iter);
	sapwood_snapshot_free(snapshot);
	sapwood_reader_free(reader);
	sapwood_domain_free(domain);
	sapwood_store_free(store);
	IS(sapwood_live_remove(live), 0);
}

/* A transaction of a range map: the child may free its copy, and the parent goes on. */
static void range_transactions(void)
{
	sapwood_live *live = NULL;
	sapwood_ranges *ranges = NULL;
	sapwood_ranges_txn *txn = NULL, *second = NULL;
	uint64_t value = 0;
	pid_t pid;

	IS(sapwood_ranges_live_create(folder("spaces"), NULL, NULL, &live, &ranges), 0);
	IS(sapwood_ranges_store(ranges, 1, 9, 1), 0);
	IS(sapwood_ranges_begin(ranges, &txn), 0);
	IS(sapwood_ranges_txn_move(txn, 1, 9, 11), 0);
	pid = begin();
	if (pid == 0) {
		REFUSED(sapwood_ranges_begin(ranges, &second));
		REFUSED(sapwood_ranges_move(ranges, 1, 9, 2));
		REFUSED(sapwood_ranges_txn_get(txn, 11, &value));
		REFUSED(sapwood_ranges_txn_store(txn, 1, 9, 2));
		REFUSED(sapwood_ranges_txn_commit(txn));
		IS(sapwood_ranges_txn_rollback(txn), 0);
		sapwood_ranges_free(ranges);
		sapwood_live_free(live);
	}
	ended(pid);

	IS(sapwood_ranges_get(ranges, NULL, 1, &value), 0);
	IS(sapwood_ranges_txn_get(txn, 11, &value), 0);
	IS(sapwood_ranges_txn_commit(txn), 0);
	IS(sapwood_ranges_get(ranges, NULL, 11, &value), 0);
	IS(sapwood_ranges_get(ranges, NULL, 1, &value), -ENOENT);
	IS(sapwood_ranges_verify(ranges), 0);
	sapwood_ranges_free(ranges);
	IS(sapwood_live_remove(live), 0);
}

/* Shared maps, point maps, tables of prefixes and range maps. */
static void other_kinds(void)
{
	sapwood_live *lives[4] = {NULL, NULL, NULL, NULL};
	sapwood_domain *domain = NULL;
	sapwood_reader *reader = NULL;
	sapwood_shared *shared = NULL;
	sapwood_point *point = NULL;
	sapwood_fib *fib = NULL;
	sapwood_fib_txn *fib_txn = NULL;
	sapwood_fib_snapshot *fib_snapshot = NULL;
	sapwood_fib_iter *fib_iter = NULL;
	sapwood_ranges *ranges = NULL;
	sapwood_ranges_plan *plan = NULL;
	sapwood_ranges_reservation *reservation = NULL;
	sapwood_ranges_later *later = NULL;
	sapwood_ranges_snapshot *ranges_snapshot = NULL;
	sapwood_store *beside = NULL;
	sapwood_options in_domain = options;
	sapwood_prefix prefix;
	sapwood_value value = number(1);
	uint64_t n = 0, end = 0;
	size_t len = 0;
	pid_t pid;
	int i;

	IS(sapwood_prefix_parse("10.0.0.0/8", &prefix), 0);
	IS(sapwood_shared_live_create(folder("shared"), NULL, &options, &lives[0], &shared), 0);
	IS(sapwood_point_live_create(folder("point"), NULL, &options, &lives[1], &point), 0);
	IS(sapwood_fib_live_create(folder("fib"), NULL, NULL, &lives[2], &fib), 0);
	IS(sapwood_ranges_live_create(folder("ranges"), NULL, NULL, &lives[3], &ranges), 0);
	IS(sapwood_shared_insert(shared, "elm", 3, &value), 1);
	IS(sapwood_point_insert(point, "elm", 3, &value), 1);
	IS(sapwood_fib_insert(fib, &prefix, 1, NULL), 1);
	IS(sapwood_ranges_store(ranges, 1, 9, 1), 0);
	IS(sapwood_fib_snapshot_new(fib, &fib_snapshot), 0);
	IS(sapwood_fib_iter_new(fib_snapshot, &fib_iter), 0);
	IS(sapwood_fib_begin(fib, &fib_txn), 0);
	IS(sapwood_ranges_snapshot_new(ranges, &ranges_snapshot), 0);
	IS(sapwood_ranges_reserve_later(ranges, 1, &later), 0);
	IS(sapwood_ranges_plan_store(ranges, 20, 29, &plan), 0);
	IS(sapwood_ranges_reserve(ranges, plan, &reservation), 0);
	IS(sapwood_live_domain(lives[0], &domain), 0);
	IS(sapwood_reader_new(domain, "parent", &reader), 0);
	/* A map of the parent's own in the domain of a live one: a change asks the live readers. */
	in_domain.domain = domain;
	IS(sapwood_store_new(&in_domain, &beside), 0);

	pid = begin();
	if (pid == 0) {
		REFUSED(sapwood_shared_get(shared, reader, "elm", 3, &value));
		REFUSED(sapwood_shared_insert(shared, "ash", 3, &value));
		REFUSED(sapwood_shared_add(shared, "elm", 3, 1, &n));
		REFUSED(sapwood_shared_remove(shared, "elm", 3));
		REFUSED(sapwood_shared_each(shared, reader, never, NULL));
		REFUSED(sapwood_point_get(point, reader, "elm", 3, &value));
		REFUSED(sapwood_point_insert(point, "ash", 3, &value));
		REFUSED(sapwood_point_compare_exchange(point, "elm", 3, &value, &value));
		REFUSED(sapwood_point_each(point, reader, never, NULL));
		REFUSED(sapwood_fib_insert(fib, &prefix, 2, NULL));
		REFUSED(sapwood_fib_lookup4(fib, NULL, 0x0a000001, &n));
		REFUSED(sapwood_fib_begin(fib, &fib_txn));
		REFUSED(sapwood_fib_txn_insert(fib_txn, &prefix, 2, NULL));
		REFUSED(sapwood_fib_txn_commit(fib_txn));
		REFUSED(sapwood_fib_snapshot_len(fib_snapshot, &len));
		REFUSED(sapwood_fib_iter_next(fib_iter, &prefix, &n));
		REFUSED(sapwood_fib_verify(fib));
		REFUSED(sapwood_ranges_store(ranges, 1, 9, 2));
		REFUSED(sapwood_ranges_get(ranges, NULL, 1, &n));
		REFUSED(sapwood_ranges_alloc(ranges, 1, NULL, 1, &n));
		REFUSED(sapwood_ranges_plan_store(ranges, 1, 2, &plan));
		REFUSED(sapwood_ranges_reservation_range(reservation, &n, &end));
		REFUSED(sapwood_ranges_reservation_store(reservation, 2));
		REFUSED(sapwood_ranges_later_store(later, 1, 2, 3));
		REFUSED(sapwood_ranges_snapshot_save(ranges_snapshot, folder("copy")));
		REFUSED(sapwood_store_insert(beside, "elm", 3, &value));
		IS(sapwood_fib_txn_rollback(fib_txn), 0);
		sapwood_fib_iter_free(fib_iter);
		sapwood_fib_snapshot_free(fib_snapshot);
		sapwood_ranges_reservation_free(reservation);
		sapwood_ranges_later_free(later);
		sapwood_ranges_plan_free(plan);
		sapwood_ranges_snapshot_free(ranges_snapshot);
		sapwood_store_free(beside);
		sapwood_reader_free(reader);
		sapwood_domain_free(domain);
		sapwood_shared_free(shared);
		sapwood_point_free(point);
		sapwood_fib_free(fib);
		sapwood_ranges_free(ranges);
		for (i = 0; i < 4; i++)
			sapwood_live_free(lives[i]);
	}
	ended(pid);

	IS(sapwood_ranges_reservation_store(reservation, 2), 0);
	IS(sapwood_ranges_later_store(later, 40, 49, 3), 0);
	IS(sapwood_fib_txn_insert(fib_txn, &prefix, 2, NULL), 0);
	IS(sapwood_fib_txn_commit(fib_txn), 0);
	IS(sapwood_fib_verify(fib), 0);
	IS(sapwood_ranges_verify(ranges), 0);
	IS(sapwood_ranges_len(ranges, &len), 0);
	CHECK(len == 3);
	IS(sapwood_shared_get(shared, reader, "elm", 3, &value), 0);
	IS(sapwood_store_insert(beside, "elm", 3, &value), 1);
	sapwood_fib_iter_free(fib_iter);
	sapwood_fib_snapshot_free(fib_snapshot);
	sapwood_ranges_later_free(later);
	sapwood_ranges_plan_free(plan);
	sapwood_ranges_snapshot_free(ranges_snapshot);
	sapwood_store_free(beside);
	sapwood_reader_free(reader);
	sapwood_domain_free(domain);
	sapwood_shared_free(shared);
	sapwood_point_free(point);
	sapwood_fib_free(fib);
	sapwood_ranges_free(ranges);
	for (i = 0; i < 4; i++)
		IS(sapwood_live_remove(lives[i]), 0);
}

static uint64_t copied(sapwood_live_reader *reader, const char *key)
{
	sapwood_copy copy;
	uint64_t n = 0;

	memset(&copy, 0, sizeof copy);
	copy.size = sizeof copy;
	copy.value = &n;
	copy.value_room = sizeof n;
	IS(sapwood_live_copy(reader, key, strlen(key), &copy), 0);
	return n;
}

/* Readers of both kinds, online and offline: the child opens its own. */
static void readers(void)
{
	sapwood_live *live = NULL;
	sapwood_store *store = NULL;
	sapwood_live_reader *reader = NULL, *checking = NULL, *offline = NULL, *own = NULL;
	sapwood_iter *iter = NULL;
	sapwood_view view;
	sapwood_entry entry;
	sapwood_copy copy;
	sapwood_value value = number(1);
	uint64_t n = 9;
	const char *path;
	pid_t pid;

	IS(sapwood_store_live_create(folder("store"), NULL, &options, &live, &store), 0);
	IS(sapwood_store_insert(store, "elm", 3, &value), 1);
	path = folder("store");
	IS(sapwood_live_reader_open(path, SAPWOOD_LIVE_STORE, SAPWOOD_NUMBERS, 0, &reader), 0);
	IS(sapwood_live_reader_open(path, SAPWOOD_LIVE_STORE, SAPWOOD_NUMBERS, 0, &offline), 0);
	IS(sapwood_live_reader_open(path, SAPWOOD_LIVE_STORE, SAPWOOD_NUMBERS, SAPWOOD_LIVE_CHECKED,
				    &checking),
	   0);
	IS(sapwood_live_reader_offline(offline), 0);
	IS(sapwood_live_view(reader, &view), 0);
	IS(sapwood_iter_new(&view, &iter), 0);

	pid = begin();
	if (pid == 0) {
		memset(&copy, 0, sizeof copy);
		copy.size = sizeof copy;
		REFUSED(sapwood_live_get(reader, "elm", 3, &value));
		REFUSED(sapwood_live_copy(reader, "elm", 3, &copy));
		REFUSED(sapwood_live_copy(checking, "elm", 3, &copy));
		REFUSED(sapwood_live_each(reader, never, NULL));
		REFUSED(sapwood_live_each(checking, never, NULL));
		REFUSED(sapwood_live_view(reader, &view));
		REFUSED(sapwood_view_get(&view, "elm", 3, &value));
		REFUSED(sapwood_iter_next(iter, &entry));
		REFUSED(sapwood_live_reader_quiescent(reader));
		REFUSED(sapwood_live_reader_offline(reader));
		REFUSED(sapwood_live_reader_online(offline));
		REFUSED(sapwood_live_reader_quiescent(checking));
		REFUSED(sapwood_live_reader_generation(reader, &n));
		REFUSED(sapwood_live_reader_has_writer(reader));
		sapwood_iter_free(iter);
		sapwood_live_reader_free(reader);
		sapwood_live_reader_free(offline);
		sapwood_live_reader_free(checking);
		IS(sapwood_live_reader_open(path, SAPWOOD_LIVE_STORE, SAPWOOD_NUMBERS, 0, &own), 0);
		CHECK(copied(own, "elm") == 1);
		IS(sapwood_live_reader_quiescent(own), 0);
		sapwood_live_reader_free(own);
	}
	ended(pid);

	/* The parent's readers are there, and the one that was online holds its view. */
	IS(sapwood_live_readers(live, NULL, NULL), 3);
	value = number(2);
	IS(sapwood_store_insert(store, "elm", 3, &value), 0);
	IS(sapwood_view_get(&view, "elm", 3, &value), 0);
	CHECK(value.number == 1);
	IS(sapwood_iter_next(iter, &entry), 0);
	sapwood_iter_free(iter);
	IS(sapwood_live_reader_quiescent(reader), 0);
	IS(sapwood_live_reader_online(offline), 0);
	CHECK(copied(reader, "elm") == 2 && copied(offline, "elm") == 2);
	CHECK(copied(checking, "elm") == 2);
	sapwood_live_reader_free(reader);
	sapwood_live_reader_free(offline);
	sapwood_live_reader_free(checking);
	IS(sapwood_live_readers(live, NULL, NULL), 0);
	sapwood_store_free(store);
	IS(sapwood_live_remove(live), 0);
}

/* The child tries to write all the time while its parent writes, which harms nothing. */
static void both_write(void)
{
	sapwood_live *live = NULL;
	sapwood_shared *map = NULL;
	sapwood_live_reader *reader = NULL;
	sapwood_value value;
	uint64_t i, n, sum = 0;
	int pipes[2];
	char byte, key;
	pid_t pid;

	IS(sapwood_shared_live_create(folder("both"), NULL, &options, &live, &map), 0);
	IS(pipe(pipes), 0);
	pid = begin();
	if (pid == 0) {
		close(pipes[1]);
		value = number(1000000);
		IS(sapwood_live_reader_open(folder("both"), SAPWOOD_LIVE_SHARED, SAPWOOD_NUMBERS, 0,
					    &reader),
		   0);
		do {
			for (i = 0; i < 50; i++) {
				key = (char)i;
				REFUSED(sapwood_shared_insert(map, &key, 1, &value));
				if (sapwood_live_get(reader, &key, 1, &value) == 0)
					CHECK(value.number <= CHANGES);
				IS(sapwood_live_reader_quiescent(reader), 0);
			}
			byte = 0;
			CHECK(read(pipes[0], &byte, 1) == 1);
		} while (byte != 'e');
		sapwood_live_reader_free(reader);
		_exit(0);
	}
	close(pipes[0]);
	for (i = 0; i < CHANGES; i++) {
		key = (char)(i % 50);
		CHECK(sapwood_shared_add(map, &key, 1, 1, &n) >= 0);
		if (i % 50 == 0)
			CHECK(write(pipes[1], "g", 1) == 1);
	}
	CHECK(write(pipes[1], "e", 1) == 1);
	close(pipes[1]);
	ended(pid);
	IS(sapwood_live_reader_open(folder("both"), SAPWOOD_LIVE_SHARED, SAPWOOD_NUMBERS,
				    SAPWOOD_LIVE_CHECKED, &reader),
	   0);
	for (i = 0; i < 50; i++) {
		char text[2] = {(char)i, 0};
		sapwood_copy copy;
		memset(&copy, 0, sizeof copy);
		copy.size = sizeof copy;
		copy.value = &n;
		copy.value_room = sizeof n;
		IS(sapwood_live_copy(reader, text, 1, &copy), 0);
		sum += n;
	}
	CHECK(sum == CHANGES);
	sapwood_live_reader_free(reader);
	sapwood_shared_free(map);
	IS(sapwood_live_remove(live), 0);
}

/* The writer dies; its child frees its copies, which lets go of the lock, and takes the map over. */
static void an_heir_that_is_a_child(void)
{
	sapwood_live *live = NULL;
	sapwood_shared *map = NULL;
	sapwood_live_reader *reader = NULL;
	sapwood_value value = number(7);
	pid_t writer, self;
	int pipes[2], status = 0;
	char byte = 0;

	IS(pipe(pipes), 0);
	writer = begin();
	if (writer == 0) {
		close(pipes[0]);
		IS(sapwood_shared_live_create(folder("heir"), NULL, &options, &live, &map), 0);
		IS(sapwood_shared_insert(map, "elm", 3, &value), 1);
		self = getpid();
		if (begin() > 0)
			for (;;)
				pause();
		IS(kill(self, SIGKILL), 0);
		while (getppid() == self)
			moment();
		IS(sapwood_shared_live_open(folder("heir"), NULL, &options, &live, &map), -EBUSY);
		sapwood_shared_free(map);
		sapwood_live_free(live);
		IS(sapwood_shared_live_open(folder("heir"), NULL, &options, &live, &map), 0);
		IS(sapwood_live_reader_open(folder("heir"), SAPWOOD_LIVE_SHARED, SAPWOOD_NUMBERS, 0,
					    &reader),
		   0);
		CHECK(copied(reader, "elm") == 7);
		sapwood_live_reader_free(reader);
		sapwood_shared_free(map);
		IS(sapwood_live_remove(live), 0);
		CHECK(write(pipes[1], "w", 1) == 1);
		_exit(0);
	}
	close(pipes[1]);
	CHECK(waitpid(writer, &status, 0) == writer);
	CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
	/* If the heir fails, it closes its end without a word. */
	CHECK(read(pipes[0], &byte, 1) == 1 && byte == 'w');
	close(pipes[0]);
}

int main(int argc, char **argv)
{
	CHECK(argc == 2);
	base = argv[1];
	stores();
	other_kinds();
	range_transactions();
	readers();
	both_write();
	an_heir_that_is_a_child();
	return 0;
}
