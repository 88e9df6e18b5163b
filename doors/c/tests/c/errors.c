/*
 * What the table of errors promises: files that are missing, foreign, cut or of another kind, in
 * each function that opens one, with messages that name them; lengths beyond every limit.
 */
#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "check.h"

static const char *base;

static const char *at(const char *name)
{
	static char path[400];
	CHECK((size_t)snprintf(path, sizeof path, "%s/%s", base, name) < sizeof path);
	return path;
}

/* The message of the last failure begins with the function, and has this text. */
static void told(const char *function, const char *text)
{
	char message[600];
	int len = sapwood_last_error(message, sizeof message);
	if (len <= 0 || strncmp(message, function, strlen(function)) != 0 || !strstr(message, text)) {
		fprintf(stderr, "%s: no word of %s in: %s\n", function, text, message);
		exit(1);
	}
}

/* Opens a file as the structure of this number, and frees it again. */
enum { OPENERS = 6 };
static const char *const openers[OPENERS] = {"sapwood_map_load",   "sapwood_store_load",
					      "sapwood_file_open",  "sapwood_fib_open",
					      "sapwood_routes_open", "sapwood_ranges_open"};

static int opened(int which, const char *path)
{
	sapwood_options options = {sizeof options, 0, SAPWOOD_NUMBERS, NULL, NULL, 0, 0, NULL};
	sapwood_map *map = NULL;
	sapwood_store *store = NULL;
	sapwood_file *file = NULL;
	sapwood_fib *fib = NULL;
	sapwood_routes *routes = NULL;
	sapwood_ranges *ranges = NULL;
	int result = -1;

	switch (which) {
	case 0:
		result = sapwood_map_load(&options, path, &map);
		break;
	case 1:
		result = sapwood_store_load(&options, path, &store);
		break;
	case 2:
		result = sapwood_file_open(path, SAPWOOD_NUMBERS, 0, &file);
		break;
	case 3:
		result = sapwood_fib_open(NULL, NULL, path, &fib);
		break;
	case 4:
		result = sapwood_routes_open(NULL, NULL, path, &routes);
		break;
	default:
		result = sapwood_ranges_open(NULL, NULL, path, &ranges);
	}
	/* On failure *out stays as it was. */
	CHECK((result == 0) == (map || store || file || fib || routes || ranges));
	sapwood_map_free(map);
	sapwood_store_free(store);
	sapwood_file_free(file);
	sapwood_fib_free(fib);
	sapwood_routes_free(routes);
	sapwood_ranges_free(ranges);
	return result;
}

static void write_file(const char *path, const char *bytes, size_t len)
{
	FILE *file = fopen(path, "wb");
	CHECK(file && fwrite(bytes, 1, len, file) == len && fclose(file) == 0);
}

/* A file that is cut in the middle. */
static void cut(const char *from, const char *to)
{
	static char bytes[1 << 20];
	char path[400];
	size_t len;
	FILE *file;

	strcpy(path, at(from));
	file = fopen(path, "rb");
	CHECK(file != NULL);
	len = fread(bytes, 1, sizeof bytes, file);
	CHECK(fclose(file) == 0 && len > 100);
	write_file(at(to), bytes, len / 2);
}

