/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The trie of a map that programs write; a part of qp_write.bpf.h. The caller of each function
 * holds the lock. Branches and clusters: docs/qp.md.
 *
 * In a node that readers can reach, only cells change. To add or remove a leaf or a child, a writer
 * makes a new node and puts it into the place of the old one with one store.
 *
 * The base of a cluster is 0 if all its borders are at offsets up to 255: always, when its keys are
 * short. Else the base is the least offset of a border when the cluster was written.
 */
#ifndef SAPWOOD_QP_WRITE_TRIE_BPF_H
#define SAPWOOD_QP_WRITE_TRIE_BPF_H

/* The most leaves of a joined cluster; and of a cluster that a removal joins with a neighbour. */
#define SW_KQP_JOINED_MAX (SW_QP_FILL_MAX * 3 / 4)
#define SW_KQP_LONELY_MAX (SW_QP_FILL_MAX / 4)

/* The change that a new key needs: sw_kqp_plan chooses it, sw_kqp_attach makes it. */
enum sw_kqp_step {
	SW_KQP_FIRST_LEAF, /* makes the leaf the root */
	SW_KQP_TWO_LEAVES, /* makes a cluster of two leaves */
	SW_KQP_MORE_LEAVES, /* adds a leaf to a cluster */
	SW_KQP_MORE_CHILDREN, /* adds a child to a branch */
	SW_KQP_TWO_CHILDREN, /* makes a branch of two children */
	SW_KQP_SPLIT, /* splits a full cluster; then the key is searched for again */
};

/* The header word of a branch of this many labels, 1 to 256. */
SW_INLINE __u32 sw_kqp_branch(__u32 offset, __u32 labels)
{
	__u32 layout = labels > SW_QP_SMALL_MAX ? SW_QP_BIG : (1 + (labels + 3) / 4) << 27;

	return offset | ((labels - 1) & 0xff) << 16 | layout;
}

/* The units of a branch of this many labels. */
SW_INLINE __u32 sw_kqp_branch_units(__u32 labels)
{
	return (sw_qp_cells_at(sw_kqp_branch(0, labels)) + 4 * (labels + 1) + 7) / 8;
}

/* The slots of a cluster of this many leaves, and the units of a cluster of this many slots. */
SW_INLINE __u32 sw_kqp_slots(__u32 leaves)
{
	return (leaves + 3) & 0x3c;
}
SW_INLINE __u32 sw_kqp_slots_units(__u32 slots)
{
	return (SW_QP_TAGS_AT + 7 * slots + 7) / 8;
}

/* The units of a cluster of this many leaves; 0 for one leaf, which needs no cluster. */
SW_INLINE __u32 sw_kqp_cluster_units(__u32 leaves)
{
	return leaves < 2 ? 0 : sw_kqp_slots_units(sw_kqp_slots(leaves));
}

/* Whether a header is that of a cluster that programs made. */
SW_INLINE int sw_kqp_is_cluster(__u32 header)
{
	__u32 leaves = (header >> 16) & 0xff, slots = sw_qp_cluster_capacity(header);

	return !(header & 0x87000000) && leaves >= 2 && leaves <= slots && slots <= SW_QP_SLOTS_MAX;
}

/* A value of the scratch that has at most 32 bits. */
SW_INLINE __u32 sw_kqp_noted(sw_at window, __u32 what)
{
	return (__u32)sw_kqp_get(window, what);
}

/* An entry of the path: the place of a cell in the window, and the offset of the cell's branch. */
SW_INLINE sw_at sw_kqp_path(sw_at window, __u32 depth)
{
	return window + SW_KQP_SCRATCH + SW_KQP_PATH + (__u64)(depth & (SW_KQP_PATH_MAX - 1)) * 8;
}
SW_INLINE sw_at sw_kqp_path_slot(sw_at window, __u32 depth)
{
	return window + sw_u32(sw_kqp_path(window, depth));
}
SW_INLINE __u32 sw_kqp_path_offset(sw_at window, __u32 depth)
{
	return sw_u32(sw_kqp_path(window, depth) + 4);
}

/* The number of the child of a branch whose cell is at `slot`. */
SW_INLINE __u32 sw_kqp_child(sw_at branch, sw_at slot)
{
	return (__u32)(slot - branch - sw_qp_cells_at(sw_u32(branch))) / 4;
}

/*
 * Descends the branches for a key, to a leaf or a cluster, or to the first branch whose offset is
 * not less than `until`: the cell of that node; or -EUCLEAN, -ELOOP. The path has the cells on the
 * way, and SW_KQP_DEPTH is the number of branches above the node. When the node is a branch, the
 * path has the key's child of it, too. The trie must not be empty.
 */
SW_GLOBAL long sw_kqp_descend(__u64 window, const struct sw_key *key SW_NONNULL, __u32 until)
{
	__u64 slot = SW_QP_ROOT, limit = sw_kqp_get(window, SW_KQP_LIMIT), child;
	__u32 cell, header, offset, length = sw_key_length(key), depth;
	sw_at node;

	for (depth = sw_zero(); depth < SW_KQP_DEPTH_MAX && sw_can_loop; depth++) {
		cell = sw_u32(window + slot);
		if ((__u64)(cell >> 2) - SW_KQP_FIRST >= limit)
			return -EUCLEAN;
		if (cell & SW_QP_KIND) {
			sw_set_u64(sw_kqp_path(window, depth), slot);
			sw_kqp_set(window, SW_KQP_DEPTH, depth);
			return cell;
		}
		node = sw_qp_node(window, cell);
		header = sw_u32(node);
		offset = sw_qp_offset(header);
		sw_set_u64(sw_kqp_path(window, depth), (__u64)offset << 32 | slot);
		child = 0;
		if (offset < length)
			child = sw_qp_child(node, header, sw_key_byte(key, offset));
		slot = node - window + sw_qp_cells_at(header) + child * 4;
		if (offset >= until) {
			sw_set_u64(sw_kqp_path(window, depth + 1), slot);
			sw_kqp_set(window, SW_KQP_DEPTH, depth);
			return cell;
		}
	}
	return -ELOOP;
}

/*
 * Finds the leaf to compare with the key, from a cell that sw_kqp_descend returned: the cell of the
 * leaf, or -EUCLEAN. No leaf of the trie has a longer common prefix with the key. SW_KQP_POS is the
 * slot of a leaf that lies in a cluster.
 */
SW_GLOBAL long sw_kqp_pick(__u64 window, const struct sw_key *key SW_NONNULL, __u32 cell)
{
	sw_at node = sw_qp_node(window, cell);
	__u32 header, slot;

	if (cell & SW_QP_CLUSTER) {
		header = sw_u32(node);
		if ((cell & SW_QP_LEAF) || !sw_kqp_is_cluster(header))
			return -EUCLEAN;
		slot = sw_qp_blind(node, header, key);
		sw_kqp_set(window, SW_KQP_POS, slot);
		cell = sw_u32(node + sw_qp_cluster_cells_at(header) + slot * 4);
	}
	if ((cell & SW_QP_KIND) != SW_QP_LEAF || !sw_kqp_inside(window, cell >> 2))
		return -EUCLEAN;
	return cell;
}

/*
 * Compares a key with that of a leaf: the offset at which they part; SW_KQP_SAME; or -ELOOP.
 * Records in the scratch which of the two comes first, and the label between them.
 */
