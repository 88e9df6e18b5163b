/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Nodes of a trie that programs write: their sizes, and copies of them with one child, leaf or
 * label more or less; a part of qp_write.bpf.h. Nobody else sees a copy before it is whole, and the
 * nodes that are copied do not change meanwhile (but for locks). Layouts: docs/qp.md.
 *
 * The base of a cluster is 0 if all its borders are at offsets up to 255: always, when its keys are
 * short. Else the base is the least offset of a border when the cluster was written.
 */
#ifndef SAPWOOD_QP_WRITE_NODE_BPF_H
#define SAPWOOD_QP_WRITE_NODE_BPF_H

/* The header word of a branch of this many labels, 1 to 256. */
SW_INLINE __u32 sw_kqp_branch(__u32 offset, __u32 labels)
{
	__u32 layout = labels > SW_QP_SMALL_MAX ? SW_QP_BIG : (1 + (labels + 3) / 4) * 4 << SW_QP_HEAD_CELLS_AT;

	return offset | ((labels - 1) & SW_QP_HEAD_COUNT) << SW_QP_HEAD_COUNT_AT | layout;
}

/* The units of a branch of this many labels. */
SW_INLINE __u32 sw_kqp_branch_units(__u32 labels)
{
	return (sw_qp_cells_at(sw_kqp_branch(0, labels)) + 4 * (labels + 1) + 7) / 8;
}

/* The slots of a cluster of this many leaves, and the units of a cluster of this many slots. */
SW_INLINE __u32 sw_kqp_slots(__u32 leaves)
{
	return (leaves + 3) & SW_QP_HEAD_CELLS;
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
	__u32 leaves = (header >> SW_QP_HEAD_COUNT_AT) & SW_QP_HEAD_COUNT;
	__u32 slots = sw_qp_cluster_capacity(header);
	__u32 known = SW_QP_HEAD_OFFSET | SW_QP_HEAD_COUNT << SW_QP_HEAD_COUNT_AT |
		      SW_QP_HEAD_CELLS << SW_QP_HEAD_CELLS_AT;

	return !(header & ~known) && leaves >= 2 && leaves <= slots && slots <= SW_QP_SLOTS_MAX;
}

/* The number of leaves of a cluster that are not dead. */
SW_GLOBAL __u32 sw_kqp_alive(__u64 node)
{
	__u32 header = sw_u32(node), leaves = sw_qp_cluster_leaves(header), alive = sw_zero(), i;
	sw_at cells = node + sw_qp_cluster_cells_at(header);
	__u64 dead;

	sw_for (i, leaves) {
		dead = sw_less(sw_u32(cells + i * 4), 1);
		sw_hide(dead);
		alive += 1 - (__u32)dead;
	}
	return alive;
}

/*
 * Writes a cluster of this many slots from another one without its dead slots. Neighbours with dead
 * slots between them part at the first of the least borders between them.
 */
SW_GLOBAL int sw_kqp_squeeze_to(__u64 from, __u64 to, __u32 slots)
{
	__u32 header = sw_u32(from), leaves = sw_qp_cluster_leaves(header), n = sw_zero(), i;
	__u32 had = sw_qp_cluster_capacity(header), units = (SW_QP_TAGS_AT + 7 * slots + 7) / 8;
	__u32 least = sw_zero() + 256, byte = sw_zero(), border, cell;
	sw_at tags = from + SW_QP_TAGS_AT, new = to + SW_QP_TAGS_AT;

	sw_for (i, units)
		sw_set_u64(to + i * 8, 0);
	sw_for (i, leaves) {
		border = sw_u8(tags + had * 5 + i);
		if (i && border < least) {
			least = border;
			byte = sw_u8(tags + had * 6 + i);
		}
		cell = sw_u32(tags + had + i * 4);
		if (!cell || n >= slots)
			continue;
		sw_set_u8(new + n, sw_u8(tags + i));
		sw_set_u32(new + slots + n * 4, cell);
		if (n) {
			sw_set_u8(new + slots * 5 + n, least);
			sw_set_u8(new + slots * 6 + n, byte);
		}
		least = 256;
		sw_hide(least);
		n++;
		sw_hide(n);
	}
	sw_set_u32(to, (header & SW_QP_HEAD_OFFSET) | n << SW_QP_HEAD_COUNT_AT |
			       slots << SW_QP_HEAD_CELLS_AT);
	return 0;
}

