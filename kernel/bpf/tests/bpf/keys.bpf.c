// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Keys that programs make, for a test. The bytes come behind the question, and the answer replaces
 * the question.
 */
#include <linux/bpf.h>
#include "sapwood/key.bpf.h"

char _license[] SEC("license") = "Dual BSD/GPL";

#define __type(name, value) value *name

/* The source of the key, the place and the number of its bytes in the packet, and the answer. */
struct ask {
	__u32 what;
	__u32 window;
	__s64 error;
	__s64 result;
	__u64 value;
	sw_at room;
	__u32 offset;
	__u32 length;
};

enum what { PACKET, MEMORY, STACK, DYNPTR, STRING };

/* Bytes of the memory of which keys are made: more than the longest key. */
#define MOST (SW_KEY_MAX + 256)

struct memory {
	__u8 bytes[MOST + 8];
};

struct {
	__uint(type, 6); /* BPF_MAP_TYPE_PERCPU_ARRAY */
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct memory);
} memory SEC(".maps");

static void *(*const lookup_elem)(void *map, const void *key) = (void *)1;
static long (*const dynptr_from_mem)(void *data, __u32 size, __u64 flags, struct bpf_dynptr *ptr) = (void *)197;

/* Looks the key up, and writes the answer. */
SW_INLINE void sw_answer(struct ask *ask, struct sw_key *key)
{
	if (ask->error)
		return;
	ask->length = sw_key_length(key);
	ask->result = sw_qp_lookup(ask->window, key);
	if (ask->result > 0)
		ask->value = sw_u64(ask->result);
}

/* Copies bytes of the packet to memory, in a function that the verifier checks separately. */
SW_GLOBAL long sw_fill_part(struct xdp_md *ctx, __u32 offset, __u32 at, __u32 bytes)
{
	__u32 zero = 0;
	struct memory *to = lookup_elem(&memory, &zero);

	bytes &= 255;
	if (!to || at > SW_KEY_MAX || !bytes)
		return -EINVAL;
	return sw_help_xdp_load_bytes(ctx, offset, to->bytes + at, bytes);
}

/* Copies this many bytes, and a zero behind them. Returns 0 or an error. */
SW_GLOBAL long sw_fill(struct xdp_md *ctx, __u32 offset, __u32 length)
{
	__u32 zero = 0, at, left;
	struct memory *to = lookup_elem(&memory, &zero);
	long error;

	sw_use_arena();
	for (at = sw_zero(); at < length && sw_can_loop; at += SW_KEY_PART) {
		left = length - at;
		error = sw_fill_part(ctx, offset + at, at, left < SW_KEY_PART ? left : SW_KEY_PART);
		if (error)
			return error;
	}
	if (!to || length > MOST)
		return -E2BIG;
	to->bytes[length] = 0;
	return 0;
}

SEC("xdp.frags")
int sw_ask_key(struct xdp_md *ctx)
{
	struct ask *ask = (void *)(long)ctx->data;
	struct sw_key key;
	__u32 zero = 0, what, offset, length;
	struct memory *from;
	sw_at room;

	if ((void *)(ask + 1) > (void *)(long)ctx->data_end)
		return XDP_ABORTED;
	sw_use_arena();
	what = ask->what;
	offset = ask->offset;
	length = ask->length;
	room = ask->room;
	if (what == PACKET) {
		ask->error = sw_key_packet(&key, room, ctx, offset, length);
	} else {
		ask->error = sw_fill(ctx, offset, length);
		from = lookup_elem(&memory, &zero);
		if (!from || ask->error)
			return XDP_ABORTED;
		if (what == MEMORY)
			ask->error = sw_key_memory(&key, room, from->bytes, 0, length);
		else
			ask->error = sw_key_string(&key, room, from->bytes);
	}
	sw_answer(ask, &key);
	return XDP_PASS;
}

SEC("xdp.frags")
int sw_ask_key_stack(struct xdp_md *ctx)
{
	struct ask *ask = (void *)(long)ctx->data;
	__u64 bytes[8] = {};
	struct sw_key key;

	if ((void *)(ask + 1) > (void *)(long)ctx->data_end)
		return XDP_ABORTED;
	sw_use_arena();
	if (sw_help_xdp_load_bytes(ctx, ask->offset, bytes, sizeof(bytes)))
		return XDP_ABORTED;
	ask->error = sw_key_memory(&key, 0, bytes, 0, ask->length < 64 ? ask->length : 64);
	sw_answer(ask, &key);
	return XDP_PASS;
}

SEC("xdp.frags")
int sw_ask_key_dynptr(struct xdp_md *ctx)
{
	struct ask *ask = (void *)(long)ctx->data;
	struct bpf_dynptr ptr;
	__u32 zero = 0;
	struct memory *from;
	struct sw_key key;
	__u32 length;

	if ((void *)(ask + 1) > (void *)(long)ctx->data_end)
		return XDP_ABORTED;
	sw_use_arena();
	length = ask->length;
	if (sw_fill(ctx, ask->offset, length))
		return XDP_ABORTED;
	from = lookup_elem(&memory, &zero);
	if (!from || dynptr_from_mem(from->bytes, SW_KEY_MAX, 0, &ptr))
		return XDP_ABORTED;
	ask->error = sw_key_dynptr(&key, ask->room, &ptr, 0, length);
	sw_answer(ask, &key);
	return XDP_PASS;
}

SEC("tc")
int sw_ask_key_skb(struct __sk_buff *ctx)
{
	struct ask *ask = (void *)(long)ctx->data;
	struct sw_key key;
	__u32 offset, length;
	sw_at room;

	if ((void *)(ask + 1) > (void *)(long)ctx->data_end)
		return 0;
	sw_use_arena();
	offset = ask->offset;
	length = ask->length;
	room = ask->room;
	ask->error = sw_key_packet(&key, room, ctx, offset, length);
	sw_answer(ask, &key);
	return 2;
}
