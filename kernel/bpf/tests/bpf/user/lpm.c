// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * lpm.bpf.h in user space. Reads the copy of an arena and questions with their answers, and reports
 * differences.
 *
 *     lpm IMAGE QUESTIONS
 */
#include <stdio.h>
#include <stdlib.h>
#include "sapwood/lpm.bpf.h"

/* A question with its answer, as tests/lpm.rs writes them. */
struct question {
	__u32 family; /* 4 or 6 */
	__u32 window;
	__u64 hi; /* IPv4: the address, in the upper half */
	__u64 lo;
	__s64 found;
	__u64 value;
	__s64 length;
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
	/* The allocation has no byte more, so that a sanitizer detects any access behind it. */
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
	unsigned char *image;

	if (argc != 3) {
		fprintf(stderr, "usage: %s IMAGE QUESTIONS\n", argv[0]);
		return 2;
	}
	image = whole_file(argv[1], &bytes);
	sw_base = image;
	sw_limit = bytes;
	all = (struct question *)whole_file(argv[2], &bytes);
	count = bytes / sizeof(*all);
	for (i = 0; i < count; i++) {
		const struct question *q = &all[i];
		__u32 words[4] = { sw_host32(q->hi >> 32), sw_host32(q->hi), sw_host32(q->lo >> 32), sw_host32(q->lo) };
		__u32 bits = 0;
		long found, again, matched, length;
		__u64 value;

		if (q->family == 4) {
			found = sw_lpm4_lookup(q->window, q->hi >> 32);
			again = sw_lpm4_lookup_be(q->window, words[0]);
			matched = sw_lpm4_match(q->window, q->hi >> 32, &bits);
		} else {
			found = sw_lpm6_lookup(q->window, q->hi, q->lo);
			again = sw_lpm6_lookup_be(q->window, words);
			matched = sw_lpm6_match(q->window, q->hi, q->lo, &bits);
		}
		value = found > 0 ? sw_u64(found) : 0;
		length = matched < 0 ? matched : (long)bits;
		/* The value is compared only where its place is inside: see tests/lpm.rs. */
		if (found != q->found || again != found || length != q->length || (q->value && value != q->value)) {
			printf("question %zu: IPv%u %016llx%016llx in %u: %ld, %ld, length %ld, value %llx; wanted %lld, length %lld, value %llx\n",
			       i, q->family, (unsigned long long)q->hi, (unsigned long long)q->lo, q->window, found, again,
			       length, (unsigned long long)value, (long long)q->found, (long long)q->length,
			       (unsigned long long)q->value);
			if (++wrong == 10)
				break;
		}
	}
	free(all);
	free(image);
	printf("%zu questions, %zu wrong\n", count, wrong);
	return wrong || !count;
}