SW_GLOBAL long sw_kqp_mismatch(__u64 window, const struct sw_key *key SW_NONNULL, __u32 cell)
{
	sw_at text = sw_qp_node(window, cell) + sw_kqp_value_bytes(window);
	__u32 theirs = sw_qp_length(text), length = sw_key_length(key), i, left, shorter, at, words;
	__u32 label = 0, mine;
	__u64 differ = 0;

	/* One byte before the key: the words of a `struct sw_key` begin with the length. */
	text = sw_qp_bytes(text) - 1;
	shorter = theirs < length ? theirs : length;
	at = shorter;
	if (sw_key_is_long(key)) {
		at = sw_agree(text + 1, key->long_at, shorter);
	} else {
		words = (shorter & 0xff) / 8 + 1;
		sw_each_word(i, left, words) {
			differ = sw_u64(text + i * 8) ^ sw_key_word(key, i);
			/* The length is no part of the key. */
			if (!i)
				differ &= ~0xffull;
			if (differ) {
				differ = (((differ & SW_LOWS) + SW_LOWS) | differ) & SW_HIGHS;
				at = i * 8 + sw_first_byte(differ) - 1;
				break;
			}
		}
		if (!differ && left)
			return -ELOOP;
	}
	if (at >= shorter) {
		at = shorter;
		if (theirs == length)
			return SW_KQP_SAME;
	}
	/* The byte of each key there, plus one; 0 at its end. The label is the greater byte. */
	mine = at < length ? sw_key_byte(key, at) + 1 : 0;
	theirs = at < theirs ? sw_u8(text + 1 + at) + 1u : 0;
	sw_kqp_set(window, SW_KQP_BEFORE, mine < theirs);
	if (mine && theirs)
		label = (mine < theirs ? theirs : mine) - 1;
	sw_kqp_set(window, SW_KQP_LABEL, label);
	return at;
}

/*
 * Finds the offset at which a key parts from all keys of the trie: the offset; SW_KQP_SAME;
 * SW_KQP_EMPTY; or an error.
 */
SW_GLOBAL long sw_kqp_seek(__u64 window, const struct sw_key *key SW_NONNULL)
{
	long cell;

	if (!sw_u32(window + SW_QP_ROOT))
		return SW_KQP_EMPTY;
	cell = sw_kqp_descend(window, key, SW_KQP_NEVER);
	if (cell < 0)
		return cell;
	cell = sw_kqp_pick(window, key, (__u32)cell);
	if (cell < 0)
		return cell;
	sw_kqp_set(window, SW_KQP_CELL, cell);
	return sw_kqp_mismatch(window, key, (__u32)cell);
}

/* The place of the cell of the leaf that sw_kqp_descend and sw_kqp_pick found. */
SW_INLINE sw_at sw_kqp_leaf_slot(sw_at window)
{
	sw_at slot = sw_kqp_path_slot(window, sw_kqp_noted(window, SW_KQP_DEPTH)), node;
	__u32 cell = sw_u32(slot);

	if (cell & SW_QP_LEAF)
		return slot;
	node = sw_qp_node(window, cell);
	node += sw_qp_cluster_cells_at(sw_u32(node));
	return node + (sw_kqp_get(window, SW_KQP_POS) & 0x1f) * 4;
}

/* The slot of a new key in a cluster. The key parts at `part` from the leaf that was found. */
SW_GLOBAL int sw_kqp_place(__u64 window, __u64 node, __u32 part)
{
	__u32 header = sw_u32(node), leaves = sw_qp_cluster_leaves(header), slot;
	__u32 base = sw_qp_cluster_base(header);
	sw_at borders = node + sw_qp_cluster_borders_at(header);

	slot = sw_kqp_noted(window, SW_KQP_POS);
	if (sw_kqp_get(window, SW_KQP_BEFORE)) {
		while (slot && base + sw_u8(borders + slot) > part && sw_can_loop)
			slot--;
		return slot;
	}
	slot++;
	while (slot < leaves && base + sw_u8(borders + slot) > part && sw_can_loop)
		slot++;
	return slot;
}

/*
 * The range of the offsets of the borders from slot `from` up to `until`: the least in the lower
 * half, the greatest in the upper half.
 */
SW_GLOBAL __u64 sw_kqp_borders(__u64 node, __u32 from, __u32 until)
{
	__u32 header = sw_u32(node), base = sw_qp_cluster_base(header), border, i;
	sw_at borders = node + sw_qp_cluster_borders_at(header);
	__u64 least = 0xffffffff, greatest = 0;

	sw_hide(least);
	sw_hide(greatest);
	for (i = sw_zero() + from; i < until && sw_can_loop; i++) {
		border = base + sw_u8(borders + i);
		least = border < least ? border : least;
		greatest = border > greatest ? border : greatest;
	}
	return greatest << 32 | least;
}

/* The union of two such ranges. */
SW_INLINE __u64 sw_kqp_both(__u64 one, __u64 other)
{
	__u64 least = (__u32)one < (__u32)other ? (__u32)one : (__u32)other;
	__u64 greatest = one >> 32 > other >> 32 ? one >> 32 : other >> 32;

	return greatest << 32 | least;
}

/* The base of a cluster whose borders have this range; or -E2BIG, when they are too far apart. */
SW_INLINE long sw_kqp_base(__u64 borders)
{
	__u32 least = (__u32)borders, greatest = (__u32)(borders >> 32);

	if (greatest <= 255)
		return 0;
	return greatest - least <= 255 ? (long)least : -E2BIG;
}

/* The base of a cluster with a new leaf that parts from its neighbour at `part`; or -E2BIG. */
SW_INLINE long sw_kqp_base_with(sw_at node, __u32 header, __u32 part)
{
	__u64 there;

	/* Always, when keys are short. */
	if (!sw_qp_cluster_base(header) && part <= 255)
		return 0;
	there = sw_kqp_borders(node, 1, sw_qp_cluster_leaves(header));
	return sw_kqp_base(sw_kqp_both(there, (__u64)part << 32 | part));
}

/* Sets the base of a new cluster. */
SW_INLINE void sw_kqp_set_base(sw_at cluster, __u32 base)
{
	if (base)
		sw_set_u32(cluster, sw_u32(cluster) | (base & 0xffff));
}

/*
 * Changes the borders of a new cluster from slot `from` up to `until`: they counted from the base
 * `before`, and then count from `base`.
 */
SW_GLOBAL int sw_kqp_shift(__u64 cluster, __u32 from, __u32 until, __u32 before, __u32 base)
{
	sw_at borders = cluster + sw_qp_cluster_borders_at(sw_u32(cluster));
	__u32 i;

	for (i = sw_zero() + from; i < until && i < SW_QP_SLOTS_MAX && sw_can_loop; i++)
		sw_set_u8(borders + i, sw_u8(borders + i) + before - base);
	return 0;
}

/*
 * Plans a new child of the branch at this depth of the path. The key parts from the others at the
 * branch's offset. The units of the new branch, or -EUCLEAN.
 */
