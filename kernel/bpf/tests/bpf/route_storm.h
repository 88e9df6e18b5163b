// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * One lookup in a route cache and its resolver. The words of an answer show its key and its time.
 */
#ifndef ROUTE_STORM_H
#define ROUTE_STORM_H

#include <linux/bpf.h>
#include "sapwood/route.bpf.h"

static __u64 (*ktime)(void) = (void *)5; /* bpf_ktime_get_ns */
static void *(*map_lookup)(void *map, const void *key) = (void *)1; /* bpf_map_lookup_elem */

/* The resolver's current answer, which the test changes. */
struct {
	int (*type)[2]; /* BPF_MAP_TYPE_ARRAY */
	__u32 *key;
	__u64 *value;
	int (*max_entries)[1];
} truth SEC(".maps");

struct storm {
	__u32 window;
	__u32 keys;
	__u64 random;
	__u64 rounds;
	/* The truth when this run began. No lookup may return an older answer. */
	__u64 least;
	/* The number of answers of each kind, and of impossible ones. */
	__u64 hits;
	__u64 misses;
	__u64 failures;
	__u64 stored;
	__u64 overtaken;
	__u64 refused;
	__u64 wrong;
	__u64 old;
	__u64 longest;
};

/* The words of an answer depend on the key, the truth and the time. */
SW_INLINE __u64 sw_mixed(__u64 a, __u64 b)
{
	a = (a ^ b) * 0x9e3779b97f4a7c15ull;
	return a ^ a >> 31;
}

SW_GLOBAL long sw_storm_round(struct storm *storm SW_NONNULL)
{
	struct sw_route_key key = {};
	struct sw_route_value value = {};
	struct sw_route_ticket ticket = {};
	__u64 now = ktime(), *now_true, n;
	__u32 zero = 0;
	long got;

	storm->random = storm->random * 0x5851f42d4c957f2dull + 0x14057b7ef767814full;
	n = (storm->random >> 33) % storm->keys;
	key.words[0] = n;
	key.words[1] = sw_mixed(n, 1);
	got = sw_route_get(storm->window, &key, now, &value, &ticket);
	if (!got) {
		storm->hits++;
		if (value.words[1] != sw_mixed(n ^ value.words[3], value.words[0]) || value.words[2] != ~value.words[1])
			storm->wrong++;
		if (value.words[0] < storm->least)
			storm->old++;
		/* The last word is the time of the resolution. */
		if (now - value.words[3] > storm->longest)
			storm->longest = now - value.words[3];
		return 0;
	}
	if (got == -EHOSTUNREACH) {
		storm->failures++;
		if (n & 7)
			storm->wrong++;
		return 0;
	}
	if (got == -EINVAL)
		storm->wrong++;
	storm->misses++;
	now_true = map_lookup(&truth, &zero);
	if (!now_true)
		return -EINVAL;
	value.words[0] = *(volatile __u64 *)now_true;
	value.words[3] = now;
	value.words[1] = sw_mixed(n ^ now, value.words[0]);
	value.words[2] = ~value.words[1];
	/* One key in eight sometimes has no route. */
	got = sw_route_put(storm->window, &key, &value, &ticket,
			   !(n & 7) && storm->random >> 63 ? SW_ROUTE_NEGATIVE : 0);
	if (!got)
		storm->stored++;
	else if (got == -ECANCELED)
		storm->overtaken++;
	else
		storm->refused++;
	return 0;
}

#endif
