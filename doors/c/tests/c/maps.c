/* The same verbs on all maps: values of three kinds, batches, changes and their answers. */
#include <errno.h>
#include <string.h>

#include "check.h"

static int retired;

static void retire(void *value, void *ctx)
{
	CHECK(ctx == &retired);
	free(value);
	++retired;
}

static sapwood_value number(uint64_t n)
{
	sapwood_value value;
	value.number = n;
	return value;
}

static sapwood_value pointer(const char *text)
{
	sapwood_value value;
	value.pointer = malloc(strlen(text) + 1);
	CHECK(value.pointer != NULL);
	strcpy((char *)value.pointer, text);
	return value;
}

static sapwood_value text(const char *text)
{
	sapwood_value value;
	value.bytes.data = text;
	value.bytes.len = strlen(text);
	return value;
}

static sapwood_options options(int values)
{
	sapwood_options made;
	memset(&made, 0, sizeof made);
	made.size = sizeof made;
	made.values = values;
	return made;
}

static void numbers(void)
{
	sapwood_map *map = NULL;
	sapwood_value one = number(1), two = number(2), found, values[3];
	sapwood_bytes keys[3] = {{"elm", 3}, {"ash", 3}, {NULL, 0}};
	sapwood_memory memory;
	unsigned char there[3];
	uint64_t *place;
	size_t len = 0, removed = 9;

	IS(sapwood_map_new(NULL, &map), 0);
	IS(sapwood_map_insert(map, "elm", 3, &one), 1);
	IS(sapwood_map_insert(map, "elm", 3, &two), 0);
	IS(sapwood_map_insert_new(map, "elm", 3, &one), -EEXIST);
	IS(sapwood_map_replace(map, "oak", 3, &one), -ENOENT);
	IS(sapwood_map_insert(map, NULL, 0, &one), 1);
	IS(sapwood_map_get(map, "elm", 3, &found), 0);
	CHECK(found.number == 2);
	IS(sapwood_map_get(map, "oak", 3, &found), -ENOENT);
	IS(sapwood_map_get(map, "", 0, NULL), 0);
	IS(sapwood_map_get_many(map, keys, 3, values, there), 2);
	CHECK(there[0] == 1 && there[1] == 0 && there[2] == 1);
	CHECK(values[0].number == 2 && values[2].number == 1);
	IS(sapwood_map_number(map, "elm", 3, &place), 0);
	*place += 40;
	IS(sapwood_map_number(map, "hits", 4, &place), 1);
	++*place;
	IS(sapwood_map_get(map, "elm", 3, &found), 0);
	CHECK(found.number == 42);
	IS(sapwood_map_len(map, &len), 0);
	CHECK(len == 3);
	memset(&memory, 0, sizeof memory);
	IS(sapwood_map_memory(map, &memory), -EINVAL);
	memory.size = sizeof memory;
	IS(sapwood_map_memory(map, &memory), 0);
	CHECK(memory.entries == 3 && memory.total > 0 && memory.leaves > 0);
	IS(sapwood_map_remove(map, "oak", 3), -ENOENT);
	IS(sapwood_map_remove(map, "elm", 3), 0);
	IS(sapwood_map_remove_prefix(map, "h", 1, &removed), 0);
	CHECK(removed == 1);
	IS(sapwood_map_compact(map), 0);
	IS(sapwood_map_insert(map, "elm", 3, NULL), -EINVAL);
	IS(sapwood_map_insert(map, NULL, 3, &one), -EINVAL);
	IS(sapwood_map_get(NULL, "elm", 3, &found), -EINVAL);
	{
		static char zeros[70000];
		IS(sapwood_map_insert(map, zeros, sizeof zeros, &one), -E2BIG);
	}
	IS(sapwood_map_len(map, &len), 0);
	CHECK(len == 1);
	sapwood_map_free(map);
}

