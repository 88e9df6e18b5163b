// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Programs of the test bpf.c: they ask maps about a frame's source address, and count it. */
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include "sapwood/qp.bpf.h"
#include "sapwood/qp_write.bpf.h"

char _license[] SEC("license") = "Dual BSD/GPL";

/* The numbers of windows: a map that the process writes, and one that programs write. */
const volatile __u32 windows[2] SEC(".rodata.windows") = {};

/* Keys and parts of values are too large for the stack. The test runs one program at a time. */
struct sw_value part;
struct sw_key key;

SW_INLINE int source(struct xdp_md *ctx)
{
	struct ethhdr *eth = (void *)(long)ctx->data;

	if ((void *)(eth + 1) > (void *)(long)ctx->data_end)
		return 0;
	sw_key_set(&key, eth->h_source, ETH_ALEN);
	return 1;
}

/* What a value has in its first byte, or XDP_DROP (1) where there is no entry. */
SEC("xdp") int known(struct xdp_md *ctx)
{
	long found;

	if (!source(ctx))
		return XDP_ABORTED;
	found = sw_qp_lookup(windows[0], &key);
	if (found <= 0)
		return XDP_DROP;
	if (sw_qp_value(windows[0], found, 0, &part) < 0)
		return XDP_ABORTED;
	return (int)(part.words[0] & 0xff);
}

/* Two words: how often it was seen, and the length of the last frame. */
SEC("xdp") int seen(struct xdp_md *ctx)
{
	struct sw_qp_value value = {{1, ctx->data_end - ctx->data}};
	long place;

	if (!source(ctx))
		return XDP_ABORTED;
	place = sw_qp_lookup(windows[1], &key);
	if (place > 0)
		value.words[0] += sw_u64(place);
	return sw_qp_insert_value(windows[1], &key, &value, SW_ANY) ? XDP_DROP : XDP_PASS;
}

SEC("xdp") int forget(struct xdp_md *ctx)
{
	if (!source(ctx))
		return XDP_ABORTED;
	return sw_qp_remove(windows[1], &key) ? XDP_DROP : XDP_PASS;
}
