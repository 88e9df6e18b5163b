// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * dns.bpf.h in user space. Reads the copy of an arena and names with their keys, and reports
 * differences.
 *
 *     dns IMAGE QUESTIONS
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "sapwood/dns.bpf.h"

/*
 * A name with its key and the result of its lookup in the window with number 0, as tests/dns_key.rs
 * writes them.
 */
struct question {
	__s64 result;
	__u32 bytes;
	__u32 key_bytes;
	__s64 found; /* the value, or an error */
	__s64 found_cut; /* the same for the key that is cut off without a room */
	__u8 key[512];
	__u8 wire[256];
};

/* Whether a key has these bytes. */
static int is_key(const struct sw_key *key, const __u8 *bytes, __u32 length)
{
	struct sw_key same = {};

	if (sw_key_is_long(key))
		return sw_key_length(key) == length && !memcmp(sw_base + key->long_at, bytes, length);
	same.length = length;
	memcpy(same.bytes, bytes, length);
	return !memcmp(key, &same, sizeof(same));
}

/* Checks one name, with or without a room for its key. Returns whether all answers are right. */
static int answer(const struct question *q, sw_at room)
{
	__u32 length = q->key_bytes;
	struct sw_dns_name name;
	long result, found;
	struct sw_key key;

	memset(&name, 0xff, sizeof(name));
	memset(&key, 0xff, sizeof(key));
	memcpy(name.wire, q->wire, q->bytes < SW_DNS_WIRE_MAX ? q->bytes : SW_DNS_WIRE_MAX);
	result = sw_dns_key(&key, &name, q->bytes, room);
	if (result != q->result) {
		printf("%ld, not %lld\n", result, (long long)q->result);
		return 0;
	}
	if (result < 0)
		return 1;
	if (!room && length > SW_KEY_SHORT_MAX)
		length = SW_KEY_SHORT_MAX;
	if (name.key_bytes != q->key_bytes || !is_key(&key, q->key, length)) {
		printf("another key, of %u bytes, not %u\n", name.key_bytes, q->key_bytes);
		return 0;
	}
	found = sw_qp_ancestor(0, &key);
	if (found > 0)
		found = sw_u64(found);
	if (found != (room ? q->found : q->found_cut)) {
		printf("found %ld\n", found);
		return 0;
	}
	/* The names above it, one after the other: their keys end where a label of the key ends. */
	for (length = q->key_bytes; length;) {
		for (length--; length && q->key[length - 1]; length--)
			;
		result = sw_dns_parent(&key, &name, room);
		if (result <= 0 || name.key_bytes != length ||
		    !is_key(&key, q->key, room || length < SW_KEY_SHORT_MAX ? length : SW_KEY_SHORT_MAX)) {
			printf("another key above, %ld, of %u bytes, not %u\n", result, name.key_bytes, length);
			return 0;
		}
	}
	result = sw_dns_parent(&key, &name, room);
	if (result != -ENOENT)
		printf("%ld above the root\n", result);
	return result == -ENOENT;
}

static unsigned char *whole_file(const char *path, size_t *bytes, size_t more)
{
	FILE *file = fopen(path, "rb");
	unsigned char *all = NULL;
	long size;

	if (!file || fseek(file, 0, SEEK_END) || (size = ftell(file)) < 0 || fseek(file, 0, SEEK_SET)) {
		perror(path);
		exit(2);
	}
	/* The allocation has no byte more, so that a sanitizer detects any access behind it. */
	all = calloc(1, size + more ? size + more : 1);
	if (!all || fread(all, 1, size, file) != (size_t)size) {
		perror(path);
		exit(2);
	}
	fclose(file);
	*bytes = size;
	return all;
}

int main(int argc, char **argv)
{
	size_t bytes, count, i, wrong = 0;
	struct question *all;
	sw_at room;

	if (argc != 3) {
		fprintf(stderr, "usage: %s IMAGE QUESTIONS\n", argv[0]);
		return 2;
	}
	sw_base = whole_file(argv[1], &bytes, SW_DNS_ROOM_BYTES);
	room = bytes;
	sw_limit = bytes + SW_DNS_ROOM_BYTES;
	all = (struct question *)whole_file(argv[2], &bytes, 0);
	count = bytes / sizeof(*all);
	for (i = 0; i < count; i++) {
		if (!answer(&all[i], 0) || !answer(&all[i], room)) {
			printf("name %zu\n", i);
			wrong++;
		}
	}
	free(sw_base);
	free(all);
	printf("%zu names, %zu wrong\n", count, wrong);
	return wrong || !count;
}
