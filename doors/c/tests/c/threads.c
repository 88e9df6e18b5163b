/* Readers and writers on several threads, of all maps that have readers; fork in between. */
#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"

#ifdef VALGRIND
enum { CHANGES = 300 };
#else
enum { CHANGES = 20000 };
#endif

enum { KEYS = 16 };

static sapwood_domain *domain;
static sapwood_store *store;
static sapwood_shared *map;
static sapwood_point *point;
static volatile int ended;

/* A store of which each version has the same number under all keys. */
static void *read_on(void *unused)
{
	sapwood_reader *reader = NULL;
	uint64_t least = 0;

	IS(sapwood_reader_new(domain, "reader", &reader), 0);
	while (!__atomic_load_n(&ended, __ATOMIC_ACQUIRE)) {
		sapwood_view view;
		sapwood_value value, first;
		unsigned char key;
		first.number = 0;
		IS(sapwood_store_view(store, reader, &view), 0);
		for (key = 0; key < KEYS; key++) {
			IS(sapwood_view_get(&view, &key, 1, &value), 0);
			if (key == 0)
				first = value;
			CHECK(value.number == first.number);
		}
		CHECK(first.number >= least);
		least = first.number;
		key = 0;
		IS(sapwood_shared_get(map, reader, &key, 1, &value), 0);
		IS(sapwood_point_get(point, reader, &key, 1, &value), 0);
		IS(sapwood_reader_quiescent(reader), 0);
	}
	sapwood_reader_free(reader);
	return unused;
}

static void *add_on(void *unused)
{
	int i;
	for (i = 0; i < CHANGES; i++) {
		unsigned char key = (unsigned char)(i % KEYS);
		IS(sapwood_shared_add(map, &key, 1, 1, NULL), 0);
		IS(sapwood_point_add(point, &key, 1, 1, NULL), 0);
	}
	return unused;
}

static void commit(uint64_t number)
{
	sapwood_txn *txn = NULL;
	sapwood_value value;
	unsigned char key;

	value.number = number;
	IS(sapwood_store_begin(store, 0, &txn), 0);
	for (key = 0; key < KEYS; key++)
		CHECK(sapwood_txn_insert(txn, &key, 1, &value) >= 0);
	IS(sapwood_txn_commit(txn, NULL), 0);
}

static int sum_up(const sapwood_entry *entry, void *ctx)
{
	*(uint64_t *)ctx += entry->value.number;
	return 0;
}

int main(void)
{
	sapwood_options options;
	sapwood_reader *reader = NULL;
	sapwood_value value;
	pthread_t readers[2], writers[2];
	uint64_t sum = 0;
	size_t garbage = 1;
	unsigned char key;
	int i, status = 0;
	pid_t child;

	memset(&options, 0, sizeof options);
	options.size = sizeof options;
	IS(sapwood_domain_new(NULL, &domain), 0);
	options.domain = domain;
	IS(sapwood_store_new(&options, &store), 0);
	IS(sapwood_shared_new(&options, &map), 0);
	IS(sapwood_point_new(&options, &point), 0);
	value.number = 0;
	for (key = 0; key < KEYS; key++) {
		IS(sapwood_shared_insert(map, &key, 1, &value), 1);
		IS(sapwood_point_insert(point, &key, 1, &value), 1);
	}
	commit(1);
	for (i = 0; i < 2; i++) {
		CHECK(pthread_create(&readers[i], NULL, read_on, NULL) == 0);
		CHECK(pthread_create(&writers[i], NULL, add_on, NULL) == 0);
	}
	for (i = 2; i < CHANGES / 10; i++)
		commit((uint64_t)i);
	for (i = 0; i < 2; i++)
		pthread_join(writers[i], NULL);
	__atomic_store_n(&ended, 1, __ATOMIC_RELEASE);
	for (i = 0; i < 2; i++)
		pthread_join(readers[i], NULL);

	IS(sapwood_reader_new(domain, "main", &reader), 0);
	IS(sapwood_shared_each(map, reader, sum_up, &sum), 0);
	CHECK(sum == 2 * (uint64_t)CHANGES);
	sum = 0;
	IS(sapwood_point_each(point, reader, sum_up, &sum), 0);
	CHECK(sum == 2 * (uint64_t)CHANGES);

	/* A child reads and changes its copy; the parent's stays as it was. */
	key = 0;
	child = fork();
	CHECK(child >= 0);
	if (child == 0) {
		value.number = 0;
		if (sapwood_store_get(store, reader, &key, 1, &value) != 0 ||
		    value.number != CHANGES / 10 - 1)
			_exit(2);
		value.number = 7;
		if (sapwood_store_insert(store, &key, 1, &value) != 0 ||
		    sapwood_shared_add(map, &key, 1, 1, NULL) != 0)
			_exit(3);
		if (sapwood_store_get(store, reader, &key, 1, &value) != 0 || value.number != 7)
			_exit(4);
		_exit(0);
	}
	CHECK(waitpid(child, &status, 0) == child);
	CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
	IS(sapwood_store_get(store, reader, &key, 1, &value), 0);
	CHECK(value.number == CHANGES / 10 - 1);

	/* When nobody reads, all garbage goes. */
	IS(sapwood_reader_offline(reader), 0);
	for (i = 0; i < 10; i++) {
		CHECK(sapwood_store_reclaim(store, 1000000) >= 0);
		CHECK(sapwood_shared_reclaim(map, 1000000) >= 0);
		CHECK(sapwood_point_reclaim(point, 1000000) >= 0);
	}
	IS(sapwood_domain_garbage(domain, &garbage), 0);
	CHECK(garbage == 0);
	sapwood_reader_free(reader);
	sapwood_store_free(store);
	sapwood_shared_free(map);
	sapwood_point_free(point);
	sapwood_domain_free(domain);
	return 0;
}