static void pointers(void)
{
	sapwood_options opt = options(SAPWOOD_POINTERS);
	sapwood_map *map = NULL;
	sapwood_value a = pointer("a"), b = pointer("b"), found;

	opt.retire = retire;
	opt.ctx = &retired;
	opt.flags = SAPWOOD_INDEX;
	retired = 0;
	IS(sapwood_map_new(&opt, &map), 0);
	IS(sapwood_map_insert(map, "k", 1, &a), 1);
	/* A value that is not inserted stays the caller's. */
	IS(sapwood_map_insert_new(map, "k", 1, &b), -EEXIST);
	CHECK(retired == 0);
	IS(sapwood_map_insert(map, "k", 1, &b), 0);
	CHECK(retired == 1);
	IS(sapwood_map_get(map, "k", 1, &found), 0);
	CHECK(strcmp((char *)found.pointer, "b") == 0);
	IS(sapwood_map_save(map, "/dev/null"), -ENOTSUP);
	sapwood_map_free(map);
	CHECK(retired == 2);
}

static void full(void)
{
	sapwood_options opt = options(SAPWOOD_POINTERS);
	sapwood_map *map = NULL;
	sapwood_value value;
	char key[8];
	int i, result = 0;

	opt.retire = retire;
	opt.ctx = &retired;
	opt.memory_limit = 200000;
	retired = 0;
	IS(sapwood_map_new(&opt, &map), 0);
	for (i = 0; i < 1000000; i++) {
		value = pointer("v");
		memcpy(key, &i, sizeof i);
		result = sapwood_map_insert(map, key, sizeof i, &value);
		if (result != 1)
			break;
	}
	CHECK(result == -ENOMEM);
	CHECK(retired == 0);
	free(value.pointer);
	sapwood_map_free(map);
	CHECK(retired == i);
}

static int sum_up(const sapwood_entry *entry, void *ctx)
{
	*(uint64_t *)ctx += entry->value.number;
	return 0;
}

static int stop(const sapwood_entry *entry, void *ctx)
{
	(void)entry;
	(void)ctx;
	return 7;
}

