// uthash over byte strings. The benchmark compiles this file when it runs, if uthash is installed.

#include <stdlib.h>
#include <uthash.h>

struct entry {
	UT_hash_handle hh;
	uint64_t value;
	uint8_t key[];
};

struct map {
	struct entry *all;
};

void *shim_new(void)
{
	return calloc(1, sizeof(struct map));
}

void shim_free(struct map *map)
{
	struct entry *entry, *next;

	HASH_ITER(hh, map->all, entry, next) {
		HASH_DEL(map->all, entry);
		free(entry);
	}
	free(map);
}

// The keys differ from each other.
void shim_insert(struct map *map, const struct list *pairs)
{
	for (size_t i = 0; i < pairs->count; i++) {
		size_t len = pairs->bounds[i + 1] - pairs->bounds[i];
		struct entry *entry = malloc(sizeof(*entry) + len);

		if (!entry)
			abort();
		memcpy(entry->key, pairs->bytes + pairs->bounds[i], len);
		entry->value = pairs->values[i];
		HASH_ADD_KEYPTR(hh, map->all, entry->key, len, entry);
	}
}

struct tally shim_lookups(const struct map *map, const struct list *keys)
{
	struct tally tally = {0, 0};

	for (size_t i = 0; i < keys->count; i++) {
		struct entry *entry;

		HASH_FIND(hh, map->all, keys->bytes + keys->bounds[i], keys->bounds[i + 1] - keys->bounds[i], entry);
		if (entry) {
			tally.found++;
			tally.sum += entry->value;
		}
	}
	return tally;
}
