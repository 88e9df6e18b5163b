// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* The headers for programs, compiled for user space: questions come from the standard input, answers go to the standard output. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include "sapwood/qp_first.bpf.h"
#include "sapwood/qp_write_value.bpf.h"
#include "../bpf/map_ask.h"

/* Adds to all words of a value. */
static long add_to_all(sw_at value, void *ctx)
{
	__u64 *change = ctx, i;

	for (i = 0; i < change[1]; i++)
		sw_set_u64(value + i * 8, sw_u64(value + i * 8) + change[0]);
	return 0;
}

static void answer(struct ask *ask)
{
	switch (ask->what) {
	case 12:
		ask->result = sw_qp_set_from(ask->window, &ask->key, ask->value.words[0], ask->value.words[1],
					     ask->flags);
		break;
	case 13:
		ask->result = sw_qp_update_with(ask->window, &ask->key, add_to_all, ask->value.words);
		break;
	case 14:
		ask->result = sw_qp_count(ask->window, &ask->key, ask->value.words[0]);
		break;
	case 15:
		ask->result = sw_qp_sum(ask->window, &ask->key, &ask->value.words[0]);
		break;
	default:
		answer_ask(ask);
		return;
	}
	answer_value(ask);
}

/* Arguments: the arena's descriptor, its bytes, and where it must be mapped. */
int main(int argc, char **argv)
{
	struct ask ask;
	size_t bytes;
	void *at;

	if (argc != 4)
		return 2;
	bytes = strtoull(argv[2], NULL, 0);
	at = mmap((void *)strtoull(argv[3], NULL, 0), bytes, PROT_READ | PROT_WRITE,
		  MAP_SHARED | MAP_FIXED_NOREPLACE, atoi(argv[1]), 0);
	if (at == MAP_FAILED) {
		perror("mapping the arena");
		return 1;
	}
	sw_base = at;
	sw_limit = bytes;
	while (fread(&ask, sizeof(ask), 1, stdin) == 1) {
		answer(&ask);
		if (fwrite(&ask, sizeof(ask), 1, stdout) != 1 || fflush(stdout))
			return 1;
	}
	return 0;
}
