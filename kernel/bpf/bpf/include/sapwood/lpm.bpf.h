/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Longest-prefix match in tables that Rust writes (Ipv4Map, Ipv6Map, in windows of the arena).
 *
 *     long found = sw_lpm4_lookup_be(ROUTES, ip->daddr);     // ROUTES: the number of the window
 *     if (found > 0) hop = sw_u32(found);                    // the place of the value
 *
 * Results: the place of a value (positive), or -ENOENT; -EINVAL when there is no such window;
 * -EUCLEAN when the bytes break the format of a table. No loop can be ended by the kernel, because
 * the bits of an address limit the nodes of a lookup. Layout: docs/lpm.md.
 *
 * All prefixes with the same value share it, so programs must only read values. A program must not
 * keep a place beyond the end of its run. A removed value stays until the programs that were
 * running at its removal have ended. Sleepable programs need an arena that allows them
 * (BpfArena::allow_sleepable).
 */
#ifndef SAPWOOD_LPM_BPF_H
#define SAPWOOD_LPM_BPF_H

#include "arena.bpf.h"

/*
 * The maximum number of nodes of a lookup in an IPv6 table: behind a root of 6 bits, 6 bits each.
 */
#define SW_LPM6_NODES 21

_Static_assert(SW_LPM_STRIDE == 6 && SW_LPM_NODE_RUNS == 0, "lpm.bpf.h is written for nodes of 6 bits");

/* Host order from network order. */
SW_INLINE __u32 sw_host32(__u32 be)
{
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
	return __builtin_bswap32(be);
#else
	return be;
#endif
}

/* Host order from network order. */
SW_INLINE __u64 sw_host64(__u32 first, __u32 second)
{
	return (__u64)sw_host32(first) << 32 | sw_host32(second);
}

/*
 * The state of a lookup. Fields that only sw_lpm_length reads cost nothing in other lookups.
 *
 * The address is left-aligned, and its bits are inverted, because a lookup needs 63 minus the
 * number of a slot. The bits behind its end have no effect, because slots that differ only there
 * are equal.
 */
struct sw_lpm_walk {
	__u64 hi, lo; /* the remaining bits of the address */
	__u64 best;   /* the longest prefix's value so far */
	__u32 ref;    /* the node to pass next */
	__u32 mark;   /* length + 1 of the prefix that the root word or a lone prefix has */
	__u32 depth;  /* bits before that node */
	__u32 slot;   /* the slot that led to it */
	sw_at above;  /* the node that led to it */
	/*
	 * The source of `best`: a slot of a node, and the bits before that node. 0: `mark` is the length.
	 */
	sw_at from;
	__u32 from_slot, from_depth;
};

/*
 * The first value unless it is 0, else the second. There is no branch, because the processor could
 * not predict it. Both have 32 bits.
 */
SW_INLINE __u64 sw_lpm_or(__u64 first, __u64 second)
{
	__u64 none = (__u64)((__s64)(first - 1) >> 63);

	sw_hide(none);
	return first | (second & none);
}

/*
 * Reads the root word. Returns whether there is a node to pass, or a negative error when the table
 * breaks the format.
 */
SW_INLINE int sw_lpm_begin(sw_at window, struct sw_lpm_walk *walk)
{
	__u64 root = sw_u64(window + SW_LPM_ROOT), word;
	__u32 bits = root >> 32;

	/* 6, 12, 18 or 24 */
	if (bits - 6 > 18)
		return -EUCLEAN;
	word = sw_acquire_u64(sw_ref(window, root & SW_LPM_REF) + (~walk->hi >> (64 - bits)) * 8);
	walk->best = word >> SW_LPM_WORD_VALUE;
	walk->mark = (__u32)word >> SW_LPM_WORD_MARK;
	walk->ref = word & SW_LPM_REF;
	walk->depth = bits;
	walk->above = walk->from = 0;
	/* The compiler copies these also where nothing reads them, which the verifier refuses without. */
	walk->slot = walk->from_slot = walk->from_depth = 0;
	walk->hi = walk->hi << bits | walk->lo >> (64 - bits);
	walk->lo <<= bits;
	return walk->ref != 0;
}

