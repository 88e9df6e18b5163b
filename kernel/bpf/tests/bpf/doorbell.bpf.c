// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Many changes in one run, with a doorbell behind each, for a test. */
#include <linux/bpf.h>
#include "sapwood/doorbell.bpf.h"

char _license[] SEC("license") = "Dual BSD/GPL";

/* The question, and the counts. */
struct ask {
	__u32 window;
	__u32 count;
	__u64 first; /* the first key */
	__u32 rings; /* whether to ring; then how often it rang */
	__u32 done;
	__u32 short_of; /* memory */
	__u32 other;
	__u32 low; /* whether memory was low at the end */
	__u32 unused;
	struct sw_key key;
};

/* Inserts and removes keys, one after the other. */
SEC("xdp")
int sw_change(struct xdp_md *ctx)
{
	struct ask *ask = (void *)(long)ctx->data;
	__u32 i, rings;
	long error;

	if ((void *)(ask + 1) > (void *)(long)ctx->data_end)
		return XDP_ABORTED;
	sw_use_arena();
	rings = ask->rings;
	ask->rings = 0;
	sw_for (i, ask->count) {
		ask->key.words[0] = (ask->first + i) << 8 | 8;
		ask->key.words[1] = (ask->first + i) >> 56;
		error = sw_qp_insert(ask->window, &ask->key, i, SW_NOEXIST);
		if (rings)
			ask->rings += sw_doorbell(ask->window);
		if (!error)
			error = sw_qp_remove(ask->window, &ask->key);
		if (!error)
			ask->done++;
		else if (error == -ENOMEM)
			ask->short_of++;
		else
			ask->other++;
	}
	ask->low = sw_qp_is_low(ask->window);
	return XDP_PASS;
}
