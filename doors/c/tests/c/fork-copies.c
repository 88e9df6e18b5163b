/*
 * Children of fork, and all that is no live map: the child goes on with its copies, but for what
 * the parent's other threads had open.
 */
#include <errno.h>
#include <pthread.h>
#include <string.h>

#include "fork.h"

static void count(void *ctx)
{
	++*(int *)ctx;
}

static int resolve(const void *key, size_t key_len, uint64_t *value, void *ctx)
{
	(void)key;
	(void)ctx;
	*value = key_len;
	return 0;
}

/* Everything that is no live map: the child reads and changes its copies. */
static void copies(void)
{
	sapwood_domain *domain = NULL;
	sapwood_reader *reader = NULL, *own = NULL;
	sapwood_map *map = NULL;
	sapwood_store *store = NULL;
	sapwood_txn *txn = NULL;
	sapwood_snapshot *snapshot = NULL;
	sapwood_shared *shared = NULL;
	sapwood_point *point = NULL;
	sapwood_file *file = NULL;
	sapwood_fib *fib = NULL;
	sapwood_routes *routes = NULL;
	sapwood_ranges *ranges = NULL;
	sapwood_cache *cache = NULL;
	sapwood_options in_domain = options;
	sapwood_member member;
	sapwood_prefix prefix;
	sapwood_value value = number(1);
	sapwood_view view;
	uint64_t n = 0;
	size_t len = 0, garbage = 1;
	int ran = 0;
	pid_t pid;

	memset(&member, 0, sizeof member);
	member.hop = 5;
	member.weight = 1;
	IS(sapwood_prefix_parse("10.0.0.0/8", &prefix), 0);
	IS(sapwood_domain_new(NULL, &domain), 0);
	in_domain.domain = domain;
	IS(sapwood_map_new(&options, &map), 0);
	IS(sapwood_store_new(&in_domain, &store), 0);
	IS(sapwood_shared_new(&in_domain, &shared), 0);
	IS(sapwood_point_new(&in_domain, &point), 0);
	IS(sapwood_fib_new(domain, NULL, &fib), 0);
	IS(sapwood_routes_new(domain, NULL, &routes), 0);
	IS(sapwood_ranges_new(domain, NULL, &ranges), 0);
	IS(sapwood_cache_new(NULL, &cache), 0);
	IS(sapwood_map_insert(map, "elm", 3, &value), 1);
	IS(sapwood_map_save(map, folder("file")), 0);
	IS(sapwood_file_open(folder("file"), SAPWOOD_NUMBERS, 0, &file), 0);
	IS(sapwood_store_insert(store, "elm", 3, &value), 1);
	IS(sapwood_store_snapshot(store, &snapshot), 0);
	IS(sapwood_shared_insert(shared, "elm", 3, &value), 1);
	IS(sapwood_point_insert(point, "elm", 3, &value), 1);
	IS(sapwood_fib_insert(fib, &prefix, 1, NULL), 1);
	IS(sapwood_routes_insert(routes, &prefix, &member, 1), 1);
	IS(sapwood_ranges_store(ranges, 1, 9, 1), 0);
	IS(sapwood_reader_new(domain, "parent", &reader), 0);
	/* This thread's transaction goes on in both processes, each with its copy. */
	IS(sapwood_store_begin(store, 0, &txn), 0);
	IS(sapwood_txn_insert(txn, "oak", 3, &value), 1);

	pid = begin();
	if (pid == 0) {
		value = number(2);
		IS(sapwood_txn_insert(txn, "ash", 3, &value), 1);
		IS(sapwood_txn_commit(txn, NULL), 0);
		IS(sapwood_store_view(store, reader, &view), 0);
		IS(sapwood_view_len(&view, &len), 0);
		CHECK(len == 3);
		IS(sapwood_store_insert(store, "elm", 3, &value), 0);
		IS(sapwood_map_insert(map, "elm", 3, &value), 0);
		IS(sapwood_shared_insert(shared, "elm", 3, &value), 0);
		IS(sapwood_point_insert(point, "elm", 3, &value), 0);
		IS(sapwood_fib_insert(fib, &prefix, 2, NULL), 0);
		IS(sapwood_routes_remove_member(routes, 5), 1);
		IS(sapwood_ranges_clear(ranges, 1, 9), 0);
		IS(sapwood_cache_resolve(cache, "key", 3, 1, resolve, NULL, &n), 0);
		IS(sapwood_reader_quiescent(reader), 0);
		IS(sapwood_reader_new(domain, "child", &own), 0);
		IS(sapwood_point_get(point, own, "elm", 3, &value), 0);
		CHECK(value.number == 2);
		IS(sapwood_file_get(file, "elm", 3, &value), 0);
		IS(sapwood_snapshot_get(snapshot, "elm", 3, &value), 0);
		CHECK(value.number == 1);
		IS(sapwood_domain_defer(domain, 1, count, &ran), 0);
		IS(sapwood_reader_offline(own), 0);
		IS(sapwood_reader_synchronize(reader), 0);
		sapwood_snapshot_free(snapshot);
		IS(sapwood_reader_offline(reader), 0);
		CHECK(sapwood_domain_poll(domain, 10) >= 0);
		CHECK(ran == 1);
		CHECK(sapwood_store_reclaim(store, 1000) >= 0);
		CHECK(sapwood_shared_reclaim(shared, 1000) >= 0);
		CHECK(sapwood_point_reclaim(point, 1000) >= 0);
		CHECK(sapwood_fib_reclaim(fib, 1000) >= 0);
		CHECK(sapwood_routes_reclaim(routes, 1000) >= 0);
		CHECK(sapwood_ranges_reclaim(ranges, 1000) >= 0);
		IS(sapwood_domain_garbage(domain, &garbage), 0);
		CHECK(garbage == 0);
		IS(sapwood_fib_verify(fib), 0);
		sapwood_reader_free(own);
		sapwood_reader_free(reader);
		sapwood_cache_free(cache);
		sapwood_map_free(map);
		sapwood_store_free(store);
		sapwood_shared_free(shared);
		sapwood_point_free(point);
		sapwood_file_free(file);
		sapwood_fib_free(fib);
		sapwood_routes_free(routes);
		sapwood_ranges_free(ranges);
		sapwood_domain_free(domain);
	}
	ended(pid);

	CHECK(ran == 0);
	IS(sapwood_txn_commit(txn, NULL), 0);
	IS(sapwood_store_len(store, &len), 0);
	CHECK(len == 2);
	IS(sapwood_map_get(map, "elm", 3, &value), 0);
	CHECK(value.number == 1);
	IS(sapwood_shared_get(shared, reader, "elm", 3, &value), 0);
	CHECK(value.number == 1);
	IS(sapwood_point_get(point, reader, "elm", 3, &value), 0);
	CHECK(value.number == 1);
	IS(sapwood_fib_lookup4(fib, reader, 0x0a000001, &n), 0);
	CHECK(n == 1);
	IS(sapwood_ranges_get(ranges, reader, 5, &n), 0);
	sapwood_reader_free(reader);
	sapwood_snapshot_free(snapshot);
	sapwood_cache_free(cache);
	sapwood_map_free(map);
	sapwood_store_free(store);
	sapwood_shared_free(shared);
	sapwood_point_free(point);
	sapwood_file_free(file);
	sapwood_fib_free(fib);
	sapwood_routes_free(routes);
	sapwood_ranges_free(ranges);
	sapwood_domain_free(domain);
}

