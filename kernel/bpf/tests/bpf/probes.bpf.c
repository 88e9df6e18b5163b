// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Counts the hits of USDT probes, for a test. The cookie of a place is the number of its probe. */
#include <linux/bpf.h>
#include "sapwood/arena.bpf.h"

char _license[] SEC("license") = "Dual BSD/GPL";

static void *(*bpf_map_lookup_elem)(void *map, const void *key) = (void *)1;
static __u64 (*bpf_get_attach_cookie)(void *ctx) = (void *)174;

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 5);
	__uint(key_size, 4);
	__uint(value_size, 8);
} hits SEC(".maps");

SEC("uprobe.multi")
int sw_hit(void *ctx)
{
	__u32 probe = (__u32)bpf_get_attach_cookie(ctx);
	__u64 *count = bpf_map_lookup_elem(&hits, &probe);

	if (count)
		__sync_fetch_and_add(count, 1);
	return 0;
}
