/* Tables of routes: lookups by every function, transactions, snapshots, files, misuse. */
#include <errno.h>
#include <pthread.h>
#include <string.h>

#include "check.h"

static sapwood_prefix net(const char *text)
{
	sapwood_prefix prefix;

	IS(sapwood_prefix_parse(text, &prefix), 0);
	return prefix;
}

static void prefixes(void)
{
	sapwood_prefix prefix = net("10.0.0.0/8");
	char text[60];

	CHECK(prefix.addr_len == 4 && prefix.bits == 8 && prefix.addr[0] == 10);
	CHECK(net("192.0.2.1").bits == 32 && net("2001:db8::").bits == 128);
	prefix = net("2001:db8::/32");
	IS(sapwood_prefix_format(&prefix, text, sizeof text), 13);
	CHECK(strcmp(text, "2001:db8::/32") == 0);
	IS(sapwood_prefix_format(&prefix, text, 5), 13);
	CHECK(strcmp(text, "2001") == 0);
	IS(sapwood_prefix_parse("10.0.0.0/33", &prefix), -EINVAL);
	IS(sapwood_prefix_parse("10.0.0.1/8", &prefix), -EINVAL);
	IS(sapwood_prefix_parse("", &prefix), -EINVAL);
	IS(sapwood_prefix_parse(NULL, &prefix), -EINVAL);
	prefix.addr_len = 5;
	IS(sapwood_prefix_format(&prefix, text, sizeof text), -EINVAL);
}

struct waiting {
	sapwood_fib *fib;
	sapwood_fib_txn *txn;
	int result[4];
};

static void *elsewhere(void *ctx)
{
	struct waiting *waiting = (struct waiting *)ctx;
	sapwood_fib_txn *txn = NULL;

	waiting->result[0] = sapwood_fib_try_begin(waiting->fib, &txn);
	waiting->result[1] = sapwood_fib_txn_commit(waiting->txn);
	waiting->result[2] = sapwood_fib_txn_rollback(waiting->txn);
	waiting->result[3] = sapwood_fib_txn_insert(waiting->txn, NULL, 0, NULL);
	return NULL;
}

