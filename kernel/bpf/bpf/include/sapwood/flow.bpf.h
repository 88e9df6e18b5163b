/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The hash of a flow, and its bucket in a group. Both are equal to those of
 * sapwood::route::FlowHasher and sapwood::route::Group for the same seed. So programs, user space
 * and other machines choose the same path for a flow.
 *
 *     struct sw_flow_secrets secrets = sw_flow_secrets(SEED);      // once, or keep it in a map
 *     __u64 flow = sw_flow_hash4(&secrets, src, dst, protocol, sport, dport);
 *     __u32 bucket = sw_flow_bucket(flow, 1 << 20);
 *
 * Addresses and ports are in the processor's byte order. Nothing here needs an arena.
 */
#ifndef SAPWOOD_FLOW_BPF_H
#define SAPWOOD_FLOW_BPF_H

#include "arena.bpf.h"

/* The secrets of the hash. They are secret as long as the seed is. */
struct sw_flow_secrets {
	__u64 start, fold, end;
};

/* An IPv6 address as two numbers. */
struct sw_flow_addr6 {
	__u64 high, low;
};

/* SplitMix64's output function. */
SW_INLINE __u64 sw_flow_mixed(__u64 x)
{
	x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
	x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
	return x ^ (x >> 31);
}

/* The secrets of a seed. */
SW_INLINE struct sw_flow_secrets sw_flow_secrets(__u64 seed)
{
	struct sw_flow_secrets secrets;

	secrets.start = sw_flow_mixed(seed + 0x9e3779b97f4a7c15ULL);
	secrets.fold = sw_flow_mixed(seed + 2 * 0x9e3779b97f4a7c15ULL);
	secrets.end = sw_flow_mixed(seed + 3 * 0x9e3779b97f4a7c15ULL);
	return secrets;
}

/* The exclusive or of the two halves of a product of 128 bits. */
SW_INLINE __u64 sw_flow_folded(__u64 a, __u64 b)
{
	__u64 low = (a & 0xffffffff) * (b & 0xffffffff);
	__u64 one = (a >> 32) * (b & 0xffffffff) + (low >> 32);
	__u64 two = (a & 0xffffffff) * (b >> 32) + (one & 0xffffffff);
	__u64 high = (a >> 32) * (b >> 32) + (one >> 32) + (two >> 32);

	return high ^ (two << 32 | (low & 0xffffffff));
}

/* The hash of the seven words of a flow. */
SW_INLINE __u64 sw_flow_words(const struct sw_flow_secrets *secrets, __u64 family,
			      struct sw_flow_addr6 src, struct sw_flow_addr6 dst, __u64 rest)
{
	__u64 sum = secrets->start;

	sum = sw_flow_folded(sum ^ family, secrets->fold ^ src.low);
	sum = sw_flow_folded(sum ^ src.high, secrets->fold ^ family);
	sum = sw_flow_folded(sum ^ dst.low, secrets->fold ^ dst.high);
	sum = sw_flow_folded(sum ^ rest, secrets->end);
	/* Ports that count up would crowd for some seeds without this multiplication. */
	sum = (sum ^ sum >> 32) * 0x9e3779b97f4a7c15ULL;
	return sum ^ sum >> 32;
}

SW_INLINE __u64 sw_flow_rest(__u32 protocol, __u32 sport, __u32 dport)
{
	return (__u64)(sport & 0xffff) | (__u64)(dport & 0xffff) << 16 |
	       (__u64)(protocol & 0xff) << 32;
}

/* The hash of a flow of IPv4. Ports are 0 for a protocol without ports. */
SW_INLINE __u64 sw_flow_hash4(const struct sw_flow_secrets *secrets, __u32 src, __u32 dst,
			      __u32 protocol, __u32 sport, __u32 dport)
{
	struct sw_flow_addr6 from = { 0, src }, to = { 0, dst };

	return sw_flow_words(secrets, 4, from, to, sw_flow_rest(protocol, sport, dport));
}

/* The hash of a flow of IPv6. */
SW_INLINE __u64 sw_flow_hash6(const struct sw_flow_secrets *secrets, struct sw_flow_addr6 src,
			      struct sw_flow_addr6 dst, __u32 protocol, __u32 sport, __u32 dport)
{
	return sw_flow_words(secrets, 6, src, dst, sw_flow_rest(protocol, sport, dport));
}

/* The same hash for both directions of a conversation. */
SW_INLINE __u64 sw_flow_hash4_symmetric(const struct sw_flow_secrets *secrets, __u32 src,
					__u32 dst, __u32 protocol, __u32 sport, __u32 dport)
{
	if (src < dst || (src == dst && (sport & 0xffff) <= (dport & 0xffff)))
		return sw_flow_hash4(secrets, src, dst, protocol, sport, dport);
	return sw_flow_hash4(secrets, dst, src, protocol, dport, sport);
}

/* The same hash for both directions of a conversation. */
SW_INLINE __u64 sw_flow_hash6_symmetric(const struct sw_flow_secrets *secrets,
					struct sw_flow_addr6 src, struct sw_flow_addr6 dst,
					__u32 protocol, __u32 sport, __u32 dport)
{
	int before = src.high != dst.high ? src.high < dst.high :
		     src.low != dst.low	  ? src.low < dst.low :
					    (sport & 0xffff) <= (dport & 0xffff);

	if (before)
		return sw_flow_hash6(secrets, src, dst, protocol, sport, dport);
	return sw_flow_hash6(secrets, dst, src, protocol, dport, sport);
}

/* The bucket of a flow among `buckets` buckets. Every group has 2^20 of them. */
SW_INLINE __u32 sw_flow_bucket(__u64 flow, __u32 buckets)
{
	__u64 spread = (flow ^ (flow >> 32)) * 0x9e3779b97f4a7c15ULL;

	return (__u32)(((spread >> 32) * buckets) >> 32);
}

#endif
