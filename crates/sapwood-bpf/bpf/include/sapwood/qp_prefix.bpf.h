/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The longest key of a map that is a prefix of another: the closest enclosing name, folder or zone.
 *
 *     long found = sw_qp_longest_prefix(NAMES, &key);
 *     if (found > 0) verdict = sw_u64(found);       // the place of the value
 *
 * One descent finds it. Every stored prefix of a key is an END child on the key's way down, or the leaf at its end: so the deepest END
 * is remembered, and one leaf compared with the key tells how far they agree, and so which of them are prefixes. Only when the deepest
 * END is none, but one above it may be, is there a second descent.
 */
#ifndef SAPWOOD_QP_PREFIX_BPF_H
#define SAPWOOD_QP_PREFIX_BPF_H

#include "qp.bpf.h"

/* In how many bytes a leaf's key agrees with this one, from the first on: so many at most as the shorter has. */
SW_INLINE __u32 sw_qp_agree(sw_at leaf, __u32 value_bytes, const struct sw_key *key)
{
	__u32 length = sw_u8(leaf + value_bytes), shorter = key->length, i, left;
	__u64 word;

	if (length > SW_KEY_MAX) {
		/* Its length is in two bytes more, and it is longer than any key of ours. */
		for (i = sw_zero() & 255, left = shorter; left && sw_can_loop; left--, i = (i + 1) & 255) {
			if (sw_u8(leaf + value_bytes + 3 + i) != sw_key_byte(key, i))
				break;
		}
		return i;
	}
	if (length < shorter)
		shorter = length;
	sw_each_word(i, left, shorter / 8 + 1) {
		word = sw_u64(leaf + value_bytes + i * 8) ^ sw_key_word(key, i);
		/* The lengths differ, or not. */
		if (!i)
			word &= ~0xffull;
		if (word) {
			/* The high bit of every byte that is not 0. */
			word = (((word & SW_LOWS) + SW_LOWS) | word) & SW_HIGHS;
			i = i * 8 + sw_first_byte(word) - 1;
			return i < shorter ? i : shorter;
		}
	}
	/* A loop that was ended agrees in less than it might. */
	return left ? 0 : shorter;
}

/* Whether a leaf's key is a prefix of this one, and of so many bytes. */
SW_INLINE int sw_qp_is_prefix(sw_at leaf, __u32 value_bytes, __u32 bytes, const struct sw_key *key)
{
	return sw_u8(leaf + value_bytes) == bytes && sw_qp_agree(leaf, value_bytes, key) == bytes;
}

/*
 * The longest prefix of those of up to `agree` bytes, found from the root once more. Beside writers the way may be another one than
 * before: so each candidate is compared, and a leaf at the end of the way is one.
 */
SW_INLINE long sw_qp_longest_end(sw_at window, __u32 value_bytes, const struct sw_key *key, __u32 agree)
{
	__u32 cell = sw_u32(window + SW_QP_ROOT), header, offset, least = 0, depth;
	long longest = -ENOENT;
	sw_at node, end;
	int label;

	for (depth = sw_zero(); depth < SW_QP_DEPTH_MAX && sw_can_loop; depth++) {
		if (!cell)
			return longest;
		node = sw_qp_node(window, cell);
		if (cell & SW_QP_LEAF) {
			offset = sw_u8(node + value_bytes);
			return sw_qp_is_prefix(node, value_bytes, offset, key) ? (long)node : longest;
		}
		header = sw_u32(node);
		offset = sw_qp_offset(header);
		if (offset < least)
			return -EUCLEAN;
		if (offset > agree)
			return longest;
		least = offset + 1;
		if (header & SW_QP_END) {
			end = sw_qp_node(window, sw_u32(node + sw_qp_first(header) - 4));
			if (sw_qp_is_prefix(end, value_bytes, offset, key))
				longest = (long)end;
		}
		if (offset >= key->length)
			return longest;
		label = sw_qp_label(node, header, sw_key_byte(key, offset));
		if (label < 0)
			return longest;
		cell = sw_u32(node + sw_qp_first(header) + (__u32)label * 4);
	}
	return -ELOOP;
}

/*
 * The entry with the longest key that is a prefix of this one (the key itself included): the place of its value; -ENOENT when there is
 * none; -EOPNOTSUPP when the map has only an index; -EINVAL, -ELOOP and -EUCLEAN as for sw_qp_lookup.
 *
 * What it gives was there and is a prefix. Beside writers it may not be the longest at any one moment: the way down may meet two
 * changes that never stood together.
 *
 *     sw_key_set(&key, "/usr/lib/os-release", 19);
 *     found = sw_qp_longest_prefix(PATHS, &key);    // "/usr/lib/" if that is the longest one
 */
SW_GLOBAL long sw_qp_longest_prefix(__u32 map, const struct sw_key *key SW_NONNULL)
{
	sw_at window = sw_window_in(map, SW_QP_KINDS), node, leaf = 0;
	__u32 cell, header, offset, length, depth, agree, value_bytes, least = 0;
	/* The deepest END and where it ends, and where the highest ends. */
	__u32 end = 0, end_at = 0, first_at = 0;
	int label;

	sw_use_arena();
	if (!window)
		return -EINVAL;
	length = key->length;
	cell = sw_u32(window + SW_QP_ROOT);
	if (!cell)
		return sw_qp_no_root(window, -ENOENT);
	value_bytes = sw_u32(window + SW_QP_VALUE_BYTES);
	for (depth = sw_zero(); depth < SW_QP_DEPTH_MAX && sw_can_loop; depth++) {
		if (!cell)
			return -EUCLEAN;
		node = sw_qp_node(window, cell);
		if (cell & SW_QP_LEAF) {
			leaf = node;
			goto down;
		}
		header = sw_u32(node);
		offset = sw_qp_offset(header);
		if (offset < least)
			return -EUCLEAN;
		least = offset + 1;
		if (offset > length)
			goto down;
		if (header & SW_QP_END) {
			if (!end)
				first_at = offset;
			end = sw_u32(node + sw_qp_first(header) - 4);
			end_at = offset;
		}
		if (offset == length)
			goto down;
		label = sw_qp_label(node, header, sw_key_byte(key, offset));
		if (label < 0)
			goto down;
		cell = sw_u32(node + sw_qp_first(header) + (__u32)label * 4);
	}
	return -ELOOP;
down:
	if (leaf) {
		agree = sw_qp_agree(leaf, value_bytes, key);
		if (agree == sw_u8(leaf + value_bytes))
			return (long)leaf;
	}
	if (!end)
		return -ENOENT;
	node = sw_qp_node(window, end);
	if (!leaf)
		agree = sw_qp_agree(node, value_bytes, key);
	if (end_at <= agree)
		return (long)node;
	if (first_at > agree || first_at == end_at)
		return -ENOENT;
	return sw_qp_longest_end(window, value_bytes, key, agree);
}

#endif