static void fib(const char *folder)
{
	sapwood_domain *domain = NULL;
	sapwood_reader *reader = NULL, *foreign = NULL;
	sapwood_domain *other = NULL;
	sapwood_fib *fib = NULL, *again = NULL;
	sapwood_fib_txn *txn = NULL;
	sapwood_fib_snapshot *snapshot = NULL;
	sapwood_fib_iter *iter = NULL;
	sapwood_fib_options options;
	sapwood_prefix prefix = net("10.0.0.0/8"), lab = net("10.1.2.0/24"), matched;
	sapwood_prefix six = net("2001:db8::/32"), bad;
	uint64_t value = 0, values[100];
	uint32_t addrs[100];
	uint8_t sixes[100][16];
	size_t i, len = 0;
	const uint8_t host[4] = {10, 1, 2, 3};
	char path[400];
	pthread_t thread;
	struct waiting waiting;

	memset(&options, 0, sizeof options);
	options.size = sizeof options;
	options.root_bits = 12;
	IS(sapwood_domain_new(NULL, &domain), 0);
	IS(sapwood_domain_new(NULL, &other), 0);
	IS(sapwood_fib_new(domain, &options, &fib), 0);
	IS(sapwood_reader_new(domain, "packets", &reader), 0);
	IS(sapwood_reader_new(other, "foreign", &foreign), 0);

	IS(sapwood_fib_insert(fib, &prefix, 1, &value), 1);
	IS(sapwood_fib_insert(fib, &prefix, 2, &value), 0);
	CHECK(value == 1);
	IS(sapwood_fib_insert(fib, &lab, 3, NULL), 1);
	IS(sapwood_fib_insert(fib, &six, 6, NULL), 1);
	IS(sapwood_fib_len(fib, &len), 0);
	CHECK(len == 3);

	IS(sapwood_fib_lookup(fib, reader, host, 4, &matched, &value), 0);
	CHECK(value == 3 && matched.bits == 24 && matched.addr_len == 4 && matched.addr[1] == 1);
	IS(sapwood_fib_lookup(fib, NULL, host, 4, NULL, NULL), 0);
	IS(sapwood_fib_lookup4(fib, reader, 0x0a010203, &value), 0);
	CHECK(value == 3);
	IS(sapwood_fib_lookup4(fib, NULL, 0x0aff0203, &value), 0);
	CHECK(value == 2);
	IS(sapwood_fib_lookup4(fib, reader, 0x0b010203, &value), -ENOENT);
	IS(sapwood_fib_lookup6(fib, reader, six.addr, &value), 0);
	CHECK(value == 6);
	for (i = 0; i < 100; i++) {
		addrs[i] = i % 3 == 0 ? 0x0a010200 + (uint32_t)i : i % 3 == 1 ? 0x0a000000 : 1;
		memcpy(sixes[i], six.addr, 16);
		sixes[i][0] = i % 2 ? 0x20 : 0x30;
	}
	IS(sapwood_fib_lookup4_bulk(fib, reader, addrs, 100, 77, values), 0);
	for (i = 0; i < 100; i++)
		CHECK(values[i] == (i % 3 == 0 ? 3u : i % 3 == 1 ? 2u : 77u));
	IS(sapwood_fib_lookup6_bulk(fib, reader, sixes[0], 100, 77, values), 0);
	for (i = 0; i < 100; i++)
		CHECK(values[i] == (i % 2 ? 6u : 77u));
	IS(sapwood_fib_lookup4_bulk(fib, reader, NULL, 0, 77, NULL), 0);
	IS(sapwood_fib_lookup4_bulk(fib, reader, NULL, 1, 77, values), -EINVAL);

	/* A transaction, seen by itself alone. */
	IS(sapwood_fib_begin(fib, &txn), 0);
	IS(sapwood_fib_txn_remove(txn, &lab, &value), 0);
	IS(sapwood_fib_txn_lookup(txn, host, 4, &value), 0);
	CHECK(value == 2);
	IS(sapwood_fib_get(fib, &lab, &value), 0);
	/* This thread would wait for itself; another one does not wait, and may not end it. */
	IS(sapwood_fib_insert(fib, &lab, 9, NULL), -EDEADLK);
	IS(sapwood_fib_begin(fib, &txn), -EDEADLK);
	IS(sapwood_fib_memory(fib, &len), -EDEADLK);
	waiting.fib = fib;
	waiting.txn = txn;
	CHECK(pthread_create(&thread, NULL, elsewhere, &waiting) == 0);
	pthread_join(thread, NULL);
	IS(waiting.result[0], -EBUSY);
	IS(waiting.result[1], -EPERM);
	IS(waiting.result[2], -EPERM);
	IS(waiting.result[3], -EPERM);
	IS(sapwood_fib_txn_rollback(txn), 0);
	IS(sapwood_fib_get(fib, &lab, &value), 0);
	IS(sapwood_fib_begin(fib, &txn), 0);
	IS(sapwood_fib_txn_insert(txn, &lab, 30, &value), 0);
	CHECK(value == 3);
	IS(sapwood_fib_snapshot_new(fib, &snapshot), -EDEADLK);
	IS(sapwood_fib_txn_commit(txn), 0);

	/* A snapshot stays as it is, is walked in order, and is saved. */
	IS(sapwood_fib_snapshot_new(fib, &snapshot), 0);
	IS(sapwood_fib_remove(fib, &lab, &value), 0);
	CHECK(value == 30);
	IS(sapwood_fib_remove(fib, &lab, &value), -ENOENT);
	IS(sapwood_fib_snapshot_lookup(snapshot, host, 4, &value), 0);
	CHECK(value == 30);
	snprintf(path, sizeof path, "%s/table.fib", folder);
	IS(sapwood_fib_snapshot_save(snapshot, path), 0);
	IS(sapwood_fib_snapshot_save(snapshot, "no/such/folder/table"), -ENOENT);
	IS(sapwood_fib_iter_new(snapshot, &iter), 0);
	sapwood_fib_snapshot_free(snapshot);
	IS(sapwood_fib_iter_next(iter, &matched, &value), 0);
	CHECK(matched.bits == 8 && value == 2);
	IS(sapwood_fib_iter_next(iter, &matched, &value), 0);
	CHECK(matched.bits == 24 && value == 30);
	IS(sapwood_fib_iter_next(iter, &matched, &value), 0);
	CHECK(matched.addr_len == 16 && matched.bits == 32 && value == 6);
	IS(sapwood_fib_iter_next(iter, &matched, &value), -ENOENT);
	sapwood_fib_iter_free(iter);
	IS(sapwood_fib_open(NULL, NULL, path, &again), 0);
	IS(sapwood_fib_lookup4(again, NULL, 0x0a010203, &value), 0);
	CHECK(value == 30);
	IS(sapwood_fib_verify(again), 0);
	sapwood_fib_free(again);
	IS(sapwood_fib_open(NULL, NULL, "no/such/file", &again), -ENOENT);
	{
		sapwood_prefix all[3];
		const uint64_t hops[3] = {1, 2, 3};

		all[0] = prefix, all[1] = six, all[2] = prefix;
		IS(sapwood_fib_build(domain, NULL, all, hops, 3, &again), 0);
		IS(sapwood_fib_lookup4(again, reader, 0x0a000001, &value), 0);
		CHECK(value == 3);
		sapwood_fib_free(again);
	}

	/* What is wrong gets an error, and changes nothing. */
	bad = prefix;
	bad.addr[3] = 1;
	IS(sapwood_fib_insert(fib, &bad, 1, NULL), -EINVAL);
	bad.bits = 33;
	IS(sapwood_fib_insert(fib, &bad, 1, NULL), -EINVAL);
	IS(sapwood_fib_insert(fib, NULL, 1, NULL), -EINVAL);
	IS(sapwood_fib_lookup(fib, reader, host, 5, NULL, &value), -EINVAL);
	IS(sapwood_fib_lookup4(fib, foreign, 0x0a000001, &value), -EPERM);
	IS(sapwood_fib_lookup4(fib, reader, 0x0a000001, NULL), -EINVAL);
	IS(sapwood_fib_lookup6(fib, reader, NULL, &value), -EINVAL);
	IS(sapwood_reader_offline(reader), 0);
	IS(sapwood_fib_lookup4(fib, reader, 0x0a000001, &value), -EPERM);
	IS(sapwood_fib_lookup4((sapwood_fib *)(void *)domain, reader, 1, &value), -EINVAL);
	IS(sapwood_fib_lookup4(NULL, reader, 1, &value), -EINVAL);
	options.root_bits = 7;
	IS(sapwood_fib_new(domain, &options, &again), -EINVAL);
	options.root_bits = 6;
	options.memory_limit = 4096;
	IS(sapwood_fib_new(domain, &options, &again), 0);
	for (i = 0; i < 10000; i++) {
		int result;

		prefix.addr[1] = (uint8_t)(i >> 8);
		prefix.addr[2] = (uint8_t)i;
		prefix.bits = 24;
		result = sapwood_fib_insert(again, &prefix, i, NULL);
		if (result != 1) {
			IS(result, -ENOMEM);
			break;
		}
	}
	CHECK(i < 10000);
	IS(sapwood_fib_verify(again), 0);
	sapwood_fib_free(again);

	IS(sapwood_fib_reclaim(fib, 1000) >= 0, 1);
	IS(sapwood_fib_memory(fib, &len), 0);
	CHECK(len > 0);
	IS(sapwood_fib_verify(fib), 0);
	sapwood_fib_free(fib);
	sapwood_fib_free(NULL);
	IS(sapwood_fib_txn_rollback(NULL), 0);
	sapwood_reader_free(reader);
	sapwood_reader_free(foreign);
	sapwood_domain_free(domain);
	sapwood_domain_free(other);
}