static void save_one_of_each(void)
{
	sapwood_options options = {sizeof options, 0, SAPWOOD_NUMBERS, NULL, NULL, 0, 0, NULL};
	sapwood_map *map = NULL;
	sapwood_fib *fib = NULL;
	sapwood_fib_snapshot *fib_snapshot = NULL;
	sapwood_routes *routes = NULL;
	sapwood_routes_snapshot *routes_snapshot = NULL;
	sapwood_ranges *ranges = NULL;
	sapwood_ranges_snapshot *ranges_snapshot = NULL;
	sapwood_prefix prefix;
	sapwood_member member;
	sapwood_value value;

	memset(&member, 0, sizeof member);
	member.hop = 1;
	member.weight = 2;
	value.number = 1;
	IS(sapwood_prefix_parse("10.0.0.0/8", &prefix), 0);
	IS(sapwood_map_new(&options, &map), 0);
	IS(sapwood_map_insert(map, "elm", 3, &value), 1);
	IS(sapwood_map_save(map, at("map")), 0);
	IS(sapwood_fib_new(NULL, NULL, &fib), 0);
	IS(sapwood_fib_insert(fib, &prefix, 1, NULL), 1);
	IS(sapwood_fib_snapshot_new(fib, &fib_snapshot), 0);
	IS(sapwood_fib_snapshot_save(fib_snapshot, at("fib")), 0);
	IS(sapwood_routes_new(NULL, NULL, &routes), 0);
	IS(sapwood_routes_insert(routes, &prefix, &member, 1), 1);
	IS(sapwood_routes_snapshot_new(routes, &routes_snapshot), 0);
	IS(sapwood_routes_snapshot_save(routes_snapshot, at("routes")), 0);
	IS(sapwood_ranges_new(NULL, NULL, &ranges), 0);
	IS(sapwood_ranges_store(ranges, 1, 2, 3), 0);
	IS(sapwood_ranges_snapshot_new(ranges, &ranges_snapshot), 0);
	IS(sapwood_ranges_snapshot_save(ranges_snapshot, at("ranges")), 0);

	/* A place where no file can be. */
	IS(sapwood_map_save(map, at("nowhere/map")), -ENOENT);
	told("sapwood_map_save", "nowhere");
	IS(sapwood_fib_snapshot_save(fib_snapshot, at("nowhere/fib")), -ENOENT);
	told("sapwood_fib_snapshot_save", "nowhere");
	IS(sapwood_routes_snapshot_save(routes_snapshot, at("nowhere/routes")), -ENOENT);
	told("sapwood_routes_snapshot_save", "nowhere");
	IS(sapwood_ranges_snapshot_save(ranges_snapshot, at("map/ranges")), -ENOTDIR);
	told("sapwood_ranges_snapshot_save", "map/ranges");

	sapwood_map_free(map);
	sapwood_fib_snapshot_free(fib_snapshot);
	sapwood_fib_free(fib);
	sapwood_routes_snapshot_free(routes_snapshot);
	sapwood_routes_free(routes);
	sapwood_ranges_snapshot_free(ranges_snapshot);
	sapwood_ranges_free(ranges);
}

static void files(void)
{
	/* Which files each may open: those of its own kind. */
	static const char *const own[OPENERS] = {"map", "map", "map", "fib", "routes", "ranges"};
	static const char *const kinds[] = {"map", "fib", "routes", "ranges"};
	static const char *const bad[] = {"empty", "text", "cut map", "cut fib", "cut routes",
					  "cut ranges"};
	size_t i;
	int which;

	save_one_of_each();
	write_file(at("empty"), "", 0);
	write_file(at("text"), "10.0.0.0/8 192.0.2.1\n", 21);
	cut("map", "cut map");
	cut("fib", "cut fib");
	cut("routes", "cut routes");
	cut("ranges", "cut ranges");
	CHECK(mkdir(at("folder"), 0755) == 0);

	for (which = 0; which < OPENERS; which++) {
		IS(opened(which, at("missing")), -ENOENT);
		told(openers[which], "missing");
		CHECK(opened(which, at("folder")) < 0);
		told(openers[which], "folder");
		IS(opened(which, NULL), -EINVAL);
		told(openers[which], "path");
		for (i = 0; i < sizeof bad / sizeof *bad; i++) {
			IS(opened(which, at(bad[i])), -EPROTO);
			told(openers[which], bad[i]);
		}
		for (i = 0; i < sizeof kinds / sizeof *kinds; i++) {
			int result = opened(which, at(kinds[i]));
			/* Next hops are groups of one, but not the other way round. */
			int may = strcmp(kinds[i], own[which]) == 0 ||
				  (which == 4 && strcmp(kinds[i], "fib") == 0);

			IS(result, may ? 0 : -EPROTO);
			if (result < 0)
				told(openers[which], kinds[i]);
		}
	}
}