/* Passes a node. Returns whether there is a node below. */
SW_INLINE int sw_lpm_pass(sw_at window, struct sw_lpm_walk *walk)
{
	sw_at node = sw_ref(window, walk->ref);
	__u32 far = walk->hi >> 58, cell;
	__u64 base = sw_u32(node + SW_LPM_NODE_BASE), runs = sw_u64(node + SW_LPM_NODE_RUNS);

	if (base) {
		walk->from = walk->above;
		walk->from_slot = walk->slot;
		walk->from_depth = walk->depth - SW_LPM_STRIDE;
	}
	walk->best = sw_lpm_or(base, walk->best);
	if (!(runs & 1)) {
		/*
		 * A lone prefix: its bits, then a 1, then zeros. The bits are equal when all that differs
		 * lies below twice the 1.
		 */
		if (~(runs ^ walk->hi) < (runs & -runs) << 1) {
			walk->from = 0;
			walk->mark = walk->depth + 64 - sw_popcount((runs & -runs) - 1);
			walk->best = sw_lpm_or(sw_u32(node + SW_LPM_LONE_VALUE), walk->best);
		}
		return 0;
	}
	/* The first run has number 0. */
	cell = sw_u32(node + SW_LPM_NODE_SLOTS - 4 + sw_popcount(runs << far) * 4);
	if (!(cell & SW_LPM_CHILD)) {
		if (cell) {
			walk->from = node;
			walk->from_slot = 63 - far;
			walk->from_depth = walk->depth;
		}
		walk->best = sw_lpm_or(cell, walk->best);
		return 0;
	}
	walk->ref = cell & SW_LPM_REF;
	walk->above = node;
	walk->slot = 63 - far;
	walk->depth += SW_LPM_STRIDE;
	walk->hi = walk->hi << SW_LPM_STRIDE | walk->lo >> (64 - SW_LPM_STRIDE);
	walk->lo <<= SW_LPM_STRIDE;
	return 1;
}

/* The place of the value, or -ENOENT. `more` is the result of the last step. */
SW_INLINE long sw_lpm_end(sw_at window, const struct sw_lpm_walk *walk, int more)
{
	if (more)
		return -EUCLEAN;
	return walk->best ? (long)(window + walk->best * 8) : -ENOENT;
}

/*
 * The length of the prefix with the value `best`, by the prefixes of its node; -EUCLEAN when there
 * is no such prefix.
 */
SW_INLINE long sw_lpm_length(const struct sw_lpm_walk *walk)
{
	sw_at set;
	__u64 low;
	__u32 heap, len;

	if (!walk->from)
		return (long)walk->mark - 1;
	if (!(sw_u32(walk->from + SW_LPM_NODE_COUNT) & ~SW_LPM_FRESH))
		return -EUCLEAN;
	set = walk->from + ((SW_LPM_NODE_SLOTS + 4 * sw_popcount(sw_u64(walk->from + SW_LPM_NODE_RUNS)) + 7) & ~7u);
	if (sw_u64(set + 8) >> walk->from_slot & 1)
		return walk->from_depth + SW_LPM_STRIDE;
	low = sw_u64(set);
	heap = (1u << SW_LPM_STRIDE | walk->from_slot) >> 1;
	for (len = SW_LPM_STRIDE - 1; len; len--) {
		if (low >> heap & 1)
			return walk->from_depth + len;
		heap >>= 1;
	}
	return -EUCLEAN;
}

SW_INLINE long sw_lpm4_walk(sw_at window, __u32 address, struct sw_lpm_walk *walk)
{
	int more;

	walk->hi = ~((__u64)address << 32);
	walk->lo = 0;
	more = sw_lpm_begin(window, walk);
	/* Behind a root of 6 bits there are at most five nodes. A loop would take longer. */
	if (more > 0)
		more = sw_lpm_pass(window, walk);
	if (more > 0)
		more = sw_lpm_pass(window, walk);
	if (more > 0)
		more = sw_lpm_pass(window, walk);
	if (more > 0)
		more = sw_lpm_pass(window, walk);
	if (more > 0)
		more = sw_lpm_pass(window, walk);
	return sw_lpm_end(window, walk, more);
}

