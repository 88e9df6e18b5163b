/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The trie of a map that programs write; a part of qp_write.bpf.h. The lock is held. Branches: docs/qp.md.
 *
 * Of a branch that readers can reach only cells change. A child more or less means another branch, which is put into the place of the old
 * one with one store.
 */
#ifndef SAPWOOD_QP_WRITE_TRIE_BPF_H
#define SAPWOOD_QP_WRITE_TRIE_BPF_H

/* The header word of a branch of so many labels (1 to 256), and an END child or not (1 or 0). */
SW_INLINE __u32 sw_kqp_header(__u32 offset, __u32 labels, __u32 end)
{
	__u32 big = labels > SW_QP_SMALL_MAX;
	__u32 cells = big ? 40 : 4 + ((labels + 3) & ~3u);

	return offset | ((labels - 1) & 0xff) << 16 | end << 24 | (big ? SW_QP_BIG : 0) | (cells / 4 + end) << 27;
}

SW_INLINE __u32 sw_kqp_end(__u32 header)
{
	return header >> 24 & 1;
}

/* Where the cells begin, and the units of a branch. */
SW_INLINE __u32 sw_kqp_cells(__u32 header)
{
	return (sw_qp_first(header) - 4 * sw_kqp_end(header)) & 0x3c;
}
SW_INLINE __u32 sw_kqp_units(__u32 header)
{
	return (sw_qp_first(header) + 4 * sw_qp_labels(header) + 7) / 8;
}

/* The entry of a path: the offset of the branch at this depth, and where in the window the cell is that leads to it. */
SW_INLINE sw_at sw_kqp_path(sw_at window, __u32 depth)
{
	return window + SW_KQP_SCRATCH + SW_KQP_PATH + (__u64)depth * 8;
}
SW_INLINE sw_at sw_kqp_path_slot(sw_at window, __u32 depth)
{
	return window + sw_u32(sw_kqp_path(window, depth));
}

/*
 * Goes down to a leaf as a key leads, and where the key's label is missing, by the first child. The path says by which cells, and
 * SW_KQP_DEPTH how many branches there are. The trie must not be empty. The leaf's cell, or -EUCLEAN, -ELOOP.
 */
SW_GLOBAL long sw_kqp_descend(__u64 window, const struct sw_key *key SW_NONNULL)
{
	__u64 slot = SW_QP_ROOT, limit = sw_kqp_get(window, SW_KQP_LIMIT);
	__u32 cell, header, offset, length = key->length, depth;
	sw_at node;
	int label;

	for (depth = sw_zero(); depth < SW_KQP_DEPTH_MAX && sw_can_loop; depth++) {
		cell = sw_u32(window + slot);
		if ((__u64)(cell >> 1) - SW_KQP_FIRST >= limit)
			return -EUCLEAN;
		if (cell & SW_QP_LEAF) {
			sw_set_u64(sw_kqp_path(window, depth), slot);
			sw_kqp_set(window, SW_KQP_DEPTH, depth);
			return cell;
		}
		node = sw_qp_node(window, cell);
		header = sw_u32(node);
		offset = sw_qp_offset(header);
		sw_set_u64(sw_kqp_path(window, depth), (__u64)offset << 32 | slot);
		slot = node - window + sw_kqp_cells(header);
		if (offset < length) {
			label = sw_qp_label(node, header, sw_key_byte(key, offset));
			if (label >= 0)
				slot = node - window + sw_qp_first(header) + (__u32)label * 4;
		}
	}
	return -ELOOP;
}

/*
 * Where a key and that of a leaf part: the offset, and notes the leaf's byte there, or SW_KQP_ENDS; SW_KQP_SAME. -ELOOP.
 */
SW_GLOBAL long sw_kqp_mismatch(__u64 window, const struct sw_key *key SW_NONNULL, __u32 cell)
{
	sw_at text = sw_qp_node(window, cell) + sw_kqp_value_bytes(window);
	__u32 theirs = sw_u8(text), length = key->length, i, left, shorter, at, words;
	__u64 differ = 0;

	shorter = theirs < length ? theirs : length;
	at = shorter;
	words = shorter / 8 + 1;
	sw_each_word(i, left, words) {
		differ = sw_u64(text + i * 8) ^ sw_key_word(key, i);
		/* The length is no part of the key. */
		if (!i)
			differ &= ~0xffull;
		if (differ) {
			at = i * 8 + sw_first_byte((((differ & SW_LOWS) + SW_LOWS) | differ) & SW_HIGHS) - 1;
			break;
		}
	}
	if (!differ && left)
		return -ELOOP;
	if (at >= shorter) {
		at = shorter;
		if (theirs == length)
			return SW_KQP_SAME;
	}
	sw_kqp_set(window, SW_KQP_OTHER, at < theirs ? sw_u8(text + 1 + at) : SW_KQP_ENDS);
	return at;
}