/* Live maps in folders that are missing, no folders, or have other things in them. */
static void folders(void)
{
	sapwood_options options = {sizeof options, 0, SAPWOOD_NUMBERS, NULL, NULL, 0, 0, NULL};
	sapwood_live *live = NULL;
	sapwood_store *store = NULL;
	sapwood_live_reader *reader = NULL;

	IS(sapwood_store_live_open(at("missing"), NULL, &options, &live, &store), -ENOENT);
	told("sapwood_store_live_open", "missing");
	IS(sapwood_live_reader_open(at("missing"), SAPWOOD_LIVE_STORE, SAPWOOD_NUMBERS, 0, &reader),
	   -ENOENT);
	told("sapwood_live_reader_open", "missing");
	IS(sapwood_store_live_open(at("folder"), NULL, &options, &live, &store), -ENOENT);
	told("sapwood_store_live_open", "folder");
	CHECK(sapwood_store_live_create(at("text"), NULL, &options, &live, &store) < 0);
	told("sapwood_store_live_create", "text");
	options.values = SAPWOOD_POINTERS;
	IS(sapwood_store_live_create(at("live"), NULL, &options, &live, &store), -EINVAL);
	told("sapwood_store_live_create", "pointers");
	IS(sapwood_live_reader_open_at(-1, SAPWOOD_LIVE_STORE, SAPWOOD_NUMBERS, 0, &reader), -EINVAL);
	IS(sapwood_live_reader_open(at("folder"), 77, SAPWOOD_NUMBERS, 0, &reader), -EINVAL);
	told("sapwood_live_reader_open", "77");
	IS(sapwood_live_reader_open(at("folder"), SAPWOOD_LIVE_FIB, SAPWOOD_BYTES, 0, &reader),
	   -EINVAL);
	CHECK(!live && !store && !reader);
}

