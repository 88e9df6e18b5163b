// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Questions to range maps for a test. The packet holds them, and the answers replace them.
 */
#include <linux/bpf.h>
#include "ranges_ask.h"

char _license[] SEC("license") = "Dual BSD/GPL";

#define QUESTIONS 40

SEC("xdp")
int sw_ask(struct xdp_md *ctx)
{
	struct question *all = (void *)(long)ctx->data;
	void *end = (void *)(long)ctx->data_end;
	__u32 i;

	sw_use_arena();
	for (i = 0; i < QUESTIONS; i++) {
		struct question *one = all + i, copy;

		if ((void *)(one + 1) > end)
			break;
		copy = *one;
		answer(&copy);
		*one = copy;
	}
	return XDP_PASS;
}
