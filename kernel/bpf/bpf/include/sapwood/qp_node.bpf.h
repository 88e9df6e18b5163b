/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Cells, branches and clusters. Included by qp.bpf.h. */
#ifndef SAPWOOD_QP_NODE_BPF_H
#define SAPWOOD_QP_NODE_BPF_H

#include "arena.bpf.h"

_Static_assert(SW_QP_LEAF == 1 && SW_QP_CLUSTER == 2 && SW_QP_INLINE == 3 && SW_QP_BIG == 1u << 24 &&
		       SW_QP_BIG_CELLS == 260 && SW_QP_SMALL_MAX == 32 && SW_QP_SLOTS_MAX == 32,
	       "these functions are written for these branches and clusters");
_Static_assert(SW_QP_BUCKET_BYTES == 64 && SW_QP_BUCKET_SLOTS == 12 && SW_QP_BUCKET_LEAVES == 16,
	       "these functions are written for these buckets");

/*
 * The bits of a cell for the kind of its node; those of a branch are 0. An inline cluster, which
 * holds its entries, has both, so `cell & SW_QP_CLUSTER` says that there is a cluster of either
 * kind.
 */
#define SW_QP_KIND (SW_QP_LEAF | SW_QP_CLUSTER)
/*
 * The place of the labels in a small branch, of the map in a big one, and of the tags in a cluster.
 */
#define SW_QP_LABELS_AT 4
#define SW_QP_TAGS_AT 4

/*
 * The place of the node of a cell. A cell is four times a reference in units of 8 bytes, plus a
 * kind.
 */
SW_INLINE sw_at sw_qp_node(sw_at window, __u32 cell)
{
	return window + (__u64)(cell & ~SW_QP_KIND) * 2;
}
SW_INLINE int sw_qp_is_leaf(__u32 cell)
{
	return (cell & SW_QP_KIND) == SW_QP_LEAF;
}
SW_INLINE int sw_qp_is_inline(__u32 cell)
{
	return (cell & SW_QP_KIND) == SW_QP_INLINE;
}
/* The index of the key byte by which a branch chooses a child. */
SW_INLINE __u32 sw_qp_offset(__u32 header)
{
	return header & SW_QP_HEAD_OFFSET;
}
/* The number of labels of a branch, 1 to 256. It has one more child. */
SW_INLINE __u32 sw_qp_labels(__u32 header)
{
	return ((header >> SW_QP_HEAD_COUNT_AT) & SW_QP_HEAD_COUNT) + 1;
}
/*
 * Bytes from the beginning of a small branch to its first cell; of a cluster, the number of slots.
 */
SW_INLINE __u32 sw_qp_small_cells_at(__u32 header)
{
	return (header >> SW_QP_HEAD_CELLS_AT) & SW_QP_HEAD_CELLS;
}
/* Bytes from the beginning of a branch to its first cell. */
SW_INLINE __u32 sw_qp_cells_at(__u32 header)
{
	return header & SW_QP_BIG ? SW_QP_BIG_CELLS : sw_qp_small_cells_at(header);
}

/* The offset from which the borders of a cluster count. */
SW_INLINE __u32 sw_qp_cluster_base(__u32 header)
{
	return header & SW_QP_HEAD_OFFSET;
}
/* The number of leaves of a cluster: 32 at most, whatever the header has. */
SW_INLINE __u32 sw_qp_cluster_leaves(__u32 header)
{
	__u32 leaves = (header >> SW_QP_HEAD_COUNT_AT) & SW_QP_HEAD_COUNT;

	return leaves <= SW_QP_SLOTS_MAX ? leaves : SW_QP_SLOTS_MAX;
}
/*
 * The number of slots of a cluster. The next three functions return the places of its cells, of its
 * borders (where neighbours part, counted from the base), and of the bytes that separate
 * neighbours.
 */
SW_INLINE __u32 sw_qp_cluster_capacity(__u32 header)
{
	return sw_qp_small_cells_at(header);
}
SW_INLINE __u32 sw_qp_cluster_cells_at(__u32 header)
{
	return SW_QP_TAGS_AT + sw_qp_cluster_capacity(header);
}
SW_INLINE __u32 sw_qp_cluster_borders_at(__u32 header)
{
	return SW_QP_TAGS_AT + 5 * sw_qp_cluster_capacity(header);
}
SW_INLINE __u32 sw_qp_cluster_bytes_at(__u32 header)
{
	return SW_QP_TAGS_AT + 6 * sw_qp_cluster_capacity(header);
}
/*
 * The place of the borders of a cluster of either kind. The bytes that separate neighbours lie as
 * many bytes behind as it has slots.
 */