/* What another thread had open at the fork. */
struct other {
	sapwood_domain *domain;
	sapwood_store *store;
	sapwood_fib *fib;
	sapwood_ranges *ranges;
	/* Not on the thread's stack, of which the child knows nothing. */
	sapwood_reader *reader;
	sapwood_txn *txn;
	sapwood_fib_txn *fib_txn;
	sapwood_ranges_plan *plan;
	sapwood_ranges_reservation *reservation;
	int ready[2], go[2];
};

static void *hold(void *ctx)
{
	struct other *other = (struct other *)ctx;
	char byte;

	IS(sapwood_reader_new(other->domain, "left behind", &other->reader), 0);
	IS(sapwood_store_begin(other->store, 0, &other->txn), 0);
	IS(sapwood_fib_begin(other->fib, &other->fib_txn), 0);
	IS(sapwood_ranges_plan_store(other->ranges, 1, 2, &other->plan), 0);
	IS(sapwood_ranges_reserve(other->ranges, other->plan, &other->reservation), 0);
	CHECK(write(other->ready[1], "r", 1) == 1);
	CHECK(read(other->go[0], &byte, 1) == 1);
	sapwood_ranges_reservation_free(other->reservation);
	sapwood_ranges_plan_free(other->plan);
	IS(sapwood_fib_txn_rollback(other->fib_txn), 0);
	sapwood_txn_rollback(other->txn);
	sapwood_reader_free(other->reader);
	return NULL;
}

