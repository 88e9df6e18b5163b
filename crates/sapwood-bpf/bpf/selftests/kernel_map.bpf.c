// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Operations on maps that programs write, asked for by a test: the question comes as the packet, the answer goes back in its place. */
#include <linux/bpf.h>
#include "sapwood/qp_write.bpf.h"

char _license[] SEC("license") = "Dual BSD/GPL";

/* An operation: which, in which window, with which flags, on which key; and what came of it. */
struct ask {
	__u32 what;
	__u32 window;
	__u64 flags;
	__s64 result;
	struct sw_qp_value value;
	struct sw_key key;
};

SEC("xdp")
int sw_ask_kqp(struct xdp_md *ctx)
{
	struct ask *ask = (void *)(long)ctx->data;
	__u32 i;

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
	case 3:
		ask->result = sw_qp_insert(ask->window, &ask->key, ask->value.words[0], ask->flags);
		break;
	case 4:
		ask->result = sw_qp_insert_value(ask->window, &ask->key, &ask->value, ask->flags);
		break;
	case 5:
		ask->result = sw_qp_remove(ask->window, &ask->key);
		break;
	default:
		ask->result = -EINVAL;
	}
	if (ask->result > 0) {
		for (i = 0; i < 8; i++)
			ask->value.words[i] = sw_u64(ask->result + i * 8);
	}
	return XDP_PASS;
}