SW_INLINE long sw_kqp_plan_child(sw_at window, __u32 depth)
{
	sw_at slot = sw_kqp_path_slot(window, depth), node = sw_qp_node(window, sw_u32(slot));
	__u32 labels = sw_qp_labels(sw_u32(node));

	sw_kqp_set(window, SW_KQP_SLOT, slot);
	sw_kqp_set(window, SW_KQP_STEP, SW_KQP_MORE_CHILDREN);
	slot = sw_kqp_path_slot(window, depth + 1);
	sw_kqp_set(window, SW_KQP_AT, sw_kqp_child(node, slot));
	return labels < 256 ? (long)sw_kqp_branch_units(labels + 1) : -EUCLEAN;
}

/*
 * The depth of the topmost branch above the leaf whose offset is not less than `part`, or an error.
 * Such a branch must exist. If the path no longer has it, the function descends for the key again.
 */
SW_INLINE long sw_kqp_above(sw_at window, const struct sw_key *key, __u32 part, __u32 depth)
{
	__u32 left = SW_KQP_PATH_MAX - 4;
	long found;

	for (depth--; depth && left && sw_can_loop; depth--) {
		if (sw_kqp_path_offset(window, depth - 1) < part)
			return depth;
		left--;
	}
	if (!depth)
		return 0;
	if (left)
		return -ELOOP;
	found = sw_kqp_descend(window, key, part);
	if (found < 0 || found & SW_QP_KIND)
		return found < 0 ? found : -EUCLEAN;
	return sw_kqp_noted(window, SW_KQP_DEPTH);
}

/* sw_kqp_plan for a key that belongs to the leaf or cluster at the end of the path. */
SW_INLINE long sw_kqp_plan_leaf(sw_at window, __u32 part, __u32 depth)
{
	sw_at slot = sw_kqp_path_slot(window, depth), node;
	__u32 cell = sw_u32(slot), header, leaves;

	sw_kqp_set(window, SW_KQP_SLOT, slot);
	if (cell & SW_QP_LEAF) {
		sw_kqp_set(window, SW_KQP_STEP, SW_KQP_TWO_LEAVES);
		return sw_kqp_cluster_units(2);
	}
	node = sw_qp_node(window, cell);
	header = sw_u32(node);
	leaves = sw_qp_cluster_leaves(header);
	if (leaves < SW_QP_FILL_MAX && sw_kqp_base_with(node, header, part) >= 0) {
		sw_kqp_set(window, SW_KQP_STEP, SW_KQP_MORE_LEAVES);
		sw_kqp_set(window, SW_KQP_AT, sw_kqp_place(window, node, part));
		return sw_kqp_cluster_units(leaves + 1);
	}
	if (leaves < SW_QP_FILL_MAX && part < (__u32)sw_kqp_borders(node, 1, leaves)) {
		/* The key parts too far before all borders: all leaves are on one side of it. */
		if (depth && sw_kqp_path_offset(window, depth - 1) == part)
			return sw_kqp_plan_child(window, depth - 1);
		sw_kqp_set(window, SW_KQP_STEP, SW_KQP_TWO_CHILDREN);
		return 2;
	}
	sw_kqp_set(window, SW_KQP_STEP, SW_KQP_SPLIT);
	return 0;
}

/*
 * Plans the change for a new key. Records in the scratch the step, the cell that the step changes,
 * and the place in the node of that cell. The units of the node that the step makes, 0 if none; or
 * an error.
 */
SW_GLOBAL long sw_kqp_plan(__u64 window, const struct sw_key *key SW_NONNULL, __u32 part)
{
	__u32 depth = sw_kqp_noted(window, SW_KQP_DEPTH);
	long above;

	sw_kqp_set(window, SW_KQP_PART, part);
	if (part == SW_KQP_EMPTY) {
		sw_kqp_set(window, SW_KQP_SLOT, window + SW_QP_ROOT);
		sw_kqp_set(window, SW_KQP_STEP, SW_KQP_FIRST_LEAF);
		return 0;
	}
	if (!depth || sw_kqp_path_offset(window, depth - 1) <= part)
		return sw_kqp_plan_leaf(window, part, depth);
	/* The key parts from the others above the leaf's branch. */
	above = sw_kqp_above(window, key, part, depth);
	if (above < 0)
		return above;
	if (sw_kqp_path_offset(window, (__u32)above) == part)
		return sw_kqp_plan_child(window, (__u32)above);
	sw_kqp_set(window, SW_KQP_SLOT, sw_kqp_path_slot(window, (__u32)above));
	sw_kqp_set(window, SW_KQP_STEP, SW_KQP_TWO_CHILDREN);
	return 2;
}

/* A word whose lowest `bits` bits are ones: none for a number below 0, all for one above 63. */
SW_INLINE __u64 sw_kqp_ones(__s64 bits)
{
	__s64 none = bits >> 63, some = (bits - 64) >> 63;

	/* Branches here would multiply the verifier's states of the loops around it. */
	sw_hide(none);
	sw_hide(some);
	return ((((1ull << (bits & 63)) - 1) | ~some) & ~none);
}

/* A word with a 1 in each byte that is not less than `byte` in this word, and a 0 in the others. */
SW_INLINE __u64 sw_kqp_not_less(__u64 word, __u32 byte)
{
	__u64 lanes = 0x0001000100010001ull, even, odd;

	/* In lanes of 16 bits, bit 8 stays set if the byte is not less. */
	even = ((word & 0xff * lanes) | lanes << 8) - byte * lanes;
	odd = ((word >> 8 & 0xff * lanes) | lanes << 8) - byte * lanes;
	return (even >> 8 & lanes) | (odd & lanes << 8);
}

/* Merges two words: the bits of the mask come from `one`, and the rest from `other`. */
SW_INLINE __u64 sw_kqp_word(sw_at one, sw_at other, __u64 mask)
{
	return (sw_u64(one) & mask) | (sw_u64(other) & ~mask);
}

/*
 * Writes an array of bytes, one for each slot of a cluster: the first `at` bytes come from `one`,
 * and the rest from `other`. The slots behind the last leaf get zeros.
 */
SW_GLOBAL int sw_kqp_bytes(__u64 one, __u64 other, __u64 to, __u32 at, __u64 how)
{
	__s64 first = (__s64)at * 8, there = (how & 0xff) * 8;
	__u32 slots = (how >> 16) & 0x3c;

	for (; slots > 4 && sw_can_loop; slots -= 8) {
		sw_set_u64(to, sw_kqp_word(one, other, sw_kqp_ones(first)) & sw_kqp_ones(there));
		first -= 64;
		there -= 64;
		one += 8;
		other += 8;
		to += 8;
	}
	if (slots) {
		other = sw_kqp_word(one, other, sw_kqp_ones(first)) & sw_kqp_ones(there);
		sw_set_u32(to, (__u32)other);
	}
	return 0;
}

/* Copies this many cells. */
SW_INLINE void sw_kqp_copy_cells(sw_at from, sw_at to, __u32 cells)
{
	__u32 i;

	for (i = sw_zero(); i + 3 < cells && sw_can_loop; i += 4) {
		sw_set_u64(to, sw_u64(from));
		sw_set_u64(to + 8, sw_u64_of(from, 8));
		from += 16;
		to += 16;
	}
	if (cells & 2) {
		sw_set_u64(to, sw_u64(from));
		from += 8;
		to += 8;
	}
	if (cells & 1)
		sw_set_u32(to, sw_u32(from));
}
SW_GLOBAL int sw_kqp_copy(__u64 from, __u64 to, __u32 cells)
{
	sw_kqp_copy_cells(from, to, cells);
	return 0;
}

