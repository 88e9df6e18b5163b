// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Lookups and changes of prefixes of bit strings, for a test. The packet holds the question, and
 * the answer replaces it.
 */
#include <linux/bpf.h>
#include "bits_ask.h"
#include "sapwood/qp_write.bpf.h"

char _license[] SEC("license") = "Dual BSD/GPL";

SEC("xdp")
int sw_ask_bits(struct xdp_md *ctx)
{
	struct ask *ask = (void *)(long)ctx->data;

	if ((void *)(ask + 1) > (void *)(long)ctx->data_end)
		return XDP_ABORTED;
	answer(ask);
	return XDP_PASS;
}

SEC("xdp")
int sw_change_bits(struct xdp_md *ctx)
{
	struct ask *ask = (void *)(long)ctx->data;

	if ((void *)(ask + 1) > (void *)(long)ctx->data_end)
		return XDP_ABORTED;
	if (ask->what)
		ask->result = sw_qp_remove(ask->window, &ask->key);
	else
		ask->result = sw_qp_insert(ask->window, &ask->key, ask->value, SW_ANY);
	return XDP_PASS;
}

/* Makes keys of all bits that `what` says, and cuts them, for all requested lengths. */
SEC("xdp")
int sw_make_key(struct xdp_md *ctx)
{
	struct ask *ask = (void *)(long)ctx->data;
	struct sw_key key = {};
	__u64 bytes;
	__u32 i;

	if ((void *)(ask + 1) > (void *)(long)ctx->data_end)
		return XDP_ABORTED;
	sw_use_arena();
	bytes = ask->value;
	switch (ask->what) {
	case 1:
		sw_bits_key(&key, &bytes, 1);
		break;
	case 24:
		sw_bits_key(&key, &bytes, 24);
		break;
	case 28:
		sw_bits_key(&key, &bytes, 28);
		break;
	case 32:
		sw_bits_key(&key, &bytes, 32);
		break;
	case 35:
		sw_bits_key(&key, &bytes, 35);
		break;
	case 64:
		sw_bits_key(&key, &bytes, 64);
		break;
	default:
		sw_bits_key(&key, &bytes, 61);
	}
	ask->result = sw_bits_cut(&key, ask->bits);
	for (i = 0; i < SW_KEY_WORDS; i++)
		ask->key.words[i] = key.words[i];
	return XDP_PASS;
}
