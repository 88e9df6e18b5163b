/* Saved files that Rust, Python and the program `sapwood` read and write, too: SAPWOOD_FILES. */
#include <errno.h>
#include <string.h>

#include "check.h"

static const char *folder;

/* The path of a committed file. */
static const char *committed(const char *name)
{
	static char path[4096];

	snprintf(path, sizeof path, "%s/%s", getenv("SAPWOOD_FILES"), name);
	return path;
}

/* The path of a file of this test. */
static const char *made(const char *name)
{
	static char path[4096];

	snprintf(path, sizeof path, "%s/%s", folder, name);
	return path;
}

/* Checks that the file of this test has the bytes of the committed one. */
static void same(const char *name)
{
	FILE *one = fopen(committed(name), "rb"), *other = fopen(made(name), "rb");
	int byte;

	CHECK(one && other);
	do {
		byte = fgetc(one);
		CHECK(byte == fgetc(other));
	} while (byte != EOF);
	fclose(one);
	fclose(other);
}

/* The message of the last failure has this text. */
static void told(const char *text)
{
	char message[1000];

	sapwood_last_error(message, sizeof message);
	if (!strstr(message, text)) {
		fprintf(stderr, "\"%s\" is not in: %s\n", text, message);
		exit(1);
	}
}

static sapwood_prefix prefix(const char *text)
{
	sapwood_prefix prefix;

	IS(sapwood_prefix_parse(text, &prefix), 0);
	return prefix;
}

static int count_names(const sapwood_prefix *prefix, const sapwood_hop *hop, void *ctx)
{
	CHECK(prefix->addr_len == 4 || prefix->addr_len == 16);
	CHECK(hop->kind == SAPWOOD_HOP_NAME);
	*(size_t *)ctx += hop->bytes.len;
	return 0;
}

static int stop(const sapwood_prefix *prefix, const sapwood_hop *hop, void *ctx)
{
	(void)prefix, (void)hop;
	return ++*(int *)ctx;
}

/* Tables that others saved. */
static void read_routes(void)
{
	const unsigned char host[4] = {10, 1, 2, 3}, none[4] = {11, 0, 0, 0};
	sapwood_prefix ten = prefix("10.0.0.0/8"), lab = prefix("192.0.2.0/24"), found;
	sapwood_fib_file *file;
	sapwood_fib *fib;
	sapwood_routes *routes;
	sapwood_hop hop;
	size_t len, bytes = 0;
	uint64_t value;
	int calls = 0;

	/* The program builds tables whose next hops are names. */
	IS(sapwood_fib_file_open(committed("names.routes"), SAPWOOD_CHECKED, &file), 0);
	IS(sapwood_fib_file_len(file, &len), 0);
	CHECK(len == 3);
	IS(sapwood_fib_file_lookup(file, host, 4, &found, &hop), 0);
	CHECK(found.bits == 8 && found.addr_len == 4 && hop.kind == SAPWOOD_HOP_NAME);
	CHECK(hop.bytes.len == 4 && memcmp(hop.bytes.data, "core", 4) == 0);
	IS(sapwood_fib_file_lookup(file, host, 4, NULL, NULL), 0);
	IS(sapwood_fib_file_lookup(file, none, 4, &found, &hop), -ENOENT);
	IS(sapwood_fib_file_lookup(file, none, 3, &found, &hop), -EINVAL);
	IS(sapwood_fib_file_get(file, &lab, &hop), 0);
	CHECK(hop.bytes.len == 3 && memcmp(hop.bytes.data, "lab", 3) == 0);
	ten.bits = 9;
	IS(sapwood_fib_file_get(file, &ten, &hop), -ENOENT);
	ten.bits = 8;
	IS(sapwood_fib_file_each(file, count_names, &bytes), 0);
	CHECK(bytes == 4 + 3 + 4);
	IS(sapwood_fib_file_each(file, stop, &calls), 1);
	IS(sapwood_fib_file_each(file, NULL, NULL), -EINVAL);
	IS(sapwood_fib_file_verify(file), 0);
	sapwood_fib_file_free(file);
	IS(sapwood_fib_open(NULL, NULL, committed("names.routes"), &fib), -EPROTO);
	told("a next hop by name for 10.0.0.0/8, \"core\"");

	/* Python saves numbers, and Rust groups. */
	IS(sapwood_fib_file_open(committed("numbers.routes"), SAPWOOD_UNVERIFIED, &file), 0);
	IS(sapwood_fib_file_lookup(file, host, 4, &found, &hop), 0);
	CHECK(found.bits == 24 && hop.kind == SAPWOOD_HOP_NUMBER && hop.number == UINT32_MAX);
	sapwood_fib_file_free(file);
	IS(sapwood_fib_open(NULL, NULL, committed("numbers.routes"), &fib), 0);
	IS(sapwood_fib_lookup4(fib, NULL, 0x0a000001, &value), 0);
	CHECK(value == 64500);
	sapwood_fib_free(fib);
	IS(sapwood_fib_file_open(committed("groups.routes"), 0, &file), 0);
	IS(sapwood_fib_file_get(file, &ten, &hop), 0);
	CHECK(hop.kind == SAPWOOD_HOP_GROUP && hop.number == 2);
	sapwood_fib_file_free(file);
	IS(sapwood_routes_open(NULL, NULL, committed("groups.routes"), &routes), 0);
	sapwood_routes_free(routes);
	IS(sapwood_fib_open(NULL, NULL, committed("groups.routes"), &fib), -EPROTO);
	told("a group of next hops for 10.0.0.0/8");
	IS(sapwood_fib_file_open(committed("nulls.routes"), 0, &file), 0);
	IS(sapwood_fib_file_get(file, &ten, &hop), 0);
	CHECK(hop.kind == SAPWOOD_HOP_NULL && hop.number == 0);
	sapwood_fib_file_free(file);
	sapwood_fib_file_free(NULL);
}