/* The word `how` of sw_kqp_weave. */
SW_INLINE __u64 sw_kqp_weaving(__u32 leaves, __u32 slots, __u32 at, __u32 border)
{
	return leaves | (__u64)slots << 16 | (__u64)at << 32 | (__u64)border << 48;
}

/*
 * Writes a cluster from two others, or from one. The leaves before slot `at` come from `one`; each
 * later leaf i is leaf i - shift of `other`. The same holds for the borders and the slot `border`.
 */
SW_GLOBAL int sw_kqp_weave(__u64 one, __u64 other, __u64 to, __u64 how, __s32 shift)
{
	__u32 leaves = how & 0xff, slots = (how >> 16) & 0x3c, at = (how >> 32) & 0xff, i;
	__u32 left = sw_qp_cluster_capacity(sw_u32(one)), border = how >> 48;
	__u32 right = sw_qp_cluster_capacity(sw_u32(other));

	sw_set_u32(to, leaves << 16 | slots << 25);
	one += SW_QP_TAGS_AT;
	to += SW_QP_TAGS_AT;
	other += SW_QP_TAGS_AT - (__s64)shift;
	sw_kqp_bytes(one, other, to, at, how);
	sw_kqp_bytes(one + left * 5, other + right * 5, to + slots * 5, border, how);
	sw_kqp_bytes(one + left * 6, other + right * 6, to + slots * 6, border, how);
	/* Clears the rest of the last unit. */
	if (!(slots & 4))
		sw_set_u32(to + slots * 7, 0);
	/* Cells have four bytes each; `other` is shifted by one byte for each slot already. */
	one += left;
	to += slots;
	other += right - (__s64)shift * 3 + at * 4;
	sw_kqp_copy_cells(one, to, at);
	if (at < leaves)
		sw_kqp_copy_cells(other, to + at * 4, leaves - at);
	for (i = leaves; i < slots && sw_can_loop; i++)
		sw_set_u32(to + i * 4, 0);
	return 0;
}

/* Puts a leaf into a slot of a new cluster. */
SW_INLINE void sw_kqp_put_leaf(sw_at cluster, __u32 slot, __u32 cell, __u32 tag)
{
	__u32 header = sw_u32(cluster);

	sw_set_u8(cluster + SW_QP_TAGS_AT + slot, tag);
	sw_set_u32(cluster + sw_qp_cluster_cells_at(header) + slot * 4, cell);
}

/* Sets the border before a slot of a new cluster: the offset from the base, and the label. */
SW_INLINE void sw_kqp_put_border(sw_at cluster, __u32 slot, __u32 offset, __u32 label)
{
	__u32 header = sw_u32(cluster);

	sw_set_u8(cluster + sw_qp_cluster_borders_at(header) + slot, offset);
	sw_set_u8(cluster + sw_qp_cluster_bytes_at(header) + slot, label);
}

/* As sw_qp_key_tag, for the key of a leaf: a leaf outside clusters has no stored tag. */
SW_INLINE __u32 sw_kqp_leaf_tag(sw_at window, __u32 cell)
{
	sw_at text = sw_qp_node(window, cell) + sw_kqp_value_bytes(window);

	return sw_qp_tag_at(sw_qp_bytes(text), sw_qp_length(text));
}

/* The number of leaves of a leaf or a cluster; for a branch, too many to join. */
SW_INLINE __u32 sw_kqp_leaves(sw_at window, __u32 cell)
{
	__u32 header;

	if ((cell & SW_QP_KIND) == SW_QP_LEAF)
		return 1;
	header = sw_u32(sw_qp_node(window, cell));
	return (cell & SW_QP_KIND) == SW_QP_CLUSTER && sw_kqp_is_cluster(header) ?
		       sw_qp_cluster_leaves(header) :
		       SW_QP_FILL_MAX;
}

/* The base of a cluster; 0 for a leaf. */
SW_INLINE __u32 sw_kqp_base_of(sw_at window, __u32 cell)
{
	return cell & SW_QP_CLUSTER ? sw_qp_cluster_base(sw_u32(sw_qp_node(window, cell))) : 0;
}

/*
 * The range of the borders of a cluster of two cells, as sw_kqp_borders. Each cell is a leaf or a
 * cluster, and they part at this offset.
 */
SW_INLINE __u64 sw_kqp_united(sw_at window, __u64 cells, __u32 offset)
{
	__u32 left = (__u32)cells, right = (__u32)(cells >> 32);
	__u64 borders = (__u64)offset << 32 | offset;

	/* Always, when keys are short: then the base is 0. */
	if (offset <= 255 && !(sw_kqp_base_of(window, left) | sw_kqp_base_of(window, right)))
		return borders;
	if (left & SW_QP_CLUSTER)
		borders = sw_kqp_both(borders, sw_kqp_borders(sw_qp_node(window, left), 1,
							      sw_kqp_leaves(window, left)));
	if (right & SW_QP_CLUSTER)
		borders = sw_kqp_both(borders, sw_kqp_borders(sw_qp_node(window, right), 1,
							      sw_kqp_leaves(window, right)));
	return borders;
}

/*
 * Writes a cluster of the leaves of two cells, each a leaf or a cluster. The cells part at
 * `offset`, with this label.
 */
SW_GLOBAL int sw_kqp_unite(__u64 window, __u64 cells, __u64 to, __u32 offset, __u32 label)
{
	__u32 left = (__u32)cells, right = (__u32)(cells >> 32), base;
	__u32 one = sw_kqp_leaves(window, left), leaves = one + sw_kqp_leaves(window, right);

	/* This reads a single leaf as a cluster; all bytes from it are overwritten below. */
	sw_kqp_weave(sw_qp_node(window, left), sw_qp_node(window, right), to,
		     sw_kqp_weaving(leaves, sw_kqp_slots(leaves), one, one), one);
	base = (__u32)sw_kqp_base(sw_kqp_united(window, cells, offset));
	if (base | sw_kqp_base_of(window, left) | sw_kqp_base_of(window, right)) {
		sw_kqp_set_base(to, base);
		sw_kqp_shift(to, 1, one, sw_kqp_base_of(window, left), base);
		sw_kqp_shift(to, one + 1, leaves, sw_kqp_base_of(window, right), base);
	}
	offset -= base;
	if (left & SW_QP_LEAF) {
		sw_kqp_put_leaf(to, 0, left, sw_kqp_leaf_tag(window, left));
		sw_kqp_put_border(to, 0, 0, 0);
	}
	if (right & SW_QP_LEAF)
		sw_kqp_put_leaf(to, one, right, sw_kqp_leaf_tag(window, right));
	sw_kqp_put_border(to, one, offset, label);
	return 0;
}

/* Adds to the number of clusters and to their units; both may be negative. */
SW_INLINE void sw_kqp_count_cluster(sw_at window, __u32 more, __u32 units)
{
	sw_kqp_count(window, SW_KQP_CLUSTERS, more);
	sw_kqp_count(window, SW_KQP_CLUSTER_UNITS, units);
}

/*
 * Counts a branch whose units change from `old` to `new`. 0 units: the branch is new, or removed.
 */
SW_INLINE void sw_kqp_count_branch(sw_at window, __u32 old, __u32 new)
{
	sw_kqp_count(window, SW_KQP_BRANCHES, !old - !new);
	sw_kqp_count(window, SW_KQP_BRANCH_UNITS,
		     sw_kqp_block_units(new) - sw_kqp_block_units(old));
}

