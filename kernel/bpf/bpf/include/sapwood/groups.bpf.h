/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Groups of next hops in windows (GroupMap in Rust): the member for a flow, as group.bpf.h and
 * sapwood::route::Group choose it, among the members whose links are up.
 *
 *     long found = sw_group_hop(GROUPS, 7, sw_flow_hash4(...));
 *     struct sw_next_hop hop;
 *
 *     if (found > 0)
 *             sw_next_hop_read(found, &hop);
 *
 * A link is down or up by one bit, which user space or a program sets:
 *
 *     sw_group_link_down(GROUPS, 3);
 */
#ifndef SAPWOOD_GROUPS_BPF_H
#define SAPWOOD_GROUPS_BPF_H

#include "arena.bpf.h"
#include "group.bpf.h"
#include "hop.bpf.h"

_Static_assert(SW_GROUP_MEMBERS == SW_GROUPS_MEMBERS_MAX, "the most members");

/* The place of the word with the bit of a link; 0 if there is no such link. */
SW_INLINE sw_at sw_group_link(sw_at window, __u32 link)
{
	if (!window || link >= sw_u32(window + SW_GROUPS_LINKS))
		return 0;
	return window + sw_u32(window + SW_GROUPS_LINKS_AT) + (__u64)(link / 64) * 8;
}

/* Takes a link down: 0; -EINVAL when there is no such window or link. */
SW_INLINE long sw_group_link_down(__u32 map, __u32 link)
{
	sw_at word = sw_group_link(sw_window(map, SW_KIND_GROUPS), link);

	sw_use_arena();
	if (!word)
		return -EINVAL;
	sw_or_u64(word, 1ull << (link & 63));
	return 0;
}

/* Takes a link up again. As sw_group_link_down. */
SW_INLINE long sw_group_link_up(__u32 map, __u32 link)
{
	sw_at word = sw_group_link(sw_window(map, SW_KIND_GROUPS), link);

	sw_use_arena();
	if (!word)
		return -EINVAL;
	sw_and_u64(word, ~(1ull << (link & 63)));
	return 0;
}

/*
 * The place of the member for a bucket of flows, among `count` members at this place whose links
 * are up; 0 if there is none.
 */
SW_GLOBAL __u64 sw_group_best(__u64 window, __u64 member, __u32 count, __u32 bucket)
{
	__u32 best = 0, best_weight = 0, weight, time, left, link;
	__u64 at = 0, word;

	for (left = sw_zero() + (count < SW_GROUP_MEMBERS ? count : SW_GROUP_MEMBERS); left && sw_can_loop; left--) {
		weight = sw_u32(member + SW_GROUPS_MEMBER_WEIGHT);
		link = sw_u32(member + SW_GROUPS_MEMBER_LINK);
		word = sw_group_link(window, link);
		if (weight && word && !(sw_u64(word) >> (link & 63) & 1)) {
			time = sw_group_time(sw_group_rank(bucket, sw_u64(member + SW_GROUPS_MEMBER_HASH)));
			if (!best_weight || sw_group_before(time, weight, best, best_weight)) {
				best = time;
				best_weight = weight;
				at = member;
			}
		}
		member += SW_GROUPS_MEMBER_BYTES;
	}
	return at;
}

/*
 * The place of the next hop for a flow, any number that is the same for all packets of the flow:
 * positive; -ENOENT when there is no such group; -ENETDOWN when no member with a weight is up;
 * -EINVAL when there is no such window.
 */
SW_GLOBAL long sw_group_hop(__u32 map, __u32 group, __u64 flow)
{
	sw_at window = sw_window(map, SW_KIND_GROUPS), block;
	__u32 bucket = (__u32)sw_flow_bucket(flow, SW_GROUP_BUCKETS), primaries;
	__u64 found;

	sw_use_arena();
	if (!window)
		return -EINVAL;
	if (group >= sw_u32(window + SW_GROUPS_GROUPS))
		return -ENOENT;
	block = sw_acquire_u64(window + SW_GROUPS_SLOTS + (__u64)group * 8) & 0xffffffff;
	if (!block)
		return -ENOENT;
	block += window;
	primaries = sw_u32(block + SW_GROUPS_PRIMARIES) & 127;
	block += SW_GROUPS_MEMBERS;
	found = sw_group_best(window, block, primaries, bucket);
	if (!found)
		found = sw_group_best(window, block + (__u64)primaries * SW_GROUPS_MEMBER_BYTES,
				      sw_u32(block - SW_GROUPS_MEMBERS + SW_GROUPS_BACKUPS), bucket);
	return found ? (long)(found + SW_GROUPS_MEMBER_HOP) : -ENETDOWN;
}

/*
 * Replaces a hop of the action SW_HOP_GROUP, from a table of prefixes, by the member for a flow.
 * Leaves other hops as they are. 0, or as sw_group_hop.
 */
SW_INLINE long sw_next_hop_choose(__u32 map, __u64 flow, struct sw_next_hop *hop)
{
	long found;

	if (hop->action != SW_HOP_GROUP)
		return 0;
	found = sw_group_hop(map, hop->ifindex, flow);
	if (found <= 0)
		return found;
	sw_next_hop_read(found, hop);
	return 0;
}

#endif
