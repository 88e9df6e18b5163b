// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Lookups asked for by a test: the key comes as the packet, the answer goes back in its place. */
#include <linux/bpf.h>
#include "sapwood/qp.bpf.h"

char _license[] SEC("license") = "Dual BSD/GPL";

/* A lookup: which, in which window, of which key; and what came of it. */
struct ask {
	__u32 what;
	__u32 window;
	__s64 result;
	__u64 value;
	struct sw_key key;
};

SEC("xdp")
int sw_ask(struct xdp_md *ctx)
{
	struct ask *ask = (void *)(long)ctx->data;

	if ((void *)(ask + 1) > (void *)(long)ctx->data_end)
		return XDP_ABORTED;
	switch (ask->what) {
	case 0:
		ask->result = sw_qp_trie_lookup(ask->window, &ask->key);
		break;
	case 1:
		ask->result = sw_qp_index_lookup(ask->window, &ask->key);
		break;
	case 2:
		ask->result = sw_qp_lookup(ask->window, &ask->key);
		break;
	default:
		ask->result = -EINVAL;
	}
	if (ask->result > 0)
		ask->value = sw_u64(ask->result);
	return XDP_PASS;
}