/* Where in the trie a key parts from all that are there: an offset, SW_KQP_SAME, SW_KQP_EMPTY; or an error. */
SW_GLOBAL long sw_kqp_seek(__u64 window, const struct sw_key *key SW_NONNULL)
{
	long cell;

	if (!sw_u32(window + SW_QP_ROOT))
		return SW_KQP_EMPTY;
	cell = sw_kqp_descend(window, key);
	if (cell < 0)
		return cell;
	sw_kqp_set(window, SW_KQP_CELL, cell);
	return sw_kqp_mismatch(window, key, (__u32)cell);
}

/* The label of a key at an offset. */
SW_INLINE __u32 sw_kqp_label(const struct sw_key *key, __u32 offset)
{
	return offset < key->length ? sw_key_byte(key, offset) : SW_KQP_ENDS;
}

/* The header of a branch with one label more. 0 when it cannot have that. */
SW_INLINE __u32 sw_kqp_more(__u32 header, __u32 byte)
{
	__u32 labels = sw_qp_labels(header), end = sw_kqp_end(header);

	if (byte == SW_KQP_ENDS ? end : labels > 255)
		return 0;
	if (byte == SW_KQP_ENDS)
		return sw_kqp_header(sw_qp_offset(header), labels, 1);
	return sw_kqp_header(sw_qp_offset(header), labels + 1, end);
}

/*
 * The units of the branch that a new key needs, 0 if none, and notes the cell that will lead to it: that of the first node on the path
 * that is a leaf, or a branch whose offset is not before `part`. Or an error.
 */
SW_GLOBAL long sw_kqp_plan(__u64 window, const struct sw_key *key SW_NONNULL, __u32 part)
{
	__u32 header, cell, depth;
	sw_at slot;

	if (part == SW_KQP_EMPTY) {
		sw_kqp_set(window, SW_KQP_SLOT, window + SW_QP_ROOT);
		return 0;
	}
	/* Keys mostly part near the leaf. */
	for (depth = (__u32)sw_kqp_get(window, SW_KQP_DEPTH); depth && sw_can_loop; depth--) {
		if (sw_u32(sw_kqp_path(window, depth - 1) + 4) < part)
			break;
	}
	if (depth && sw_u32(sw_kqp_path(window, depth - 1) + 4) >= part)
		return -ELOOP;
	slot = sw_kqp_path_slot(window, depth);
	cell = sw_u32(slot);
	sw_kqp_set(window, SW_KQP_SLOT, slot);
	sw_kqp_set(window, SW_KQP_CELL, cell);
	header = sw_u32(sw_qp_node(window, cell));
	if ((cell & SW_QP_LEAF) || sw_qp_offset(header) > part)
		return 2;
	header = sw_kqp_more(header, sw_kqp_label(key, part));
	return header ? (long)sw_kqp_units(header) : -EUCLEAN;
}

/* How many of the labels of a branch are less than a byte. */
SW_INLINE __u32 sw_kqp_rank(sw_at node, __u32 header, __u32 byte)
{
	__u32 labels = sw_qp_labels(header), rank = 0, i;
	__u64 word, lanes = 0x0001000100010001ull, even, odd;

	if (labels > SW_QP_SMALL_MAX) {
		word = sw_u64(node + 8 + (byte >> 6) * 8) & ((1ull << (byte & 63)) - 1);
		rank = sw_u8(node + 4 + (byte >> 6)) + sw_popcount(word);
		return rank < labels ? rank : labels;
	}
	for (i = sw_zero(); i < labels && sw_can_loop; i += 8) {
		word = sw_u64(node + 4 + i);
		if (labels - i < 8)
			word |= ~0ull << (labels - i) * 8;
		/* In lanes of 16 bits: bit 8 stays where the label is not less. */
		even = ((word & 0xff * lanes) | lanes << 8) - byte * lanes;
		odd = ((word >> 8 & 0xff * lanes) | lanes << 8) - byte * lanes;
		rank += 8 - (__u32)((((even >> 8 & lanes) + (odd >> 8 & lanes)) * lanes) >> 48);
	}
	return rank;
}

