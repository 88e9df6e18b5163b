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
	SW_GROUP_BUCKETS = 2048,
	/* The most members: a bit of a word for each. */
	SW_GROUP_MEMBERS = 64,
	/* Fractional bits of a logarithm. */
	SW_GROUP_FRACTION = 36,
};

/* A member. `weight` 0: it gets no flow. `value` is the user's, an interface for instance. */
struct sw_group_member {
	__u64 hash;
	__u32 weight;
	__u32 value;
};

/* log2(1 + i / 128), with 36 fractional bits. */
static const __u64 sw_group_logs[128] = {
	0ULL, 771531117ULL, 1537104407ULL, 2296811176ULL,
	3050740652ULL, 3798980040ULL, 4541614586ULL, 5278727634ULL,
	6010400684ULL, 6736713444ULL, 7457743882ULL, 8173568279ULL,
	8884261275ULL, 9589895914ULL, 10290543695ULL, 10986274608ULL,
	11677157183ULL, 12363258525ULL, 13044644357ULL, 13721379055ULL,
	14393525686ULL, 15061146043ULL, 15724300678ULL, 16383048937ULL,
	17037448992ULL, 17687557868ULL, 18333431476ULL, 18975124644ULL,
	19612691139ULL, 20246183699ULL, 20875654057ULL, 21501152966ULL,
	22122730227ULL, 22740434707ULL, 23354314366ULL, 23964416281ULL,
	24570786663ULL, 25173470879ULL, 25772513477ULL, 26367958200ULL,
	26959848007ULL, 27548225095ULL, 28133130911ULL, 28714606175ULL,
	29292690894ULL, 29867424377ULL, 30438845258ULL, 31006991502ULL,
	31571900428ULL, 32133608720ULL, 32692152441ULL, 33247567050ULL,
	33799887410ULL, 34349147808ULL, 34895381963ULL, 35438623039ULL,
	35978903659ULL, 36516255913ULL, 37050711376ULL, 37582301113ULL,
	38111055690ULL, 38637005191ULL, 39160179219ULL, 39680606914ULL,
	40198316959ULL, 40713337589ULL, 41225696602ULL, 41735421366ULL,
	42242538832ULL, 42747075535ULL, 43249057612ULL, 43748510801ULL,
	44245460454ULL, 44739931545ULL, 45231948676ULL, 45721536082ULL,
	46208717644ULL, 46693516890ULL, 47175957007ULL, 47656060842ULL,
	48133850915ULL, 48609349421ULL, 49082578235ULL, 49553558922ULL,
	50022312743ULL, 50488860654ULL, 50953223322ULL, 51415421121ULL,
	51875474143ULL, 52333402201ULL, 52789224835ULL, 53242961317ULL,
	53694630656ULL, 54144251600ULL, 54591842646ULL, 55037422040ULL,
	55481007784ULL, 55922617638ULL, 56362269127ULL, 56799979543ULL,
	57235765952ULL, 57669645192ULL, 58101633886ULL, 58531748436ULL,
	58960005034ULL, 59386419663ULL, 59811008099ULL, 60233785918ULL,
	60654768496ULL, 61073971016ULL, 61491408468ULL, 61907095653ULL,
	62321047187ULL, 62733277503ULL, 63143800857ULL, 63552631326ULL,
	63959782815ULL, 64365269059ULL, 64769103623ULL, 65171299908ULL,
	65571871153ULL, 65970830437ULL, 66368190681ULL, 66763964653ULL,
	67158164967ULL, 67550804087ULL, 67941894331ULL, 68331447871ULL,
};

/* The logarithm of a number from 1 to below 2^33, with 36 fractional bits, right within 2^-32. */
SW_INLINE __u64 sw_group_log2(__u64 v)
{
	__u64 whole = 0, m = v, r, r2, r3, r4;

	if (m >> 32)
		whole += 32, m >>= 32;
	if (m >> 16)
		whole += 16, m >>= 16;
	if (m >> 8)
		whole += 8, m >>= 8;
	if (m >> 4)
		whole += 4, m >>= 4;
	if (m >> 2)
		whole += 2, m >>= 2;
	whole += m >> 1;
	m = v << ((32 - whole) & 63);
	r = ((m & 0x1ffffff) << 11) / (128 + ((m >> 25) & 127));
	r2 = (r * r) >> SW_GROUP_FRACTION;
	r3 = (r2 * r) >> SW_GROUP_FRACTION;
	r4 = (r3 * r) >> SW_GROUP_FRACTION;
	r = r - r2 / 2 + r3 / 3 - r4 / 4;
	return (whole << SW_GROUP_FRACTION) + sw_group_logs[(m >> 25) & 127] +
	       ((r * 6196328019ULL) >> 32);
}

/* -log2(u) of a bucket and a member's hash, u being a number from 0 to 1 that both give. */
SW_INLINE __u64 sw_group_draw(__u64 bucket, __u64 hash)
{
	__u64 h = sw_flow_mixed(hash + (bucket + 1) * 0x9e3779b97f4a7c15ULL) >> 32;
	__u64 draw = (33ULL << SW_GROUP_FRACTION) - sw_group_log2(2 * h + 1);

	return draw ? draw : 1;
}

/* Is a / x less than b / y? */
SW_INLINE int sw_group_sooner(__u64 a, __u32 x, __u64 b, __u32 y)
{
	__u64 low = (a & 0xffffffff) * y, than_low = (b & 0xffffffff) * x;
	__u64 high = (a >> 32) * y + (low >> 32), than_high = (b >> 32) * x + (than_low >> 32);

	if (high != than_high)
		return high < than_high;
	return (__u32)low < (__u32)than_low;
}

/*
 * The position of the member for a flow, among the first `count` members (64 at most) whose bits
 * in `up` are set, or -1 if none of them has a weight. `flow`: any number that is the same for all
 * packets of a flow, as sw_flow_hash4 gives.
 */
SW_INLINE int sw_group_member(const struct sw_group_member *members, __u32 count, __u64 up,
			      __u64 flow)
{
	__u64 bucket = sw_flow_bucket(flow, SW_GROUP_BUCKETS), best = ~0ULL;
	__u32 best_weight = 1;
	int best_at = -1;

	for (__u32 at = 0; at < SW_GROUP_MEMBERS && at < count; at++) {
		__u32 weight = members[at].weight;
		__u64 draw;

		if (!weight || !(up >> at & 1))
			continue;
		draw = sw_group_draw(bucket, members[at].hash);
		if (!sw_group_sooner(draw, weight, best, best_weight))
			continue;
		best = draw;
		best_weight = weight;
		best_at = (int)at;
	}
	return best_at;
}

#endif
