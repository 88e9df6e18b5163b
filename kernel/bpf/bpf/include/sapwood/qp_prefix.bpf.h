/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The longest key of a map that is a prefix of a given key: the closest enclosing name, folder or
 * zone.
 *
 *     long found = sw_qp_longest_prefix(NAMES, &key);
 *     if (found > 0) verdict = sw_u64(found);       // the place of the value
 *
 * One descent finds the entry with the longest prefix in common with the key, which limits the
 * length of a stored prefix. The longest stored prefix is that entry, or one before it in its
 * cluster, or the first entry in child 0 of a branch on the path. The descent records which
 * branches may have a prefix there. Only when the lowest of them has none is there a second
 * descent.
 */
#ifndef SAPWOOD_QP_PREFIX_BPF_H
#define SAPWOOD_QP_PREFIX_BPF_H

#include "qp.bpf.h"

/*
 * The entry whose key ends at a branch's offset, found from the cell of the branch's child 0; 0 if
 * there is none. It is never below another branch, because keys there are longer.
 */
SW_INLINE sw_at sw_qp_end(sw_at window, __u32 cell, __u32 offset)
{
	sw_at node = sw_qp_node(window, cell), borders, entry;
	__u32 header;

	if (!(cell & SW_QP_KIND))
		return 0;
	if (cell & SW_QP_CLUSTER) {
		header = sw_u32(node);
		if (sw_qp_cluster_leaves(header) > 1) {
			/* The first entry's key ends where the second one continues. */
			borders = sw_qp_borders(cell, node, header) + 1;
			if (sw_qp_cluster_base(header) + sw_u8(borders) != offset ||
			    sw_u8(borders + sw_qp_cluster_capacity(header)))
				return 0;
			entry = sw_qp_entry(window, cell, node, header, 0);
			/* No other slot of the cluster has that key. */
			return entry != window ? entry : 0;
		}
		node = sw_qp_entry(window, cell, node, header, 0);
	}
	return sw_qp_text_length(sw_qp_text(window, node)) == offset ? node : 0;
}

/*
 * The entry before `pos` in a cluster whose key is the longest prefix of that entry's key with up
 * to `agree` bytes; 0 if there is none.
 */
SW_INLINE sw_at sw_qp_prefix_in(sw_at window, __u32 cell, __u32 pos, __u32 agree)
{
	sw_at node = sw_qp_node(window, cell), entry;
	__u32 header = sw_u32(node), base = sw_qp_cluster_base(header), lim = 256, border;
	sw_at borders = sw_qp_borders(cell, node, header);
	sw_at bytes = borders + sw_qp_cluster_capacity(header);

	for (pos += sw_zero(); pos && sw_can_loop; pos--) {
		border = sw_u8(borders + pos);
		/* Entry pos - 1 agrees up to here with all entries that were visited. */
		if (border > lim)
			continue;
		lim = border;
		if (!sw_u8(bytes + pos) && base + border <= agree) {
			entry = sw_qp_entry(window, cell, node, header, pos - 1);
			if (entry != window)
				return entry;
		}
	}
	return 0;
}

/*
 * The longest prefix of up to `agree` bytes that ends at the offset of a branch, found by a second
 * descent. Beside writers the path may have changed, so each candidate is compared.
 */
SW_GLOBAL long sw_qp_longest_end(sw_at window, const struct sw_key *key SW_NONNULL, __u32 agree)
{
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
		end = sw_qp_end(window, sw_u32(node), offset);
		if (end && sw_qp_is_prefix(window, end, offset, key))
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
	sw_at window = sw_window_in(map, SW_QP_KINDS), node, entry, cells;
	__u32 cell, header, offset, length, depth, agree, zero, child;
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
	entry = sw_qp_nearest(window, cell, key, &pos);
	agree = sw_qp_agree(window, entry, key);
	if (agree == sw_qp_text_length(sw_qp_text(window, entry)))
		return (long)entry;
	entry = pos ? sw_qp_prefix_in(window, cell, pos, agree) : 0;
	if (entry)
		return (long)entry;
	if (!end || first_at > agree)
		return -ENOENT;
	if (end_at <= agree) {
		entry = sw_qp_end(window, end, end_at);
		if (entry)
			return (long)entry;
	}
	return first_at == end_at ? -ENOENT : sw_qp_longest_end(window, key, agree);
}

#endif
