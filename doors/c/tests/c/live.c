/* Live maps of all structures: what readers of both kinds find, failures, eviction. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "check.h"

#ifdef VALGRIND
enum { LIMIT = 1 << 19 };
#else
enum { LIMIT = 4 << 20 };
#endif

static char folder[400];
static const char *base;

/* A folder of its own for each map. */
static const char *at(const char *name)
{
	CHECK((size_t)snprintf(folder, sizeof folder, "%s/%s", base, name) < sizeof folder);
	return folder;
}

static sapwood_value number(uint64_t n)
{
	sapwood_value value;
	value.number = n;
	return value;
}

static sapwood_value bytes(const char *text)
{
	sapwood_value value;
	value.bytes.data = text;
	value.bytes.len = strlen(text);
	return value;
}

static sapwood_options options_of(int values)
{
	sapwood_options options;
	memset(&options, 0, sizeof options);
	options.size = sizeof options;
	options.values = values;
	return options;
}

static sapwood_live_reader *reader_of(int kind, int values, unsigned int flags)
{
	sapwood_live_reader *reader = NULL;
	IS(sapwood_live_reader_open(folder, kind, values, flags, &reader), 0);
	return reader;
}

/* Fails unless the last message of this thread has this text. */
static void said(const char *text)
{
	char message[600];
	sapwood_last_error(message, sizeof message);
	if (!strstr(message, text)) {
		fprintf(stderr, "%s is not in: %s\n", text, message);
		exit(1);
	}
}

struct room {
	char key[8];
	char value[8];
	sapwood_copy copy;
};

static sapwood_copy *into(struct room *room)
{
	memset(room, 0, sizeof *room);
	room->copy.size = sizeof room->copy;
	room->copy.key = room->key;
	room->copy.key_room = sizeof room->key;
	room->copy.value = room->value;
	room->copy.value_room = sizeof room->value;
	return &room->copy;
}

static int count(const sapwood_entry *entry, void *ctx)
{
	CHECK(entry->key.data != NULL);
	++*(int *)ctx;
	return 0;
}

static int stop(const sapwood_entry *entry, void *ctx)
{
	CHECK(entry->key.len == 3 && memcmp(entry->key.data, "elm", 3) == 0);
	CHECK(entry->value.bytes.len == 4 && memcmp(entry->value.bytes.data, "tree", 4) == 0);
	CHECK(ctx == NULL);
	return 7;
}

/* The copies that readers of both kinds give out of {elm: tree, elms: trees, oak: long}. */
static void copies(sapwood_live_reader *reader)
{
	struct room r;
	int entries = 0;
	IS(sapwood_live_copy(reader, "elm", 3, into(&r)), 0);
	CHECK(r.copy.key_len == 3 && memcmp(r.key, "elm", 3) == 0);
	CHECK(r.copy.value_len == 4 && memcmp(r.value, "tree", 4) == 0);
	IS(sapwood_live_copy(reader, "el", 2, into(&r)), -ENOENT);
	IS(sapwood_live_copy_after(reader, "el", 2, into(&r)), 0);
	CHECK(r.copy.key_len == 3 && memcmp(r.value, "tree", 4) == 0);
	IS(sapwood_live_copy_after(reader, "elm", 3, into(&r)), 0);
	CHECK(r.copy.key_len == 4 && memcmp(r.key, "elms", 4) == 0);
	IS(sapwood_live_copy_after(reader, "oak", 3, into(&r)), -ENOENT);
	IS(sapwood_live_copy_longest_prefix(reader, "elmst", 5, into(&r)), 0);
	CHECK(r.copy.key_len == 4 && memcmp(r.value, "trees", 5) == 0);
	IS(sapwood_live_copy_longest_prefix(reader, "e", 1, into(&r)), -ENOENT);
	/* No room. */
	IS(sapwood_live_copy(reader, "oak", 3, into(&r)), -E2BIG);
	said("the value of 12 bytes does not fit into 8");
	CHECK(r.copy.value_len == 12);
	into(&r)->value = NULL;
	IS(sapwood_live_copy(reader, "oak", 3, &r.copy), 0);
	CHECK(r.copy.value_len == 12 && r.copy.key_len == 3);
	r.copy.size = 1;
	IS(sapwood_live_copy(reader, "oak", 3, &r.copy), -EINVAL);
	IS(sapwood_live_each(reader, count, &entries), 0);
	CHECK(entries == 3);
	IS(sapwood_live_each(reader, stop, NULL), 7);
	IS(sapwood_live_each(reader, NULL, NULL), -EINVAL);
	/* What the structure does not have. */
	IS(sapwood_live_lookup4(reader, 1, &r.copy.key_len), -ENOTSUP);
	said("has no prefixes");
	IS(sapwood_live_range(reader, 1, NULL), -ENOTSUP);
}

