// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * maple.bpf.h in user space: reads the copy of an arena, and questions with the answers of a
 * program, as tests/ranges.rs writes them, and says what differs.
 *
 *     ranges IMAGE QUESTIONS
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "../ranges_ask.h"

int main(int argc, char **argv)
{
	size_t count = 0, wrong = 0;
	FILE *image, *questions;
	struct question wanted;
	long bytes;

	if (argc != 3 || !(image = fopen(argv[1], "rb")) || !(questions = fopen(argv[2], "rb")))
		return 2;
	if (fseek(image, 0, SEEK_END) || (bytes = ftell(image)) < 4096 || fseek(image, 0, SEEK_SET))
		return 2;
	/* The allocation has no byte more, so that a sanitizer detects any access behind it. */
	sw_limit = bytes;
	sw_base = malloc(bytes);
	if (!sw_base || fread(sw_base, 1, bytes, image) != (size_t)bytes)
		return 2;
	while (fread(&wanted, sizeof(wanted), 1, questions) == 1) {
		struct question got = wanted;

		count++;
		answer(&got);
		if (!memcmp(&got, &wanted, sizeof(got)))
			continue;
		printf("question %zu, %u of %llx in %u: %lld, %llx to %llx, value %llx; wanted %lld, %llx to %llx, value %llx\n",
		       count, got.what, (unsigned long long)got.index, got.window, (long long)got.result,
		       (unsigned long long)got.start, (unsigned long long)got.end, (unsigned long long)got.value,
		       (long long)wanted.result, (unsigned long long)wanted.start,
		       (unsigned long long)wanted.end, (unsigned long long)wanted.value);
		if (++wrong == 10)
			break;
	}
	printf("%zu questions, %zu wrong\n", count, wrong);
	free(sw_base);
	fclose(image);
	fclose(questions);
	return wrong || !count;
}