/* Stores one word of labels; behind the last of those that are `left`, the last is repeated. */
SW_INLINE void sw_kqp_put_labels(sw_at to, __u64 word, __u32 left)
{
	__u64 last;

	if (left < 8) {
		last = (word >> ((left - 1) & 7) * 8) & 0xff;
		word = (word & ~(~0ull << left * 8)) | (last * SW_ONES) << left * 8;
	}
	sw_set_u64(to + 4, word);
}

/*
 * One word of the labels of a small branch with one more, `byte`, that comes as number `rank`, reckoned from this word. A function of its
 * own, as its branches would multiply the states of the loop around it.
 */
SW_GLOBAL int sw_kqp_word_more(__u64 from, __u64 to, __s32 rank, __u32 byte, __u32 left)
{
	__u64 word = sw_u64(from + 4), mask;

	if (rank < 0) {
		word = word << 8 | sw_u8(from + 3);
	} else if (rank < 8) {
		mask = (1ull << rank * 8) - 1;
		word = (word & mask) | (__u64)byte << rank * 8 | (word & ~mask) << 8;
	}
	sw_kqp_put_labels(to, word, left);
	return 0;
}

/* As above, of those with one less, which was number `rank`. */
SW_GLOBAL int sw_kqp_word_less(__u64 from, __u64 to, __s32 rank, __u32 left)
{
	__u64 word = sw_u64(from + 4), shifted, mask = 0;

	if (rank < 8) {
		shifted = word >> 8 | (__u64)sw_u8(from + 12) << 56;
		if (rank > 0)
			mask = (1ull << rank * 8) - 1;
		word = (word & mask) | (shifted & ~mask);
	}
	sw_kqp_put_labels(to, word, left);
	return 0;
}

/* Writes the labels of a small branch with one more at `rank`; `rank` SW_KQP_ENDS: the same labels. */
SW_INLINE void sw_kqp_labels_more(sw_at from, sw_at to, __u32 rank, __u32 byte, __u32 labels)
{
	__u32 at;

	for (at = sw_zero(); at < labels && sw_can_loop; at += 8)
		sw_kqp_word_more(from + at, to + at, (__s32)(rank - at), byte, labels - at);
}

/* Writes the labels of a small branch without the one at `rank`; `rank` SW_KQP_ENDS: the same labels. */
SW_INLINE void sw_kqp_labels_less(sw_at from, sw_at to, __u32 rank, __u32 labels)
{
	__u32 at;

	for (at = sw_zero(); at < labels && sw_can_loop; at += 8)
		sw_kqp_word_less(from + at, to + at, (__s32)(rank - at), labels - at);
}

/* Writes the bitmap and ranks of a big branch: the labels of another, and one more or less (`byte`, SW_KQP_ENDS: none). */
SW_GLOBAL int sw_kqp_map(__u64 from, __u64 to, __u32 byte, __u32 more)
{
	__u32 header = sw_u32(from), i, labels = sw_qp_labels(header), label, ranks;
	__u64 bit;

	for (i = sw_zero(); i < 4 && sw_can_loop; i++)
		sw_set_u64(to + 8 + i * 8, labels > SW_QP_SMALL_MAX ? sw_u64(from + 8 + i * 8) : 0);
	if (labels <= SW_QP_SMALL_MAX) {
		for (i = sw_zero(); i < labels && sw_can_loop; i++) {
			label = sw_u8(from + 4 + i);
			bit = sw_u64(to + 8 + (label >> 6) * 8);
			sw_set_u64(to + 8 + (label >> 6) * 8, bit | 1ull << (label & 63));
		}
	}
	if (byte < SW_KQP_ENDS) {
		bit = sw_u64(to + 8 + (byte >> 6) * 8) & ~(1ull << (byte & 63));
		sw_set_u64(to + 8 + (byte >> 6) * 8, bit | (__u64)!!more << (byte & 63));
	}
	ranks = sw_popcount(sw_u64(to + 8));
	label = ranks << 8;
	ranks += sw_popcount(sw_u64(to + 16));
	label |= (ranks & 0xff) << 16;
	ranks += sw_popcount(sw_u64(to + 24));
	sw_set_u32(to + 4, label | ranks << 24);
	return 0;
}

