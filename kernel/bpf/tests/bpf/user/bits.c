// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * bits.bpf.h in user space: reads the copy of an arena, and questions each with the answer of a
 * program, as tests/bits writes them, and says what differs. Of a question whose answer asks
 * for nothing (`spare` is not 0) there may be any answer.
 *
 *     bits IMAGE QUESTIONS
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "../bits_ask.h"

int main(int argc, char **argv)
{
	size_t count = 0, wrong = 0;
	FILE *image, *questions;
	struct ask pair[2];
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
	while (fread(pair, sizeof(pair), 1, questions) == 1) {
		count++;
		answer(&pair[0]);
		if (pair[1].spare || !memcmp(&pair[0], &pair[1], sizeof(pair[0])))
			continue;
		printf("question %zu, %u: %lld, value %llu, %u bits; wanted %lld, value %llu, %u bits\n",
		       count, pair[0].what, (long long)pair[0].result,
		       (unsigned long long)pair[0].value, pair[0].bits, (long long)pair[1].result,
		       (unsigned long long)pair[1].value, pair[1].bits);
		if (++wrong == 10)
			break;
	}
	printf("%zu questions, %zu wrong\n", count, wrong);
	free(sw_base);
	fclose(image);
	fclose(questions);
	return wrong || !count;
}
