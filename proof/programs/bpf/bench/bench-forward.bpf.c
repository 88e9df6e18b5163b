// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Both ends of the benchmark of xdp-route: the sender of frames of 64 bytes, which a router
 * forwards, and the check of the forwarded frames.
 *
 * BPF_PROG_TEST_RUN runs the sender with BPF_F_TEST_XDP_LIVE_FRAMES: the kernel makes a frame, and
 * sends it as the program decides. The last two bytes of a frame are the last two of the address of
 * the neighbour that must receive it. The first of them is the number of the interface at which it
 * must arrive.
 */
#include <linux/bpf.h>
#include "sapwood/arena.bpf.h"

char _license[] SEC("license") = "Dual BSD/GPL";

static void *(*bpf_map_lookup_elem)(void *map, const void *key) = (void *)1;
static long (*bpf_redirect)(__u32 ifindex, __u64 flags) = (void *)23;

enum {
	FRAME_WORDS = 8,
	/* The discard port of UDP. */
	PORT = 9,
	/* The sender's hop limit, minus one. */
	HOPS = 63,
};

/*
 * The loader's order: the place of the frames in the arena, their number, and the outgoing
 * interface.
 */
struct order {
	__u64 at;
	__u32 frames;
	__u32 interface;
	/* The next one. */
	__u64 next;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__uint(key_size, 4);
	__uint(value_size, sizeof(struct order));
} sw_order SEC(".maps");

enum { RIGHT, WRONG, KINDS };

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, KINDS);
	__uint(key_size, 4);
	__uint(value_size, 8);
} sw_received SEC(".maps");

/* One sender at a time. */
SEC("xdp")
int sw_send(struct xdp_md *ctx)
{
	__u64 *frame = (void *)(long)ctx->data;
	struct order *order;
	__u32 zero = 0, i;
	sw_at at;

	if ((void *)(frame + FRAME_WORDS) > (void *)(long)ctx->data_end)
		return XDP_ABORTED;
	order = bpf_map_lookup_elem(&sw_order, &zero);
	if (!order)
		return XDP_ABORTED;
	sw_use_arena();
	at = order->at + order->next * (FRAME_WORDS * 8);
	order->next++;
	if (order->next >= order->frames)
		order->next = 0;
	/* The whole frame is written, because it may be an old one that was forwarded. */
#pragma unroll
	for (i = 0; i < FRAME_WORDS; i++)
		frame[i] = sw_u64_of(at, 8 * i);
	return (int)bpf_redirect(order->interface, 0);
}

/* The sum over the header of an IPv4 packet, which is all ones when the checksum is right. */
SW_INLINE __u32 header_sum(const __u8 *ip)
{
	__u32 sum = 0, i;

#pragma unroll
	for (i = 0; i < 20; i += 2)
		sum += (__u32)ip[i] << 8 | ip[i + 1];
	sum = (sum & 0xffff) + (sum >> 16);
	return (sum & 0xffff) + (sum >> 16);
}

/* Counts frames of the sender, and drops them. */
SEC("xdp")
int sw_receive(struct xdp_md *ctx)
{
	const __u8 *frame = (void *)(long)ctx->data;
	__u32 which = RIGHT;
	__u64 *count;

	if (frame + FRAME_WORDS * 8 > (const __u8 *)(long)ctx->data_end)
		return XDP_PASS;
	if (frame[12] == 0x08 && frame[13] == 0x00) {
		if (frame[23] != 17 || frame[36] || frame[37] != PORT)
			return XDP_PASS;
		if (frame[22] != HOPS || header_sum(frame + 14) != 0xffff)
			which = WRONG;
	} else if (frame[12] == 0x86 && frame[13] == 0xdd) {
		if (frame[20] != 17 || frame[56] || frame[57] != PORT)
			return XDP_PASS;
		if (frame[21] != HOPS)
			which = WRONG;
	} else {
		return XDP_PASS;
	}
	if (frame[4] != frame[62] || frame[5] != frame[63] || ctx->ingress_ifindex != frame[62])
		which = WRONG;
	count = bpf_map_lookup_elem(&sw_received, &which);
	if (count)
		(*count)++;
	return XDP_DROP;
}
