// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Operations of user space on a route cache. Only programs write it, so user space runs this one.
 * The order is in the packet.
 */
#include <linux/bpf.h>
#include "sapwood/route.bpf.h"

char _license[] SEC("license") = "Dual BSD/GPL";

/* As in src/route_cache.rs. */
struct sw_route_order {
	__u32 what;
	__u32 window;
	__u64 now;
	__u64 budget;
	__s64 result;
	struct sw_route_key key;
};

SEC("xdp")
int sw_route_order(struct xdp_md *ctx)
{
	struct sw_route_order *order = (void *)(long)ctx->data;

	if ((void *)(order + 1) > (void *)(long)ctx->data_end)
		return XDP_ABORTED;
	switch (order->what) {
	case 0:
		order->result = sw_route_sweep(order->window, order->now, (__u32)order->budget);
		break;
	case 1:
		order->result = sw_route_invalidate(order->window, &order->key);
		break;
	default:
		order->result = -EINVAL;
	}
	return XDP_PASS;
}