/* The view of a trusting reader. */
static void view_of(sapwood_live_reader *reader)
{
	sapwood_view view;
	sapwood_entry entry;
	sapwood_closest closest;
	sapwood_iter *iter = NULL;
	sapwood_bytes keys[2] = {{"elm", 3}, {"ash", 3}};
	sapwood_value values[2];
	unsigned char found[2];
	size_t len;

	IS(sapwood_live_view(reader, &view), 0);
	IS(sapwood_view_len(&view, &len), 0);
	CHECK(len == 3);
	IS(sapwood_view_get_many(&view, keys, 2, values, found), 1);
	IS(sapwood_live_get_many(reader, keys, 2, values, found), 1);
	CHECK(found[0] == 1 && found[1] == 0 && values[0].bytes.len == 4);
	IS(sapwood_view_last(&view, &entry), 0);
	CHECK(entry.value.bytes.len == 12);
	IS(sapwood_view_before(&view, "oak", 3, &entry), 0);
	CHECK(entry.key.len == 4);
	memset(&closest, 0, sizeof closest);
	closest.size = sizeof closest;
	IS(sapwood_view_closest(&view, "elm", 3, NULL, NULL, &closest), 0);
	CHECK(closest.exact.value.bytes.len == 4);
	IS(sapwood_iter_new(&view, &iter), 0);
	IS(sapwood_iter_to_end(iter), 0);
	IS(sapwood_iter_prev(iter, &entry), 0);
	CHECK(memcmp(entry.key.data, "oak", 3) == 0);
	IS(sapwood_iter_pause(iter), 0);
	IS(sapwood_live_reader_quiescent(reader), 0);
	IS(sapwood_view_first(&view, &entry), -EPERM);
	said("before the reader's last quiescent state");
	IS(sapwood_live_view(reader, &view), 0);
	IS(sapwood_iter_resume(iter, &view), 0);
	IS(sapwood_iter_prev(iter, &entry), 0);
	CHECK(memcmp(entry.key.data, "elms", 4) == 0);
	sapwood_iter_free(iter);
}

static void both(int kind)
{
	sapwood_live_reader *reader = reader_of(kind, SAPWOOD_BYTES, 0);
	sapwood_view view;
	sapwood_value value;

	view_of(reader);
	copies(reader);
	IS(sapwood_live_get(reader, "elm", 3, &value), 0);
	CHECK(memcmp(value.bytes.data, "tree", 4) == 0);
	IS(sapwood_live_get(reader, "ash", 3, NULL), -ENOENT);
	IS(sapwood_live_reader_offline(reader), 0);
	IS(sapwood_live_reader_offline(reader), 0);
	IS(sapwood_live_reader_quiescent(reader), 0);
	IS(sapwood_live_get(reader, "elm", 3, &value), -EPERM);
	said("the reader is offline");
	IS(sapwood_live_view(reader, &view), -EPERM);
	IS(sapwood_live_reader_online(reader), 0);
	IS(sapwood_live_get(reader, "elm", 3, &value), 0);
	sapwood_live_reader_free(reader);

	reader = reader_of(kind, SAPWOOD_BYTES, SAPWOOD_LIVE_CHECKED);
	copies(reader);
	IS(sapwood_live_view(reader, &view), -ENOTSUP);
	IS(sapwood_live_get(reader, "elm", 3, &value), -ENOTSUP);
	said("see sapwood_live_copy");
	IS(sapwood_live_reader_has_writer(reader), 1);
	IS(sapwood_live_reader_offline(reader), 0);
	sapwood_live_reader_free(reader);
}

