// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Names in DNS messages, read by dns.bpf.h in user space. Reads messages with the keys of their
 * names, and reports differences.
 *
 *     messages IMAGE QUESTIONS
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "sapwood/dns.bpf.h"

/* A message and the name at a byte of it, as tests/dns_key.rs writes them. */
struct question {
	__s64 result; /* the end of the name, or an error; 0 for any error of the bytes */
	__u32 bytes;
	__u32 at;
	__u64 key_bytes;
	__u8 key[512];
	__u8 message[512];
};

/* Whether a result is the expected one. */
static int is_result(long result, long expected)
{
	if (expected > 0 || expected == -EMLINK)
		return result == expected;
	/* A name may be too long and cut off as well. */
	return result == -ENAMETOOLONG || result == -ENODATA || (!expected && result == -EINVAL);
}

static int answer(const struct question *q, sw_at room)
{
	/* The allocation has no byte more, so that a sanitizer detects any access behind it. */
	__u8 *message = malloc(q->bytes ? q->bytes : 1);
	struct sw_dns_name name;
	struct sw_key key;
	__u32 i, wrong = 0;
	long result;

	if (!message)
		exit(2);
	memcpy(message, q->message, q->bytes);
	memset(&name, 0xff, sizeof(name));
	memset(&key, 0xff, sizeof(key));
	result = sw_dns_read_memory(&name, message, 0, q->bytes, q->at);
	free(message);
	if (!is_result(result, (long)q->result)) {
		printf("%ld, not %lld\n", result, (long long)q->result);
		return 0;
	}
	if (result < 0)
		return 1;
	result = sw_dns_key(&key, &name, SW_DNS_WIRE_MAX, room);
	if (result <= 0 || sw_key_length(&key) != q->key_bytes) {
		printf("%ld, a key of %u bytes\n", result, sw_key_length(&key));
		return 0;
	}
	for (i = 0; i < q->key_bytes; i++)
		wrong += sw_key_byte(&key, i) != q->key[i];
	if (wrong)
		printf("%u wrong bytes\n", wrong);
	return !wrong;
}

int main(int argc, char **argv)
{
	size_t count = 0, wrong = 0;
	static struct question q;
	sw_at room = 4096;
	FILE *file;

	if (argc != 3 || !(file = fopen(argv[2], "rb"))) {
		fprintf(stderr, "usage: %s IMAGE QUESTIONS\n", argv[0]);
		return 2;
	}
	sw_limit = room + SW_DNS_ROOM_BYTES;
	sw_base = calloc(1, sw_limit);
	if (!sw_base)
		return 2;
	for (; fread(&q, sizeof(q), 1, file) == 1; count++) {
		if (!answer(&q, room)) {
			printf("name %zu\n", count);
			wrong++;
		}
	}
	fclose(file);
	free(sw_base);
	printf("%zu names, %zu wrong\n", count, wrong);
	return wrong || !count;
}