/*
 * Writes the labels of a small branch from those of another. The labels before number `at` are the
 * same; each later label i is label i - shift of the other. Write the cells after this call.
 */
SW_INLINE void sw_kqp_labels(sw_at from, sw_at to, __u32 at, __u32 labels, __s32 shift)
{
	sw_at other = from - (__s64)shift + SW_QP_LABELS_AT;
	__s64 first;
	__u32 i;

	from += SW_QP_LABELS_AT;
	to += SW_QP_LABELS_AT;
	for (i = sw_zero(); i < labels && sw_can_loop; i += 8) {
		first = ((__s64)at - i) * 8;
		sw_set_u64(to + i, sw_kqp_word(from + i, other + i, sw_kqp_ones(first)));
	}
}

/* Repeats the last label of a small branch up to a multiple of four labels. */
SW_INLINE void sw_kqp_pad(sw_at branch, __u32 labels)
{
	__u32 last = sw_u8(branch + SW_QP_LABELS_AT + labels - 1), i;

	for (i = labels; (i & 3) && sw_can_loop; i++)
		sw_set_u8(branch + SW_QP_LABELS_AT + i, last);
}

/* Writes the map of a big branch of `labels` labels from that of another, which has one less. */
SW_GLOBAL int sw_kqp_map_more(__u64 from, __u64 to, __u32 label, __u32 labels)
{
	__u64 word, less, full = -(__u64)(labels >> 8);
	__u32 i;

	for (i = sw_zero(); i < 256 && sw_can_loop; i += 8) {
		word = sw_u64(from + SW_QP_LABELS_AT + i);
		less = sw_kqp_ones(((__s64)label - i) * 8);
		/* The map of a branch of 256 labels stores the child's number less one. */
		word += SW_ONES & ~less & ~full;
		word -= SW_ONES & less & full;
		sw_set_u64(to + SW_QP_LABELS_AT + i, word);
	}
	return 0;
}

/* Writes the map of a big branch with one label more than the small branch at `from`. */
SW_GLOBAL int sw_kqp_map_new(__u64 from, __u64 to, __u32 label)
{
	__u32 labels = sw_qp_labels(sw_u32(from)), child = sw_zero(), i;
	__u64 differ;

	for (i = sw_zero(); i < 256 && sw_can_loop; i++) {
		/* All labels are different. */
		differ = sw_u8(from + SW_QP_LABELS_AT + child) ^ i;
		sw_hide(differ);
		child += ((differ - 1) >> 63) & sw_less(child, labels);
		sw_hide(child);
		sw_set_u8(to + SW_QP_LABELS_AT + i, child + 1 - sw_less(i, label));
	}
	return 0;
}

/*
 * Writes at `to` the branch at `from` with one more label. Two cells replace the child of this
 * number; the lower half of `cells` is the left one.
 */
SW_GLOBAL int sw_kqp_grow(__u64 from, __u64 to, __u32 child, __u32 label, __u64 cells)
{
	__u32 old = sw_u32(from), had = sw_qp_labels(old), labels = had + 1;
	__u32 header = sw_kqp_branch(sw_qp_offset(old), labels), i;

	child = child < had ? child : had;
	if (!(header & SW_QP_BIG)) {
		sw_kqp_labels(from, to, child, labels, 1);
		sw_set_u8(to + SW_QP_LABELS_AT + child, label);
		sw_kqp_pad(to, labels);
	} else if (old & SW_QP_BIG) {
		sw_kqp_map_more(from, to, label, labels);
	} else {
		sw_kqp_map_new(from, to, label);
	}
	sw_set_u32(to, header);
	from += sw_qp_cells_at(old);
	to += sw_qp_cells_at(header);
	sw_kqp_copy(from, to, child);
	sw_set_u64(to + child * 4, cells);
	sw_kqp_copy(from + child * 4 + 4, to + child * 4 + 8, had - child);
	/* Clears the rest of the last unit. */
	i = sw_qp_cells_at(header) + labels * 4 + 4;
	if (i & 4)
		sw_set_u32(to + labels * 4 + 4, 0);
	return 0;
}

/*
 * Writes the map of a big branch from that of another, without the label of this number. The other
 * has `labels` labels.
 */
SW_GLOBAL int sw_kqp_map_less(__u64 from, __u64 to, __u32 number, __u32 labels)
{
	__u64 word, not_less, full = -(__u64)(labels >> 8);
	__u32 i, least = number + 1 - (labels >> 8);

	for (i = sw_zero(); i < 256 && sw_can_loop; i += 8) {
		word = sw_u64(from + SW_QP_LABELS_AT + i);
		/* Marks the bytes whose child is behind that label. */
		not_less = sw_kqp_not_less(word, least);
		word -= not_less & ~full;
		word += (SW_ONES ^ not_less) & full;
		sw_set_u64(to + SW_QP_LABELS_AT + i, word);
	}
	return 0;
}

/* Writes the labels of a small branch from a big one, without the label of this number. */
SW_GLOBAL int sw_kqp_unmap(__u64 from, __u64 to, __u32 number)
{
	__u32 i, child;

	/*
	 * Stores each byte in the place of the label of its child. The child's first byte comes
	 * last, and is the label.
	 */
	for (i = sw_zero() + 256; i && sw_can_loop; i--) {
		child = sw_u8(from + SW_QP_LABELS_AT + i - 1);
		child -= sw_less(number, child);
		sw_set_u8(to + SW_QP_LABELS_AT - 1 + child, i - 1);
	}
	return 0;
}

/*
 * Writes at `to` the branch at `from` without the child of this number and the label before that
 * child. The branch must have three children or more.
 */
SW_GLOBAL int sw_kqp_shrink(__u64 from, __u64 to, __u32 child)
{
	__u32 old = sw_u32(from), had = sw_qp_labels(old), labels = had - 1;
	__u32 header = sw_kqp_branch(sw_qp_offset(old), labels), number, i;

	child = child < had ? child : had;
	number = child ? child - 1 : 0;
	if (!(old & SW_QP_BIG)) {
		sw_kqp_labels(from, to, number, labels, -1);
		sw_kqp_pad(to, labels);
	} else if (header & SW_QP_BIG) {
		sw_kqp_map_less(from, to, number, had);
	} else {
		sw_kqp_unmap(from, to, number);
	}
	sw_set_u32(to, header);
	from += sw_qp_cells_at(old);
	to += sw_qp_cells_at(header);
	sw_kqp_copy(from, to, child);
	sw_kqp_copy(from + child * 4 + 4, to + child * 4, had - child);
	/* Clears the rest of the last unit. */
	i = sw_qp_cells_at(header) + labels * 4 + 4;
	if (i & 4)
		sw_set_u32(to + labels * 4 + 4, 0);
	return 0;
}

/* Writes a branch of two children; the lower half of `cells` is the left one. */
SW_INLINE void sw_kqp_pair(sw_at to, __u32 offset, __u32 label, __u64 cells)
{
	sw_set_u64(to, sw_kqp_branch(offset, 1) | (__u64)(label * 0x01010101u) << 32);
	sw_set_u64(to + 8, cells);
}

/* Packs two cells, in the order of their keys, for the functions above. */
SW_INLINE __u64 sw_kqp_cells(__u32 left, __u32 right)
{
	return (__u64)right << 32 | left;
}