static void stores(void)
{
	sapwood_options options = options_of(SAPWOOD_BYTES);
	sapwood_live *live = NULL, *second = NULL;
	sapwood_store *store = NULL;
	sapwood_domain *domain = NULL;
	sapwood_reader *reader = NULL;
	sapwood_live_reader *far = NULL;
	sapwood_txn *txn = NULL;
	sapwood_snapshot *snapshot = NULL;
	sapwood_value value;
	uint64_t generation = 9;
	int fd;

	IS(sapwood_live_reader_open(at("store"), SAPWOOD_LIVE_STORE, SAPWOOD_BYTES, 0, &far),
	   -ENOENT);
	IS(sapwood_store_live_create(folder, NULL, &options, &live, &store), 0);
	IS(sapwood_store_begin(store, 0, &txn), 0);
	value = bytes("tree");
	IS(sapwood_txn_insert(txn, "elm", 3, &value), 1);
	value = bytes("trees");
	IS(sapwood_txn_insert(txn, "elms", 4, &value), 1);
	IS(sapwood_txn_commit(txn, NULL), 0);
	value = bytes("a long value");
	IS(sapwood_store_insert(store, "oak", 3, &value), 1);
	both(SAPWOOD_LIVE_STORE);

	/* Readers of this process, in the map's domain. */
	IS(sapwood_live_domain(live, &domain), 0);
	IS(sapwood_reader_new(domain, "main", &reader), 0);
	IS(sapwood_store_get(store, reader, "elm", 3, &value), 0);
	CHECK(value.bytes.len == 4);
	/* By a descriptor. */
	fd = open(folder, O_RDONLY | O_DIRECTORY);
	CHECK(fd >= 0);
	IS(sapwood_live_reader_open_at(fd, SAPWOOD_LIVE_STORE, SAPWOOD_BYTES, 0, &far), 0);
	close(fd);
	IS(sapwood_live_get(far, "elm", 3, &value), 0);
	sapwood_live_reader_free(far);
	IS(sapwood_live_reader_open_at(-1, SAPWOOD_LIVE_STORE, SAPWOOD_BYTES, 0, &far), -EINVAL);
	/* With a wait, which a map that is there does not take. */
	IS(sapwood_live_reader_open_within(folder, SAPWOOD_LIVE_STORE, SAPWOOD_BYTES, 0,
					   UINT64_MAX, &far),
	   0);
	IS(sapwood_live_get(far, "elm", 3, &value), 0);
	sapwood_live_reader_free(far);
	IS(sapwood_live_reader_open_within(folder, SAPWOOD_LIVE_SHARED, SAPWOOD_BYTES, 0,
					   UINT64_MAX, &far),
	   -EPROTO);
	IS(sapwood_live_reader_open_within(NULL, SAPWOOD_LIVE_STORE, 0, 0, 0, &far), -EINVAL);
	IS(sapwood_live_reader_open_within(folder, SAPWOOD_LIVE_STORE, SAPWOOD_BYTES, 64, 0, &far),
	   -EINVAL);

	/* Another structure, other values, pointers, what is unknown. */
	IS(sapwood_live_reader_open(folder, SAPWOOD_LIVE_SHARED, SAPWOOD_BYTES, 0, &far), -EPROTO);
	said("is no shared map, but a store");
	IS(sapwood_live_reader_open(folder, SAPWOOD_LIVE_STORE, SAPWOOD_NUMBERS, 0, &far), -EPROTO);
	IS(sapwood_live_reader_open(folder, SAPWOOD_LIVE_STORE, SAPWOOD_POINTERS, 0, &far),
	   -EINVAL);
	said("pointers mean nothing to its readers");
	IS(sapwood_live_reader_open(folder, 7, 0, 0, &far), -EINVAL);
	said("7 is no structure");
	IS(sapwood_live_reader_open(folder, SAPWOOD_LIVE_FIB, SAPWOOD_BYTES, 0, &far), -EINVAL);
	IS(sapwood_live_reader_open(folder, SAPWOOD_LIVE_STORE, 3, 0, &far), -EINVAL);
	IS(sapwood_live_reader_open(folder, SAPWOOD_LIVE_STORE, 0, 64, &far), -EINVAL);
	IS(sapwood_live_reader_open(NULL, SAPWOOD_LIVE_STORE, 0, 0, &far), -EINVAL);
	IS(sapwood_live_reader_open(folder, SAPWOOD_LIVE_STORE, 0, 0, NULL), -EINVAL);
	IS(sapwood_store_live_create(folder, NULL, &options, &second, &store), -EEXIST);
	IS(sapwood_store_live_open(folder, NULL, &options, &second, &store), -EBUSY);
	options.domain = domain;
	IS(sapwood_store_live_create(at("none"), NULL, &options, &second, &store), -EINVAL);
	said("sapwood_live_domain");
	options = options_of(SAPWOOD_POINTERS);
	IS(sapwood_store_live_create(folder, NULL, &options, &second, &store), -EINVAL);
	options = options_of(SAPWOOD_BYTES);
	options.max_entries = 3;
	IS(sapwood_store_live_create(folder, NULL, &options, &second, &store), -EINVAL);
	options.max_entries = 0;
	IS(sapwood_store_live_create(folder, NULL, &options, NULL, &store), -EINVAL);
	IS(sapwood_store_live_open(folder, NULL, &options, &second, &store), -ENOENT);
	CHECK(access(folder, F_OK) != 0);

	/* Others can write it. */
	CHECK(chmod(at("store"), 0777) == 0);
	IS(sapwood_live_reader_open(folder, SAPWOOD_LIVE_STORE, SAPWOOD_BYTES, 0, &far), -EACCES);
	said("not to be trusted");
	far = reader_of(SAPWOOD_LIVE_STORE, SAPWOOD_BYTES, SAPWOOD_LIVE_CHECKED);
	copies(far);
	CHECK(chmod(folder, 0755) == 0);

	/* The writer is this process until the last of its handles is freed. */
	IS(sapwood_store_snapshot(store, &snapshot), 0);
	sapwood_live_free(live);
	value = bytes("bee");
	IS(sapwood_store_insert(store, "bee", 3, &value), 1);
	IS(sapwood_store_live_open(folder, NULL, &options, &live, &store), -EBUSY);
	sapwood_store_free(store);
	sapwood_reader_free(reader);
	sapwood_domain_free(domain);
	IS(sapwood_live_reader_has_writer(far), 1);
	sapwood_snapshot_free(snapshot);
	IS(sapwood_live_reader_has_writer(far), 0);
	/* The heir. */
	IS(sapwood_store_live_open(folder, NULL, &options, &live, &store), 0);
	IS(sapwood_live_generation(live, &generation), 0);
	CHECK(generation == 1);
	IS(sapwood_live_reader_generation(far, &generation), 0);
	CHECK(generation == 0);
	IS(sapwood_live_reader_quiescent(far), 0);
	IS(sapwood_live_reader_generation(far, &generation), 0);
	CHECK(generation == 1);
	{
		struct room r;
		IS(sapwood_live_copy(far, "bee", 3, into(&r)), 0);
	}
	/* The end, of which readers hear when they open it. */
	IS(sapwood_live_remove(live), 0);
	CHECK(access(folder, F_OK) != 0);
	sapwood_store_free(store);
	sapwood_live_reader_free(far);
}

