// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * dns.bpf.h in user space: reads the copy of an arena and names with their keys, and says what
 * differs.
 *
 *     dns IMAGE QUESTIONS
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "sapwood/dns.bpf.h"

/* A name with its key and what is found for it in the window with number 0, as tests/dns_key.rs writes them. */
struct question {
	__s64 result;
	__u32 bytes;
	__u32 key_bytes;
	__s64 found; /* the value, or an error */
	struct sw_key key;
	__u8 wire[256];
};

static unsigned char *whole_file(const char *path, size_t *bytes)
{
	FILE *file = fopen(path, "rb");
	unsigned char *all = NULL;
	long size;

	if (!file || fseek(file, 0, SEEK_END) || (size = ftell(file)) < 0 || fseek(file, 0, SEEK_SET)) {
		perror(path);
		exit(2);
	}
	/* Exactly as many bytes as there are: a sanitizer sees any access behind them. */
	all = malloc(size ? size : 1);
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

	if (argc != 3) {
		fprintf(stderr, "usage: %s IMAGE QUESTIONS\n", argv[0]);
		return 2;
	}
	sw_base = whole_file(argv[1], &bytes);
	sw_limit = bytes;
	all = (struct question *)whole_file(argv[2], &bytes);
	count = bytes / sizeof(*all);
	for (i = 0; i < count; i++) {
		const struct question *q = &all[i];
		struct sw_dns_name name;
		struct sw_key key;
		long result, found;

		memset(&name, 0xff, sizeof(name));
		memset(&key, 0xff, sizeof(key));
		memcpy(name.wire, q->wire, q->bytes < SW_DNS_WIRE_MAX ? q->bytes : SW_DNS_WIRE_MAX);
		result = sw_dns_key(&key, &name, q->bytes);
		if (result != q->result) {
			printf("name %zu: %ld, not %lld\n", i, result, (long long)q->result);
			wrong++;
			continue;
		}
		if (result < 0)
			continue;
		if (name.key_bytes != q->key_bytes || memcmp(&key, &q->key, sizeof(key))) {
			printf("name %zu: another key, of %u bytes, not %u\n", i, name.key_bytes, q->key_bytes);
			wrong++;
			continue;
		}
		found = sw_qp_ancestor(0, &key);
		if (found > 0)
			found = sw_u64(found);
		if (found != q->found) {
			printf("name %zu: found %ld, not %lld\n", i, found, (long long)q->found);
			wrong++;
		}
	}
	free(sw_base);
	free(all);
	printf("%zu names, %zu wrong\n", count, wrong);
	return wrong || !count;
}
