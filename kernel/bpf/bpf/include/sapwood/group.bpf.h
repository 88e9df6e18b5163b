/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The member of a group for a flow, as sapwood::route::Group chooses it: by weighted rendezvous
 * hashing with integers. A member is up or down by one bit. Only the flows of a member that goes
 * down move, and the same flows return when it is up again.
 *
 *     struct sw_group_member members[3];      // in a map: written by user space
 *     __u64 up;                               // in a map: a bit for each member
 *     int at = sw_group_member(members, 3, up & ~BACKUPS, flow);
 *
 *     if (at < 0)
 *             at = sw_group_member(members, 3, up & BACKUPS, flow);
 *
 * User space writes the members in the order of Group::members, with the hashes of
 * Group::member_hashes. Nothing here needs an arena.
 */
#ifndef SAPWOOD_GROUP_BPF_H
#define SAPWOOD_GROUP_BPF_H

#include "flow.bpf.h"

enum {
	/* Bits of a bucket's number, and of a rank. */
	SW_GROUP_BITS = 20,
	SW_GROUP_BUCKETS = 1 << SW_GROUP_BITS,
	/* The most members: a bit of a word for each. */
	SW_GROUP_MEMBERS = 64,
	/* Fractional bits of a time. */
	SW_GROUP_FRACTION = 27,
	/* Ranks below this come before all others, whatever the weights: each member has a bucket. */
	SW_GROUP_SURE = 16,
};

/* A member. `weight` 0: it gets no flow. `value` is the user's, an interface for instance. */
struct sw_group_member {
	__u64 hash;
	__u32 weight;
	__u32 value;
};

/* The rank in a bucket of the member with this hash. A member has each rank in one bucket. */
SW_INLINE __u32 sw_group_rank(__u32 bucket, __u64 hash)
{
	const __u32 mask = SW_GROUP_BUCKETS - 1;
	__u32 x = (bucket ^ ((__u32)hash & mask)) * 0x9e377u & mask;

	x = (x ^ x >> 10 ^ ((__u32)(hash >> 20) & mask)) * 0x6a09fu & mask;
	return (x ^ x >> 10 ^ ((__u32)(hash >> 40) & mask)) * 0x2545fu & mask;
}

/*
 * -log2(1 - u) with 27 fractional bits, u = (2 rank + 1) / 2^21: the time to an event of the rate
 * 1. It has the order of the ranks.
 */
SW_INLINE __u32 sw_group_time(__u32 rank)
{
	__u64 left = 2 * SW_GROUP_BUCKETS - 2 * (rank & (SW_GROUP_BUCKETS - 1)) - 1;
	__u64 whole = 0, m = left, f, sum;
	const __u64 one = 1ULL << SW_GROUP_FRACTION;

	if (m >> 16)
		whole += 16, m >>= 16;
	if (m >> 8)
		whole += 8, m >>= 8;
	if (m >> 4)
		whole += 4, m >>= 4;
	if (m >> 2)
		whole += 2, m >>= 2;
	whole += m >> 1;
	f = (left << ((SW_GROUP_FRACTION - whole) & 31)) - one;
	/* log2(1 + f) = f + f (1 - f) (c0 - f (c1 - f (c2 - f c3))), right within 2^-14. */
	sum = 20403902 - (6152744 * f >> SW_GROUP_FRACTION);
	sum = 36260271 - (sum * f >> SW_GROUP_FRACTION);
	sum = 59385195 - (sum * f >> SW_GROUP_FRACTION);
	return (__u32)(((SW_GROUP_BITS - whole) << SW_GROUP_FRACTION) +
		       ((one - f) * (one - (sum * f >> SW_GROUP_FRACTION)) >> SW_GROUP_FRACTION));
}

/* The time at which the ranks that come before all others end. */
#define SW_GROUP_SURE_UNTIL 3047u

/*
 * Does a member with the time `a` and the weight `x` come before one with `b` and `y`, which is
 * before it in the order of the hashes? Both weights are positive.
 */
SW_INLINE int sw_group_before(__u64 a, __u64 x, __u64 b, __u64 y)
{
	if (a < SW_GROUP_SURE_UNTIL || b < SW_GROUP_SURE_UNTIL)
		return a < b || (a == b && x > y);
	return a * y < b * x;
}

/*
 * The position of the member for a flow, among the first `count` members (64 at most) whose bits
 * in `up` are set, or -1 if none of them has a weight. `flow`: any number that is the same for all
 * packets of a flow, as sw_flow_hash4 gives.
 */
SW_INLINE int sw_group_member(const struct sw_group_member *members, __u32 count, __u64 up,
			      __u64 flow)
{
	__u32 bucket = sw_flow_bucket(flow, SW_GROUP_BUCKETS), best = 0, best_weight = 0;
	int best_at = -1;

	for (__u32 at = 0; at < SW_GROUP_MEMBERS && at < count; at++) {
		__u32 weight = members[at].weight, time;

		if (!weight || !(up >> at & 1))
			continue;
		time = sw_group_time(sw_group_rank(bucket, members[at].hash));
		if (best_weight && !sw_group_before(time, weight, best, best_weight))
			continue;
		best = time;
		best_weight = weight;
		best_at = (int)at;
	}
	return best_at;
}

#endif