enum { ZONE = 40 };

/* The key of a name below another one: a long label, and one of its own. */
static size_t below(char *key, int i)
{
	int len = sprintf(key, "a-label-that-all-names-share");
	if (i > 0)
		len += 1 + sprintf(key + len + 1, "%02d", i);
	return (size_t)len + 1;
}

/* Whether an entry is that of this name. */
static void is_name(const sapwood_entry *entry, int i)
{
	char key[64];
	size_t len = below(key, i);
	CHECK(entry->key.len == len && memcmp(entry->key.data, key, len) == 0);
	CHECK(entry->value.number == (uint64_t)i);
}

/* The entries of one call stay together until the next call. */
static void names_of(const sapwood_view *view)
{
	sapwood_entry entries[4], chain[4];
	sapwood_closest closest;
	sapwood_denial denial;
	sapwood_iter *iter = NULL;
	char key[80];
	size_t len = below(key, 7);
	int i;

	IS(sapwood_view_prefixes(view, key, len, entries, 4), 2);
	is_name(&entries[0], 0);
	is_name(&entries[1], 7);
	memset(&closest, 0, sizeof closest);
	closest.size = sizeof closest;
	closest.chain = chain;
	closest.chain_room = 4;
	IS(sapwood_view_closest(view, key, len, NULL, NULL, &closest), 0);
	CHECK(closest.chain_len == 2);
	is_name(&chain[0], 0);
	is_name(&chain[1], 7);
	is_name(&closest.exact, 7);
	is_name(&closest.ancestor, 7);
	is_name(&closest.predecessor, 6);
	key[len - 1] = 'x';
	memset(&denial, 0, sizeof denial);
	denial.size = sizeof denial;
	denial.closest = closest;
	IS(sapwood_view_denial(view, key, len + 1, NULL, NULL, &denial), -ENOENT);
	CHECK(denial.closest.chain_len == 1);
	is_name(&chain[0], 0);
	is_name(&denial.predecessor, 7);
	IS(sapwood_iter_new(view, &iter), 0);
	for (i = 0; i < ZONE; i++) {
		IS(sapwood_iter_next(iter, entries), 0);
		is_name(entries, i);
	}
	IS(sapwood_iter_next(iter, entries), -ENOENT);
	for (i = ZONE; i-- > 0;) {
		IS(sapwood_iter_prev(iter, entries), 0);
		is_name(entries, i);
	}
	sapwood_iter_free(iter);
}

static int next_name(const sapwood_entry *entry, void *ctx)
{
	is_name(entry, (*(int *)ctx)++);
	return 0;
}

static int next_change(const sapwood_change *change, void *ctx)
{
	sapwood_entry entry;
	CHECK(change->kind == SAPWOOD_ADDED);
	entry.key = change->key;
	entry.value = change->new_value;
	return next_name(&entry, ctx);
}

