// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * A program that looks a key up and then reads the entry again for this many rounds. It counts how
 * often the entry differs from the first read. While the program runs, the memory that it found
 * must not be reused.
 */
#include <linux/bpf.h>
#include "sapwood/qp.bpf.h"

char _license[] SEC("license") = "Dual BSD/GPL";

/* The question and the answer. */
struct dwell {
	__u32 window;
	__u32 rounds;
	__s64 result; /* the result of the lookup, or -ELOOP when the kernel ended the loop */
	__u64 changes;
	struct sw_key key;
};

/*
 * How often the words of a leaf (value and key) differed from the first read; -ELOOP when the
 * kernel ended the loop.
 */
SW_GLOBAL long sw_dwell_on(sw_at leaf, __u32 rounds)
{
	__u64 first = sw_u64(leaf), second = sw_u64(leaf + 8), changes = sw_zero();
	__u32 i;

	sw_use_arena();
	sw_for (i, rounds)
		changes += sw_u64(leaf) != first || sw_u64(leaf + 8) != second;
	return i < rounds ? -ELOOP : (long)changes;
}

SEC("xdp")
int sw_dwell(struct xdp_md *ctx)
{
	struct dwell *dwell = (void *)(long)ctx->data;
	long found;

	if ((void *)(dwell + 1) > (void *)(long)ctx->data_end)
		return XDP_ABORTED;
	found = sw_qp_lookup(dwell->window, &dwell->key);
	dwell->result = found;
	if (found <= 0)
		return XDP_PASS;
	/* The value and the key when the leaf was found. */
	found = sw_dwell_on(found, dwell->rounds);
	if (found < 0)
		dwell->result = found;
	else
		dwell->changes = found;
	return XDP_PASS;
}
