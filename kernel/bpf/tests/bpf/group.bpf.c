// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Chooses the member of a group that a packet contains, and writes its position there. */
#include <linux/bpf.h>
#include "group_ask.h"

char _license[] SEC("license") = "Dual BSD/GPL";

SEC("xdp")
int sw_ask(struct xdp_md *ctx)
{
	struct group_ask *ask = (void *)(long)ctx->data;

	if ((void *)(ask + 1) > (void *)(long)ctx->data_end || ask->count > SW_ASK_MEMBERS)
		return XDP_DROP;
	ask->member = sw_group_member(ask->members, ask->count, ask->up, ask->flow);
	return XDP_PASS;
}