/* Stores of live maps have the bytes that keys share only once: what C gets are copies. */
static void pieces(void)
{
	sapwood_options options = options_of(SAPWOOD_NUMBERS);
	sapwood_live *live = NULL;
	sapwood_store *store = NULL;
	sapwood_domain *domain = NULL;
	sapwood_reader *reader = NULL;
	sapwood_txn *txn = NULL;
	sapwood_snapshot *none = NULL, *all = NULL;
	sapwood_live_reader *near;
	sapwood_view view;
	sapwood_value value;
	char key[64];
	int i, told = 0;

	IS(sapwood_store_live_create(at("pieces"), NULL, &options, &live, &store), 0);
	IS(sapwood_store_snapshot(store, &none), 0);
	IS(sapwood_store_begin(store, 0, &txn), 0);
	for (i = 0; i < ZONE; i++) {
		value = number((uint64_t)i);
		IS(sapwood_txn_insert(txn, key, below(key, i), &value), 1);
	}
	IS(sapwood_txn_view(txn, &view), 0);
	names_of(&view);
	IS(sapwood_txn_commit(txn, NULL), 0);
	IS(sapwood_store_snapshot(store, &all), 0);
	IS(sapwood_snapshot_view(all, &view), 0);
	names_of(&view);
	IS(sapwood_snapshot_diff(none, all, next_change, &told), 0);
	CHECK(told == ZONE);
	IS(sapwood_live_domain(live, &domain), 0);
	IS(sapwood_reader_new(domain, "main", &reader), 0);
	IS(sapwood_store_view(store, reader, &view), 0);
	names_of(&view);
	near = reader_of(SAPWOOD_LIVE_STORE, SAPWOOD_NUMBERS, 0);
	IS(sapwood_live_view(near, &view), 0);
	names_of(&view);
	told = 0;
	IS(sapwood_live_each(near, next_name, &told), 0);
	CHECK(told == ZONE);
	sapwood_live_reader_free(near);
	sapwood_reader_free(reader);
	sapwood_domain_free(domain);
	sapwood_snapshot_free(none);
	sapwood_snapshot_free(all);
	sapwood_store_free(store);
	IS(sapwood_live_remove(live), 0);
}

static void shared_maps(void)
{
	sapwood_options options = options_of(SAPWOOD_BYTES);
	sapwood_live *live = NULL;
	sapwood_shared *map = NULL;
	sapwood_value value;
	int round;

	for (round = 0; round < 2; round++) {
		options.flags = round == 0 ? 0 : SAPWOOD_INDEX;
		IS(sapwood_shared_live_create(at("shared"), NULL, &options, &live, &map), 0);
		value = bytes("tree");
		IS(sapwood_shared_insert(map, "elm", 3, &value), 1);
		value = bytes("trees");
		IS(sapwood_shared_insert(map, "elms", 4, &value), 1);
		value = bytes("a long value");
		IS(sapwood_shared_insert(map, "oak", 3, &value), 1);
		both(SAPWOOD_LIVE_SHARED);
		sapwood_shared_free(map);
		sapwood_live_free(live);
		IS(sapwood_shared_live_open(folder, NULL, &options, &live, &map), 0);
		both(SAPWOOD_LIVE_SHARED);
		sapwood_shared_free(map);
		IS(sapwood_live_remove(live), 0);
	}
}

static void told(const sapwood_live_reader_info *info, void *ctx)
{
	CHECK(info->size == sizeof *info && strncmp(info->name, "r-", 2) == 0);
	CHECK(info->pid == (uint32_t)getpid());
	*(unsigned int *)ctx = info->flags;
}