/* The same content, saved here. */
static void save_routes(void)
{
	const sapwood_prefix all[3] = {prefix("10.0.0.0/8"), prefix("10.1.2.0/24"),
				       prefix("2001:db8::/32")};
	const uint64_t values[3] = {64500, UINT32_MAX, 7};
	const sapwood_member both[2] = {{1, 1, 0}, {2, 3, 0}}, seven = {7, 1, 0};
	sapwood_fib_snapshot *version;
	sapwood_routes_snapshot *groups;
	sapwood_routes *routes;
	sapwood_fib *fib;

	IS(sapwood_fib_build(NULL, NULL, all, values, 3, &fib), 0);
	IS(sapwood_fib_snapshot_new(fib, &version), 0);
	IS(sapwood_fib_snapshot_save(version, made("numbers.routes")), 0);
	same("numbers.routes");
	sapwood_fib_snapshot_free(version);
	sapwood_fib_free(fib);
	IS(sapwood_routes_new(NULL, NULL, &routes), 0);
	IS(sapwood_routes_insert(routes, &all[0], both, 2) >= 0, 1);
	IS(sapwood_routes_insert(routes, &all[2], &seven, 1) >= 0, 1);
	IS(sapwood_routes_snapshot_new(routes, &groups), 0);
	IS(sapwood_routes_snapshot_save(groups, made("groups.routes")), 0);
	same("groups.routes");
	sapwood_routes_snapshot_free(groups);
	sapwood_routes_free(routes);
}

static void ranges(void)
{
	sapwood_ranges_snapshot *version;
	sapwood_ranges *map;
	uint64_t value;

	IS(sapwood_ranges_open(NULL, NULL, committed("numbers.ranges"), &map), 0);
	IS(sapwood_ranges_get(map, NULL, 9, &value), 0);
	CHECK(value == 7);
	IS(sapwood_ranges_snapshot_new(map, &version), 0);
	IS(sapwood_ranges_snapshot_save(version, made("numbers.ranges")), 0);
	same("numbers.ranges");
	sapwood_ranges_snapshot_free(version);
	sapwood_ranges_free(map);
	IS(sapwood_ranges_open(NULL, NULL, committed("texts.ranges"), &map), -EPROTO);
	told("the file has byte strings for values");
	IS(sapwood_ranges_open(NULL, NULL, committed("program-1.ranges"), &map), -EPROTO);
	told("build it anew by `sapwood ranges build`");
	IS(sapwood_ranges_open(NULL, NULL, committed("numbers.routes"), &map), -EPROTO);
	told("the file is a table of routes");
}

static void old_routes(void)
{
	sapwood_fib_file *file;
	sapwood_routes *routes;
	sapwood_fib *fib;

	IS(sapwood_fib_file_open(committed("program-1.routes"), 0, &file), -EPROTO);
	told("in format 1 of the program");
	IS(sapwood_fib_open(NULL, NULL, committed("library-1.routes"), &fib), -EPROTO);
	told("in format 1 of the library");
	IS(sapwood_routes_open(NULL, NULL, committed("library-1.routes"), &routes), -EPROTO);
	IS(sapwood_fib_file_open(committed("numbers.ranges"), 0, &file), -EPROTO);
	told("the file is a map of ranges");
	IS(sapwood_fib_file_open("no/such/file", 0, &file), -ENOENT);
	IS(sapwood_fib_file_open(committed("names.routes"), 2, &file), -EINVAL);
}

int main(int argc, char **argv)
{
	CHECK(argc == 2 && getenv("SAPWOOD_FILES"));
	folder = argv[1];
	read_routes();
	save_routes();
	ranges();
	old_routes();
	return 0;
}