SW_INLINE long sw_lpm6_walk(sw_at window, __u64 hi, __u64 lo, struct sw_lpm_walk *walk)
{
	int i, more;

	walk->hi = ~hi;
	walk->lo = ~lo;
	more = sw_lpm_begin(window, walk);
	for (i = 0; more > 0 && i < SW_LPM6_NODES; i++)
		more = sw_lpm_pass(window, walk);
	return sw_lpm_end(window, walk, more);
}

/*
 * The place of the value of the longest prefix of an IPv4 address, which is in host order.
 *
 *     long found = sw_lpm4_lookup(ROUTES, 0x0a010203);        // 10.1.2.3
 */
SW_INLINE long sw_lpm4_lookup(__u32 table, __u32 address)
{
	sw_at window = sw_window(table, SW_KIND_LPM4);
	struct sw_lpm_walk walk = {};

	sw_use_arena();
	return window ? sw_lpm4_walk(window, address, &walk) : -EINVAL;
}

/*
 * As sw_lpm4_lookup, for an address in network order, as in packets.
 *
 *     long found = sw_lpm4_lookup_be(ROUTES, ip->daddr);
 */
SW_INLINE long sw_lpm4_lookup_be(__u32 table, __u32 address)
{
	return sw_lpm4_lookup(table, sw_host32(address));
}

/*
 * As sw_lpm4_lookup, and the number of bits of the prefix, which tells the prefix. It takes about
 * half as long again.
 *
 *     __u32 length = 0;
 *     long found = sw_lpm4_match(ROUTES, 0x0a010203, &length);
 */
SW_INLINE long sw_lpm4_match(__u32 table, __u32 address, __u32 *length)
{
	sw_at window = sw_window(table, SW_KIND_LPM4);
	struct sw_lpm_walk walk = {};
	long found, bits;

	sw_use_arena();
	if (!window)
		return -EINVAL;
	found = sw_lpm4_walk(window, address, &walk);
	if (found < 0)
		return found;
	bits = sw_lpm_length(&walk);
	if (bits < 0 || bits > 32)
		return -EUCLEAN;
	*length = bits;
	return found;
}

/*
 * The place of the value of the longest prefix of an IPv6 address: its first and its last 64 bits,
 * in host order.
 *
 *     long found = sw_lpm6_lookup(ROUTES, 0x20010db800000000ull, 1);        // 2001:db8::1
 */
SW_INLINE long sw_lpm6_lookup(__u32 table, __u64 hi, __u64 lo)
{
	sw_at window = sw_window(table, SW_KIND_LPM6);
	struct sw_lpm_walk walk = {};

	sw_use_arena();
	return window ? sw_lpm6_walk(window, hi, lo, &walk) : -EINVAL;
}

/*
 * As sw_lpm6_lookup, for an address in network order, as in packets: four words.
 *
 *     long found = sw_lpm6_lookup_be(ROUTES, ip6->daddr.in6_u.u6_addr32);
 */
SW_INLINE long sw_lpm6_lookup_be(__u32 table, const __u32 *address)
{
	return sw_lpm6_lookup(table, sw_host64(address[0], address[1]), sw_host64(address[2], address[3]));
}

/*
 * As sw_lpm6_lookup, and the number of bits of the prefix.
 *
 *     __u32 length = 0;
 *     long found = sw_lpm6_match(ROUTES, hi, lo, &length);
 */
SW_INLINE long sw_lpm6_match(__u32 table, __u64 hi, __u64 lo, __u32 *length)
{
	sw_at window = sw_window(table, SW_KIND_LPM6);
	struct sw_lpm_walk walk = {};
	long found, bits;

	sw_use_arena();
	if (!window)
		return -EINVAL;
	found = sw_lpm6_walk(window, hi, lo, &walk);
	if (found < 0)
		return found;
	bits = sw_lpm_length(&walk);
	if (bits < 0 || bits > 128)
		return -EUCLEAN;
	*length = bits;
	return found;
}

#endif