/* Numbers, a map without order, and the eviction of a reader that stands still. */
static void points(void)
{
	sapwood_options options = options_of(SAPWOOD_NUMBERS);
	sapwood_domain_options limits;
	sapwood_live_options live_options;
	sapwood_live *live = NULL;
	sapwood_point *map = NULL;
	sapwood_live_reader *near, *far;
	sapwood_value value;
	struct room r;
	struct timespec nap = {0, 2000000};
	unsigned int flags = 0;
	uint64_t i;
	int entries = 0, result;

	memset(&limits, 0, sizeof limits);
	limits.size = sizeof limits;
	limits.soft_limit = 4096;
	memset(&live_options, 0, sizeof live_options);
	live_options.size = sizeof live_options;
	live_options.domain = &limits;
	live_options.evict_after_ms = 1;
	options.max_entries = 2;
	IS(sapwood_point_live_create(at("point"), &live_options, &options, &live, &map), 0);
	value = number(7);
	IS(sapwood_point_insert(map, "a", 1, &value), 1);
	near = reader_of(SAPWOOD_LIVE_POINT, SAPWOOD_NUMBERS, 0);
	IS(sapwood_live_get(near, "a", 1, &value), 0);
	CHECK(value.number == 7);
	IS(sapwood_live_copy(near, "a", 1, into(&r)), 0);
	CHECK(r.copy.value_len == 8);
	IS(sapwood_live_copy_after(near, "", 0, into(&r)), -ENOTSUP);
	said("a point map has none");
	IS(sapwood_live_each(near, count, &entries), 0);
	CHECK(entries == 1);
	sapwood_live_reader_free(near);
	IS(sapwood_live_readers(live, NULL, NULL), 0);

	far = reader_of(SAPWOOD_LIVE_POINT, SAPWOOD_NUMBERS, SAPWOOD_LIVE_CHECKED);
	IS(sapwood_live_copy(far, "a", 1, into(&r)), 0);
	memcpy(&i, r.value, sizeof i);
	CHECK(i == 7);
	IS(sapwood_live_copy_longest_prefix(far, "a", 1, into(&r)), -ENOTSUP);
	IS(sapwood_live_each(far, count, &entries), 0);
	CHECK(entries == 2);
	IS(sapwood_live_readers(live, told, &flags), 1);
	CHECK((flags & SAPWOOD_LIVE_CHECKED) != 0 && (flags & SAPWOOD_LIVE_EVICTED) == 0);
	for (i = 0; i < 2000 && (flags & SAPWOOD_LIVE_EVICTED) == 0; i++) {
		value = number(i);
		IS(sapwood_point_insert(map, "b", 1, &value), i == 0);
		IS(sapwood_point_remove(map, "b", 1), 0);
		IS(sapwood_point_insert(map, "b", 1, &value), 1);
		CHECK(sapwood_point_reclaim(map, 1000) >= 0);
		nanosleep(&nap, NULL);
		IS(sapwood_live_readers(live, told, &flags), 1);
	}
	CHECK((flags & SAPWOOD_LIVE_EVICTED) != 0);
	result = sapwood_live_copy(far, "a", 1, into(&r));
	IS(result, -ESTALE);
	said("has evicted this reader");
	IS(sapwood_live_reader_quiescent(far), 0);
	IS(sapwood_live_copy(far, "a", 1, into(&r)), 0);
	value = number(1);
	IS(sapwood_point_insert(map, "c", 1, &value), -ENOSPC);
	sapwood_live_reader_free(far);
	sapwood_live_free(live);
	sapwood_point_free(map);
	IS(sapwood_point_live_open(folder, NULL, &options, &live, &map), 0);
	near = reader_of(SAPWOOD_LIVE_POINT, SAPWOOD_NUMBERS, 0);
	IS(sapwood_live_get(near, "a", 1, &value), 0);
	sapwood_live_reader_free(near);
	sapwood_point_free(map);
	IS(sapwood_live_remove(live), 0);
}

static void fibs(void)
{
	sapwood_fib_options options;
	sapwood_live *live = NULL;
	sapwood_fib *fib = NULL;
	sapwood_prefix prefix, matched;
	sapwood_live_reader *reader;
	uint32_t addrs[3] = {0x0a010203, 0x0b000000, 0x0a000000};
	uint8_t ten[4] = {10, 1, 2, 3}, six[32] = {0x20, 1, 0x0d, 0xb8, 0};
	uint64_t values[3], value;
	int round;

	memset(&options, 0, sizeof options);
	options.size = sizeof options;
	options.root_bits = 12;
	IS(sapwood_fib_live_create(at("fib"), NULL, &options, &live, &fib), 0);
	IS(sapwood_prefix_parse("10.0.0.0/8", &prefix), 0);
	IS(sapwood_fib_insert(fib, &prefix, 8, NULL), 1);
	IS(sapwood_prefix_parse("10.1.0.0/16", &prefix), 0);
	IS(sapwood_fib_insert(fib, &prefix, 16, NULL), 1);
	IS(sapwood_prefix_parse("2001:db8::/32", &prefix), 0);
	IS(sapwood_fib_insert(fib, &prefix, 32, NULL), 1);
	/* A lookup of this process. */
	IS(sapwood_fib_lookup4(fib, NULL, addrs[0], &value), 0);
	CHECK(value == 16);
	for (round = 0; round < 4; round++) {
		reader = reader_of(SAPWOOD_LIVE_FIB, 0, round % 2 ? SAPWOOD_LIVE_CHECKED : 0);
		IS(sapwood_live_lookup(reader, ten, 4, &matched, &value), 0);
		CHECK(value == 16 && matched.bits == 16 && matched.addr_len == 4);
		CHECK(matched.addr[1] == 1 && matched.addr[2] == 0);
		IS(sapwood_live_lookup(reader, six, 16, &matched, NULL), 0);
		CHECK(matched.bits == 32 && matched.addr[3] == 0xb8);
		IS(sapwood_live_lookup(reader, ten, 5, NULL, NULL), -EINVAL);
		IS(sapwood_live_lookup4(reader, addrs[1], &value), -ENOENT);
		IS(sapwood_live_lookup4(reader, addrs[2], &value), 0);
		CHECK(value == 8);
		IS(sapwood_live_lookup4(reader, addrs[2], NULL), -EINVAL);
		IS(sapwood_live_lookup6(reader, six, &value), 0);
		CHECK(value == 32);
		IS(sapwood_live_lookup6(reader, NULL, &value), -EINVAL);
		IS(sapwood_live_lookup4_bulk(reader, addrs, 3, 99, values), 0);
		CHECK(values[0] == 16 && values[1] == 99 && values[2] == 8);
		IS(sapwood_live_lookup6_bulk(reader, six, 2, 99, values), 0);
		CHECK(values[0] == 32 && values[1] == 99);
		IS(sapwood_live_get(reader, "a", 1, NULL), -ENOTSUP);
		IS(sapwood_live_each(reader, count, NULL), -ENOTSUP);
		sapwood_live_reader_free(reader);
		if (round == 1) {
			sapwood_live_free(live);
			sapwood_fib_free(fib);
			IS(sapwood_fib_live_open(folder, NULL, NULL, &live, &fib), 0);
		}
	}
	sapwood_fib_free(fib);
	IS(sapwood_live_remove(live), 0);
}

