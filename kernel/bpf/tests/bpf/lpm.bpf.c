// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Lookups of longest prefixes for a test. The packet holds the questions, and the answers replace
 * them.
 */
#include <linux/bpf.h>
#include "sapwood/lpm.bpf.h"

char _license[] SEC("license") = "Dual BSD/GPL";

#define QUESTIONS 64

/* The beginning of a packet. */
struct head {
	__u32 what;
	__u32 window;
	__u64 value; /* for ASK_POKE: the word to store at `place` */
	__u64 place;
	__u64 sum; /* for ASK_LOOKUP: all found places, so that the compiler removes no lookup */
};

/*
 * A question: the address (IPv4: in the upper half of hi), and the answer: the place of the value,
 * or an error.
 */
struct question {
	__u64 hi;
	__u64 lo;
	__s64 found;
	__u64 value;
	__u64 length;
};

enum { ASK_MATCH4, ASK_MATCH6, ASK_LOOKUP4, ASK_LOOKUP6, ASK_POKE, ASK_NOTHING };

SW_GLOBAL long lookup4(__u32 window, __u32 address)
{
	return sw_lpm4_lookup(window, address);
}
SW_GLOBAL long lookup6(__u32 window, __u64 hi, __u64 lo)
{
	return sw_lpm6_lookup(window, hi, lo);
}
/* The place and the length in one word, or an error. */
SW_GLOBAL long match4(__u32 window, __u32 address)
{
	__u32 length = 0;
	long found = sw_lpm4_match(window, address, &length);

	return found < 0 ? found : (long)(found | (__u64)length << 48);
}
SW_GLOBAL long match6(__u32 window, __u64 hi, __u64 lo)
{
	__u32 length = 0;
	long found = sw_lpm6_match(window, hi, lo, &length);

	return found < 0 ? found : (long)(found | (__u64)length << 48);
}

SEC("xdp")
int sw_ask(struct xdp_md *ctx)
{
	struct head *head = (void *)(long)ctx->data;
	void *end = (void *)(long)ctx->data_end;
	__u32 i, what, window;
	__u64 sum = 0;
	long found;

	if ((void *)(head + 1) > end)
		return XDP_ABORTED;
	what = head->what;
	window = head->window;
	if (what == ASK_POKE) {
		sw_use_arena();
		sw_set_u64(head->place, head->value);
		return XDP_PASS;
	}
	for (i = 0; i < QUESTIONS; i++) {
		struct question *one = (struct question *)(head + 1) + i;

		if ((void *)(one + 1) > end)
			break;
		switch (what) {
		case ASK_LOOKUP4:
			sum += lookup4(window, one->hi >> 32);
			continue;
		case ASK_LOOKUP6:
			sum += lookup6(window, one->hi, one->lo);
			continue;
		case ASK_MATCH4:
			found = match4(window, one->hi >> 32);
			one->found = lookup4(window, one->hi >> 32);
			break;
		case ASK_MATCH6:
			found = match6(window, one->hi, one->lo);
			one->found = lookup6(window, one->hi, one->lo);
			break;
		default:
			sum += one->hi;
			continue;
		}
		/* The table may have changed between both lookups. */
		one->value = one->found > 0 ? sw_u64(one->found) : 0;
		one->length = found < 0 ? found : found >> 48;
	}
	head->sum = sum;
	return XDP_PASS;
}