/* The number of the child of a branch whose cell is at `slot`. */
SW_INLINE __u32 sw_kqp_child(sw_at branch, sw_at slot)
{
	return (__u32)(slot - branch - sw_qp_cells_at(sw_u32(branch))) / 4;
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
	__u32 slots = (how >> 16) & SW_QP_HEAD_CELLS;

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
	__u32 leaves = how & 0xff, slots = (how >> 16) & SW_QP_HEAD_CELLS, at = (how >> 32) & 0xff, i;
	__u32 left = sw_qp_cluster_capacity(sw_u32(one)), border = how >> 48;
	__u32 right = sw_qp_cluster_capacity(sw_u32(other));

	sw_set_u32(to, leaves << SW_QP_HEAD_COUNT_AT | slots << SW_QP_HEAD_CELLS_AT);
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
 * Writes the block of SW_KQP_NODE as a cluster of the leaves of two cells, each a leaf or a
 * cluster. The cells part at SW_KQP_PART, with SW_KQP_LABEL.
 */
SW_GLOBAL int sw_kqp_unite(__u64 lane, __u64 cells)
{
	sw_at window = sw_kqp_window(lane), to = sw_ref(window, sw_kqp_noted(lane, SW_KQP_NODE));
	__u32 left = (__u32)cells, right = (__u32)(cells >> 32), base;
	__u32 one = sw_kqp_leaves(window, left), leaves = one + sw_kqp_leaves(window, right);

	/* This reads a single leaf as a cluster; all bytes from it are overwritten below. */
	sw_kqp_weave(sw_qp_node(window, left), sw_qp_node(window, right), to,
		     sw_kqp_weaving(leaves, sw_kqp_slots(leaves), one, one), one);
	/* Values are read again where they are needed: the stack is short. */
	sw_hide(lane);
	sw_hide(cells);
	window = sw_kqp_window(lane);
	left = (__u32)cells;
	right = (__u32)(cells >> 32);
	base = (__u32)sw_kqp_base(sw_kqp_united(window, cells, sw_kqp_noted(lane, SW_KQP_PART)));
	if (base | sw_kqp_base_of(window, left) | sw_kqp_base_of(window, right)) {
		to = sw_ref(window, sw_kqp_noted(lane, SW_KQP_NODE));
		sw_kqp_set_base(to, base);
		one = sw_kqp_leaves(window, left);
		sw_kqp_shift(to, 1, one, sw_kqp_base_of(window, left), base);
		sw_hide(lane);
		window = sw_kqp_window(lane);
		to = sw_ref(window, sw_kqp_noted(lane, SW_KQP_NODE));
		one = sw_kqp_leaves(window, (__u32)cells);
		leaves = sw_qp_cluster_leaves(sw_u32(to));
		sw_kqp_shift(to, one + 1, leaves, sw_kqp_base_of(window, (__u32)(cells >> 32)), base);
	}
	sw_hide(lane);
	sw_hide(cells);
	window = sw_kqp_window(lane);
	to = sw_ref(window, sw_kqp_noted(lane, SW_KQP_NODE));
	left = (__u32)cells;
	right = (__u32)(cells >> 32);
	if (left & SW_QP_LEAF) {
		sw_kqp_put_leaf(to, 0, left, sw_kqp_leaf_tag(window, left));
		sw_kqp_put_border(to, 0, 0, 0);
	}
	one = sw_kqp_leaves(window, left);
	if (right & SW_QP_LEAF)
		sw_kqp_put_leaf(to, one, right, sw_kqp_leaf_tag(window, right));
	sw_kqp_put_border(to, one, sw_kqp_noted(lane, SW_KQP_PART) - base, sw_kqp_noted(lane, SW_KQP_LABEL));
	return 0;
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

#endif