static void range_maps(void)
{
	sapwood_live *live = NULL;
	sapwood_ranges *ranges = NULL;
	sapwood_ranges_txn *txn = NULL;
	sapwood_live_reader *reader;
	sapwood_range range;
	uint64_t start;
	int round;

	IS(sapwood_ranges_live_create(at("ranges"), NULL, NULL, &live, &ranges), 0);
	IS(sapwood_ranges_store(ranges, 10, 19, 1), 0);
	IS(sapwood_ranges_store(ranges, 30, 39, 3), 0);
	for (round = 0; round < 4; round++) {
		reader = reader_of(SAPWOOD_LIVE_RANGES, 0, round % 2 ? SAPWOOD_LIVE_CHECKED : 0);
		IS(sapwood_live_range(reader, 15, &range), 0);
		CHECK(range.start == 10 && range.end == 19 && range.value == 1);
		IS(sapwood_live_range(reader, 20, &range), -ENOENT);
		IS(sapwood_live_range_next(reader, 20, &range), 0);
		CHECK(range.start == 30 && range.value == 3);
		IS(sapwood_live_range_next(reader, 35, &range), 0);
		CHECK(range.start == 30 && range.end == 39);
		IS(sapwood_live_range_next(reader, 40, NULL), -ENOENT);
		IS(sapwood_live_lookup(reader, "abcd", 4, NULL, NULL), -ENOTSUP);
		/* Other processes see a transaction when it is committed. */
		IS(sapwood_ranges_begin(ranges, &txn), 0);
		IS(sapwood_ranges_txn_move(txn, 30, 39, 60), 0);
		IS(sapwood_live_range(reader, 35, &range), 0);
		IS(sapwood_live_range(reader, 65, &range), -ENOENT);
		IS(sapwood_ranges_txn_commit(txn), 0);
		IS(sapwood_live_range(reader, 35, &range), -ENOENT);
		IS(sapwood_live_range(reader, 65, &range), 0);
		CHECK(range.start == 60 && range.end == 69 && range.value == 3);
		IS(sapwood_ranges_move(ranges, 60, 69, 30), 0);
		sapwood_live_reader_free(reader);
		if (round == 1) {
			/* One that is rolled back leaves nothing for the heir. */
			IS(sapwood_ranges_begin(ranges, &txn), 0);
			IS(sapwood_ranges_txn_clear(txn, 0, UINT64_MAX), 0);
			IS(sapwood_ranges_txn_rollback(txn), 0);
			sapwood_ranges_free(ranges);
			sapwood_live_free(live);
			IS(sapwood_ranges_live_open(folder, NULL, NULL, &live, &ranges), 0);
			IS(sapwood_ranges_alloc(ranges, 5, NULL, 9, &start), 0);
			CHECK(start == 0);
		}
	}
	sapwood_ranges_free(ranges);
	IS(sapwood_live_remove(live), 0);
}

