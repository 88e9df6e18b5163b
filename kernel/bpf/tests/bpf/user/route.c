// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * The same operations by C in user space: route IMAGE BYTES CPU < questions > answers
 *
 * IMAGE is a file with the arena's memory, which the operations change.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "../route_ask.h"

int main(int count, char **arguments)
{
	struct ask ask;
	size_t bytes;
	void *memory;
	int file;

	if (count != 4)
		return 2;
	bytes = strtoull(arguments[2], NULL, 10);
	sw_route_processor = (__u32)strtoul(arguments[3], NULL, 10);
	file = open(arguments[1], O_RDWR);
	if (file < 0)
		return 3;
	memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
	if (memory == MAP_FAILED)
		return 4;
	sw_base = memory;
	sw_limit = bytes;
	while (fread(&ask, sizeof(ask), 1, stdin) == 1) {
		sw_answer(&ask);
		if (fwrite(&ask, sizeof(ask), 1, stdout) != 1)
			return 5;
	}
	return munmap(memory, bytes) ? 6 : 0;
}
