// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Names in DNS messages, for a test. The message comes behind the question, and the answer replaces
 * the question.
 */
#include <linux/bpf.h>
#include "sapwood/dns.bpf.h"

char _license[] SEC("license") = "Dual BSD/GPL";

#define __type(name, value) value *name

/* The place of the name in the message, the message's bytes, and the answer. */
struct ask {
	__u32 at;
	__u32 bytes;
	__s64 end;
	__s64 used;
	__u32 key_bytes;
	__u32 spare;
	__u8 wire[SW_DNS_WIRE_MAX + 1];
};

/* The longest message that is copied to memory. */
#define MOST 512

struct work {
	struct sw_dns_name name;
	struct sw_key key;
	__u8 message[MOST];
};

struct {
	__uint(type, 6); /* BPF_MAP_TYPE_PERCPU_ARRAY */
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct work);
} sw_works SEC(".maps");

static void *(*const lookup_elem)(void *map, const void *key) = (void *)1;
static long (*const dynptr_from_mem)(void *data, __u32 size, __u64 flags, struct bpf_dynptr *ptr) = (void *)197;

/* Writes the answer. The key has no room here: if it is long, it is cut off. */
SW_INLINE void sw_answer(struct ask *ask, struct work *work, long end)
{
	ask->end = end;
	if (end < 0)
		return;
	__builtin_memcpy(ask->wire, work->name.wire, sizeof(ask->wire));
	ask->used = sw_dns_key(&work->key, &work->name, SW_DNS_WIRE_MAX, 0);
	ask->key_bytes = work->name.key_bytes;
}

SEC("xdp.frags")
int sw_ask_name(struct xdp_md *ctx)
{
	struct ask *ask = (void *)(long)ctx->data;
	__u32 zero = 0;
	struct work *work = lookup_elem(&sw_works, &zero);

	if (!work || (void *)(ask + 1) > (void *)(long)ctx->data_end)
		return XDP_ABORTED;
	sw_use_arena();
	sw_answer(ask, work, sw_dns_read_packet(&work->name, ctx, sizeof(*ask), ask->bytes, ask->at));
	return XDP_PASS;
}

SEC("xdp.frags")
int sw_ask_name_dynptr(struct xdp_md *ctx)
{
	struct ask *ask = (void *)(long)ctx->data;
	struct bpf_dynptr ptr;
	__u32 zero = 0, bytes;
	struct work *work = lookup_elem(&sw_works, &zero);

	if (!work || (void *)(ask + 1) > (void *)(long)ctx->data_end)
		return XDP_ABORTED;
	sw_use_arena();
	bytes = ask->bytes - 1;
	sw_hide(bytes);
	bytes &= MOST - 1;
	if (sw_help_xdp_load_bytes(ctx, sizeof(*ask), work->message, bytes + 1))
		return XDP_ABORTED;
	if (dynptr_from_mem(work->message, MOST, 0, &ptr))
		return XDP_ABORTED;
	sw_answer(ask, work, sw_dns_read_dynptr(&work->name, &ptr, 0, bytes + 1, ask->at));
	return XDP_PASS;
}

SEC("tc")
int sw_ask_name_skb(struct __sk_buff *ctx)
{
	struct ask *ask = (void *)(long)ctx->data;
	__u32 zero = 0;
	struct work *work = lookup_elem(&sw_works, &zero);

	if (!work || (void *)(ask + 1) > (void *)(long)ctx->data_end)
		return 0;
	sw_use_arena();
	sw_answer(ask, work, sw_dns_read_packet(&work->name, ctx, sizeof(*ask), ask->bytes, ask->at));
	return 2;
}
