// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Chooses next hops for flows, and takes links down and up, for a test. The packet is replaced. */
#include <linux/bpf.h>
#include "sapwood/groups.bpf.h"

char _license[] SEC("license") = "Dual BSD/GPL";

struct ask {
	__u32 window;
	__u32 group;
	__u64 flow; /* or the number of a link */
	__s64 result; /* as that of the function; with a next hop, 0 */
	struct sw_next_hop hop;
};

SEC("xdp")
int sw_ask_group(struct xdp_md *ctx)
{
	struct ask *ask = (void *)(long)ctx->data;

	if ((void *)(ask + 1) > (void *)(long)ctx->data_end)
		return XDP_ABORTED;
	ask->result = sw_group_hop(ask->window, ask->group, ask->flow);
	if (ask->result > 0) {
		sw_next_hop_read(ask->result, &ask->hop);
		ask->result = 0;
	}
	return XDP_PASS;
}

SEC("xdp")
int sw_set_link(struct xdp_md *ctx)
{
	struct ask *ask = (void *)(long)ctx->data;

	if ((void *)(ask + 1) > (void *)(long)ctx->data_end)
		return XDP_ABORTED;
	if (ask->group)
		ask->result = sw_group_link_down(ask->window, (__u32)ask->flow);
	else
		ask->result = sw_group_link_up(ask->window, (__u32)ask->flow);
	return XDP_PASS;
}

/* Many flows: the number of answers that no version of the group gives. */
struct beside {
	__u32 window;
	__u32 group;
	__u64 flow;
	__u32 count;
	__u32 wrong;
	__u32 found;
	__u32 none;
};

/* In a group of this test, each next hop has the same number in all its parts. */
SEC("xdp")
int sw_beside(struct xdp_md *ctx)
{
	struct beside *ask = (void *)(long)ctx->data;
	struct sw_next_hop hop;
	__u32 left, number;
	long found;

	if ((void *)(ask + 1) > (void *)(long)ctx->data_end)
		return XDP_ABORTED;
	for (left = sw_zero() + ask->count; left && sw_can_loop; left--) {
		found = sw_group_hop(ask->window, ask->group, ask->flow++);
		if (found <= 0) {
			ask->none++;
			continue;
		}
		ask->found++;
		sw_next_hop_read(found, &hop);
		number = hop.ifindex;
		if (hop.mtu != (number & 0xffff) || hop.dmac[0] != (number & 0xff) || hop.gateway[15] != (number & 0xff))
			ask->wrong++;
	}
	return XDP_PASS;
}