/* Memory that is damaged: readers that check, and heirs, say so. */
static void damage(void)
{
	sapwood_options options = options_of(SAPWOOD_NUMBERS);
	sapwood_live *live = NULL;
	sapwood_store *store = NULL;
	sapwood_live_reader *reader;
	sapwood_value value;
	struct room r;
	unsigned char noise[4096];
	char file[420], key[8];
	int i, fd, result, damaged = 0;

	IS(sapwood_store_live_create(at("damaged"), NULL, &options, &live, &store), 0);
	for (i = 0; i < 500; i++) {
		value = number((uint64_t)i);
		CHECK(snprintf(key, sizeof key, "%d", i) > 0);
		IS(sapwood_store_insert(store, key, strlen(key), &value), 1);
	}
	reader = reader_of(SAPWOOD_LIVE_STORE, SAPWOOD_NUMBERS, SAPWOOD_LIVE_CHECKED);
	sapwood_store_free(store);
	sapwood_live_free(live);
	CHECK((size_t)snprintf(file, sizeof file, "%s/data-1-0", folder) < sizeof file);
	fd = open(file, O_WRONLY);
	CHECK(fd >= 0);
	for (i = 0; i < (int)sizeof noise; i++)
		noise[i] = (unsigned char)(i * 37 + i / 7);
	for (i = 1; i < 8; i++)
		CHECK(pwrite(fd, noise, sizeof noise, i * 4096) == (ssize_t)sizeof noise);
	close(fd);
	for (i = 0; i < 500; i++) {
		CHECK(snprintf(key, sizeof key, "%d", i) > 0);
		result = sapwood_live_copy(reader, key, strlen(key), into(&r));
		CHECK(result == 0 || result == -ENOENT || result == -EPROTO);
		damaged += result == -EPROTO;
		result = sapwood_live_copy_after(reader, key, strlen(key), into(&r));
		CHECK(result == 0 || result == -ENOENT || result == -EPROTO || result == -E2BIG);
	}
	CHECK(damaged > 0);
	sapwood_live_reader_free(reader);
	IS(sapwood_store_live_open(folder, NULL, &options, &live, &store), -EPROTO);
	said("data-1-0");
	CHECK(access(file, F_OK) == 0);
}

/* Limits of memory and of garbage. */
static void limits(void)
{
	sapwood_options options = options_of(SAPWOOD_BYTES);
	sapwood_domain_options garbage;
	sapwood_live_options live_options;
	sapwood_live *live = NULL;
	sapwood_store *store = NULL;
	sapwood_live_reader *reader = NULL;
	sapwood_value value;
	char key[8];
	int i, result = 1;

	memset(&garbage, 0, sizeof garbage);
	garbage.size = sizeof garbage;
	garbage.hard_limit = 100000;
	memset(&live_options, 0, sizeof live_options);
	live_options.size = sizeof live_options;
	live_options.domain = &garbage;
	/* What is made without memory leaves nothing. */
	options.memory_limit = 1;
	IS(sapwood_store_live_create(at("limits"), NULL, &options, &live, &store), -ENOMEM);
	CHECK(live == NULL && store == NULL);
	IS(sapwood_live_reader_open(folder, SAPWOOD_LIVE_STORE, SAPWOOD_BYTES, 0, &reader),
	   -ENOENT);
	CHECK(access(folder, F_OK) == -1 && errno == ENOENT);
	IS(sapwood_store_live_open(folder, &live_options, &options, &live, &store), -ENOENT);
	options.memory_limit = LIMIT;
	IS(sapwood_store_live_create(folder, &live_options, &options, &live, &store), 0);
	value = bytes("some bytes that take some memory, so that the limit is reached soon enough");
	IS(sapwood_store_insert(store, "a", 1, &value), 1);
	/* What a reader holds back stays under the limit of garbage. */
	reader = reader_of(SAPWOOD_LIVE_STORE, SAPWOOD_BYTES, 0);
	for (i = 0; i < 100000 && result >= 0; i++)
		result = sapwood_store_insert(store, "a", 1, &value);
	IS(result, -EAGAIN);
	IS(sapwood_live_reader_offline(reader), 0);
	IS(sapwood_store_insert(store, "a", 1, &value), 0);
	sapwood_live_reader_free(reader);
	for (i = 0; i < 1000000 && result != -ENOMEM; i++) {
		CHECK(snprintf(key, sizeof key, "%d", i) > 0);
		result = sapwood_store_insert(store, key, strlen(key), &value);
		CHECK(result == 1 || result == -ENOMEM);
	}
	IS(result, -ENOMEM);
	live_options.size = 3;
	IS(sapwood_store_live_create(at("none"), &live_options, &options, &live, &store), -EINVAL);
	said("the field size of sapwood_live_options is 3");
	live_options.size = sizeof live_options;
	garbage.flags = 64;
	IS(sapwood_store_live_create(at("none"), &live_options, &options, &live, &store), -EINVAL);
	sapwood_store_free(store);
	(void)at("limits");
	IS(sapwood_live_remove(live), 0);
	CHECK(access(folder, F_OK) != 0);
}

int main(int argc, char **argv)
{
	CHECK(argc == 2);
	base = argv[1];
	stores();
	pieces();
	shared_maps();
	points();
	fibs();
	range_maps();
	damage();
	limits();
	sapwood_live_free(NULL);
	sapwood_live_reader_free(NULL);
	IS(sapwood_live_remove(NULL), -EINVAL);
	IS(sapwood_live_readers(NULL, NULL, NULL), -EINVAL);
	IS(sapwood_live_reader_quiescent(NULL), -EINVAL);
	IS(sapwood_live_get(NULL, "a", 1, NULL), -EINVAL);
	return 0;
}
