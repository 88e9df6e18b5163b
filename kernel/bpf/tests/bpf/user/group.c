// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * group.bpf.h in user space. Reads questions with their answers, and reports differences.
 *
 *     group IMAGE QUESTIONS
 */
#include <stdio.h>
#include "../group_ask.h"

int main(int argc, char **argv)
{
	unsigned long count = 0, wrong = 0;
	struct group_ask ask;
	FILE *file;

	if (argc != 3) {
		fprintf(stderr, "usage: %s IMAGE QUESTIONS\n", argv[0]);
		return 2;
	}
	file = fopen(argv[2], "rb");
	if (!file) {
		perror(argv[2]);
		return 2;
	}
	while (fread(&ask, sizeof(ask), 1, file) == 1) {
		int member = sw_group_member(ask.members, ask.count, ask.up, ask.flow);

		count++;
		if (member == ask.member)
			continue;
		wrong++;
		printf("question %lu: %d instead of %d\n", count, member, ask.member);
	}
	fclose(file);
	if (count == 0)
		printf("no questions\n");
	return wrong != 0 || count == 0;
}
