// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Writes words anywhere into the arena, so that tests can damage maps. */
#include <linux/bpf.h>
#include "sapwood/arena.bpf.h"

char _license[] SEC("license") = "Dual BSD/GPL";

/* The maximum number of words at once. */
#define POKE_WORDS 256

/* Words to write, from a place on. */
struct poke {
	__u64 at;
	__u64 count;
	__u64 words[POKE_WORDS];
};

SEC("xdp")
int sw_poke(struct xdp_md *ctx)
{
	struct poke *poke = (void *)(long)ctx->data;
	void *end = (void *)(long)ctx->data_end;
	__u32 i, left;
	__u64 *word;

	if ((void *)(poke + 1) > end)
		return XDP_ABORTED;
	sw_use_arena();
	left = poke->count;
	for (i = sw_zero() & (POKE_WORDS - 1); left && sw_can_loop; left--) {
		word = poke->words + i;
		if ((void *)(word + 1) > end)
			break;
		sw_set_u64(poke->at + (__u64)i * 8, *word);
		i = (i + 1) & (POKE_WORDS - 1);
	}
	return left ? XDP_ABORTED : XDP_PASS;
}