static void routes(const char *folder)
{
	sapwood_domain *domain = NULL;
	sapwood_reader *reader = NULL;
	sapwood_routes *routes = NULL, *again = NULL;
	sapwood_routes_txn *txn = NULL;
	sapwood_routes_snapshot *snapshot = NULL;
	sapwood_routes_iter *iter = NULL;
	sapwood_fib *plain = NULL;
	const sapwood_member both[2] = {{1, 1, 0}, {2, 3, 0}}, one = {7, 1, 0};
	sapwood_member found[4];
	sapwood_prefix prefix = net("10.0.0.0/8"), six = net("2001:db8::/32"), at;
	sapwood_flow flow;
	uint64_t hash = 0, back = 0, hop = 0, flows[100], hops[100];
	uint32_t addrs[100];
	size_t count = 0, groups = 0, i, second = 0;
	const uint8_t host[4] = {10, 1, 2, 3};
	char path[400];

	IS(sapwood_domain_new(NULL, &domain), 0);
	IS(sapwood_routes_new(domain, NULL, &routes), 0);
	IS(sapwood_reader_new(domain, "packets", &reader), 0);
	IS(sapwood_routes_insert(routes, &prefix, both, 2), 1);
	IS(sapwood_routes_insert(routes, &prefix, both, 2), 0);
	IS(sapwood_routes_insert(routes, &six, both, 2), 1);
	IS(sapwood_routes_len(routes, &count, &groups), 0);
	CHECK(count == 2 && groups == 1);

	memset(&flow, 0, sizeof flow);
	flow.addr_len = 4;
	memcpy(flow.source, "\300\000\002\001", 4);
	memcpy(flow.destination, host, 4);
	flow.protocol = 6;
	flow.destination_port = 443;
	for (i = 0; i < 1000; i++) {
		flow.source_port = (uint16_t)i;
		IS(sapwood_flow_hash(42, &flow, 0, &hash), 0);
		IS(sapwood_routes_lookup(routes, reader, host, 4, hash, &hop), 0);
		CHECK(hop == 1 || hop == 2);
		second += hop == 2;
	}
	CHECK(second > 650 && second < 850);
	IS(sapwood_flow_hash(42, &flow, SAPWOOD_SYMMETRIC, &hash), 0);
	memcpy(flow.destination, flow.source, 4);
	memcpy(flow.source, host, 4);
	flow.destination_port = flow.source_port;
	flow.source_port = 443;
	IS(sapwood_flow_hash(42, &flow, SAPWOOD_SYMMETRIC, &back), 0);
	CHECK(hash == back);
	IS(sapwood_flow_hash(42, &flow, 2, &back), -EINVAL);
	flow.addr_len = 6;
	IS(sapwood_flow_hash(42, &flow, 0, &back), -EINVAL);
	IS(sapwood_flow_hash(42, NULL, 0, &back), -EINVAL);

	for (i = 0; i < 100; i++) {
		addrs[i] = i % 2 ? 0x0a010203 : 1;
		flows[i] = i * 0x9e3779b97f4a7c15u;
	}
	IS(sapwood_routes_lookup4_bulk(routes, reader, addrs, flows, 100, 99, hops), 0);
	for (i = 0; i < 100; i++) {
		int result = sapwood_routes_lookup(routes, NULL, host, 4, flows[i], &hop);

		IS(result, 0);
		CHECK(hops[i] == (i % 2 ? hop : 99));
	}
	IS(sapwood_routes_lookup6_bulk(routes, reader, six.addr, flows, 1, 99, hops), 0);
	CHECK(hops[0] == 1 || hops[0] == 2);

	/* Groups change for all their prefixes. */
	IS(sapwood_routes_remove_member(routes, 1), 2);
	IS(sapwood_routes_lookup(routes, reader, host, 4, 5, &hop), 0);
	CHECK(hop == 2);
	IS(sapwood_routes_set_weight(routes, 2, 9), 2);
	IS(sapwood_routes_get(routes, &prefix, found, 4, &count), 0);
	CHECK(count == 1 && found[0].hop == 2 && found[0].weight == 9);
	IS(sapwood_routes_replace_group(routes, found, 1, both, 2), 2);
	IS(sapwood_routes_group(routes, reader, host, 4, found, 1, &count), 0);
	CHECK(count == 2);
	IS(sapwood_routes_group(routes, reader, host, 4, NULL, 1, &count), -EINVAL);
	IS(sapwood_routes_group(routes, reader, "\013\000\000\000", 4, found, 1, &count), -ENOENT);

	IS(sapwood_routes_begin(routes, &txn), 0);
	IS(sapwood_routes_txn_insert(txn, &prefix, &one, 1), 0);
	IS(sapwood_routes_insert(routes, &prefix, &one, 1), -EDEADLK);
	IS(sapwood_routes_remove_member(routes, 1), -EDEADLK);
	IS(sapwood_routes_txn_rollback(txn), 0);
	IS(sapwood_routes_try_begin(routes, &txn), 0);
	IS(sapwood_routes_txn_insert(txn, &prefix, &one, 1), 0);
	IS(sapwood_routes_txn_remove(txn, &six), 0);
	IS(sapwood_routes_txn_remove(txn, &six), -ENOENT);
	IS(sapwood_routes_txn_commit(txn), 0);
	IS(sapwood_routes_lookup(routes, reader, host, 4, 5, &hop), 0);
	CHECK(hop == 7);

	IS(sapwood_routes_snapshot_new(routes, &snapshot), 0);
	IS(sapwood_routes_remove(routes, &prefix), 0);
	IS(sapwood_routes_remove(routes, &prefix), -ENOENT);
	IS(sapwood_routes_snapshot_len(snapshot, &count), 0);
	CHECK(count == 1);
	IS(sapwood_routes_snapshot_group(snapshot, host, 4, found, 4, &count), 0);
	CHECK(count == 1 && found[0].hop == 7);
	snprintf(path, sizeof path, "%s/routes", folder);
	IS(sapwood_routes_snapshot_save(snapshot, path), 0);
	IS(sapwood_routes_iter_new(snapshot, &iter), 0);
	sapwood_routes_snapshot_free(snapshot);
	IS(sapwood_routes_iter_next(iter, &at, found, 4, &count), 0);
	CHECK(at.bits == 8 && count == 1);
	IS(sapwood_routes_iter_next(iter, &at, found, 4, &count), -ENOENT);
	sapwood_routes_iter_free(iter);
	IS(sapwood_routes_open(domain, NULL, path, &again), 0);
	IS(sapwood_routes_lookup(again, reader, host, 4, 5, &hop), 0);
	CHECK(hop == 7);
	IS(sapwood_routes_verify(again), 0);
	sapwood_routes_free(again);
	/* Groups of one member are a table of next hops. */
	IS(sapwood_fib_open(domain, NULL, path, &plain), 0);
	IS(sapwood_fib_lookup(plain, NULL, host, 4, NULL, &hop), 0);
	CHECK(hop == 7);
	sapwood_fib_free(plain);

	IS(sapwood_reader_quiescent(reader), 0);
	IS(sapwood_routes_reclaim(routes, 1000) >= 0, 1);
	IS(sapwood_routes_memory(routes, &count), 0);
	IS(sapwood_routes_verify(routes), 0);
	sapwood_routes_free(routes);
	sapwood_reader_free(reader);
	sapwood_domain_free(domain);
}

