/* Prefixes that cover others, differences of tables, aggregated tables, sets of addresses. */
#include <errno.h>
#include <string.h>

#include "check.h"

static sapwood_prefix net(const char *text)
{
	sapwood_prefix prefix;

	IS(sapwood_prefix_parse(text, &prefix), 0);
	return prefix;
}

/* What differs between two tables; with a table, it becomes the new one. */
struct changes {
	sapwood_fib *fib;
	int kinds[4];
	uint64_t old_values, new_values;
};

static int changed(const sapwood_fib_change *change, void *ctx)
{
	struct changes *all = (struct changes *)ctx;

	all->kinds[change->kind]++;
	all->old_values += change->old_value;
	all->new_values += change->new_value;
	if (all->fib && change->kind == SAPWOOD_REMOVED)
		IS(sapwood_fib_remove(all->fib, &change->prefix, NULL), 0);
	else if (all->fib)
		CHECK(sapwood_fib_insert(all->fib, &change->prefix, change->new_value, NULL) >= 0);
	return 0;
}

static int ends(const sapwood_fib_change *change, void *ctx)
{
	(void)change;
	++*(int *)ctx;
	return 7;
}

static size_t walked(sapwood_fib_iter *iter, sapwood_prefix *last)
{
	size_t count = 0;
	uint64_t value;

	while (sapwood_fib_iter_next(iter, last, &value) == 0)
		count++;
	sapwood_fib_iter_free(iter);
	return count;
}

static void covers(void)
{
	const char *const texts[6] = {"0.0.0.0/0", "10.0.0.0/8", "10.1.0.0/16",
		"10.1.2.0/24", "10.128.0.0/9", "2001:db8::/32"};
	const uint64_t hops[6] = {1, 2, 2, 3, 2, 6};
	sapwood_prefix all[6], found[6], matched, at;
	sapwood_fib *fib = NULL, *other = NULL;
	sapwood_fib_snapshot *old = NULL, *later = NULL;
	sapwood_fib_iter *iter = NULL;
	struct changes changes;
	uint64_t value = 0, values[6];
	int i, calls = 0;

	for (i = 0; i < 6; i++)
		all[i] = net(texts[i]);
	IS(sapwood_fib_build(NULL, NULL, all, hops, 6, &fib), 0);
	at = net("10.1.0.0/17");
	IS(sapwood_fib_covering(fib, NULL, &at, found, values, 6), 3);
	CHECK(found[0].bits == 0 && found[1].bits == 8 && found[2].bits == 16);
	CHECK(values[0] == 1 && values[1] == 2 && values[2] == 2);
	values[1] = 77;
	IS(sapwood_fib_covering(fib, NULL, &at, NULL, values, 1), 3);
	CHECK(values[0] == 1 && values[1] == 77);
	IS(sapwood_fib_covering(fib, NULL, &at, NULL, NULL, 0), 3);
	IS(sapwood_fib_lookup_prefix(fib, NULL, &at, &matched, &value), 0);
	CHECK(matched.bits == 16 && value == 2);
	at = net("2001:db8::/31");
	IS(sapwood_fib_lookup_prefix(fib, NULL, &at, &matched, &value), -ENOENT);
	IS(sapwood_fib_covering(fib, NULL, &at, found, values, 6), 0);
	IS(sapwood_fib_covering(fib, NULL, NULL, found, values, 6), -EINVAL);

	IS(sapwood_fib_snapshot_new(fib, &old), 0);
	IS(sapwood_fib_iter_covered(old, &all[1], &iter), 0);
	CHECK(walked(iter, &matched) == 4 && matched.bits == 9);
	IS(sapwood_fib_iter_from(old, &all[3], &iter), 0);
	CHECK(walked(iter, &matched) == 3 && matched.addr_len == 16);
	/* 10.1.0.0/16 and 10.128.0.0/9 say what 10.0.0.0/8 says. */
	IS(sapwood_fib_iter_aggregated(old, &iter), 0);
	CHECK(walked(iter, &matched) == 4);
	IS(sapwood_fib_iter_covered(old, NULL, &iter), -EINVAL);

	IS(sapwood_fib_remove(fib, &all[3], NULL), 0);
	IS(sapwood_fib_insert(fib, &all[5], 60, NULL), 0);
	at = net("192.0.2.0/24");
	IS(sapwood_fib_insert(fib, &at, 9, NULL), 1);
	IS(sapwood_fib_snapshot_new(fib, &later), 0);
	memset(&changes, 0, sizeof changes);
	IS(sapwood_fib_diff(old, later, changed, &changes), 0);
	CHECK(changes.kinds[SAPWOOD_ADDED] == 1 && changes.kinds[SAPWOOD_REMOVED] == 1);
	CHECK(changes.kinds[SAPWOOD_CHANGED] == 1);
	CHECK(changes.old_values == 3 + 6 && changes.new_values == 60 + 9);
	IS(sapwood_fib_diff(old, later, ends, &calls), 7);
	CHECK(calls == 1);
	IS(sapwood_fib_diff(old, later, NULL, NULL), -EINVAL);
	/* The old table becomes the new one. */
	IS(sapwood_fib_build(NULL, NULL, all, hops, 6, &other), 0);
	changes.fib = other;
	IS(sapwood_fib_diff(old, later, changed, &changes), 0);
	sapwood_fib_snapshot_free(old);
	IS(sapwood_fib_snapshot_new(other, &old), 0);
	calls = 0;
	IS(sapwood_fib_diff(old, later, ends, &calls), 0);
	CHECK(calls == 0);

	IS(sapwood_prefix_supernet(all + 2, 3, &matched), 0);
	CHECK(matched.bits == 8 && matched.addr[0] == 10);
	IS(sapwood_prefix_supernet(all, 6, &matched), -ENOENT);
	IS(sapwood_prefix_supernet(NULL, 0, &matched), -ENOENT);
	sapwood_fib_snapshot_free(old);
	sapwood_fib_snapshot_free(later);
	sapwood_fib_free(fib);
	sapwood_fib_free(other);
}