/* Lengths: of keys, values, lists and structures. */
static void lengths(void)
{
	static const char longest[65536] = {0};
	const size_t huge = (size_t)-1;
	sapwood_options options = {sizeof options, 0, SAPWOOD_NUMBERS, NULL, NULL, 0, 0, NULL};
	sapwood_domain *domain = NULL;
	sapwood_reader *reader = NULL;
	sapwood_map *map = NULL, *bytes = NULL;
	sapwood_store *store = NULL;
	sapwood_shared *shared = NULL;
	sapwood_point *point = NULL;
	sapwood_iter *iter = NULL;
	sapwood_memory memory;
	sapwood_view view;
	sapwood_entry entry;
	sapwood_bytes key;
	sapwood_value value, *out = &value;
	struct {
		sapwood_domain_options known;
		uint64_t newer;
	} grown;
	uint64_t *number = NULL;
	unsigned char found[1];
	size_t len = 0;

	IS(sapwood_domain_new(NULL, &domain), 0);
	IS(sapwood_reader_new(domain, "main", &reader), 0);
	options.domain = domain;
	IS(sapwood_store_new(&options, &store), 0);
	IS(sapwood_shared_new(&options, &shared), 0);
	IS(sapwood_point_new(&options, &point), 0);
	options.domain = NULL;
	IS(sapwood_map_new(&options, &map), 0);
	options.values = SAPWOOD_BYTES;
	IS(sapwood_map_new(&options, &bytes), 0);
	value.number = 1;

	/* The longest key is a key, one more byte is none, and nothing is read that is not there. */
	IS(sapwood_map_insert(map, longest, 65535, &value), 1);
	IS(sapwood_map_get(map, longest, 65535, out), 0);
	IS(sapwood_map_get(map, longest, 65536, out), -ENOENT);
	IS(sapwood_map_remove(map, longest, 65536), -ENOENT);
	IS(sapwood_map_insert(map, longest, 65536, &value), -E2BIG);
	told("sapwood_map_insert", "65536");
	IS(sapwood_map_insert_new(map, longest, 65536, &value), -E2BIG);
	IS(sapwood_map_number(map, longest, 65536, &number), -E2BIG);
	IS(sapwood_store_insert(store, longest, 65536, &value), -E2BIG);
	told("sapwood_store_insert", "65536");
	IS(sapwood_shared_insert(shared, longest, 65536, &value), -E2BIG);
	IS(sapwood_shared_add(shared, longest, 65536, 1, NULL), -E2BIG);
	IS(sapwood_point_insert(point, longest, 65536, &value), -E2BIG);
	IS(sapwood_point_add(point, longest, 65536, 1, NULL), -E2BIG);
	IS(sapwood_map_get(map, "elm", huge, out), -E2BIG);
	IS(sapwood_map_insert(map, "elm", huge, &value), -E2BIG);
	IS(sapwood_map_remove_prefix(map, "elm", huge, NULL), -E2BIG);
	IS(sapwood_store_get(store, reader, "elm", huge, out), -E2BIG);
	IS(sapwood_shared_get(shared, reader, "elm", huge, out), -E2BIG);
	IS(sapwood_point_get(point, reader, "elm", huge, out), -E2BIG);
	IS(sapwood_shared_view(shared, reader, &view), 0);
	IS(sapwood_view_get(&view, "elm", huge, out), -E2BIG);
	IS(sapwood_view_after(&view, "elm", huge, &entry), -E2BIG);
	IS(sapwood_iter_new(&view, &iter), 0);
	IS(sapwood_iter_seek(iter, "elm", huge), -E2BIG);
	IS(sapwood_iter_prefix(iter, "elm", huge), -E2BIG);
	sapwood_iter_free(iter);
	/* NULL is a key of no bytes, and of no other length. */
	IS(sapwood_map_insert(map, NULL, 0, &value), 1);
	IS(sapwood_map_get(map, NULL, 0, out), 0);
	IS(sapwood_map_get(map, NULL, 1, out), -EINVAL);
	told("sapwood_map_get", "NULL");
	IS(sapwood_point_get(point, reader, NULL, 0, out), -ENOENT);
	IS(sapwood_point_get(point, reader, NULL, 1, out), -EINVAL);
	IS(sapwood_shared_get(shared, reader, NULL, huge, out), -EINVAL);

	/* Values. */
	value.bytes.data = longest;
	value.bytes.len = ((size_t)256 << 20) + 1;
	IS(sapwood_map_insert(bytes, "elm", 3, &value), -E2BIG);
	value.bytes.len = huge;
	IS(sapwood_map_insert(bytes, "elm", 3, &value), -E2BIG);
	value.bytes.data = NULL;
	value.bytes.len = 1;
	IS(sapwood_map_insert(bytes, "elm", 3, &value), -EINVAL);
	value.bytes.len = 0;
	IS(sapwood_map_insert(bytes, "elm", 3, &value), 1);
	IS(sapwood_map_len(bytes, &len), 0);
	CHECK(len == 1);

	/* Lists. */
	key.data = "elm";
	key.len = huge;
	IS(sapwood_map_get_many(map, &key, 1, out, found), -E2BIG);
	key.len = 3;
	IS(sapwood_map_get_many(map, &key, huge, out, found), -E2BIG);
	IS(sapwood_map_get_many(map, NULL, 0, NULL, NULL), 0);
	IS(sapwood_map_get_many(map, &key, 1, NULL, found), -EINVAL);

	/* Structures that are older or newer than the library. */
	memset(&grown, 0, sizeof grown);
	grown.known.size = sizeof grown;
	sapwood_domain_free(domain);
	domain = NULL;
	IS(sapwood_domain_new(&grown.known, &domain), 0);
	sapwood_domain_free(domain);
	domain = NULL;
	grown.newer = 1;
	IS(sapwood_domain_new(&grown.known, &domain), -E2BIG);
	told("sapwood_domain_new", "sapwood_domain_options");
	grown.known.size = huge;
	IS(sapwood_domain_new(&grown.known, &domain), -EINVAL);
	grown.known.size = sizeof(size_t);
	IS(sapwood_domain_new(&grown.known, &domain), 0);
	memset(&memory, 0xff, sizeof memory);
	IS(sapwood_map_memory(map, &memory), -EINVAL);
	memory.size = 2 * sizeof(size_t);
	IS(sapwood_map_memory(map, &memory), 0);
	CHECK(memory.entries == 2 && memory.total == huge);

	sapwood_domain_free(domain);
	sapwood_map_free(map);
	sapwood_map_free(bytes);
	sapwood_store_free(store);
	sapwood_shared_free(shared);
	sapwood_point_free(point);
	sapwood_reader_free(reader);
}

int main(int argc, char **argv)
{
	CHECK(argc == 2);
	base = argv[1];
	files();
	folders();
	lengths();
	return 0;
}