static int resolve(const void *key, size_t key_len, uint64_t *value, void *ctx)
{
	++*(int *)ctx;
	if (key_len != 4)
		return key_len == 1 ? 5 : -EHOSTUNREACH;
	*value = ((const uint8_t *)key)[3];
	return 0;
}

static void cache(void)
{
	sapwood_cache *cache = NULL;
	sapwood_cache_options options;
	sapwood_cache_stats stats;
	const uint8_t host[4] = {10, 1, 2, 3};
	uint8_t longest[32] = {0};
	const uint64_t ms = 1000000;
	uint64_t value = 0;
	int asked = 0;

	memset(&options, 0, sizeof options);
	options.size = sizeof options;
	options.flags = SAPWOOD_SINGLE_FLIGHT;
	options.capacity = 100;
	options.fresh_ns = 50 * ms;
	options.negative_ns = 5 * ms;
	IS(sapwood_cache_new(&options, &cache), 0);
	IS(sapwood_cache_get(cache, host, 4, ms, &value), -ENOENT);
	IS(sapwood_cache_resolve(cache, host, 4, ms, resolve, &asked, &value), 0);
	IS(sapwood_cache_resolve(cache, host, 4, 2 * ms, resolve, &asked, &value), 0);
	CHECK(asked == 1 && value == 3);
	IS(sapwood_cache_resolve(cache, host, 3, ms, resolve, &asked, &value), -EHOSTUNREACH);
	IS(sapwood_cache_resolve(cache, host, 3, ms, resolve, &asked, &value), -ENODATA);
	IS(sapwood_cache_resolve(cache, host, 1, ms, resolve, &asked, &value), -EINVAL);
	CHECK(asked == 3);
	IS(sapwood_cache_get(cache, host, 4, 100 * ms, &value), -ENOENT);
	IS(sapwood_cache_put(cache, host, 4, 100 * ms, 9), 0);
	IS(sapwood_cache_get(cache, host, 4, 101 * ms, &value), 0);
	CHECK(value == 9);
	IS(sapwood_cache_invalidate(cache, host, 4), 0);
	IS(sapwood_cache_invalidate(cache, host, 4), -ENOENT);
	IS(sapwood_cache_put(cache, longest, 31, 101 * ms, 1), 0);
	IS(sapwood_cache_get(cache, longest, 30, 101 * ms, &value), -ENOENT);
	IS(sapwood_cache_put(cache, longest, 32, 101 * ms, 1), -E2BIG);
	IS(sapwood_cache_put(cache, NULL, 4, 101 * ms, 1), -EINVAL);
	IS(sapwood_cache_put(cache, "", 0, 101 * ms, 4), 0);
	IS(sapwood_cache_get(cache, NULL, 0, 101 * ms, &value), 0);
	CHECK(value == 4);
	IS(sapwood_cache_sweep(cache, 5000 * ms, 1000) >= 2, 1);
	IS(sapwood_cache_invalidate_all(cache), 0);
	stats.size = sizeof stats;
	IS(sapwood_cache_stats_get(cache, &stats), 0);
	CHECK(stats.size == sizeof stats && stats.capacity == 100 && stats.occupancy == 0);
	CHECK(stats.hit == 4 && stats.error == 2 && stats.negative == 1 && stats.bytes > 4800);
	stats.size = 4;
	IS(sapwood_cache_stats_get(cache, &stats), -EINVAL);
	stats.size = sizeof stats.size + sizeof stats.occupancy;
	stats.capacity = 12345;
	IS(sapwood_cache_stats_get(cache, &stats), 0);
	CHECK(stats.capacity == 12345); /* An older program's structure ends before it. */
	IS(sapwood_cache_verify(cache), 0);
	IS(sapwood_cache_resolve(cache, host, 4, ms, NULL, NULL, &value), -EINVAL);
	options.capacity = (size_t)1 << 50;
	IS(sapwood_cache_new(&options, &cache), -ENOMEM);
	sapwood_cache_free(cache);
	sapwood_cache_free(NULL);
}

int main(int argc, char **argv)
{
	CHECK(argc == 2);
	prefixes();
	fib(argv[1]);
	routes(argv[1]);
	cache();
	return 0;
}
