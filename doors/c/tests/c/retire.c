/* Pointers are retired once each, and not before their grace period is over. */
#include <errno.h>
#include <string.h>

#include "check.h"

enum { VALUES = 1000 };

static int state[VALUES]; /* how often each was retired */

static void retire(void *value, void *ctx)
{
	CHECK(ctx == state);
	++*(int *)value;
}

static sapwood_value value(int i)
{
	sapwood_value made;
	made.pointer = &state[i];
	return made;
}

static void check(int from, int to, int times)
{
	int i;
	for (i = from; i < to; i++)
		CHECK(state[i] == times);
}

int main(void)
{
	sapwood_domain *domain = NULL;
	sapwood_reader *reader = NULL;
	sapwood_options options;
	sapwood_store *store = NULL;
	sapwood_shared *map = NULL;
	sapwood_snapshot *snapshot = NULL;
	sapwood_txn *txn = NULL;
	sapwood_value found, made;
	int i, round;
	char key[4];

	memset(&options, 0, sizeof options);
	options.size = sizeof options;
	options.values = SAPWOOD_POINTERS;
	options.retire = retire;
	options.ctx = state;
	IS(sapwood_domain_new(NULL, &domain), 0);
	IS(sapwood_reader_new(domain, "main", &reader), 0);
	options.domain = domain;
	IS(sapwood_store_new(&options, &store), 0);
	for (i = 0; i < 100; i++) {
		memcpy(key, &i, sizeof i);
		made = value(i);
		IS(sapwood_store_insert(store, key, sizeof key, &made), 1);
	}
	IS(sapwood_store_snapshot(store, &snapshot), 0);
	IS(sapwood_snapshot_save(snapshot, "/dev/null"), -ENOTSUP);
	/* Replace all: the reader and the snapshot hold the old ones. */
	for (i = 0; i < 100; i++) {
		memcpy(key, &i, sizeof i);
		IS(sapwood_store_get(store, reader, key, sizeof key, &found), 0);
		CHECK(found.pointer == &state[i]);
		made = value(100 + i);
		IS(sapwood_store_insert(store, key, sizeof key, &made), 0);
	}
	CHECK(sapwood_store_reclaim(store, 1000000) >= 0);
	check(0, 200, 0);
	IS(sapwood_reader_quiescent(reader), 0);
	CHECK(sapwood_store_reclaim(store, 1000000) >= 0);
	check(0, 200, 0);
	sapwood_snapshot_free(snapshot);
	for (round = 0; round < 5; round++) {
		IS(sapwood_reader_quiescent(reader), 0);
		CHECK(sapwood_store_reclaim(store, 1000000) >= 0);
	}
	check(0, 100, 1);
	check(100, 200, 0);
	/* A rollback gives back what the transaction inserted, and nothing else. */
	IS(sapwood_store_begin(store, 0, &txn), 0);
	for (i = 0; i < 50; i++) {
		memcpy(key, &i, sizeof i);
		made = value(200 + i);
		IS(sapwood_txn_insert(txn, key, sizeof key, &made), 0);
	}
	sapwood_txn_rollback(txn);
	check(100, 200, 0);
	check(200, 250, 1);
	sapwood_store_free(store);
	sapwood_reader_free(reader);
	check(100, 200, 1);

	/* A shared map, and a refused exchange. */
	IS(sapwood_reader_new(domain, "again", &reader), 0);
	IS(sapwood_shared_new(&options, &map), 0);
	made = value(300);
	IS(sapwood_shared_insert(map, "a", 1, &made), 1);
	found = value(301);
	made = value(302);
	IS(sapwood_shared_compare_exchange(map, "a", 1, &found, &made), -ESTALE);
	IS(sapwood_shared_insert_new(map, "a", 1, &made), -EEXIST);
	check(300, 303, 0);
	found = value(300);
	IS(sapwood_shared_compare_exchange(map, "a", 1, &found, &made), 0);
	check(300, 303, 0);
	for (round = 0; round < 5; round++) {
		IS(sapwood_reader_quiescent(reader), 0);
		CHECK(sapwood_shared_reclaim(map, 1000) >= 0);
	}
	check(300, 301, 1);
	check(302, 303, 0);
	sapwood_shared_free(map);
	check(302, 303, 1);
	check(301, 302, 0);
	sapwood_reader_free(reader);
	sapwood_domain_free(domain);
	check(0, 250, 1);
	return 0;
}