/* Packs the cells of a new leaf and of its neighbour, in the order of their keys. */
SW_INLINE __u64 sw_kqp_beside(sw_at window, __u32 leaf, __u32 other)
{
	if (sw_kqp_get(window, SW_KQP_BEFORE))
		return sw_kqp_cells(leaf, other);
	return sw_kqp_cells(other, leaf);
}

/* The tag of a new leaf. */
SW_GLOBAL int sw_kqp_new_tag(const struct sw_key *key SW_NONNULL)
{
	return (int)sw_qp_key_tag(key);
}

/* Puts a new leaf into a cluster. */
SW_GLOBAL int sw_kqp_more_leaves(__u64 window, __u32 leaf, __u32 tag)
{
	__u32 at = sw_kqp_noted(window, SW_KQP_AT), border, there, leaves, had, base, before;
	__u32 part = sw_kqp_noted(window, SW_KQP_PART);
	sw_at slot = sw_kqp_get(window, SW_KQP_SLOT), old, to;

	there = sw_u32(slot);
	old = sw_qp_node(window, there);
	leaves = sw_qp_cluster_leaves(sw_u32(old)) + 1;
	had = sw_qp_cluster_capacity(sw_u32(old));
	/* The new border is between the new leaf and the leaf that its key was compared with. */
	border = at + sw_kqp_noted(window, SW_KQP_BEFORE);
	to = sw_ref(window, sw_kqp_noted(window, SW_KQP_NODE));
	sw_kqp_weave(old, old, to, sw_kqp_weaving(leaves, sw_kqp_slots(leaves), at, border), 1);
	before = sw_qp_cluster_base(sw_u32(old));
	base = (__u32)sw_kqp_base_with(old, sw_u32(old), part);
	if (base | before) {
		sw_kqp_set_base(to, base);
		sw_kqp_shift(to, 1, leaves, before, base);
	}
	sw_kqp_put_leaf(to, at, leaf, tag);
	sw_kqp_put_border(to, border, part - base, sw_kqp_noted(window, SW_KQP_LABEL));
	sw_kqp_count_cluster(window, 0, sw_kqp_cluster_units(leaves) - sw_kqp_slots_units(had));
	sw_publish_u32(slot, sw_kqp_noted(window, SW_KQP_NODE) << 2 | SW_QP_CLUSTER);
	sw_kqp_retire(window, there);
	return 0;
}

/* Makes a cluster of a new leaf and another leaf. */
SW_GLOBAL int sw_kqp_two_leaves(__u64 window, __u32 leaf)
{
	sw_at slot = sw_kqp_get(window, SW_KQP_SLOT);
	__u32 ref = sw_kqp_noted(window, SW_KQP_NODE);

	sw_kqp_unite(window, sw_kqp_beside(window, leaf, sw_u32(slot)), sw_ref(window, ref),
		     sw_kqp_noted(window, SW_KQP_PART), sw_kqp_noted(window, SW_KQP_LABEL));
	sw_kqp_count_cluster(window, 1, sw_kqp_cluster_units(2));
	sw_publish_u32(slot, ref << 2 | SW_QP_CLUSTER);
	return 0;
}

/* Adds a new leaf to a branch, as the neighbour of one of its children. */
SW_GLOBAL int sw_kqp_more_children(__u64 window, __u32 leaf)
{
	sw_at slot = sw_kqp_get(window, SW_KQP_SLOT), old;
	__u32 there = sw_u32(slot), at = sw_kqp_noted(window, SW_KQP_AT), child, labels;
	__u32 ref = sw_kqp_noted(window, SW_KQP_NODE);

	old = sw_qp_node(window, there);
	labels = sw_qp_labels(sw_u32(old));
	child = sw_u32(old + sw_qp_cells_at(sw_u32(old)) + at * 4);
	sw_kqp_grow(old, sw_ref(window, ref), at, sw_kqp_noted(window, SW_KQP_LABEL),
		    sw_kqp_beside(window, leaf, child));
	sw_kqp_count_branch(window, sw_kqp_branch_units(labels), sw_kqp_branch_units(labels + 1));
	sw_publish_u32(slot, ref << 2);
	sw_kqp_retire(window, there);
	return 0;
}

/* Makes a branch of a new leaf and the node that was in its place. */
SW_GLOBAL int sw_kqp_two_children(__u64 window, __u32 leaf)
{
	sw_at slot = sw_kqp_get(window, SW_KQP_SLOT);
	__u32 ref = sw_kqp_noted(window, SW_KQP_NODE);

	sw_kqp_pair(sw_ref(window, ref), sw_kqp_noted(window, SW_KQP_PART),
		    sw_kqp_noted(window, SW_KQP_LABEL), sw_kqp_beside(window, leaf, sw_u32(slot)));
	sw_kqp_count_branch(window, 0, 2);
	sw_publish_u32(slot, ref << 2);
	return 0;
}

/*
 * Makes the change that sw_kqp_plan chose. Publishes the new leaf with one store, and retires the
 * node that was replaced. The function is inline, because the kernel limits the depth of calls and
 * the sum of their stacks.
 */
SW_INLINE void sw_kqp_attach(sw_at window, const struct sw_key *key, __u32 leaf)
{
	switch (sw_kqp_noted(window, SW_KQP_STEP)) {
	case SW_KQP_MORE_LEAVES:
		sw_kqp_more_leaves(window, leaf, sw_kqp_new_tag(key));
		break;
	case SW_KQP_TWO_LEAVES:
		sw_kqp_two_leaves(window, leaf);
		break;
	case SW_KQP_MORE_CHILDREN:
		sw_kqp_more_children(window, leaf);
		break;
	case SW_KQP_TWO_CHILDREN:
		sw_kqp_two_children(window, leaf);
		break;
	default:
		sw_publish_u32(sw_kqp_get(window, SW_KQP_SLOT), leaf);
	}
}

/*
 * The slot before which a full cluster is split: of the borders with the least offset, the nearest
 * to the middle.
 */
SW_GLOBAL int sw_kqp_middle(__u64 node)
{
	__u32 header = sw_u32(node), leaves = sw_qp_cluster_leaves(header), i;
	sw_at borders = node + sw_qp_cluster_borders_at(header);
	__u64 best = ~0ull >> 1, this, less;
	__s64 far, sign;

	sw_hide(best);
	for (i = sw_zero() + 1; i < leaves && sw_can_loop; i++) {
		far = (__s64)2 * i - leaves;
		sign = far >> 63;
		sw_hide(sign);
		this = (__u64)sw_u8(borders + i) << 16 | (__u64)((far ^ sign) - sign) << 8 | i;
		less = -sw_less(this, best);
		best = (this & less) | (best & ~less);
	}
	return (int)(best & 0xff);
}

/*
 * Makes a cell of `leaves` leaves of a cluster, from slot `first` on: that of the one leaf, or that
 * of a new cluster. `block` says which block the new cluster gets.
 */