/* Writes the labels of a branch that was big and becomes small, without one (SW_KQP_ENDS: with all). */
SW_GLOBAL int sw_kqp_unmap(__u64 from, __u64 to, __u32 byte)
{
	__u32 word, at = sw_zero(), label;
	__u64 bits;

	for (word = sw_zero(); word < 4 && sw_can_loop; word++) {
		bits = sw_u64(from + 8 + word * 8);
		while (bits && at < SW_QP_SMALL_MAX && sw_can_loop) {
			label = word * 64 + sw_popcount((bits & -bits) - 1);
			bits &= bits - 1;
			if (label != byte)
				sw_set_u8(to + 4 + at++, label);
		}
	}
	return 0;
}

/* Copies so many cells. */
SW_GLOBAL int sw_kqp_copy(__u64 from, __u64 to, __u32 cells)
{
	__u32 i;

	for (i = sw_zero(); i + 1 < cells && sw_can_loop; i += 2)
		sw_set_u64(to + i * 4, sw_u64(from + i * 4));
	if (i < cells)
		sw_set_u32(to + i * 4, sw_u32(from + i * 4));
	return 0;
}

/* Zeroes what is left of the last unit of a branch. */
SW_INLINE void sw_kqp_clear_tail(sw_at node, __u32 header)
{
	__u32 bytes = sw_qp_first(header) + 4 * sw_qp_labels(header);

	if (bytes & 4)
		sw_set_u32(node + bytes, 0);
}

/* Writes at `to` the branch at `from` with a child more, which it lacks: a label, or SW_KQP_ENDS, and its cell. */
SW_GLOBAL int sw_kqp_grow(__u64 from, __u64 to, __u32 byte, __u32 cell)
{
	__u32 old = sw_u32(from), header = sw_kqp_more(old, byte), labels = sw_qp_labels(header);
	__u32 rank = SW_KQP_ENDS, before = 0, all = sw_qp_labels(old) + sw_kqp_end(old);

	if (byte != SW_KQP_ENDS) {
		rank = sw_kqp_rank(from, old, byte);
		before = rank + sw_kqp_end(old);
	}
	if (labels > SW_QP_SMALL_MAX)
		sw_kqp_map(from, to, byte, 1);
	else
		sw_kqp_labels_more(from, to, rank, byte, labels);
	from += sw_kqp_cells(old);
	sw_set_u32(to, header);
	sw_kqp_copy(from, to + sw_kqp_cells(header), before);
	sw_set_u32(to + sw_kqp_cells(header) + before * 4, cell);
	sw_kqp_copy(from + before * 4, to + sw_kqp_cells(header) + before * 4 + 4, all - before);
	sw_kqp_clear_tail(to, header);
	return 0;
}

/* Writes at `to` the branch at `from` without the child of this number, of three and more. */
SW_GLOBAL int sw_kqp_shrink(__u64 from, __u64 to, __u32 child, __u32 header)
{
	__u32 old = sw_u32(from), labels = sw_qp_labels(header), end = sw_kqp_end(old);
	__u32 all = sw_qp_labels(old) + end, byte = SW_KQP_ENDS, rank = SW_KQP_ENDS, i;
	__u64 bits;

	if (child >= end)
		rank = child - end;
	if (sw_qp_labels(old) <= SW_QP_SMALL_MAX) {
		sw_kqp_labels_less(from, to, rank, labels);
	} else {
		if (rank != SW_KQP_ENDS) {
			/* The label of this number: the words before it have so many, and the bits below it. */
			for (i = sw_zero() + 3; i && sw_u8(from + 4 + i) > rank && sw_can_loop; i--)
				;
			byte = i * 64;
			rank -= sw_u8(from + 4 + i);
			bits = sw_u64(from + 8 + i * 8);
			for (i = sw_zero(); i < rank && i < 63 && sw_can_loop; i++)
				bits &= bits - 1;
			byte = (byte + sw_popcount((bits & -bits) - 1)) & 0xff;
		}
		if (labels > SW_QP_SMALL_MAX)
			sw_kqp_map(from, to, byte, 0);
		else
			sw_kqp_unmap(from, to, byte);
	}
	from += sw_kqp_cells(old);
	sw_set_u32(to, header);
	to += sw_kqp_cells(header);
	sw_kqp_copy(from, to, child);
	sw_kqp_copy(from + child * 4 + 4, to + child * 4, all - child - 1);
	sw_kqp_clear_tail(to - sw_kqp_cells(header), header);
	return 0;
}

