// JudySL behind plain functions. The benchmark compiles this file when it runs, if Judy is
// installed. Each key ends with a zero byte and contains no other.

#include <Judy.h>
#include <stdlib.h>

// The longest key of the benchmark in bytes, and a zero.
#define LONGEST 4096

struct map {
	Pvoid_t array;
	size_t before;
};

static size_t in_use(void)
{
	struct mallinfo2 info = mallinfo2();

	return info.uordblks + info.hblkhd;
}

static const uint8_t *key_at(const struct list *list, size_t i)
{
	return list->bytes + list->bounds[i];
}

static void add(struct scan_sum *sum, const uint8_t *key, PPvoid_t value)
{
	scan_add(sum, key, strlen((const char *)key) + 1, *(uint64_t *)value);
}

static void insert(struct map *map, const uint8_t *key, uint64_t value)
{
	PPvoid_t place = JudySLIns(&map->array, key, PJE0);

	if (place == PPJERR)
		abort();
	*(uint64_t *)place = value;
}

void *shim_new(void)
{
	struct map *map = malloc(sizeof(*map));

	if (!map)
		abort();
	map->array = NULL;
	map->before = in_use();
	return map;
}

void shim_free(struct map *map)
{
	JudySLFreeArray(&map->array, PJE0);
	free(map);
}

size_t shim_bytes(const struct map *map)
{
	size_t now = in_use();

	return now > map->before ? now - map->before : 0;
}

void shim_insert(struct map *map, const struct list *pairs)
{
	for (size_t i = 0; i < pairs->count; i++)
		insert(map, key_at(pairs, i), pairs->values[i]);
}

// Adds those bits of each answer that are in `mask`, which is zero, to the place of the next
// lookup.
struct tally shim_lookups(const struct map *map, const struct list *keys, int chained, uint64_t mask)
{
	struct tally tally = {0, 0};

	for (size_t i = 0; i < keys->count;) {
		PPvoid_t place = JudySLGet(map->array, key_at(keys, i), PJE0);
		uint64_t value = place ? *(uint64_t *)place : 0;

		tally.found += place != NULL;
		tally.sum += value;
		i += 1 + (chained ? value & mask : 0);
	}
	return tally;
}

struct scan_sum shim_scan(const struct map *map)
{
	struct scan_sum sum = {0, 0, 0};
	uint8_t key[LONGEST] = "";

	for (PPvoid_t at = JudySLFirst(map->array, key, PJE0); at; at = JudySLNext(map->array, key, PJE0))
		add(&sum, key, at);
	return sum;
}

struct scan_sum shim_ranges(const struct map *map, const struct list *starts, size_t count)
{
	struct scan_sum sum = {0, 0, 0};
	uint8_t key[LONGEST];

	for (size_t i = 0; i < starts->count; i++) {
		memcpy(key, key_at(starts, i), starts->bounds[i + 1] - starts->bounds[i]);
		PPvoid_t at = JudySLFirst(map->array, key, PJE0);
		for (size_t j = 0; j < count && at; j++) {
			add(&sum, key, at);
			if (j + 1 < count)
				at = JudySLNext(map->array, key, PJE0);
		}
	}
	return sum;
}

struct scan_sum shim_predecessors(const struct map *map, const struct list *keys)
{
	struct scan_sum sum = {0, 0, 0};
	uint8_t key[LONGEST];

	for (size_t i = 0; i < keys->count; i++) {
		memcpy(key, key_at(keys, i), keys->bounds[i + 1] - keys->bounds[i]);
		PPvoid_t at = JudySLPrev(map->array, key, PJE0);
		if (at)
			add(&sum, key, at);
	}
	return sum;
}

void shim_replace(struct map *map, const struct list *old_keys, const struct list *pairs)
{
	for (size_t i = 0; i < pairs->count; i++) {
		JudySLDel(&map->array, key_at(old_keys, i), PJE0);
		insert(map, key_at(pairs, i), pairs->values[i]);
	}
}
