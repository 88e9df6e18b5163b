// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* A program with variables of its own in the arena, which the loader refuses. */
#include <linux/bpf.h>
#include "sapwood/arena.bpf.h"

#ifndef SW_VARIABLES
#define SW_VARIABLES 3
#endif

char _license[] SEC("license") = "Dual BSD/GPL";

__u64 SW_ARENA sw_variables[SW_VARIABLES] SEC(".addr_space.1");

SEC("xdp")
int sw_count_frames(struct xdp_md *ctx)
{
	sw_use_arena();
	sw_variables[ctx->rx_queue_index % SW_VARIABLES] += 1;
	return XDP_PASS;
}
