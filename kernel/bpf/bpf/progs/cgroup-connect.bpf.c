// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Allows or denies connections of the processes of a cgroup, by the longest prefix of their
 * destination: tables of IPv4 and IPv6 that user space writes while programs run (IpMap<u64>). It
 * sees TCP connections, and UDP sockets that are connected.
 *
 * The value of a prefix is the number of its rule, shifted left by one, and in bit 0 whether the
 * rule denies. Programs count the connections of each rule in words of the arena (Words), the word
 * of the same number. A destination without a prefix is allowed.
 */
#include <linux/bpf.h>
#include "sapwood/lpm.bpf.h"

char _license[] SEC("license") = "Dual BSD/GPL";

static void *(*bpf_map_lookup_elem)(void *map, const void *key) = (void *)1;

/* The windows of the tables and of the counts. */
struct sw_connects {
	__u32 table4;
	__u32 table6;
	__u32 rules; /* the words for the counts of rules */
	__u32 count; /* their number */
};
const volatile struct sw_connects sw_connects SEC(".rodata.connects") = {};

/* Connections that were allowed and denied. Per CPU. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 2);
	__uint(key_size, 4);
	__uint(value_size, 8);
} sw_connects_counts SEC(".maps");

/* Counts a connection to the destination of this prefix: 1: it is allowed; 0. */
SW_INLINE int sw_connect_by(long found)
{
	sw_at rules = sw_window(sw_connects.rules, SW_KIND_WORDS);
	__u32 denied = 0;
	__u64 rule, *count;

	sw_use_arena();
	if (found > 0) {
		rule = sw_u64(found);
		denied = rule & 1;
		if (rules && rule >> 1 < sw_connects.count)
			sw_add_u64(rules + (rule >> 1) * 8, 1);
	}
	count = bpf_map_lookup_elem(&sw_connects_counts, &denied);
	if (count)
		__sync_fetch_and_add(count, 1);
	return !denied;
}

SEC("cgroup/connect4")
int sw_connect4(struct bpf_sock_addr *ctx)
{
	return sw_connect_by(sw_lpm4_lookup_be(sw_connects.table4, ctx->user_ip4));
}

SEC("cgroup/connect6")
int sw_connect6(struct bpf_sock_addr *ctx)
{
	__u32 address[4] = { ctx->user_ip6[0], ctx->user_ip6[1], ctx->user_ip6[2], ctx->user_ip6[3] };

	return sw_connect_by(sw_lpm6_lookup_be(sw_connects.table6, address));
}
