// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Lookups for a test. The packet holds the question, and the answer replaces it. */
#include <linux/bpf.h>
#include "sapwood/qp.bpf.h"
#include "number.h"

char _license[] SEC("license") = "Dual BSD/GPL";

/* A lookup: its kind, the window and the key, and the answer. */
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
		ask->value = sw_number(ask->window, ask->result);
	return XDP_PASS;
}

/*
 * A part of a value: the key and the first byte, and the answer with the value's length and the
 * part.
 */
struct ask_value {
	__u32 window;
	__u32 from;
	__s64 result;
	struct sw_key key;
	struct sw_value value;
};

SEC("xdp")
int sw_ask_value(struct xdp_md *ctx)
{
	struct ask_value *ask = (void *)(long)ctx->data;
	long found;

	if ((void *)(ask + 1) > (void *)(long)ctx->data_end)
		return XDP_ABORTED;
	found = sw_qp_lookup(ask->window, &ask->key);
	ask->result = found > 0 ? sw_qp_value(ask->window, found, ask->from, &ask->value) : found;
	return XDP_PASS;
}
