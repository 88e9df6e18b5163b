/*
 * Maps in the memory of BPF programs. Arguments: a directory of a BPF file system, or "other" and a
 * pin for the part of another process. SAPWOOD_OBJECT and SAPWOOD_VARIABLES name objects.
 */
#include <errno.h>
#include <string.h>
#include <sys/personality.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../check.h"
#include "sapwood_bpf.h"

enum { DROP = 1, PASS = 2 };

static const char *base, *self;

static const char *at(const char *name)
{
	static char path[400];
	CHECK((size_t)snprintf(path, sizeof path, "%s/%s", base, name) < sizeof path);
	return path;
}

/* Whether the last failure's message has this text. */
static void said(const char *text)
{
	char message[2000];
	CHECK(sapwood_last_error(message, sizeof message) > 0);
	if (!strstr(message, text)) {
		fprintf(stderr, "\"%s\" is not in: %s\n", text, message);
		exit(1);
	}
}

static void ends_well(pid_t pid)
{
	int status = 0;
	CHECK(pid > 0 && waitpid(pid, &status, 0) == pid);
	CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static pid_t begin(void)
{
	fflush(NULL);
	return fork();
}

/* The program runs on a frame from this station; returns its answer. */
static unsigned frame(sapwood_bpf_object *object, const char *program, unsigned station, size_t len)
{
	unsigned char bytes[200];
	uint32_t answer = 99;

	memset(bytes, 0, sizeof bytes);
	CHECK(len <= sizeof bytes);
	bytes[6] = 2;
	bytes[10] = (unsigned char)(station >> 8);
	bytes[11] = (unsigned char)station;
	IS(sapwood_bpf_object_run(object, program, bytes, len, &answer), 0);
	return answer;
}

static const unsigned char *key_of(unsigned station)
{
	static unsigned char key[6] = {2, 0, 0, 0, 0, 0};
	key[4] = (unsigned char)(station >> 8);
	key[5] = (unsigned char)station;
	return key;
}

/* Each function that may be the first says what is missing. */
static void all_are(int result, const char *text)
{
	sapwood_bpf_arena *arena = NULL;
	IS(sapwood_bpf_check(), result);
	said(text);
	IS(sapwood_bpf_arena_create(1 << 20, 0, &arena), result);
	said(text);
	IS(sapwood_bpf_arena_open(at("arena"), 0, &arena), result);
	said(text);
	CHECK(!arena && strlen(sapwood_strerror(result)) > 10);
}

/* A kernel without arenas, and a process without capabilities. */
static void hosts(void)
{
	pid_t pid = begin();
	if (pid == 0) {
		CHECK(personality(0x0020000) >= 0); /* UNAME26: the release is 2.6 */
		all_are(-ENOSYS, "has no BPF arenas; 6.9 and newer have");
		_exit(0);
	}
	ends_well(pid);
	pid = begin();
	if (pid == 0) {
		CHECK(setgid(65534) == 0 && setuid(65534) == 0);
		all_are(-EACCES, "this process lacks CAP_BPF, CAP_PERFMON, CAP_NET_ADMIN");
		_exit(0);
	}
	ends_well(pid);
}

static void options_are_checked(sapwood_bpf_arena *arena)
{
	sapwood_options options = {sizeof options, 0, SAPWOOD_POINTERS, NULL, NULL, 0, 0, NULL};
	sapwood_bpf_map_options map_options;
	sapwood_bpf_window *window = NULL;
	sapwood_shared *shared = NULL;
	sapwood_store *store = NULL;
	sapwood_domain *domain = NULL;
	sapwood_bpf_map *map = NULL;
	size_t left = 0;

	IS(sapwood_bpf_shared_create(arena, "x", &options, &window, &shared), -EINVAL);
	said("pointers mean nothing");
	options.values = SAPWOOD_NUMBERS;
	IS(sapwood_domain_new(NULL, &domain), 0);
	options.domain = domain;
	IS(sapwood_bpf_shared_create(arena, "x", &options, &window, &shared), -EINVAL);
	said("sapwood_bpf_window_domain");
	sapwood_domain_free(domain);
	options.domain = NULL;
	options.max_entries = 5;
	IS(sapwood_bpf_store_create(arena, "x", &options, &window, &store), -EINVAL);
	options.max_entries = 0;
	IS(sapwood_bpf_shared_create(arena, "", &options, &window, &shared), -EINVAL);
	IS(sapwood_bpf_shared_create(arena, "a name of more bytes than 24", &options, &window, &shared),
	   -EINVAL);
	said("1 to 24 bytes");
	IS(sapwood_bpf_shared_create(arena, "\xff", &options, &window, &shared), -EINVAL);
	said("UTF-8");
	options.memory_limit = (size_t)1 << 40;
	IS(sapwood_bpf_shared_create(arena, "x", &options, &window, &shared), -ENOSPC);
	said("no room for x");
	IS(sapwood_bpf_shared_open(arena, "x", &options, &window, &shared), -ENOENT);
	IS(sapwood_bpf_map_open(arena, "x", &map), -ENOENT);

	memset(&map_options, 0, sizeof map_options);
	map_options.size = sizeof map_options;
	map_options.value_bytes = 12;
	IS(sapwood_bpf_map_create(arena, "x", &map_options, &map), -EINVAL);
	map_options.value_bytes = 4104;
	IS(sapwood_bpf_map_create(arena, "x", &map_options, &map), -EINVAL);
	map_options.value_bytes = 8;
	map_options.longest_key = 5000;
	IS(sapwood_bpf_map_create(arena, "x", &map_options, &map), -EINVAL);
	map_options.longest_key = 0;
	map_options.flags = 2;
	IS(sapwood_bpf_map_create(arena, "x", &map_options, &map), -EINVAL);
	said("flags 0x2");
	CHECK(!window && !shared && !store && !map);
	IS(sapwood_bpf_arena_windows(arena, NULL, NULL), 0);
	IS(sapwood_bpf_arena_left(arena, &left), 0);
	CHECK(left > ((size_t)60 << 20));
}

struct walk {
	size_t count, stop;
	unsigned last;
	int ordered;
	uint64_t sum;
};

static int each(const sapwood_entry *entry, void *ctx)
{
	struct walk *walk = (struct walk *)ctx;
	const unsigned char *key = (const unsigned char *)entry->key.data;
	unsigned station;
	uint64_t words[2];

	CHECK(entry->key.len == 6 && entry->value.bytes.len == sizeof words);
	station = (unsigned)key[4] << 8 | key[5];
	memcpy(words, entry->value.bytes.data, sizeof words);
	walk->ordered &= !walk->count || station > walk->last;
	walk->last = station;
	walk->sum += words[0];
	return ++walk->count == walk->stop ? 7 : 0;
}

static void is_walk(struct walk walk, size_t count, uint64_t sum)
{
	CHECK(walk.count == count && walk.sum == sum && walk.ordered);
}

static struct walk begins(size_t stop)
{
	struct walk walk;
	memset(&walk, 0, sizeof walk);
	walk.stop = stop;
	walk.ordered = 1;
	return walk;
}

/* A map that this process writes, of each structure and kind of values, as a program sees it. */
static void process_writes(sapwood_bpf_arena *arena)
{
	sapwood_options options = {sizeof options, SAPWOOD_INDEX, SAPWOOD_NUMBERS, NULL, NULL, 0, 0, NULL};
	sapwood_bpf_window *window = NULL, *second = NULL;
	sapwood_bpf_object *object = NULL;
	sapwood_shared *shared = NULL;
	sapwood_point *point = NULL;
	sapwood_store *store = NULL;
	sapwood_txn *txn = NULL;
	sapwood_domain *domain = NULL;
	sapwood_reader *reader = NULL;
	sapwood_value value;
	uint32_t windows[2] = {0, 0};
	int kind;

	for (kind = 0; kind < 5; kind++) {
		options.memory_limit = 8 << 20;
		options.flags = kind == 0 ? SAPWOOD_INDEX : 0;
		options.values = kind % 2 ? SAPWOOD_BYTES : SAPWOOD_NUMBERS;
		if (options.values == SAPWOOD_BYTES) {
			value.bytes.data = "\2 text";
			value.bytes.len = 6;
		} else {
			value.number = 2;
		}
		if (kind < 2)
			IS(sapwood_bpf_shared_create(arena, "stations", &options, &window, &shared), 0);
		else if (kind < 4)
			IS(sapwood_bpf_point_create(arena, "stations", &options, &window, &point), 0);
		else
			IS(sapwood_bpf_store_create(arena, "stations", &options, &window, &store), 0);
		IS(sapwood_bpf_window_number(window), 0);
		IS(sapwood_bpf_arena_number(arena, "stations"), 0);
		IS(sapwood_bpf_arena_number(arena, "station"), -ENOENT);
		IS(sapwood_bpf_arena_owner(arena), getpid());
		IS(sapwood_bpf_arena_remove(arena, "stations"), -EINVAL);
		options.values = SAPWOOD_NUMBERS;
		IS(sapwood_bpf_shared_create(arena, "stations", &options, &second, &shared), -EEXIST);
		said("\"stations\" already");

		IS(sapwood_bpf_object_open(arena, getenv("SAPWOOD_OBJECT"), &object), 0);
		IS(sapwood_bpf_object_constants(object, ".rodata.windows", windows, sizeof windows), 0);
		IS(sapwood_bpf_object_without(object, "seen"), 0);
		IS(sapwood_bpf_object_without(object, "forget"), 0);
		IS(sapwood_bpf_object_load(object), 0);
		IS(frame(object, "known", 1, 60), DROP);
		if (kind < 2)
			IS(sapwood_shared_insert(shared, key_of(1), 6, &value), 1);
		else if (kind < 4)
			IS(sapwood_point_insert(point, key_of(1), 6, &value), 1);
		else {
			IS(sapwood_store_begin(store, 0, &txn), 0);
			IS(sapwood_txn_insert(txn, key_of(1), 6, &value), 1);
			IS(frame(object, "known", 1, 60), DROP);
			IS(sapwood_txn_commit(txn, NULL), 0);
		}
		IS(frame(object, "known", 1, 60), PASS);
		IS(frame(object, "known", 257, 60), DROP);
		if (kind == 0) {
			IS(sapwood_bpf_window_domain(window, &domain), 0);
			IS(sapwood_reader_new(domain, "main", &reader), 0);
			value.number = 0;
			IS(sapwood_shared_get(shared, reader, key_of(1), 6, &value), 0);
			CHECK(value.number == 2);
			sapwood_reader_free(reader);
			sapwood_domain_free(domain);
		}
		if (kind < 2)
			IS(sapwood_shared_remove(shared, key_of(1), 6), 0);
		else if (kind < 4)
			IS(sapwood_point_remove(point, key_of(1), 6), 0);
		else
			IS(sapwood_store_remove(store, key_of(1), 6), 0);
		IS(frame(object, "known", 1, 60), DROP);
		sapwood_bpf_object_free(object);
		/* In either order. */
		if (kind == 0)
			sapwood_bpf_window_free(window);
		if (kind < 2)
			sapwood_shared_free(shared);
		else if (kind < 4)
			sapwood_point_free(point);
		else
			sapwood_store_free(store);
		if (kind)
			sapwood_bpf_window_free(window);
		shared = NULL;
		object = NULL;
		IS(sapwood_bpf_arena_windows(arena, NULL, NULL), 0);
	}
	IS(sapwood_bpf_arena_reclaim(arena), 0);
}

/* A full map lets entries leave; a map without room for all its entries is refused, or grows. */
static void entries_leave(sapwood_bpf_arena *arena)
{
	sapwood_bpf_map_options options = {sizeof options, 4 << 20, 2, 0, 8, 0, 8, 60000, 0, 0};
	sapwood_bpf_map *map = NULL;
	uint64_t word = 1;
	size_t len = 0;
	unsigned i;

	options.flags = SAPWOOD_INDEX | SAPWOOD_BPF_LRU | SAPWOOD_BPF_WRITES;
	IS(sapwood_bpf_map_create(arena, "recent", &options, &map), 0);
	for (i = 0; i < 5; i++)
		IS(sapwood_bpf_map_insert(map, key_of(i), 6, &word), 0);
	IS(sapwood_bpf_map_len(map, &len), 0);
	CHECK(len == 2);
	sapwood_bpf_map_free(map);
	options.flags |= SAPWOOD_BPF_TRIE;
	IS(sapwood_bpf_map_create(arena, "recent", &options, &map), -EINVAL);
	options.flags = 0;
	options.max_entries = 100000;
	IS(sapwood_bpf_map_create(arena, "recent", &options, &map), -ENOSPC);
	options.flags = SAPWOOD_BPF_GROW;
	IS(sapwood_bpf_map_create(arena, "recent", &options, &map), 0);
	sapwood_bpf_map_free(map);
}

/* Values of 4,096 bytes, and counts for each processor. */
static void long_values(sapwood_bpf_arena *arena)
{
	sapwood_bpf_map_options options = {sizeof options, 8 << 20, 100, 0, 4096, 0, 0, 0, 0, 0};
	static uint64_t words[512], found[512];
	sapwood_bpf_map *map = NULL;
	sapwood_bpf_reader *reader = NULL;
	uint64_t sum = 0;
	unsigned i;

	for (i = 0; i < 512; i++)
		words[i] = i;
	options.flags = SAPWOOD_BPF_WRITES;
	IS(sapwood_bpf_map_create(arena, "long", &options, &map), 0);
	IS(sapwood_bpf_map_insert(map, key_of(1), 6, words), 0);
	IS(sapwood_bpf_map_value_bytes(map), 4096);
	IS(sapwood_bpf_map_get(map, key_of(1), 6, found), 0);
	CHECK(!memcmp(words, found, sizeof words));
	IS(sapwood_bpf_map_sum(map, key_of(1), 6, &sum), -EINVAL);
	said("one value for all processors");
	IS(sapwood_bpf_reader_open(arena, "long", &reader), 0);
	IS(sapwood_bpf_reader_sum(reader, key_of(1), 6, &sum), -EINVAL);
	said("one value for all processors");
	sapwood_bpf_reader_free(reader);
	sapwood_bpf_map_free(map);

	options.flags |= SAPWOOD_BPF_PER_PROCESSOR;
	IS(sapwood_bpf_map_create(arena, "counts", &options, &map), -EINVAL);
	said("per_processor");
	options.value_bytes = 0;
	IS(sapwood_bpf_map_create(arena, "counts", &options, &map), 0);
	memset(words, 0, sizeof words);
	words[0] = 7;
	words[sapwood_bpf_map_value_bytes(map) / 8 - 1] += 5;
	IS(sapwood_bpf_map_insert(map, key_of(1), 6, words), 0);
	IS(sapwood_bpf_reader_open(arena, "counts", &reader), 0);
	IS(sapwood_bpf_reader_sum(reader, key_of(1), 6, &sum), 0);
	CHECK(sum == 12);
	IS(sapwood_bpf_reader_sum(reader, key_of(2), 6, &sum), -ENOENT);
	words[0] = 9;
	words[sapwood_bpf_map_value_bytes(map) / 8 - 1] = 0;
	IS(sapwood_bpf_map_insert(map, key_of(1), 6, words), 0);
	IS(sapwood_bpf_map_sum(map, key_of(1), 6, &sum), 0);
	CHECK(sum == 9);
	IS(sapwood_bpf_map_sum(map, key_of(2), 6, &sum), -ENOENT);
	IS(sapwood_bpf_map_sum(map, key_of(1), 6, NULL), -EINVAL);
	sapwood_bpf_reader_free(reader);
	sapwood_bpf_map_free(map);
}

/* A map that programs write: this process serves it, reads it and changes it. */
static void programs_write(sapwood_bpf_arena *arena, unsigned flags)
{
	sapwood_bpf_map_options options = {sizeof options, 16 << 20, 1000, 0, 16, 0, 0, 0, 0, 0};
	sapwood_bpf_map *map = NULL;
	sapwood_bpf_object *object = NULL;
	sapwood_bpf_reader *reader = NULL;
	sapwood_bpf_serviced done;
	sapwood_bpf_drops drops;
	uint32_t windows[2] = {0, 0};
	uint64_t words[2] = {0, 0};
	struct walk walk;
	size_t len = 0;
	unsigned i;

	options.flags = flags | SAPWOOD_BPF_WRITES;
	IS(sapwood_bpf_map_create(arena, "seen", &options, &map), 0);
	IS(sapwood_bpf_map_value_bytes(map), 16);
	IS(sapwood_bpf_map_number(map), sapwood_bpf_arena_number(arena, "seen"));
	windows[1] = (uint32_t)sapwood_bpf_map_number(map);
	IS(sapwood_bpf_object_open(arena, getenv("SAPWOOD_OBJECT"), &object), 0);
	IS(sapwood_bpf_object_constants(object, ".rodata.windows", windows, sizeof windows), 0);
	IS(sapwood_bpf_object_load(object), 0);

	memset(&done, 0, sizeof done);
	done.size = sizeof done;
	for (i = 0; i < 600; i++) {
		IS(frame(object, "seen", i % 300, 60 + i % 100), PASS);
		if (i % 20 == 0)
			IS(sapwood_bpf_map_service(map, &done), 0);
	}
	CHECK(!done.starved);
	IS(sapwood_bpf_map_service(map, NULL), 0);
	IS(sapwood_bpf_map_len(map, &len), 0);
	CHECK(len == 300);
	IS(sapwood_bpf_map_get(map, key_of(7), 6, words), 0);
	CHECK(words[0] == 2 && words[1] == 67);
	IS(sapwood_bpf_map_get(map, key_of(7), 6, NULL), 0);
	IS(sapwood_bpf_map_get(map, key_of(300), 6, words), -ENOENT);
	walk = begins(0);
	walk.ordered = !(flags & SAPWOOD_INDEX) || flags & SAPWOOD_BPF_TRIE;
	if (walk.ordered) {
		IS(sapwood_bpf_map_each(map, each, &walk), 0);
		is_walk(walk, 300, 600);
	} else {
		IS(sapwood_bpf_map_each(map, each, &walk), 0);
		CHECK(walk.count == 300 && walk.sum == 600);
	}
	walk = begins(10);
	IS(sapwood_bpf_map_each(map, each, &walk), 7);
	CHECK(walk.count == 10);

	/* With a thread, and changes by this process. */
	IS(sapwood_bpf_map_serve(map, 500), 0);
	IS(sapwood_bpf_map_serve(map, 1000), 0);
	words[0] = 5;
	IS(sapwood_bpf_map_insert(map, key_of(300), 6, words), 0);
	IS(sapwood_bpf_map_insert_new(map, key_of(300), 6, words), -EEXIST);
	IS(sapwood_bpf_map_replace(map, key_of(301), 6, words), -ENOENT);
	words[0] = 6;
	IS(sapwood_bpf_map_replace(map, key_of(300), 6, words), 0);
	IS(sapwood_bpf_map_compare_exchange(map, key_of(300), 6, words, words), -ENOTSUP);
	IS(sapwood_bpf_map_insert(map, key_of(300), 6, NULL), -EINVAL);
	IS(frame(object, "seen", 300, 90), PASS);
	IS(sapwood_bpf_map_get(map, key_of(300), 6, words), 0);
	CHECK(words[0] == 7 && words[1] == 90);
	IS(frame(object, "forget", 7, 60), PASS);
	IS(frame(object, "forget", 7, 60), DROP);
	IS(sapwood_bpf_map_remove(map, key_of(8), 6), 0);
	IS(sapwood_bpf_map_remove(map, key_of(8), 6), -ENOENT);
	IS(sapwood_bpf_map_get(map, key_of(7), 6, words), -ENOENT);
	{
		char longer[300];
		memset(longer, 'x', sizeof longer);
		IS(sapwood_bpf_map_insert(map, longer, sizeof longer, words), -E2BIG);
		said("longer than the map's longest key");
	}
	for (i = 1000; i < 1701; i++)
		IS(sapwood_bpf_map_insert(map, key_of(i), 6, words), 0);
	IS(sapwood_bpf_map_insert(map, key_of(2000), 6, words), -ENOSPC);
	said("as many entries as it may have");
	IS(frame(object, "seen", 2000, 60), DROP);
	IS(sapwood_bpf_map_serve(map, 0), 0);
	IS(sapwood_bpf_map_serve(map, 0), 0);
	memset(&drops, 0, sizeof drops);
	drops.size = sizeof drops;
	IS(sapwood_bpf_map_drops(map, &drops), 0);
	CHECK(drops.full == 2);
	IS(sapwood_bpf_map_verify(map), 0);

	/* A reader sees the same, whoever writes. */
	IS(sapwood_bpf_reader_open(arena, "nothing", &reader), -ENOENT);
	IS(sapwood_bpf_reader_open(arena, "seen", &reader), 0);
	IS(sapwood_bpf_reader_value_bytes(reader), 16);
	IS(sapwood_bpf_reader_len(reader, &len), 0);
	CHECK(len == 1000);
	IS(sapwood_bpf_reader_get(reader, key_of(300), 6, words, sizeof words, &len), 0);
	CHECK(words[0] == 7 && len == 16);
	IS(sapwood_bpf_reader_get(reader, key_of(300), 6, words, 8, &len), -E2BIG);
	IS(sapwood_bpf_reader_get(reader, key_of(301), 6, words, sizeof words, NULL), -ENOENT);
	IS(sapwood_bpf_reader_verify(reader), 0);
	walk = begins(0);
	if (flags == SAPWOOD_INDEX) {
		IS(sapwood_bpf_reader_each_prefix(reader, key_of(0), 5, each, &walk), -ENOTSUP);
		said("no order");
		IS(sapwood_bpf_reader_each(reader, each, &walk), 0);
		CHECK(walk.count == 1000);
	} else {
		/* Stations 0 to 255 but 7 and 8; those from 290 to 300; all in order. */
		IS(sapwood_bpf_reader_each_prefix(reader, key_of(0), 5, each, &walk), 0);
		is_walk(walk, 254, 508);
		walk = begins(11);
		IS(sapwood_bpf_reader_each_from(reader, key_of(290), 6, each, &walk), 7);
		is_walk(walk, 11, 27);
		walk = begins(1000);
		IS(sapwood_bpf_reader_each(reader, each, &walk), 7);
		CHECK(walk.ordered && walk.last == 1700);
	}
	sapwood_bpf_object_free(object);
	sapwood_bpf_map_free(map);
	IS(sapwood_bpf_reader_get(reader, key_of(300), 6, words, sizeof words, &len), -ENOENT);
	sapwood_bpf_reader_free(reader);
}

/* Words, which a program sees as the window that they are. */
static void words_are_shared(sapwood_bpf_arena *arena)
{
	sapwood_bpf_words *words = NULL, *again = NULL;
	uint64_t word = 1;
	int number;

	IS(sapwood_bpf_words_create(arena, "rooms", (size_t)1 << 40, &words), -ENOSPC);
	IS(sapwood_bpf_words_create(arena, "rooms", SIZE_MAX, &words), -ENOSPC);
	IS(sapwood_bpf_words_create(arena, "rooms", 1000, &words), 0);
	IS(sapwood_bpf_words_create(arena, "rooms", 1000, &again), -EEXIST);
	IS(sapwood_bpf_words_get(words, 999, &word), 0);
	CHECK(word == 0);
	IS(sapwood_bpf_words_set(words, 999, 77), 0);
	IS(sapwood_bpf_words_get(words, 999, &word), 0);
	CHECK(word == 77);
	IS(sapwood_bpf_words_set(words, 1000, 77), -ERANGE);
	IS(sapwood_bpf_words_get(words, SIZE_MAX, &word), -ERANGE);
	number = sapwood_bpf_words_number(words);
	IS(sapwood_bpf_arena_number(arena, "rooms"), number);
	sapwood_bpf_words_free(words);
	IS(sapwood_bpf_arena_number(arena, "rooms"), -ENOENT);
	IS(sapwood_bpf_words_create(arena, "rooms", 10, &words), 0);
	IS(sapwood_bpf_words_leave(words), 0);
	IS(sapwood_bpf_arena_number(arena, "rooms"), number);
	IS(sapwood_bpf_arena_remove(arena, "rooms"), 0);
	IS(sapwood_bpf_arena_remove(arena, "rooms"), -ENOENT);
}

/* Notes a key of one letter and its value behind what is there. */
static int note(const sapwood_entry *entry, void *ctx)
{
	char *order = (char *)ctx;
	uint64_t value;

	CHECK(entry->key.len == 1 && entry->value.bytes.len == sizeof value);
	memcpy(&value, entry->value.bytes.data, sizeof value);
	order += strlen(order);
	order[0] = *(const char *)entry->key.data;
	order[1] = (char)('0' + value);
	order[2] = 0;
	return 7;
}

/* Values of one word are exchanged, too. */
static void words_are_exchanged(sapwood_bpf_arena *arena)
{
	sapwood_bpf_map_options options = {sizeof options, 8 << 20, 1000, 0, 0, 0, 0, 0, 0, 0};
	uint64_t one = 1, two = 2, found = 0;
	sapwood_bpf_map *map = NULL;
	char order[8] = "";

	IS(sapwood_bpf_map_create(arena, "states", &options, &map), 0);
	IS(sapwood_bpf_map_insert(map, "a", 1, &one), 0);
	IS(sapwood_bpf_map_compare_exchange(map, "a", 1, &two, &one), -ESTALE);
	IS(sapwood_bpf_map_compare_exchange(map, "b", 1, &one, &two), -ENOENT);
	IS(sapwood_bpf_map_compare_exchange(map, "a", 1, &one, &two), 0);
	IS(sapwood_bpf_map_get(map, "a", 1, &found), 0);
	CHECK(found == 2);

	/* And taken in order. */
	IS(sapwood_bpf_map_insert(map, "c", 1, &one), 0);
	IS(sapwood_bpf_map_insert(map, "b", 1, &one), 0);
	IS(sapwood_bpf_map_pop_first(map, note, order), 0);
	IS(sapwood_bpf_map_pop_first(map, note, order), 0);
	CHECK(strcmp(order, "a2b1") == 0);
	IS(sapwood_bpf_map_pop_first(map, NULL, NULL), 0);
	IS(sapwood_bpf_map_pop_first(map, note, order), -ENOENT);
	CHECK(strlen(order) == 4);
	sapwood_bpf_map_free(map);

	map = NULL;
	options.flags = SAPWOOD_INDEX;
	IS(sapwood_bpf_map_create(arena, "states", &options, &map), 0);
	IS(sapwood_bpf_map_pop_first(map, note, order), -ENOTSUP);
	sapwood_bpf_map_free(map);
}

/* What a process does with an arena that another one has: it reads, and may not write. */
static void other_reads(const char *pin, int owner)
{
	sapwood_bpf_map_options options = {sizeof options, 1 << 20, 100, 0, 0, 0, 0, 0, 0, 0};
	sapwood_bpf_arena *arena = NULL, *again = NULL;
	sapwood_bpf_reader *reader = NULL;
	sapwood_bpf_map *map = NULL;
	char text[20];
	size_t len = 0;

	IS(sapwood_bpf_arena_open(pin, 4, &arena), -EINVAL);
	IS(sapwood_bpf_arena_open(pin, SAPWOOD_CHECKED, &arena), 0);
	IS(sapwood_bpf_arena_open(pin, 0, &again), -EBUSY);
	IS(sapwood_bpf_arena_owner(arena), owner);
	IS(sapwood_bpf_map_create(arena, "mine", &options, &map), -EBUSY);
	said("is owned by the process");
	IS(sapwood_bpf_map_open(arena, "flows", &map), -EBUSY);
	IS(sapwood_bpf_reader_open(arena, "texts", &reader), 0);
	IS(sapwood_bpf_reader_value_bytes(reader), 0);
	IS(sapwood_bpf_reader_get(reader, "elm", 3, text, sizeof text, &len), 0);
	CHECK(len == 4 && memcmp(text, "tree", 4) == 0);
	sapwood_bpf_reader_free(reader);
	sapwood_bpf_arena_free(arena);
}

/* Makes two maps in an arena, and ends; or reads them while that one lives. */
static int other(const char *what, const char *pin)
{
	sapwood_options options = {sizeof options, 0, SAPWOOD_BYTES, NULL, NULL, 0, 0, NULL};
	sapwood_bpf_map_options map_options = {sizeof map_options, 4 << 20, 1000, 0, 24, 0, 0, 0, 0, 0};
	sapwood_bpf_arena *arena = NULL;
	sapwood_bpf_window *window = NULL;
	sapwood_shared *shared = NULL;
	sapwood_bpf_map *map = NULL;
	sapwood_value value;
	uint64_t words[3] = {1, 2, 3};

	if (strcmp(what, "read") == 0) {
		other_reads(pin, (int)getppid());
		return 0;
	}
	if (strcmp(what, "misuse") == 0) {
		/* A checked handle ends the process, and what was made of it is checked, too. */
		IS(sapwood_bpf_arena_create(32 << 20, SAPWOOD_CHECKED, &arena), 0);
		map_options.bytes = 1 << 20;
		IS(sapwood_bpf_map_create(arena, "flows", &map_options, &map), 0);
		sapwood_bpf_map_free(map);
		sapwood_bpf_map_number(map);
		return 0;
	}
	IS(sapwood_bpf_arena_create(32 << 20, 0, &arena), 0);
	IS(sapwood_bpf_arena_pin(arena, pin), 0);
	IS(sapwood_bpf_arena_pin(arena, pin), -EEXIST);
	options.memory_limit = 8 << 20;
	IS(sapwood_bpf_shared_create(arena, "texts", &options, &window, &shared), 0);
	IS(sapwood_bpf_map_create(arena, "flows", &map_options, &map), 0);
	value.bytes.data = "tree";
	value.bytes.len = 4;
	IS(sapwood_shared_insert(shared, "elm", 3, &value), 1);
	IS(sapwood_bpf_map_insert(map, "a", 1, words), 0);
	{
		pid_t pid = begin();
		if (pid == 0) {
			execl(self, self, "other", "read", pin, (char *)NULL);
			_exit(99);
		}
		ends_well(pid);
	}
	IS(sapwood_bpf_map_leave(map), 0);
	IS(sapwood_bpf_window_leave(window), 0);
	sapwood_shared_free(shared);
	sapwood_bpf_arena_free(arena);
	return 0;
}

static void count_windows(const sapwood_bpf_window_info *info, void *ctx)
{
	int *kinds = (int *)ctx;
	if (strcmp(info->name, "texts") == 0 && strcmp(info->kind, "qp") == 0 && info->number == 0)
		*kinds |= 1;
	if (strcmp(info->name, "flows") == 0 && strcmp(info->kind, "kernel-qp") == 0 && info->len > 0)
		*kinds |= 2;
}

/* A use of a checked handle after its end. */
static void misuse_ends_the_process(void)
{
	int status = 0;
	pid_t pid = begin();
	if (pid == 0) {
		CHECK(freopen("/dev/null", "w", stderr));
		execl(self, self, "other", "misuse", "", (char *)NULL);
		_exit(99);
	}
	CHECK(pid > 0 && waitpid(pid, &status, 0) == pid);
	CHECK(WIFSIGNALED(status) && WTERMSIG(status) == 6);
}

/* Another process makes maps and dies; this one takes them over. */
static void owners_change(void)
{
	char pin[400];
	sapwood_options options = {sizeof options, 0, SAPWOOD_BYTES, NULL, NULL, 0, 0, NULL};
	sapwood_bpf_arena *arena = NULL;
	sapwood_bpf_window *window = NULL;
	sapwood_shared *shared = NULL;
	sapwood_bpf_map *map = NULL;
	sapwood_bpf_reader *reader = NULL;
	uint64_t words[3] = {0, 0, 0};
	sapwood_value value;
	int kinds = 0;
	pid_t pid;

	strcpy(pin, at("left"));
	pid = begin();
	if (pid == 0) {
		execl(self, self, "other", "write", pin, (char *)NULL);
		_exit(99);
	}
	ends_well(pid);
	IS(sapwood_bpf_arena_open(pin, 0, &arena), 0);
	IS(sapwood_bpf_arena_owner(arena), -ENOENT);
	IS(sapwood_bpf_arena_windows(arena, count_windows, &kinds) > 2, 0 + 1);
	CHECK(kinds == 3);
	IS(sapwood_bpf_map_open(arena, "flows", &map), 0);
	IS(sapwood_bpf_map_value_bytes(map), 24);
	IS(sapwood_bpf_map_get(map, "a", 1, words), 0);
	CHECK(words[0] == 1 && words[1] == 2 && words[2] == 3);
	IS(sapwood_bpf_map_insert(map, "b", 1, words), 0);
	IS(sapwood_bpf_map_verify(map), 0);
	options.values = SAPWOOD_NUMBERS;
	options.memory_limit = 8 << 20;
	IS(sapwood_bpf_shared_open(arena, "texts", &options, &window, &shared), -EPROTO);
	options.values = SAPWOOD_BYTES;
	IS(sapwood_bpf_shared_open(arena, "texts", &options, &window, &shared), 0);
	IS(sapwood_bpf_window_number(window), 0);
	value.bytes.data = "shrub";
	value.bytes.len = 5;
	IS(sapwood_shared_insert(shared, "yew", 3, &value), 1);
	IS(sapwood_bpf_reader_open(arena, "texts", &reader), 0);
	{
		size_t len = 0;
		IS(sapwood_bpf_reader_len(reader, &len), 0);
		CHECK(len == 2);
	}
	IS(sapwood_bpf_reader_get(reader, "elm", 3, NULL, 0, NULL), 0);
	sapwood_bpf_reader_free(reader);

	/* A child of fork does not have the arena. */
	pid = begin();
	if (pid == 0) {
		IS(sapwood_bpf_arena_owner(arena), -EPERM);
		IS(sapwood_bpf_map_get(map, "a", 1, words), -EPERM);
		IS(sapwood_bpf_window_number(window), -EPERM);
		sapwood_bpf_map_free(map);
		sapwood_bpf_window_free(window);
		sapwood_bpf_arena_free(arena);
		_exit(0);
	}
	ends_well(pid);
	IS(sapwood_bpf_map_get(map, "a", 1, words), 0);
	sapwood_bpf_map_free(map);
	sapwood_bpf_window_free(window);
	sapwood_shared_free(shared);
	sapwood_bpf_arena_free(arena);
	IS(unlink(pin), 0);
}

/* Objects: what is refused, and pins. */
static void objects(sapwood_bpf_arena *arena)
{
	sapwood_bpf_object *object = NULL;
	uint32_t windows[2] = {0, 0};
	char folder[400];

	IS(sapwood_bpf_load(arena, at("nothing"), &object), -ENOENT);
	IS(sapwood_bpf_load(arena, "/proc/self/exe", &object), -ENOEXEC);
	IS(sapwood_bpf_object_open_memory(arena, "no object", 9, &object), -ENOEXEC);
	IS(sapwood_bpf_load(arena, getenv("SAPWOOD_VARIABLES"), &object), -ENOEXEC);
	said("24 bytes in the section .addr_space.1");
	CHECK(!object);
	IS(sapwood_bpf_object_open(arena, getenv("SAPWOOD_OBJECT"), &object), 0);
	IS(sapwood_bpf_object_constants(object, ".rodata.window", windows, 4), -ENOENT);
	IS(sapwood_bpf_object_constants(object, ".rodata.windows", windows, 4), -ENOENT);
	IS(sapwood_bpf_object_program(object, "known"), -EINVAL);
	said("not loaded yet");
	IS(sapwood_bpf_object_attach(object, NULL), -EINVAL);
	IS(sapwood_bpf_object_pin(object, at("none")), -EINVAL);
	IS(sapwood_bpf_object_without(object, "nothing"), -ENOENT);
	IS(sapwood_bpf_object_without(object, "forget"), 0);
	IS(sapwood_bpf_object_load(object), 0);
	IS(sapwood_bpf_object_load(object), -EBUSY);
	IS(sapwood_bpf_object_without(object, "seen"), -EBUSY);
	CHECK(sapwood_bpf_object_program(object, "known") > 2);
	IS(sapwood_bpf_object_program(object, "nothing"), -ENOENT);
	CHECK(sapwood_bpf_object_map(object, "sw_arena") > 2);
	IS(sapwood_bpf_object_map(object, "nothing"), -ENOENT);
	IS(sapwood_bpf_object_attach(object, "nothing"), -ENOENT);
	/* A program for an interface does not say for which. */
	CHECK(sapwood_bpf_object_attach(object, "known") < 0);

	IS(sapwood_bpf_object_pin(object, "/proc/none"), -EINVAL);
	said("is not in a BPF file system");
	strcpy(folder, at("pinned"));
	IS(sapwood_bpf_object_pin(object, folder), 0);
	IS(sapwood_bpf_object_pin(object, folder), -EEXIST);
	CHECK(access(at("pinned/arena"), F_OK) == 0 && access(at("pinned/prog-known"), F_OK) == 0);
	CHECK(access(at("pinned/prog-seen"), F_OK) == 0 && access(at("pinned/prog-forget"), F_OK) != 0);
	sapwood_bpf_object_free(object);
	CHECK(unlink(at("pinned/arena")) == 0 && unlink(at("pinned/prog-known")) == 0);
	CHECK(unlink(at("pinned/prog-seen")) == 0 && rmdir(folder) == 0);
}

int main(int argc, char **argv)
{
	sapwood_bpf_arena *arena = NULL;
	size_t left = 0;

	self = argv[0];
	/* What was left to the next owner is not freed here: no leak that a sanitizer should see. */
	if (argc == 4)
		_exit(other(argv[2], argv[3]));
	CHECK(argc == 2);
	base = argv[1];
	hosts();
	IS(sapwood_bpf_check(), 0);
	IS(sapwood_bpf_arena_create(100, 0, &arena), -EINVAL);
	said("8 KiB to 4 GiB");
	IS(sapwood_bpf_arena_open(at("nothing"), 0, &arena), -ENOENT);
	IS(sapwood_bpf_arena_open("/proc/self/exe", 0, &arena) < 0, 1);
	IS(sapwood_bpf_arena_create(64 << 20, SAPWOOD_CHECKED, &arena), 0);
	CHECK(sapwood_bpf_arena_fd(arena) > 2);
	IS(sapwood_bpf_arena_owner(arena), -ENOENT);
	options_are_checked(arena);
	process_writes(arena);
	programs_write(arena, 0);
	programs_write(arena, SAPWOOD_INDEX);
	programs_write(arena, SAPWOOD_BPF_TRIE);
	entries_leave(arena);
	long_values(arena);
	words_are_exchanged(arena);
	words_are_shared(arena);
	objects(arena);
	IS(sapwood_bpf_arena_allow_sleepable(arena), 0);
	IS(sapwood_bpf_arena_left(arena, &left), 0);
	IS(sapwood_bpf_arena_forget_owner(arena), 0);
	sapwood_bpf_arena_free(arena);
	misuse_ends_the_process();
	owners_change();
	return 0;
}
