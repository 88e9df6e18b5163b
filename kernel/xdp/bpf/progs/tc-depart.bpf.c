// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Earliest departure first, on the egress hook of an interface (tcx), beside the fq qdisc: each IP
 * packet gets the time at which it may depart, so that each flow keeps a rate. A program of this
 * hook cannot hold packets. The fq qdisc holds each packet until its time, and sends the packet
 * that departs earliest first.
 *
 * The program keeps what fq does not say: the bytes of the packets that wait, of all flows. A queue
 * by time (qp_first.bpf.h) has an entry for each packet, which is due when the packet departs. Each
 * packet takes what is due meanwhile. A packet is dropped when too many bytes wait, or when it
 * would depart beyond the horizon. A flow without waiting packets is forgotten.
 */
#include <linux/bpf.h>
#include "sapwood/qp_first.bpf.h"

char _license[] SEC("license") = "Dual BSD/GPL";

static void *(*bpf_map_lookup_elem)(void *map, const void *key) = (void *)1;
static __u64 (*bpf_ktime_get_ns)(void) = (void *)5;
static __u32 (*bpf_get_hash_recalc)(struct __sk_buff *skb) = (void *)34;
static long (*bpf_skb_set_tstamp)(struct __sk_buff *skb, __u64 time, __u32 type) = (void *)192;

/* The loader sets these. */
const volatile struct {
	/*
	 * The numbers of three windows: the times at which flows may send again (a map with values
	 * of one word), the queue (the same, with a trie, for keys of 16 bytes), and one word with
	 * the waiting bytes.
	 */
	__u32 flows;
	__u32 queue;
	__u32 waiting;
	/* The rate of a flow: the nanoseconds of a byte. */
	__u32 byte_ns;
	/* The most bytes that wait, and the most nanoseconds that a packet waits. */
	__u64 limit;
	__u64 horizon;
} sw_depart_settings SEC(".rodata.depart") = {};

/* What became of packets, per CPU: see the constants below. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 5);
	__uint(key_size, 4);
	__uint(value_size, 8);
} sw_depart_counts SEC(".maps");

enum sw_depart_count {
	SW_DEPART_SCHEDULED, /* has a time, and an entry in the queue */
	SW_DEPART_UNCOUNTED, /* has a time, and no entry, because the queue returned an error */
	SW_DEPART_DROPPED,
	SW_DEPART_PASSED, /* is not IP, or its flow has no place: passes without a time */
	SW_DEPART_DEPARTED, /* entries that were due */
};

/* The key and the value are too large for the stack beside what the maps' functions need. */
struct sw_depart_room {
	struct sw_key key;
	struct sw_qp_value value;
};
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__uint(key_size, 4);
	__uint(value_size, sizeof(struct sw_depart_room));
} sw_depart_scratch SEC(".maps");

/* The most entries that one packet takes. More than one, so that the queue gets shorter. */
#define SW_DEPART_TAKES 8
/* BPF_SKB_TSTAMP_DELIVERY_MONO, and results of this hook. */
#define SW_DEPART_MONOTONIC 1
#define SW_TCX_NEXT (-1)
#define SW_TCX_DROP 2

SW_INLINE void sw_depart_count(__u32 what, __u64 more)
{
	__u64 *count = bpf_map_lookup_elem(&sw_depart_counts, &what);

	if (count)
		*count += more;
}

/* Makes the key of a flow. */
SW_INLINE void sw_depart_flow(struct sw_key *key, __u32 hash)
{
	key->words[0] = (__u64)hash << 8 | 4;
	key->words[1] = 0;
	key->words[2] = 0;
	key->words[3] = 0;
}

/* Takes the packets that have departed by now, and forgets flows that may send at once. */
SW_INLINE void sw_depart_take(struct sw_depart_room *room, sw_at waiting, __u64 now)
{
	__u64 *value = room->value.words;
	struct sw_key *key = &room->key;
	__u32 i;
	long found;

	sw_for (i, SW_DEPART_TAKES) {
		if (sw_qp_pop_due(sw_depart_settings.queue, now, key, &room->value))
			break;
		/* The hash of the flow, and the bytes of the packet. */
		sw_add_u64(waiting, -(value[0] & 0xffffffff));
		sw_depart_count(SW_DEPART_DEPARTED, 1);
		sw_depart_flow(key, value[0] >> 32);
		found = sw_qp_lookup(sw_depart_settings.flows, key);
		if (found > 0 && sw_u64(found) <= now)
			sw_qp_remove(sw_depart_settings.flows, key);
	}
}

/*
 * The time at which a packet of a flow departs, which takes `cost` nanoseconds; 0 when the flow has
 * no place in the map; or ~0 when the time would be after `last`.
 */
SW_INLINE __u64 sw_depart_when(const struct sw_key *key, __u64 now, __u64 cost, __u64 last)
{
	__u64 next, at;
	__u32 tries;
	long found;

	sw_for (tries, 8) {
		found = sw_qp_lookup(sw_depart_settings.flows, key);
		if (found <= 0) {
			if (!sw_qp_insert(sw_depart_settings.flows, key, now + cost, SW_NOEXIST))
				return now;
			continue;
		}
		next = sw_u64(found);
		at = next > now ? next : now;
		if (at > last)
			return ~0ull;
		/* Another processor may send a packet of this flow, too. */
		if (sw_cmpxchg_u64(found, next, at + cost) == next)
			return at;
	}
	return 0;
}

SEC("tcx/egress")
int sw_depart(struct __sk_buff *skb)
{
	sw_at waiting = sw_window(sw_depart_settings.waiting, SW_KIND_WORDS);
	__u64 now = bpf_ktime_get_ns(), at;
	__u32 zero = 0, hash, bytes = skb->len;
	struct sw_depart_room *room;
	struct sw_key *key;

	sw_use_arena();
	room = bpf_map_lookup_elem(&sw_depart_scratch, &zero);
	if (!room || !waiting)
		return SW_TCX_NEXT;
	sw_depart_take(room, waiting, now);
	key = &room->key;
	if (skb->protocol != __builtin_bswap16(0x0800) && skb->protocol != __builtin_bswap16(0x86dd)) {
		sw_depart_count(SW_DEPART_PASSED, 1);
		return SW_TCX_NEXT;
	}
	if (sw_u64(waiting) + bytes > sw_depart_settings.limit) {
		sw_depart_count(SW_DEPART_DROPPED, 1);
		return SW_TCX_DROP;
	}
	hash = bpf_get_hash_recalc(skb);
	sw_depart_flow(key, hash);
	at = sw_depart_when(key, now, (__u64)bytes * sw_depart_settings.byte_ns,
			    now + sw_depart_settings.horizon);
	if (at == ~0ull) {
		sw_depart_count(SW_DEPART_DROPPED, 1);
		return SW_TCX_DROP;
	}
	if (!at || bpf_skb_set_tstamp(skb, at, SW_DEPART_MONOTONIC)) {
		sw_depart_count(SW_DEPART_PASSED, 1);
		return SW_TCX_NEXT;
	}
	if (sw_qp_push_due(sw_depart_settings.queue, key, at, now, (__u64)hash << 32 | bytes)) {
		sw_depart_count(SW_DEPART_UNCOUNTED, 1);
		return SW_TCX_NEXT;
	}
	sw_add_u64(waiting, bytes);
	sw_depart_count(SW_DEPART_SCHEDULED, 1);
	return SW_TCX_NEXT;
}
