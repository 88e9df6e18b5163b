// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Operations on a route cache for a test: one, or many in a loop. */
#include <linux/bpf.h>
#include "route_ask.h"
#include "route_storm.h"

char _license[] SEC("license") = "Dual BSD/GPL";

SEC("xdp")
int sw_ask(struct xdp_md *ctx)
{
	struct ask *ask = (void *)(long)ctx->data;

	if ((void *)(ask + 1) > (void *)(long)ctx->data_end)
		return XDP_ABORTED;
	sw_answer(ask);
	return XDP_PASS;
}

SEC("xdp")
int sw_storm(struct xdp_md *ctx)
{
	struct storm *storm = (void *)(long)ctx->data;
	__u64 i, rounds;

	if ((void *)(storm + 1) > (void *)(long)ctx->data_end)
		return XDP_ABORTED;
	rounds = storm->rounds;
	sw_for (i, rounds)
		sw_storm_round(storm);
	storm->rounds = i;
	return XDP_PASS;
}