static void note_name(const sapwood_stall *stall, void *ctx)
{
	if (strcmp(stall->name, "left behind") == 0)
		++*(int *)ctx;
}

/* Who would wait for a thread that the fork has left behind gets an error, or learns its name. */
static void threads_that_are_left_behind(void)
{
	struct other other;
	sapwood_domain_options few;
	sapwood_options in_domain = options;
	sapwood_shared *shared = NULL;
	sapwood_txn *txn = NULL;
	sapwood_fib_txn *fib_txn = NULL;
	sapwood_ranges_txn *ranges_txn = NULL;
	sapwood_prefix prefix;
	sapwood_value value = number(1);
	pthread_t thread;
	size_t garbage = 0;
	char byte, why[400];
	int named = 0, i;
	pid_t pid;

	memset(&other, 0, sizeof other);
	memset(&few, 0, sizeof few);
	few.size = sizeof few;
	few.stall_after_ms = 1;
	IS(sapwood_domain_new(&few, &other.domain), 0);
	in_domain.domain = other.domain;
	IS(sapwood_prefix_parse("10.0.0.0/8", &prefix), 0);
	IS(sapwood_shared_new(&in_domain, &shared), 0);
	IS(sapwood_shared_insert(shared, "elm", 3, &value), 1);
	IS(sapwood_store_new(&options, &other.store), 0);
	IS(sapwood_fib_new(NULL, NULL, &other.fib), 0);
	IS(sapwood_ranges_new(NULL, NULL, &other.ranges), 0);
	IS(pipe(other.ready), 0);
	IS(pipe(other.go), 0);
	CHECK(pthread_create(&thread, NULL, hold, &other) == 0);
	CHECK(read(other.ready[0], &byte, 1) == 1);

	pid = begin();
	if (pid == 0) {
		IS(sapwood_store_insert(other.store, "elm", 3, &value), -EDEADLK);
		sapwood_last_error(why, sizeof why);
		CHECK(strstr(why, "child of fork") != NULL);
		IS(sapwood_store_begin(other.store, 0, &txn), -EDEADLK);
		IS(sapwood_store_begin(other.store, SAPWOOD_TRY, &txn), -EBUSY);
		IS(sapwood_fib_insert(other.fib, &prefix, 1, NULL), -EDEADLK);
		sapwood_last_error(why, sizeof why);
		CHECK(strstr(why, "child of fork") != NULL);
		IS(sapwood_fib_begin(other.fib, &fib_txn), -EDEADLK);
		IS(sapwood_ranges_store(other.ranges, 1, 2, 3), -EDEADLK);
		IS(sapwood_ranges_begin(other.ranges, &ranges_txn), -EDEADLK);
		/* Its reader holds the garbage of the child back, and is named. */
		value = number(2);
		IS(sapwood_shared_insert(shared, "elm", 3, &value), 0);
		for (i = 0; i < 1000 && named == 0; i++) {
			IS(sapwood_shared_insert(shared, "elm", 3, &value), 0);
			CHECK(sapwood_shared_reclaim(shared, 1000) >= 0);
			CHECK(sapwood_domain_stalls(other.domain, note_name, &named) >= 0);
			moment();
		}
		CHECK(named == 1);
		IS(sapwood_domain_garbage(other.domain, &garbage), 0);
		CHECK(garbage > 0);
	}
	ended(pid);

	CHECK(write(other.go[1], "g", 1) == 1);
	CHECK(pthread_join(thread, NULL) == 0);
	IS(sapwood_store_insert(other.store, "elm", 3, &value), 1);
	IS(sapwood_fib_insert(other.fib, &prefix, 1, NULL), 1);
	IS(sapwood_ranges_store(other.ranges, 1, 2, 3), 0);
	for (i = 0; i < 2; i++) {
		close(other.ready[i]);
		close(other.go[i]);
	}
	sapwood_shared_free(shared);
	sapwood_store_free(other.store);
	sapwood_fib_free(other.fib);
	sapwood_ranges_free(other.ranges);
	sapwood_domain_free(other.domain);
}

int main(int argc, char **argv)
{
	CHECK(argc == 2);
	base = argv[1];
	copies();
	threads_that_are_left_behind();
	return 0;
}