/* The verbs that shared maps and point maps have in common. */
#define SHARED_VERBS(type)                                                                         \
	static void type(void)                                                                     \
	{                                                                                          \
		sapwood_options opt = options(SAPWOOD_NUMBERS);                                    \
		sapwood_domain *domain = NULL;                                                     \
		sapwood_reader *reader = NULL;                                                     \
		sapwood_##type *map = NULL;                                                        \
		sapwood_value one = number(1), two = number(2), found, values[2];                  \
		sapwood_bytes keys[2] = {{"elm", 3}, {"ash", 3}};                                  \
		sapwood_memory memory;                                                             \
		unsigned char there[2];                                                            \
		uint64_t sum = 0;                                                                  \
		size_t len = 0;                                                                    \
                                                                                                   \
		IS(sapwood_domain_new(NULL, &domain), 0);                                          \
		IS(sapwood_reader_new(domain, "main", &reader), 0);                                \
		opt.domain = domain;                                                               \
		opt.max_entries = 3;                                                               \
		IS(sapwood_##type##_new(&opt, &map), 0);                                           \
		IS(sapwood_##type##_insert(map, "elm", 3, &one), 1);                               \
		IS(sapwood_##type##_insert_new(map, "elm", 3, &one), -EEXIST);                     \
		IS(sapwood_##type##_replace(map, "oak", 3, &one), -ENOENT);                        \
		IS(sapwood_##type##_compare_exchange(map, "elm", 3, &two, &one), -ESTALE);         \
		IS(sapwood_##type##_compare_exchange(map, "oak", 3, &two, &one), -ENOENT);         \
		IS(sapwood_##type##_compare_exchange(map, "elm", 3, &one, &two), 0);               \
		IS(sapwood_##type##_add(map, "elm", 3, 40, &sum), 0);                              \
		CHECK(sum == 42);                                                                  \
		IS(sapwood_##type##_add(map, "hits", 4, 5, NULL), 1);                              \
		IS(sapwood_##type##_get(map, reader, "elm", 3, &found), 0);                        \
		CHECK(found.number == 42);                                                         \
		IS(sapwood_##type##_get_many(map, reader, keys, 2, values, there), 1);             \
		CHECK(there[0] && !there[1] && values[0].number == 42);                            \
		sum = 0;                                                                           \
		IS(sapwood_##type##_each(map, reader, sum_up, &sum), 0);                           \
		CHECK(sum == 47);                                                                  \
		IS(sapwood_##type##_each(map, reader, stop, NULL), 7);                             \
		IS(sapwood_##type##_insert(map, "fir", 3, &one), 1);                               \
		IS(sapwood_##type##_insert(map, "yew", 3, &one), -ENOSPC);                         \
		IS(sapwood_##type##_len(map, &len), 0);                                            \
		CHECK(len == 3);                                                                   \
		IS(sapwood_##type##_remove(map, "yew", 3), -ENOENT);                               \
		IS(sapwood_##type##_remove(map, "fir", 3), 0);                                     \
		IS(sapwood_reader_quiescent(reader), 0);                                           \
		CHECK(sapwood_##type##_reclaim(map, 1000) >= 0);                                   \
		memory.size = sizeof memory;                                                       \
		IS(sapwood_##type##_memory(map, &memory), 0);                                      \
		CHECK(memory.entries == 2);                                                        \
		IS(sapwood_reader_offline(reader), 0);                                             \
		IS(sapwood_##type##_get(map, reader, "elm", 3, &found), -EPERM);                   \
		sapwood_##type##_free(map);                                                        \
		sapwood_reader_free(reader);                                                       \
		sapwood_domain_free(domain);                                                       \
	}

SHARED_VERBS(shared)
SHARED_VERBS(point)

static int list(const sapwood_change *change, void *ctx)
{
	static const char kinds[] = "+-~";
	char *out = (char *)ctx + strlen((char *)ctx);
	out[0] = kinds[change->kind];
	memcpy(out + 1, change->key.data, change->key.len);
	out[1 + change->key.len] = 0;
	return 0;
}

static void stores(void)
{
	sapwood_options opt = options(SAPWOOD_BYTES);
	sapwood_domain *domain = NULL;
	sapwood_reader *reader = NULL;
	sapwood_store *store = NULL;
	sapwood_txn *txn = NULL, *other = NULL;
	sapwood_snapshot *before = NULL, *after = NULL;
	sapwood_view view, inside;
	sapwood_value value = text("first"), again = text("second"), found;
	sapwood_entry entry;
	sapwood_memory memory;
	uint64_t version = 0, number = 0;
	size_t len = 0;
	char changes[100] = "";

	IS(sapwood_domain_new(NULL, &domain), 0);
	IS(sapwood_reader_new(domain, "main", &reader), 0);
	opt.domain = domain;
	IS(sapwood_store_new(&opt, &store), 0);
	IS(sapwood_store_insert(store, "ash", 3, &value), 1);
	IS(sapwood_store_insert(store, "elm", 3, &value), 1);
	IS(sapwood_store_snapshot(store, &before), 0);
	IS(sapwood_store_view(store, reader, &view), 0);

	IS(sapwood_store_begin(store, 0, &txn), 0);
	IS(sapwood_store_begin(store, 0, &other), -EDEADLK);
	IS(sapwood_store_begin(store, SAPWOOD_TRY, &other), -EBUSY);
	IS(sapwood_store_insert(store, "x", 1, &value), -EDEADLK);
	IS(sapwood_txn_insert(txn, "elm", 3, &again), 0);
	IS(sapwood_txn_insert_new(txn, "elm", 3, &again), -EEXIST);
	IS(sapwood_txn_replace(txn, "oak", 3, &again), -ENOENT);
	IS(sapwood_txn_insert(txn, "fir", 3, &again), 1);
	IS(sapwood_txn_view(txn, &inside), 0);
	IS(sapwood_view_last(&inside, &entry), 0);
	CHECK(entry.key.len == 3 && memcmp(entry.key.data, "fir", 3) == 0);
	IS(sapwood_txn_remove(txn, "ash", 3), 0);
	IS(sapwood_view_last(&inside, &entry), -EPERM);
	IS(sapwood_txn_len(txn, &len), 0);
	CHECK(len == 2);
	IS(sapwood_txn_get(txn, "ash", 3, &found), -ENOENT);
	IS(sapwood_txn_remove_prefix(txn, "none", 4, &len), 0);
	CHECK(len == 0);
	IS(sapwood_store_get(store, reader, "ash", 3, &found), 0);
	IS(sapwood_txn_commit(txn, &version), 0);
	IS(sapwood_store_version(store, &number), 0);
	CHECK(version == number);
	IS(sapwood_store_get(store, reader, "elm", 3, &found), 0);
	CHECK(found.bytes.len == 6 && memcmp(found.bytes.data, "second", 6) == 0);
	/* The view stays on its version until the quiescent state. */
	IS(sapwood_view_get(&view, "ash", 3, &found), 0);
	IS(sapwood_view_len(&view, &len), 0);
	CHECK(len == 2);
	IS(sapwood_reader_quiescent(reader), 0);
	IS(sapwood_view_get(&view, "ash", 3, &found), -EPERM);

	IS(sapwood_store_begin(store, 0, &txn), 0);
	IS(sapwood_txn_remove_prefix(txn, "", 0, NULL), 0);
	sapwood_txn_rollback(txn);
	IS(sapwood_store_len(store, &len), 0);
	CHECK(len == 2);

	IS(sapwood_store_snapshot(store, &after), 0);
	IS(sapwood_snapshot_diff(before, after, list, changes), 0);
	CHECK(strcmp(changes, "-ash~elm+fir") == 0);
	IS(sapwood_snapshot_get(before, "ash", 3, &found), 0);
	IS(sapwood_snapshot_len(before, &len), 0);
	IS(sapwood_snapshot_version(before, &number), 0);
	CHECK(len == 2 && number < version);
	memory.size = sizeof memory;
	IS(sapwood_store_memory(store, &memory), 0);
	CHECK(memory.snapshots == 2 && memory.waiting > 0);
	sapwood_snapshot_free(before);
	CHECK(sapwood_store_reclaim(store, 1000) > 0);
	while (sapwood_store_compact_step(store, 10) > 0)
		;
	IS(sapwood_store_remove(store, "elm", 3), 0);
	IS(sapwood_store_remove(store, "elm", 3), -ENOENT);
	sapwood_store_free(store);
	IS(sapwood_snapshot_get(after, "elm", 3, NULL), 0);
	sapwood_snapshot_free(after);
	sapwood_reader_free(reader);
	sapwood_domain_free(domain);
}

/* A store has what its keys share once: entries of one call have their keys together. */
static void store_keys(void)
{
	sapwood_options opt = options(SAPWOOD_NUMBERS);
	sapwood_domain *domain = NULL;
	sapwood_reader *reader = NULL;
	sapwood_store *store = NULL;
	sapwood_snapshot *before = NULL, *after = NULL;
	sapwood_iter *iter = NULL;
	sapwood_view view;
	sapwood_entry entry, all[3];
	sapwood_value value;
	sapwood_memory memory;
	char key[20], changes[100] = "";
	int i;

	IS(sapwood_domain_new(NULL, &domain), 0);
	IS(sapwood_reader_new(domain, "keys", &reader), 0);
	opt.domain = domain;
	IS(sapwood_store_new(&opt, &store), 0);
	for (i = 0; i < 100; i++) {
		sprintf(key, "example/%02d", i);
		value.number = i;
		IS(sapwood_store_insert(store, key, 10, &value), 1);
	}
	IS(sapwood_store_insert(store, "example/", 8, &value), 1);
	IS(sapwood_store_insert(store, "example/50/", 11, &value), 1);
	memory.size = sizeof memory;
	IS(sapwood_store_memory(store, &memory), 0);
	CHECK(memory.leaves < memory.entries);
	IS(sapwood_store_view(store, reader, &view), 0);
	IS(sapwood_view_prefixes(&view, "example/50/1", 12, all, 3), 3);
	CHECK(all[0].key.len == 8 && memcmp(all[0].key.data, "example/", 8) == 0);
	CHECK(all[1].key.len == 10 && memcmp(all[1].key.data, "example/50", 10) == 0);
	CHECK(all[2].key.len == 11 && memcmp(all[2].key.data, "example/50/", 11) == 0);
	IS(sapwood_iter_new(&view, &iter), 0);
	IS(sapwood_iter_seek(iter, "example/51", 10), 0);
	for (i = 51; i < 100; i++) {
		IS(sapwood_iter_next(iter, &entry), 0);
		sprintf(key, "example/%02d", i);
		CHECK(entry.key.len == 10 && memcmp(entry.key.data, key, 10) == 0);
		CHECK(entry.value.number == (uint64_t)i);
	}
	IS(sapwood_iter_next(iter, &entry), -ENOENT);
	IS(sapwood_iter_prev(iter, &entry), 0);
	CHECK(entry.value.number == 99);
	sapwood_iter_free(iter);

	/* A number that is written again is no change. */
	IS(sapwood_store_snapshot(store, &before), 0);
	value.number = 7;
	IS(sapwood_store_insert(store, "example/07", 10, &value), 0);
	IS(sapwood_store_insert(store, "example/08", 10, &value), 0);
	IS(sapwood_store_snapshot(store, &after), 0);
	IS(sapwood_snapshot_diff(before, after, list, changes), 0);
	CHECK(strcmp(changes, "~example/08") == 0);
	sapwood_snapshot_free(before);
	sapwood_snapshot_free(after);
	sapwood_store_free(store);
	sapwood_reader_free(reader);
	sapwood_domain_free(domain);
}

static void files(const char *folder)
{
	sapwood_options opt = options(SAPWOOD_BYTES);
	sapwood_map *map = NULL;
	sapwood_store *store = NULL;
	sapwood_file *file = NULL;
	sapwood_view view;
	sapwood_entry entry;
	sapwood_value value = text("Ulmus"), found, values[1];
	sapwood_bytes key = {"elm", 3};
	unsigned char there;
	char path[1000];
	size_t len = 0;
	FILE *stream;

	snprintf(path, sizeof path, "%s/names", folder);
	IS(sapwood_file_open(path, SAPWOOD_BYTES, 0, &file), -ENOENT);
	IS(sapwood_map_new(&opt, &map), 0);
	IS(sapwood_map_insert(map, "elm", 3, &value), 1);
	IS(sapwood_map_save(map, path), 0);
	sapwood_map_free(map);

	IS(sapwood_file_open(path, SAPWOOD_NUMBERS, 0, &file), -EPROTO);
	IS(sapwood_file_open(path, SAPWOOD_BYTES, 0, &file), 0);
	IS(sapwood_file_get(file, "elm", 3, &found), 0);
	CHECK(found.bytes.len == 5 && memcmp(found.bytes.data, "Ulmus", 5) == 0);
	IS(sapwood_file_get_many(file, &key, 1, values, &there), 1);
	IS(sapwood_file_len(file, &len), 0);
	CHECK(len == 1);
	IS(sapwood_file_verify(file), 0);
	IS(sapwood_file_view(file, &view), 0);
	IS(sapwood_view_first(&view, &entry), 0);
	CHECK(entry.key.len == 3);
	sapwood_file_free(file);

	IS(sapwood_map_load(&opt, path, &map), 0);
	IS(sapwood_map_get(map, "elm", 3, NULL), 0);
	sapwood_map_free(map);
	IS(sapwood_store_load(&opt, path, &store), 0);
	IS(sapwood_store_len(store, &len), 0);
	CHECK(len == 1);
	sapwood_store_free(store);

	stream = fopen(path, "r+");
	CHECK(stream != NULL && fseek(stream, -3, SEEK_END) == 0 && fputc('?', stream) != EOF);
	fclose(stream);
	IS(sapwood_file_open(path, SAPWOOD_BYTES, 0, &file), -EPROTO);
}

int main(int count, char **arguments)
{
	CHECK(count == 2);
	numbers();
	pointers();
	full();
	shared();
	point();
	stores();
	store_keys();
	files(arguments[1]);
	return 0;
}
