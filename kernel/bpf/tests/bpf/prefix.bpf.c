// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Lookups of longest prefixes for a test. The packet holds the question, and the answer replaces
 * it.
 */
#include <linux/bpf.h>
#include "sapwood/qp_prefix.bpf.h"
#include "number.h"

char _license[] SEC("license") = "Dual BSD/GPL";

/* A lookup: the window and the key, and the answer: the value, and the stored key's length. */
struct ask {
	__u32 window;
	__u32 length;
	__s64 result;
	__u64 value;
	struct sw_key key;
};

SEC("xdp")
int sw_ask_prefix(struct xdp_md *ctx)
{
	struct ask *ask = (void *)(long)ctx->data;

	if ((void *)(ask + 1) > (void *)(long)ctx->data_end)
		return XDP_ABORTED;
	sw_use_arena();
	ask->result = sw_qp_longest_prefix(ask->window, &ask->key);
	if (ask->result > 0) {
		ask->value = sw_number(ask->window, ask->result);
		ask->length = sw_qp_text_length(sw_qp_text(sw_window_in(ask->window, SW_QP_KINDS), ask->result));
	}
	return XDP_PASS;
}
