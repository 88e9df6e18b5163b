// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Programs with as much of their own on the stack as the budget of docs/bpf.md leaves them: a key,
 * or 256 bytes in three functions. The kernel loads them if a change of a map takes at most 256
 * bytes and five functions. See budget.rs.
 */
#include <linux/bpf.h>
#include "sapwood/qp_write_more.bpf.h"

char _license[] SEC("license") = "Dual BSD/GPL";

/* A question, as the packet holds it, and its answer. */
struct ask {
	__u32 window;
	__u32 what; /* 0: insert; 1: insert four words; 2: remove; 3: take */
	__u64 value;
	__s64 result;
	__u64 own; /* what the program's own bytes on the stack sum up to */
	__u8 name[8];
	struct sw_qp_value words;
	struct sw_key key;
};

#define BEGIN(ctx, ask)                                                        \
	struct ask *ask = (void *)(long)(ctx)->data;                           \
                                                                               \
	if ((void *)(ask + 1) > (void *)(long)(ctx)->data_end)                 \
		return XDP_ABORTED

/* The key is the program's, on its stack. */
SEC("xdp")
int sw_with_key(struct xdp_md *ctx)
{
	struct sw_key key = {};

	BEGIN(ctx, ask);
	sw_key_set(&key, ask->name, 8);
	if (ask->what == 0)
		ask->result = sw_qp_insert(ask->window, &key, ask->value, SW_ANY);
	else if (ask->what == 1)
		ask->result = sw_qp_insert_value(ask->window, &key, &ask->words, SW_ANY);
	else if (ask->what == 2)
		ask->result = sw_qp_remove(ask->window, &key);
	else
		ask->result = sw_qp_take(ask->window, &key);
	ask->own = key.length;
	return XDP_PASS;
}

/* The same, and a function of the program is between the two. */
static __attribute__((noinline)) long insert(struct ask *ask, const struct sw_key *key)
{
	return sw_qp_insert(ask->window, key, ask->value, SW_ANY);
}

SEC("xdp")
int sw_with_key_below(struct xdp_md *ctx)
{
	struct sw_key key = {};

	BEGIN(ctx, ask);
	sw_key_set(&key, ask->name, 8);
	ask->result = insert(ask, &key);
	ask->own = key.length;
	return XDP_PASS;
}

/*
 * 256 bytes in three functions: 192, 16 and 48. The key is in the packet. Bytes that are written
 * and read count for the kernel.
 */
static __attribute__((noinline)) long third(struct ask *ask)
{
	volatile __u64 own[6];
	long result;

	own[0] = ask->value;
	own[5] = 3;
	if (ask->what == 0)
		result = sw_qp_insert(ask->window, &ask->key, ask->value, SW_ANY);
	else if (ask->what == 1)
		result = sw_qp_insert_value(ask->window, &ask->key, &ask->words, SW_ANY);
	else if (ask->what == 2)
		result = sw_qp_remove(ask->window, &ask->key);
	else
		result = sw_qp_take(ask->window, &ask->key);
	ask->own += own[0] + own[5];
	return result;
}

static __attribute__((noinline)) long second(struct ask *ask)
{
	long result = third(ask);

	ask->own += 2;
	return result;
}

SEC("xdp")
int sw_with_frames(struct xdp_md *ctx)
{
	volatile __u64 own[24];

	BEGIN(ctx, ask);
	own[0] = ask->value;
	own[23] = 1;
	ask->own = 0;
	ask->result = second(ask);
	ask->own += own[0] + own[23];
	return XDP_PASS;
}