struct seen {
	char text[400];
	int calls;
};

static int prefix_seen(const sapwood_prefix *prefix, void *ctx)
{
	struct seen *seen = (struct seen *)ctx;
	size_t len = strlen(seen->text);

	seen->calls++;
	sapwood_prefix_format(prefix, seen->text + len, sizeof seen->text - len - 1);
	strcat(seen->text, " ");
	return seen->calls == 9;
}

static int range_seen(const uint8_t *first, const uint8_t *last, size_t len, void *ctx)
{
	struct seen *seen = (struct seen *)ctx;

	CHECK(memcmp(first, last, len) <= 0);
	CHECK(len == 4 || len == 16);
	return ++seen->calls == 9;
}

/* What a set has, as a text. */
static void has(const sapwood_ip_set *set, const char *text)
{
	struct seen seen;

	memset(&seen, 0, sizeof seen);
	IS(sapwood_ip_set_each(set, prefix_seen, &seen), 0);
	if (strcmp(seen.text, text) != 0) {
		fprintf(stderr, "%s, not %s\n", seen.text, text);
		CHECK(0);
	}
}

static void sets(void)
{
	const uint8_t first[4] = {192, 0, 2, 1}, last[4] = {192, 0, 2, 6}, host[4] = {10, 1, 2, 3};
	sapwood_ip_set *set = NULL, *other = NULL, *made = NULL, *again = NULL;
	sapwood_prefix ten = net("10.0.0.0/8"), one = net("10.1.0.0/16"), six = net("2001:db8::/32");
	sapwood_prefix both[2];
	sapwood_fib *fib = NULL;
	sapwood_fib_snapshot *snapshot = NULL;
	struct seen seen;
	char message[200];
	size_t count = 0;

	IS(sapwood_ip_set_new(&set), 0);
	has(set, "");
	IS(sapwood_ip_set_insert(set, &ten), 0);
	IS(sapwood_ip_set_insert_range(set, first, last, 4), 0);
	IS(sapwood_ip_set_insert_range(set, last, first, 4), -EINVAL);
	IS(sapwood_ip_set_insert_range(set, last, first, 5), -EINVAL);
	IS(sapwood_ip_set_insert(set, NULL), -EINVAL);
	has(set, "10.0.0.0/8 192.0.2.1/32 192.0.2.2/31 192.0.2.4/31 192.0.2.6/32 ");
	IS(sapwood_ip_set_ranges(set, &count), 0);
	CHECK(count == 2);
	IS(sapwood_ip_set_contains(set, host, 4), 1);
	IS(sapwood_ip_set_contains(set, six.addr, 16), 0);
	IS(sapwood_ip_set_contains(set, host, 3), -EINVAL);
	IS(sapwood_ip_set_covers(set, &one), 1);
	IS(sapwood_ip_set_remove(set, &one), 0);
	IS(sapwood_ip_set_covers(set, &ten), 0);
	IS(sapwood_ip_set_overlaps(set, &ten), 1);
	IS(sapwood_ip_set_overlaps(set, &one), 0);
	IS(sapwood_ip_set_insert(set, &one), 0);
	IS(sapwood_ip_set_remove_range(set, first, last, 4), 0);
	has(set, "10.0.0.0/8 ");

	IS(sapwood_ip_set_parse("10.1.0.0/16 # lab\n2001:db8::-2001:db8::3\n", &other), 0);
	has(other, "10.1.0.0/16 2001:db8::/126 ");
	IS(sapwood_ip_set_combine(set, SAPWOOD_SET_UNION, other, &made), 0);
	has(made, "10.0.0.0/8 2001:db8::/126 ");
	IS(sapwood_ip_set_is_subset(other, made), 1);
	IS(sapwood_ip_set_is_subset(made, other), 0);
	sapwood_ip_set_free(made);
	IS(sapwood_ip_set_combine(set, SAPWOOD_SET_INTERSECTION, other, &made), 0);
	has(made, "10.1.0.0/16 ");
	sapwood_ip_set_free(made);
	IS(sapwood_ip_set_combine(other, SAPWOOD_SET_DIFFERENCE, set, &made), 0);
	has(made, "2001:db8::/126 ");
	sapwood_ip_set_free(made);
	IS(sapwood_ip_set_combine(NULL, SAPWOOD_SET_UNION, other, &again), -EINVAL);
	IS(sapwood_ip_set_combine(set, 9, other, &again), -EINVAL);
	IS(sapwood_ip_set_combine(set, SAPWOOD_SET_SYMMETRIC_DIFFERENCE, other, &made), 0);
	IS(sapwood_ip_set_contains(made, host, 4), 0);
	IS(sapwood_ip_set_complement(made, &again), 0);
	IS(sapwood_ip_set_contains(again, host, 4), 1);
	IS(sapwood_ip_set_equal(made, again), 0);
	sapwood_ip_set_free(made);
	IS(sapwood_ip_set_complement(again, &made), 0);
	sapwood_ip_set_free(again);
	IS(sapwood_ip_set_combine(set, SAPWOOD_SET_SYMMETRIC_DIFFERENCE, other, &again), 0);
	IS(sapwood_ip_set_equal(made, again), 1);
	memset(&seen, 0, sizeof seen);
	IS(sapwood_ip_set_each_range(made, range_seen, &seen), 0);
	CHECK(seen.calls == 3);
	seen.calls = 8;
	IS(sapwood_ip_set_each_range(made, range_seen, &seen), 1);
	seen.calls = 8;
	IS(sapwood_ip_set_each(made, prefix_seen, &seen), 1);
	IS(sapwood_ip_set_each(made, NULL, NULL), -EINVAL);
	sapwood_ip_set_free(again);
	sapwood_ip_set_free(made);

	IS(sapwood_ip_set_parse("10.0.0.0/8\nhost\n", &made), -EINVAL);
	CHECK(sapwood_last_error(message, sizeof message) > 0);
	CHECK(strstr(message, "line 2: \"host\" is not a prefix") != NULL);
	both[0] = one;
	both[1] = six;
	IS(sapwood_ip_set_build(both, 2, &made), 0);
	has(made, "10.1.0.0/16 2001:db8::/32 ");
	IS(sapwood_fib_new(NULL, NULL, &fib), 0);
	IS(sapwood_fib_insert(fib, &six, 1, NULL), 1);
	IS(sapwood_fib_insert(fib, &one, 2, NULL), 1);
	IS(sapwood_fib_snapshot_new(fib, &snapshot), 0);
	IS(sapwood_ip_set_of_fib(snapshot, &again), 0);
	IS(sapwood_ip_set_equal(made, again), 1);
	sapwood_fib_snapshot_free(snapshot);
	sapwood_fib_free(fib);
	sapwood_ip_set_free(again);
	sapwood_ip_set_free(made);
	sapwood_ip_set_free(other);
	sapwood_ip_set_free(set);
	sapwood_ip_set_free(NULL);
}

int main(int argc, char **argv)
{
	CHECK(argc == 2 && argv[1] != NULL);
	covers();
	sets();
	return 0;
}