/* Writes a branch of two children. Labels may be SW_KQP_ENDS, one of them. */
SW_GLOBAL int sw_kqp_pair(__u64 to, __u32 offset, __u64 one, __u64 two)
{
	/* A label in the upper half of a word, a cell in the lower: they sort by their labels; END sorts first. */
	__u64 low = one < two ? one : two, high = one < two ? two : one;
	__u32 last, first;

	if (high >> 32 == SW_KQP_ENDS) {
		last = first = (__u32)(low >> 32);
		sw_set_u32(to, sw_kqp_header(offset, 1, 1));
		sw_set_u32(to + 8, (__u32)high);
		sw_set_u32(to + 12, (__u32)low);
	} else {
		first = (__u32)(low >> 32);
		last = (__u32)(high >> 32);
		sw_set_u32(to, sw_kqp_header(offset, 2, 0));
		sw_set_u32(to + 8, (__u32)low);
		sw_set_u32(to + 12, (__u32)high);
	}
	sw_set_u32(to + 4, first | last * 0x01010100u);
	return 0;
}

/* Puts a new leaf where sw_kqp_plan said; the cell of a branch that was replaced, or 0. */
SW_GLOBAL long sw_kqp_attach(__u64 window, const struct sw_key *key SW_NONNULL, __u32 part, __u32 cell)
{
	sw_at slot = sw_kqp_get(window, SW_KQP_SLOT), old, to;
	__u32 ref, there, header, byte, grown = 0;

	if (part == SW_KQP_EMPTY) {
		sw_publish_u32(slot, cell);
		return 0;
	}
	ref = (__u32)sw_kqp_get(window, SW_KQP_BRANCH);
	to = sw_ref(window, ref);
	there = (__u32)sw_kqp_get(window, SW_KQP_CELL);
	old = sw_qp_node(window, there);
	header = sw_u32(old);
	byte = sw_kqp_label(key, part);
	if ((there & SW_QP_LEAF) || sw_qp_offset(header) > part) {
		sw_kqp_pair(to, part, sw_kqp_get(window, SW_KQP_OTHER) << 32 | there, (__u64)byte << 32 | cell);
		sw_kqp_count(window, SW_KQP_BRANCHES, 1);
		sw_kqp_count(window, SW_KQP_BRANCH_UNITS, 2);
	} else {
		sw_kqp_grow(old, to, byte, cell);
		sw_kqp_count(window, SW_KQP_BRANCH_UNITS,
			     sw_kqp_block_units(sw_kqp_units(sw_u32(to))) - sw_kqp_block_units(sw_kqp_units(header)));
		grown = there;
	}
	sw_publish_u32(slot, ref << 1);
	return grown;
}

/* Takes the leaf at the end of the path out of the trie: the cell of the branch that this does away with, 0 if none; or an error. */
SW_GLOBAL long sw_kqp_detach(__u64 window)
{
	__u32 depth = (__u32)sw_kqp_get(window, SW_KQP_DEPTH);
	sw_at slot = sw_kqp_path_slot(window, depth), parent, above;
	__u32 header, child, labels, end, ref, less;
	long error;

	if (!depth) {
		sw_publish_u32(slot, 0);
		return 0;
	}
	above = sw_kqp_path_slot(window, depth - 1);
	parent = sw_qp_node(window, sw_u32(above));
	header = sw_u32(parent);
	labels = sw_qp_labels(header);
	end = sw_kqp_end(header);
	child = (__u32)(slot - parent - sw_kqp_cells(header)) / 4;
	if (child >= labels + end || labels + end < 2)
		return -EUCLEAN;
	if (labels + end == 2) {
		sw_publish_u32(above, sw_u32(parent + sw_kqp_cells(header) + 4 - child * 4));
		sw_kqp_count(window, SW_KQP_BRANCHES, -1);
		sw_kqp_count(window, SW_KQP_BRANCH_UNITS, -2);
		return (__u32)((parent - window) / 8) << 1;
	}
	less = child < end ? sw_kqp_header(sw_qp_offset(header), labels, 0) :
			     sw_kqp_header(sw_qp_offset(header), labels - 1, end);
	error = sw_kqp_take(window, 0, sw_kqp_units(less), 0);
	if (error)
		return error;
	ref = (__u32)sw_kqp_get(window, SW_KQP_BRANCH);
	sw_kqp_shrink(parent, sw_ref(window, ref), child, less);
	sw_kqp_count(window, SW_KQP_BRANCH_UNITS,
		     sw_kqp_block_units(sw_kqp_units(less)) - sw_kqp_block_units(sw_kqp_units(header)));
	sw_publish_u32(above, ref << 1);
	return (__u32)((parent - window) / 8) << 1;
}

#endif