SW_INLINE __u32 sw_kqp_slice(sw_at window, sw_at from, __u32 first, __u32 leaves, __u32 block)
{
	__u32 header = sw_u32(from), before = sw_qp_cluster_base(header), base = 0, ref;
	sw_at to;

	if (leaves < 2)
		return sw_u32(from + sw_qp_cluster_cells_at(header) + first * 4);
	ref = sw_kqp_noted(window, block);
	to = sw_ref(window, ref);
	sw_kqp_weave(from, from, to, sw_kqp_weaving(leaves, sw_kqp_slots(leaves), 0, 0),
		     -(__s32)first);
	if (before) {
		base = (__u32)sw_kqp_base(sw_kqp_borders(from, first + 1, first + leaves));
		sw_kqp_set_base(to, base);
		sw_kqp_shift(to, 1, leaves, before, base);
	}
	sw_kqp_put_border(to, 0, 0, 0);
	return ref << 2 | SW_QP_CLUSTER;
}

/*
 * Plans the split of the full cluster at the end of the path, and takes the blocks: 0, or an error.
 * Records in the scratch the slot, the offset and the label of the border, and the step: the branch
 * above gets the label, or a new branch of two children does.
 */
SW_GLOBAL long sw_kqp_split_plan(__u64 window)
{
	__u32 depth = sw_kqp_noted(window, SW_KQP_DEPTH), header, leaves, middle, offset, labels;
	sw_at node = sw_qp_node(window, sw_u32(sw_kqp_path_slot(window, depth)));
	__u32 units = 2, above;
	long error;

	header = sw_u32(node);
	leaves = sw_qp_cluster_leaves(header);
	middle = sw_kqp_middle(node);
	if (!sw_kqp_is_cluster(header) || middle >= leaves)
		return -EUCLEAN;
	offset = sw_qp_cluster_base(header) + sw_u8(node + sw_qp_cluster_borders_at(header) + middle);
	sw_kqp_set(window, SW_KQP_AT, middle);
	sw_kqp_set(window, SW_KQP_PART, offset);
	sw_kqp_set(window, SW_KQP_LABEL, sw_u8(node + sw_qp_cluster_bytes_at(header) + middle));
	labels = 0;
	if (depth) {
		above = sw_kqp_path_offset(window, depth - 1);
		if (above > offset)
			return -EUCLEAN;
		if (above == offset) {
			above = sw_u32(sw_kqp_path_slot(window, depth - 1));
			labels = sw_qp_labels(sw_u32(sw_qp_node(window, above)));
			units = sw_kqp_branch_units(labels + 1);
			if (labels > 255)
				return -EUCLEAN;
		}
	}
	sw_kqp_set(window, SW_KQP_STEP, labels ? SW_KQP_MORE_CHILDREN : SW_KQP_TWO_CHILDREN);
	error = sw_kqp_room(window, 2);
	if (error)
		return error;
	return sw_kqp_take(window, sw_kqp_cluster_units(middle),
			   sw_kqp_cluster_units(leaves - middle), units, 1);
}

/* Writes the two parts of the full cluster into their blocks: the two cells, packed. */
SW_GLOBAL __u64 sw_kqp_parts(__u64 window, __u64 node)
{
	__u32 leaves = sw_qp_cluster_leaves(sw_u32(node)), middle, left;

	middle = sw_kqp_noted(window, SW_KQP_AT);
	left = sw_kqp_slice(window, node, 0, middle, SW_KQP_LEAF);
	return sw_kqp_cells(left, sw_kqp_slice(window, node, middle, leaves - middle, SW_KQP_NODE));
}

/*
 * Splits the full cluster at the end of the path as planned. One cell changes: that of the branch
 * above, or that of the cluster.
 */
SW_GLOBAL int sw_kqp_split_make(__u64 window)
{
	__u32 depth = sw_kqp_noted(window, SW_KQP_DEPTH), middle = sw_kqp_noted(window, SW_KQP_AT);
	sw_at slot = sw_kqp_path_slot(window, depth), above, node, parent;
	__u32 ref = sw_kqp_noted(window, SW_KQP_MORE), labels, leaves, had, units, gone = 0;
	__u32 cluster = sw_u32(slot);
	__u64 cells;

	node = sw_qp_node(window, cluster);
	leaves = sw_qp_cluster_leaves(sw_u32(node)) - middle;
	had = sw_qp_cluster_capacity(sw_u32(node));
	units = sw_kqp_cluster_units(middle) + sw_kqp_cluster_units(leaves);
	units -= sw_kqp_slots_units(had);
	sw_kqp_count_cluster(window, (middle > 1) + (leaves > 1) - 1, units);
	cells = sw_kqp_parts(window, node);
	if (sw_kqp_get(window, SW_KQP_STEP) == SW_KQP_MORE_CHILDREN) {
		above = sw_kqp_path_slot(window, depth - 1);
		gone = sw_u32(above);
		parent = sw_qp_node(window, gone);
		labels = sw_qp_labels(sw_u32(parent));
		sw_kqp_grow(parent, sw_ref(window, ref), sw_kqp_child(parent, slot),
			    sw_kqp_noted(window, SW_KQP_LABEL), cells);
		units = sw_kqp_branch_units(labels + 1);
		sw_kqp_count_branch(window, sw_kqp_branch_units(labels), units);
		slot = above;
	} else {
		sw_kqp_pair(sw_ref(window, ref), sw_kqp_noted(window, SW_KQP_PART),
			    sw_kqp_noted(window, SW_KQP_LABEL), cells);
		sw_kqp_count_branch(window, 0, 2);
	}
	sw_publish_u32(slot, ref << 2);
	sw_kqp_retire(window, cluster);
	if (gone)
		sw_kqp_retire(window, gone);
	return 0;
}

/* sw_kqp_detach for a leaf in a cluster. */
SW_GLOBAL long sw_kqp_detach_leaf(__u64 window)
{
	__u32 depth = sw_kqp_noted(window, SW_KQP_DEPTH);
	sw_at slot = sw_kqp_path_slot(window, depth), node, borders, to;
	__u32 cell = sw_u32(slot), at = sw_kqp_noted(window, SW_KQP_POS), border = at;
	__u32 header, leaves, slots, had, ref;
	long error;

	node = sw_qp_node(window, cell);
	header = sw_u32(node);
	leaves = sw_qp_cluster_leaves(header);
	had = sw_qp_cluster_capacity(header);
	if (!sw_kqp_is_cluster(header) || at >= leaves)
		return -EUCLEAN;
	if (leaves == 2) {
		sw_publish_u32(slot, sw_u32(node + sw_qp_cluster_cells_at(header) + 4 - at * 4));
		sw_kqp_count_cluster(window, -1, -sw_kqp_slots_units(had));
		return cell;
	}
	leaves--;
	slots = sw_kqp_slots(leaves);
	error = sw_kqp_take(window, 0, sw_kqp_slots_units(slots), 0, 0);
	if (error == -ENOMEM && slots < had) {
		/* A block of the old size will do. */
		slots = had;
		error = sw_kqp_take(window, 0, sw_kqp_slots_units(slots), 0, 0);
	}
	if (error)
		return error;
	/*
	 * The neighbours of the leaf part at the border with the lesser offset; at the left border
	 * when the offsets are equal.
	 */
	borders = node + sw_qp_cluster_borders_at(header) + at;
	if (at < leaves && sw_u8(borders) <= sw_u8(borders + 1))
		border++;
	ref = sw_kqp_noted(window, SW_KQP_NODE);
	to = sw_ref(window, ref);
	sw_kqp_weave(node, node, to, sw_kqp_weaving(leaves, slots, at, border), -1);
	sw_kqp_set_base(to, sw_qp_cluster_base(header));
	sw_kqp_count_cluster(window, 0, sw_kqp_slots_units(slots) - sw_kqp_slots_units(had));
	sw_publish_u32(slot, ref << 2 | SW_QP_CLUSTER);
	return cell;
}

