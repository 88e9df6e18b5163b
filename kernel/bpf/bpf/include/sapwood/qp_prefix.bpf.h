/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The longest key of a map that is a prefix of a given key: the closest enclosing name, folder or
 * zone.
 *
 *     long found = sw_qp_longest_prefix(NAMES, &key);
 *     if (found > 0) verdict = sw_u64(found);       // the place of the value
 *
 * One descent finds the leaf with the longest prefix in common with the key, which limits the
 * length of a stored prefix. The longest stored prefix is that leaf, or a leaf before it in its
 * cluster, or the first leaf in child 0 of a branch on the path. The descent records which branches
 * may have a prefix there. Only when the lowest of them has none is there a second descent.
 */
#ifndef SAPWOOD_QP_PREFIX_BPF_H
#define SAPWOOD_QP_PREFIX_BPF_H

#include "qp.bpf.h"

/* The length of the longest common prefix of a leaf's key and a key. */
SW_INLINE __u32 sw_qp_agree(sw_at leaf, __u32 value_bytes, const struct sw_key *key)
{
	__u32 length = sw_u8(leaf + value_bytes), shorter = sw_key_length(key), i, left;
	__u64 word;

	if (sw_key_is_long(key)) {
		length = sw_qp_length(leaf + value_bytes);
		shorter = length < shorter ? length : shorter;
		return sw_agree(sw_qp_bytes(leaf + value_bytes), key->long_at, shorter);
	}
	if (length > SW_KEY_SHORT_MAX) {
		/*
		 * The leaf's key has its length in two more bytes, and is longer than any short
		 * key.
		 */
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
	/* If the kernel ended the loop, the result is too small. */
	return left ? 0 : shorter;
}

/* Whether a leaf's key is a prefix of this key and has this many bytes. */
SW_INLINE int sw_qp_is_prefix(sw_at leaf, __u32 value_bytes, __u32 bytes, const struct sw_key *key)
{
	return sw_qp_length(leaf + value_bytes) == bytes && sw_qp_agree(leaf, value_bytes, key) == bytes;
}

/*
 * The leaf whose key ends at a branch's offset, found from the cell of the branch's child 0; 0 if
 * there is none. It is never below another branch, because keys there are longer.
 */
SW_INLINE sw_at sw_qp_end(sw_at window, __u32 value_bytes, __u32 cell, __u32 offset)
{
	sw_at node = sw_qp_node(window, cell);
	__u32 header, border;

	if (cell & SW_QP_CLUSTER) {
		header = sw_u32(node);
		/* The first leaf's key ends where the second one continues. */
		border = sw_u8(node + sw_qp_cluster_borders_at(header) + 1);
		if (sw_qp_cluster_base(header) + border != offset ||
		    sw_u8(node + sw_qp_cluster_bytes_at(header) + 1))
			return 0;
		return sw_qp_node(window, sw_u32(node + sw_qp_cluster_cells_at(header)));
	}
	return (cell & SW_QP_LEAF) && sw_qp_length(node + value_bytes) == offset ? node : 0;
}

/*
 * The leaf before `pos` in a cluster whose key is the longest prefix of that leaf's key with up to
 * `agree` bytes; 0 if there is none.
 */
SW_INLINE sw_at sw_qp_prefix_in(sw_at window, sw_at node, __u32 pos, __u32 agree)
{
	__u32 header = sw_u32(node), base = sw_qp_cluster_base(header), lim = 256, border;
	sw_at borders = node + sw_qp_cluster_borders_at(header);
	sw_at bytes = node + sw_qp_cluster_bytes_at(header);
	sw_at cells = node + sw_qp_cluster_cells_at(header);

	for (pos += sw_zero(); pos && sw_can_loop; pos--) {
		border = sw_u8(borders + pos);
		/* Leaf pos - 1 agrees up to here with all leaves that were visited. */
		if (border > lim)
			continue;
		lim = border;
		if (!sw_u8(bytes + pos) && base + border <= agree)
			return sw_qp_node(window, sw_u32(cells + 4 * (pos - 1)));
	}
	return 0;
}

/*
 * The longest prefix of up to `agree` bytes that ends at the offset of a branch, found by a second
 * descent. Beside writers the path may have changed, so each candidate is compared.
 */
SW_GLOBAL long sw_qp_longest_end(sw_at window, const struct sw_key *key SW_NONNULL, __u32 agree)
{
	__u32 value_bytes = sw_qp_before_key(window);
	__u32 cell = sw_u32(window + SW_QP_ROOT), header, offset, least = 0, depth;
	long longest = -ENOENT;
	sw_at node, end;

	sw_use_arena();
	for (depth = sw_zero(); depth < SW_QP_DEPTH_MAX && sw_can_loop; depth++) {
		if (!cell || cell & SW_QP_KIND)
			return longest;
		node = sw_qp_node(window, cell);
		header = sw_u32(node);
		offset = sw_qp_offset(header);
		if (sw_less(offset, least))
			return -EUCLEAN;
		if (offset > agree)
			return longest;
		least = offset + 1;
		node += sw_qp_cells_at(header);
		end = sw_qp_end(window, value_bytes, sw_u32(node), offset);
		if (end && sw_qp_is_prefix(end, value_bytes, offset, key))
			longest = (long)end;
		if (offset >= sw_key_length(key))
			return longest;
		node -= sw_qp_cells_at(header);
		cell = sw_qp_child_cell(node, header, sw_key_byte(key, offset));
	}
	return -ELOOP;
}

/*
 * The entry with the longest key that is a prefix of this one, which may be the key itself. Returns
 * the place of its value; -ENOENT when there is none; -EOPNOTSUPP when the map has only an index;
 * -EINVAL, -ELOOP and -EUCLEAN as for sw_qp_lookup.
 *
 * The result was in the map and is a prefix. Beside writers it may not be the longest prefix at any
 * one moment, because the descent may meet two changes that never stood together.
 *
 *     sw_key_set(&key, "/usr/lib/os-release", 19);
 *     found = sw_qp_longest_prefix(PATHS, &key);    // "/usr/lib/" if that is the longest one
 */
SW_GLOBAL long sw_qp_longest_prefix(__u32 map, const struct sw_key *key SW_NONNULL)
{
	sw_at window = sw_window_in(map, SW_QP_KINDS), node, leaf, cells;
	__u32 cell, header, offset, length, depth, agree, value_bytes, zero, child;
	__u32 least = sw_zero();
	/*
	 * Child 0 of the lowest branch that may have a prefix there, and the offsets of that branch
	 * and of the highest one. Each has its own zero, or the verifier would distinguish the
	 * states.
	 */
	__u32 end = sw_zero(), end_at = sw_zero(), first_at = sw_zero(), pos;

	sw_use_arena();
	if (!window)
		return -EINVAL;
	length = sw_key_length(key);
	cell = sw_u32(window + SW_QP_ROOT);
	if (!cell)
		return sw_qp_no_root(window, -ENOENT);
	value_bytes = sw_qp_before_key(window);
	for (depth = sw_zero(); depth < SW_QP_DEPTH_MAX && sw_can_loop; depth++) {
		if (!cell)
			return -EUCLEAN;
		if (cell & SW_QP_KIND)
			goto bottom;
		node = sw_qp_node(window, cell);
		header = sw_u32(node);
		offset = sw_qp_offset(header);
		if (sw_less(offset, least))
			return -EUCLEAN;
		least = offset + 1;
		child = offset < length ? sw_qp_child(node, header, sw_key_byte(key, offset)) : 0;
		cells = node + sw_qp_cells_at(header);
		zero = sw_u32(cells);
		cell = sw_u32(cells + 4 * child);
		/*
		 * The child on the path is visited later, and a branch in child 0 has no key that
		 * ends here.
		 */
		if (child && zero & SW_QP_KIND) {
			first_at = end ? first_at : offset;
			end = zero;
			end_at = offset;
		}
	}
	return -ELOOP;
bottom:
	leaf = node = sw_qp_node(window, cell);
	pos = sw_zero();
	if (cell & SW_QP_CLUSTER) {
		header = sw_u32(node);
		pos = sw_qp_blind(node, header, key);
		leaf = sw_qp_node(window, sw_u32(node + sw_qp_cluster_cells_at(header) + 4 * pos));
	}
	agree = sw_qp_agree(leaf, value_bytes, key);
	if (agree == sw_qp_length(leaf + value_bytes))
		return (long)leaf;
	leaf = pos ? sw_qp_prefix_in(window, node, pos, agree) : 0;
	if (leaf)
		return (long)leaf;
	if (!end || first_at > agree)
		return -ENOENT;
	if (end_at <= agree) {
		leaf = sw_qp_end(window, value_bytes, end, end_at);
		if (leaf)
			return (long)leaf;
	}
	return first_at == end_at ? -ENOENT : sw_qp_longest_end(window, key, agree);
}

#endif
