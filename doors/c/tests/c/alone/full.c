/* Files on a file system that is full: its folder, which has room for some 512 KiB, is given. */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "../check.h"

static const char *base;

static const char *at(const char *name)
{
	static char path[400];
	CHECK((size_t)snprintf(path, sizeof path, "%s/%s", base, name) < sizeof path);
	return path;
}

static void is_full(int result, const char *function)
{
	char message[600];
	IS(result, -ENOSPC);
	CHECK(sapwood_last_error(message, sizeof message) > 0);
	CHECK(strncmp(message, function, strlen(function)) == 0);
	CHECK(strstr(message, "No space left on device") && strstr(message, base));
}

int main(int argc, char **argv)
{
	sapwood_options options = {sizeof options, 0, SAPWOOD_NUMBERS, NULL, NULL, 0, 0, NULL};
	sapwood_map *map = NULL, *loaded = NULL;
	sapwood_store *store = NULL;
	sapwood_snapshot *snapshot = NULL;
	sapwood_fib *fib = NULL;
	sapwood_fib_snapshot *fib_snapshot = NULL;
	sapwood_ranges *ranges = NULL;
	sapwood_ranges_snapshot *ranges_snapshot = NULL;
	sapwood_prefix prefix;
	sapwood_value value;
	size_t len = 0;
	uint64_t i;
	char key[20];

	CHECK(argc == 2);
	base = argv[1];
	value.number = 1;
	IS(sapwood_map_new(&options, &map), 0);
	IS(sapwood_map_insert(map, "elm", 3, &value), 1);
	IS(sapwood_map_save(map, at("map")), 0);

	IS(sapwood_store_new(&options, &store), 0);
	IS(sapwood_fib_new(NULL, NULL, &fib), 0);
	IS(sapwood_ranges_new(NULL, NULL, &ranges), 0);
	memset(&prefix, 0, sizeof prefix);
	prefix.addr_len = 4;
	prefix.bits = 32;
	for (i = 0; i < 50000; i++) {
		snprintf(key, sizeof key, "%d", (int)i);
		IS(sapwood_map_insert(map, key, strlen(key), &value), 1);
		IS(sapwood_store_insert(store, key, strlen(key), &value), 1);
		prefix.addr[1] = (uint8_t)(i >> 16);
		prefix.addr[2] = (uint8_t)(i >> 8);
		prefix.addr[3] = (uint8_t)i;
		IS(sapwood_fib_insert(fib, &prefix, i, NULL), 1);
		IS(sapwood_ranges_store(ranges, 3 * i, 3 * i + 1, i), 0);
	}
	is_full(sapwood_map_save(map, at("map")), "sapwood_map_save");
	IS(sapwood_store_snapshot(store, &snapshot), 0);
	is_full(sapwood_snapshot_save(snapshot, at("map")), "sapwood_snapshot_save");
	IS(sapwood_fib_snapshot_new(fib, &fib_snapshot), 0);
	is_full(sapwood_fib_snapshot_save(fib_snapshot, at("fib")), "sapwood_fib_snapshot_save");
	IS(sapwood_ranges_snapshot_new(ranges, &ranges_snapshot), 0);
	is_full(sapwood_ranges_snapshot_save(ranges_snapshot, at("ranges")),
		"sapwood_ranges_snapshot_save");

	/* The old file is whole; of the others there is nothing, so a small one can be saved. */
	IS(sapwood_map_load(&options, at("map"), &loaded), 0);
	IS(sapwood_map_len(loaded, &len), 0);
	CHECK(len == 1);
	CHECK(access(at("fib"), F_OK) != 0 && access(at("ranges"), F_OK) != 0);
	IS(sapwood_map_save(loaded, at("again")), 0);

	sapwood_map_free(map);
	sapwood_map_free(loaded);
	sapwood_snapshot_free(snapshot);
	sapwood_store_free(store);
	sapwood_fib_snapshot_free(fib_snapshot);
	sapwood_fib_free(fib);
	sapwood_ranges_snapshot_free(ranges_snapshot);
	sapwood_ranges_free(ranges);
	return 0;
}