SW_INLINE sw_at sw_qp_borders(__u32 cell, sw_at node, __u32 header)
{
	if (!sw_qp_is_inline(cell))
		return node + sw_qp_cluster_borders_at(header);
	return node + SW_QP_INLINE_TAGS + 2 * sw_qp_cluster_capacity(header) +
	       sw_u8_of(node, SW_QP_INLINE_PREFIX_BYTES);
}

/*
 * The high bits of the bytes in which a word is equal to the pattern. Only the lowest set bit is
 * reliable.
 */
SW_INLINE __u64 sw_qp_hits(__u64 word, __u64 pattern)
{
	word ^= pattern;
	return (word - SW_ONES) & ~word & SW_HIGHS;
}

/* Whether a is less than b, both below 2^63: 1 or 0, without a branch. */
SW_INLINE __u64 sw_less(__u64 a, __u64 b)
{
	__u64 difference = a - b;

	sw_hide(difference);
	return difference >> 63;
}

/*
 * The number of labels in a word that are not greater than a byte, times `each`, which is 1 or 4.
 * `others` is the number of bits of the word, from the highest on, that are padding or cells.
 */
SW_INLINE __u64 sw_qp_not_greater(__u64 word, __u64 byte, __u64 others, __u64 each)
{
	__u64 all = byte * SW_ONES, low;

	/* The high bit of each byte is set if the lower seven bits of the label are not greater. */
	low = (all | SW_HIGHS) - (word & SW_LOWS);
	/* Where the eighth bits differ, that of the byte decides. */
	low ^= (low ^ all) & (word ^ all);
	low &= SW_HIGHS >> others;
	return ((low >> (each == 4 ? 5 : 7)) * SW_ONES) >> 56;
}

/* The same for a branch with up to 8 labels. */
SW_INLINE __u64 sw_qp_count_8(sw_at node, __u32 header, __u64 byte, __u64 each)
{
	/* Eight times the number of labels that the word lacks: 7 less the lower bits of the count. */
	__u64 others = (header >> (SW_QP_HEAD_COUNT_AT - 3) & 7 * 8) ^ 7 * 8;

	return sw_qp_not_greater(sw_u64_of(node, SW_QP_LABELS_AT), byte, others, each);
}

/* The same for a branch with 9 to 32 labels. */
SW_INLINE __u64 sw_qp_count_32(sw_at node, __u32 header, __u64 byte, __u64 each)
{
	__u64 labels = sw_qp_labels(header), eight, others;

	/*
	 * Labels ascend, so the words before this one have no greater label. This word has at least
	 * one label.
	 */
	eight = sw_less(sw_u8_of(node, SW_QP_LABELS_AT + 7), byte + 1) +
		(sw_less(sw_u8_of(node, SW_QP_LABELS_AT + 15), byte + 1) & sw_less(16, labels)) +
		(sw_less(sw_u8_of(node, SW_QP_LABELS_AT + 23), byte + 1) & sw_less(24, labels));
	eight *= 8;
	/* The number of labels that the word lacks, which is 0 unless it is the last word. */
	others = (eight + 8 - labels) & -sw_less(labels, eight + 8);
	return eight * each + sw_qp_not_greater(sw_u64_of(node + eight, SW_QP_LABELS_AT), byte,
					  (others & 7) * 8, each);
}

/* The number of the child for a byte in a big branch. With 256 labels, its map has one less. */
SW_INLINE __u64 sw_qp_child_big(sw_at node, __u32 header, __u64 byte)
{
	return sw_u8_of(node + byte, SW_QP_LABELS_AT) + (sw_qp_labels(header) >> 8);
}

/*
 * The number of the child for a byte of a key: the number of labels that are not greater. A key
 * that ends at the offset belongs to child 0.
 */
SW_INLINE __u64 sw_qp_child(sw_at node, __u32 header, __u64 byte)
{
	if (!(header & SW_QP_HEAD_OVER_8))
		return sw_qp_count_8(node, header, byte, 1);
	if (!(header & SW_QP_BIG))
		return sw_qp_count_32(node, header, byte, 1);
	return sw_qp_child_big(node, header, byte);
}

/*
 * The cell of that child. A lookup waits for each step, so there are few steps, and conditional
 * jumps depend only on the layout of the labels.
 */
SW_INLINE __u32 sw_qp_child_cell(sw_at node, __u32 header, __u64 byte)
{
	sw_at cells = node + sw_qp_small_cells_at(header);

	if (!(header & SW_QP_HEAD_OVER_8))
		return sw_u32(cells + sw_qp_count_8(node, header, byte, 4));
	if (!(header & SW_QP_BIG))
		return sw_u32(cells + sw_qp_count_32(node, header, byte, 4));
	return sw_u32_of(node + sw_qp_child_big(node, header, byte) * 4, SW_QP_BIG_CELLS);
}

#endif