/* sw_kqp_detach for a leaf that is the root or the child of a branch. */
SW_GLOBAL long sw_kqp_detach_child(__u64 window)
{
	__u32 depth = sw_kqp_noted(window, SW_KQP_DEPTH), header, child, labels, ref, cell;
	sw_at slot = sw_kqp_path_slot(window, depth), parent, above, to;
	long error;

	if (!depth) {
		sw_publish_u32(slot, 0);
		return 0;
	}
	above = sw_kqp_path_slot(window, depth - 1);
	cell = sw_u32(above);
	parent = sw_qp_node(window, cell);
	header = sw_u32(parent);
	labels = sw_qp_labels(header);
	child = sw_kqp_child(parent, slot);
	if (child > labels)
		return -EUCLEAN;
	if (labels == 1) {
		sw_publish_u32(above, sw_u32(parent + sw_qp_cells_at(header) + 4 - child * 4));
		sw_kqp_count_branch(window, 2, 0);
		sw_kqp_set(window, SW_KQP_DEPTH, depth - 1);
		return cell;
	}
	error = sw_kqp_take(window, 0, sw_kqp_branch_units(labels - 1), 0, 0);
	if (error)
		return error;
	ref = sw_kqp_noted(window, SW_KQP_NODE);
	to = sw_ref(window, ref);
	sw_kqp_shrink(parent, to, child);
	sw_kqp_count_branch(window, sw_kqp_branch_units(labels), sw_kqp_branch_units(labels - 1));
	to += sw_qp_cells_at(sw_u32(to)) + (child ? child - 1 : 0) * 4;
	sw_set_u32(sw_kqp_path(window, depth), (__u32)(to - window));
	sw_publish_u32(above, ref << 2);
	return cell;
}

/*
 * Removes the leaf at the end of the path from the trie: the cell of the node that the caller must
 * retire, 0 if none; or an error. Then the path leads to the removed leaf's neighbour.
 */
SW_INLINE long sw_kqp_detach(sw_at window)
{
	sw_at slot = sw_kqp_path_slot(window, sw_kqp_noted(window, SW_KQP_DEPTH));

	return sw_u32(slot) & SW_QP_CLUSTER ? sw_kqp_detach_leaf(window) :
					      sw_kqp_detach_child(window);
}

/* The label of a branch with this number. */
SW_GLOBAL int sw_kqp_label(__u64 branch, __u32 number)
{
	__u32 header = sw_u32(branch), i, label = 0, least;
	__u64 word;

	if (!(header & SW_QP_BIG))
		return sw_u8(branch + SW_QP_LABELS_AT + number);
	/* The label is the number of bytes whose entry in the map is less than `least`. */
	least = number + 1 - (sw_qp_labels(header) >> 8);
	for (i = sw_zero(); i < 256 && sw_can_loop; i += 8) {
		word = sw_kqp_not_less(sw_u64(branch + SW_QP_LABELS_AT + i), least);
		label += 8 - (__u32)((word * SW_ONES) >> 56);
	}
	return label & 0xff;
}

/*
 * Joins two neighbouring children of the branch whose cell is at `slot`, if there is memory.
 * Together they have `leaves` leaves.
 */
SW_GLOBAL int sw_kqp_join_at(__u64 window, __u64 slot, __u32 child, __u32 leaves)
{
	__u32 gone = sw_u32(slot), header, labels, offset, label, left, right, ref, node, units;
	sw_at parent = sw_qp_node(window, gone), cells, to;

	header = sw_u32(parent);
	labels = sw_qp_labels(header);
	offset = sw_qp_offset(header);
	cells = parent + sw_qp_cells_at(header) + child * 4;
	left = sw_u32(cells);
	right = sw_u32(cells + 4);
	units = labels > 1 ? sw_kqp_branch_units(labels - 1) : 0;
	if (offset > SW_KEY_MAX ||
	    sw_kqp_base(sw_kqp_united(window, sw_kqp_cells(left, right), offset)) < 0 ||
	    sw_kqp_room(window, 3) ||
	    sw_kqp_take(window, 0, sw_kqp_cluster_units(leaves), units, 1))
		return 0;
	label = sw_kqp_label(parent, child);
	/* The label is 0 when the left child is a key that ends at this offset. */
	ref = sw_qp_length(sw_qp_node(window, left) + sw_kqp_value_bytes(window));
	if ((left & SW_QP_LEAF) && ref == offset)
		label = 0;
	node = sw_kqp_noted(window, SW_KQP_NODE);
	sw_kqp_unite(window, sw_kqp_cells(left, right), sw_ref(window, node), offset, label);
	node = node << 2 | SW_QP_CLUSTER;
	if (units) {
		ref = sw_kqp_noted(window, SW_KQP_MORE);
		to = sw_ref(window, ref);
		sw_kqp_shrink(parent, to, child + 1);
		sw_set_u32(to + sw_qp_cells_at(sw_u32(to)) + child * 4, node);
		node = ref << 2;
	}
	sw_kqp_count_branch(window, sw_kqp_branch_units(labels), units);
	sw_kqp_count_cluster(window, 1, sw_kqp_cluster_units(leaves));
	sw_publish_u32(slot, node);
	sw_kqp_retire(window, gone);
	if (left & SW_QP_CLUSTER) {
		sw_kqp_retire(window, left);
		units = sw_qp_cluster_capacity(sw_u32(sw_qp_node(window, left)));
		sw_kqp_count_cluster(window, -1, -sw_kqp_slots_units(units));
	}
	if (right & SW_QP_CLUSTER) {
		sw_kqp_retire(window, right);
		units = sw_qp_cluster_capacity(sw_u32(sw_qp_node(window, right)));
		sw_kqp_count_cluster(window, -1, -sw_kqp_slots_units(units));
	}
	return 0;
}

/*
 * Joins the leaf or cluster at the end of the path with a neighbour, if both have few leaves. For
 * use after a removal.
 */
SW_GLOBAL int sw_kqp_join(__u64 window)
{
	__u32 depth = sw_kqp_noted(window, SW_KQP_DEPTH), header, child, leaves, more;
	sw_at slot = sw_kqp_path_slot(window, depth), above, parent;

	if (!depth)
		return 0;
	above = sw_kqp_path_slot(window, depth - 1);
	parent = sw_qp_node(window, sw_u32(above));
	header = sw_u32(parent);
	child = sw_kqp_child(parent, slot);
	leaves = sw_kqp_leaves(window, sw_u32(slot));
	if (leaves > SW_KQP_LONELY_MAX || child > sw_qp_labels(header))
		return 0;
	if (child) {
		more = leaves + sw_kqp_leaves(window, sw_u32(slot - 4));
		if (more <= SW_KQP_JOINED_MAX)
			return sw_kqp_join_at(window, above, child - 1, more);
	}
	if (child < sw_qp_labels(header)) {
		more = leaves + sw_kqp_leaves(window, sw_u32(slot + 4));
		if (more <= SW_KQP_JOINED_MAX)
			return sw_kqp_join_at(window, above, child, more);
	}
	return 0;
}

#endif
