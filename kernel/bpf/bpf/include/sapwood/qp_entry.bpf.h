/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Entries: leaves, and those that an inline cluster holds. Included by qp.bpf.h.
 *
 * The place of an entry is that of its leaf, or that of its first byte in the block of a cluster.
 * Where values have one size, the value is there. The upper bits of the place of an entry in a
 * block say how far the block's beginning lies before it, in units of 4 bytes; those of a leaf are
 * 0. Loads ignore these bits, so sw_u64(place) reads the value in either case. The place is
 * positive, and two places of one entry are equal.
 */
#ifndef SAPWOOD_QP_ENTRY_BPF_H
#define SAPWOOD_QP_ENTRY_BPF_H

#include "qp_hash.bpf.h"
#include "qp_node.bpf.h"

_Static_assert(SW_QP_INLINE_UNIT == 4 && SW_AT_BITS <= 64 - 8 - 1, "a place has the distance");

/*
 * The place of entry number `i` of the inline cluster at a place. That of a long entry, which is a
 * leaf of its own, is the leaf's.
 */
SW_INLINE sw_at sw_qp_held(sw_at window, sw_at node, __u32 header, __u32 i)
{
	__u32 before = sw_qp_before_key(window), distance;
	sw_at at = node + sw_qp_cluster_capacity(header) + i;

	distance = sw_u8_of(at, SW_QP_INLINE_TAGS) * sw_u32_of(window, SW_QP_STEP);
	at = node + distance;
	if (sw_u8(at + before) == SW_QP_INLINE_OUTSIDE)
		/* Byte strings lie behind the key, so the cell is behind the mark. */
		return sw_qp_node(window, sw_u32(before ? at : at + 1));
	return at | (__u64)(distance / SW_QP_INLINE_UNIT & 0xff) << SW_AT_BITS;
}

/*
 * The place of entry number `i` of the cluster at a place, of either kind. In a map that many
 * writers change, a slot may be dead: its cell is 0, and the result is the window's place. The last
 * slot of a cluster never is.
 */
SW_INLINE sw_at sw_qp_entry(sw_at window, __u32 cell, sw_at node, __u32 header, __u32 i)
{
	if (sw_qp_is_inline(cell))
		return sw_qp_held(window, node, header, i);
	return sw_qp_node(window, sw_u32(node + sw_qp_cluster_cells_at(header) + 4 * i));
}

/*
 * The first entry of a cluster in a slot from `i` on. -EUCLEAN when all these slots are dead, which
 * the last one never is.
 */
SW_GLOBAL long sw_qp_alive_from(sw_at window, __u32 cell, __u32 i)
{
	sw_at node = sw_qp_node(window, cell), entry;
	__u32 header = sw_u32(node), leaves = sw_qp_cluster_leaves(header);

	sw_use_arena();
	for (; i < leaves && sw_can_loop; i++) {
		entry = sw_qp_entry(window, cell, node, header, i);
		if (entry != window)
			return (long)entry;
	}
	return i < leaves ? -ELOOP : -EUCLEAN;
}

/* The last entry of a cluster in a slot before `i`; 0 when all these slots are dead. */
SW_GLOBAL long sw_qp_alive_before(sw_at window, __u32 cell, __u32 i)
{
	sw_at node = sw_qp_node(window, cell), entry;
	__u32 header = sw_u32(node);

	sw_use_arena();
	for (; i && sw_can_loop; i--) {
		entry = sw_qp_entry(window, cell, node, header, i - 1);
		if (entry != window)
			return (long)entry;
	}
	return i ? -ELOOP : 0;
}

/*
 * For a dead slot of a cluster of cells: the slot that is not dead whose key shares the longest
 * prefix with all keys that belong in the dead one, and in the upper half its cell. It is the
 * nearest one on one side, by the least border between them. The cell is 0 if the kernel ended a
 * loop.
 */
SW_GLOBAL __u64 sw_qp_beside_dead(sw_at node, __u32 dead)
{
	__u32 header = sw_u32(node), leaves = sw_qp_cluster_leaves(header), least = 256, border;
	sw_at cells = node + sw_qp_cluster_cells_at(header);
	sw_at borders = node + sw_qp_cluster_borders_at(header);
	__u32 left = dead, right = dead;
	__u64 cell = 0, before;

	sw_use_arena();
	while (!cell && right + 1 < leaves && sw_can_loop) {
		right++;
		border = sw_u8(borders + right);
		least = border < least ? border : least;
		cell = sw_u32(cells + 4 * right);
	}
	for (; left && sw_u8(borders + left) > least && sw_can_loop; left--) {
		before = sw_u32(cells + 4 * (left - 1));
		if (before)
			return before << 32 | (left - 1);
	}
	return cell << 32 | right;
}

/* The place of the block of an entry in an inline cluster; 0 of a leaf. */
SW_INLINE sw_at sw_qp_block(sw_at entry)
{
	__u64 distance = entry >> SW_AT_BITS;

	return distance ? (entry & SW_AT_MASK) - distance * SW_QP_INLINE_UNIT : 0;
}

/*
 * The key of an entry, in two pieces: `cut` bytes at `head`, which all keys of its cluster share,
 * and `rest` bytes at `tail`. That of a leaf has no head, and `head` is 0.
 */
struct sw_qp_text {
	sw_at head;
	sw_at tail;
	__u32 cut;
	__u32 rest;
};

/* The key of an entry in a block with this header. The length of its tail is at a place. */
SW_INLINE struct sw_qp_text sw_qp_text_in(sw_at block, __u32 header, sw_at length)
{
	struct sw_qp_text text;

	text.head = block + SW_QP_INLINE_TAGS + 2 * sw_qp_cluster_capacity(header);
	text.cut = sw_u8_of(block, SW_QP_INLINE_PREFIX_BYTES);
	text.tail = length + 1;
	text.rest = sw_u8(length);
	return text;
}

SW_INLINE struct sw_qp_text sw_qp_text(sw_at window, sw_at entry)
{
	struct sw_qp_text text = {};
	sw_at block = sw_qp_block(entry), length = entry + sw_qp_before_key(window);

	if (block)
		return sw_qp_text_in(block, sw_u32(block), length);
	text.tail = sw_qp_bytes(length);
	text.rest = sw_qp_length(length);
	return text;
}

/* The number of bytes of the key of an entry. */
SW_INLINE __u32 sw_qp_text_length(struct sw_qp_text text)
{
	return text.cut + text.rest;
}

/* A byte of the key of an entry, which has it. */
SW_INLINE __u32 sw_qp_text_byte(struct sw_qp_text text, __u32 at)
{
	return sw_u8(at < text.cut ? text.head + at : text.tail + at - text.cut);
}

/*
 * The bytes of the tail from byte `from` on, which is -1 or more. The bytes behind its end may be
 * anything. Nothing behind a block is read, because a load that reaches a page without memory gives
 * only zeros. A leaf ends with the word that has its last byte.
 */
SW_INLINE __u64 sw_qp_tail_word(sw_at head, sw_at tail, __u32 rest, __s64 from)
{
	__s64 left = (__s64)rest - from;

	if (!head || left >= 8)
		return sw_u64(tail + from);
	return sw_u64(tail + rest - 8) >> ((8 - left) * 8 & 63);
}

/*
 * A word of the key of an entry in the form of a struct sw_key, but for the first byte of the first
 * word. The bytes behind the key's end may be anything. The arguments are the parts of a struct
 * sw_qp_text.
 */
SW_GLOBAL __u64 sw_qp_text_word(sw_at head, sw_at tail, __u32 cut, __u32 rest, __u32 i)
{
	__s64 from = (__s64)i * 8 - 1, here = (__s64)cut - from;

	sw_use_arena();
	if (!cut || here <= 0)
		return sw_qp_tail_word(head, tail, rest, from - cut);
	/* Behind the head, a block has eight bytes or more. */
	if (here >= 8)
		return sw_u64(head + from);
	return (sw_u64(head + from) & ((1ull << here * 8) - 1)) |
	       sw_qp_tail_word(head, tail, rest, 0) << here * 8;
}

/*
 * The length of the longest common prefix of the key of an entry and a key. If the kernel ended a
 * loop, the result is too small.
 */
SW_GLOBAL __u32 sw_qp_agree(sw_at window, sw_at entry, const struct sw_key *key SW_NONNULL)
{
	struct sw_qp_text text = sw_qp_text(window, entry);
	__u32 there = sw_qp_text_length(text), length = sw_key_length(key), i, left, first;
	__u32 shorter = there < length ? there : length;
	/* This byte has the length. */
	__u64 word, ignore = 0xff;

	sw_use_arena();
	if (sw_key_is_long(key)) {
		first = text.cut < shorter ? text.cut : shorter;
		i = first ? sw_agree(text.head, key->long_at, first) : 0;
		if (i < first)
			return i;
		return first + sw_agree(text.tail, key->long_at + first, shorter - first);
	}
	sw_each_word(i, left, (shorter & 0xff) / 8 + 1) {
		word = sw_qp_text_word(text.head, text.tail, text.cut, text.rest, i);
		word = (word ^ sw_key_word(key, i)) & ~ignore;
		ignore = 0;
		if (word) {
			/* The high bit of every byte that is not 0. */
			word = (((word & SW_LOWS) + SW_LOWS) | word) & SW_HIGHS;
			i = i * 8 + sw_first_byte(word) - 1;
			return i < shorter ? i : shorter;
		}
	}
	return left ? 0 : shorter;
}

/* Whether the key of an entry is a prefix of this key and has this many bytes. */
SW_INLINE int sw_qp_is_prefix(sw_at window, sw_at entry, __u32 bytes, const struct sw_key *key)
{
	return sw_qp_text_length(sw_qp_text(window, entry)) == bytes &&
	       sw_qp_agree(window, entry, key) == bytes;
}

/*
 * Whether a short key begins with these bytes of a block, as many as the key has or fewer. Behind
 * them, the block has eight bytes or more.
 */
SW_INLINE int sw_qp_begins(sw_at at, __u32 bytes, const struct sw_key *key)
{
	/* As if the bytes had their length in one byte before them. */
	__u64 differ, ignore = 0xff;
	__u32 i, left;

	at--;
	sw_each_word(i, left, (bytes + 1) / 8) {
		if ((sw_u64(at + i * 8) ^ sw_key_word(key, i)) & ~ignore)
			return 0;
		ignore = 0;
	}
	if (left)
		return 0;
	differ = (sw_u64(at + i * 8) ^ sw_key_word(key, i)) & ~ignore;
	/* The bytes behind these do not count. */
	return !(differ << (7 - ((bytes + 1) & 7)) * 8 << 8);
}

/*
 * Whether a short key ends with these bytes of a block, as many as the key has or fewer. Before
 * them, the block has eight bytes or more.
 */
SW_INLINE int sw_qp_ends(sw_at at, __u32 bytes, const struct sw_key *key)
{
	sw_at end = at + bytes;
	__u32 behind = key->length + 1, i, left;
	__u64 word;

	for (left = bytes; left >= 8 && sw_can_loop; left -= 8) {
		end -= 8;
		behind -= 8;
		i = behind;
		sw_hide(i);
		if (i > SW_KEY_WORDS * 8 - 8 || sw_u64(end) != sw_key_word_at((const __u8 *)key + i))
			return 0;
	}
	if (left >= 8)
		return 0;
	i = behind - 8;
	sw_hide(i);
	if (i <= SW_KEY_WORDS * 8 - 8)
		word = sw_key_word_at((const __u8 *)key + i);
	else
		word = key->words[0] << ((8 - behind) * 8 & 63);
	/* The bytes before these do not count. */
	return !((word ^ sw_u64(end - 8)) >> (7 - left) * 8 >> 8);
}

/*
 * Whether an entry in a block has this short key. `before` is sw_qp_before_key. It is a function of
 * its own, so that lookups take less of the stack.
 */
SW_GLOBAL int sw_qp_is_held_key(sw_at entry, __u32 before, const struct sw_key *key SW_NONNULL)
{
	sw_at block = sw_qp_block(entry);
	struct sw_qp_text text = sw_qp_text_in(block, sw_u32(block), entry + before);

	sw_use_arena();
	return sw_qp_text_length(text) == key->length && sw_qp_ends(text.tail, text.rest, key) &&
	       sw_qp_begins(text.head, text.cut, key);
}

/* Whether an entry has this key. `is_long`, a constant, is the kind of the key. */
SW_INLINE int sw_qp_is_key(sw_at window, sw_at entry, const struct sw_key *key, int is_long)
{
	__u32 value_bytes = sw_u32_of(window, SW_QP_VALUE_BYTES), length;

	if (!sw_qp_block(entry))
		return sw_qp_is_leaf_key(entry, value_bytes, key, is_long);
	if (!is_long)
		return sw_qp_is_held_key(entry, value_bytes & ~(__u32)SW_QP_BYTE_STRINGS, key);
	length = sw_key_length(key);
	return sw_qp_text_length(sw_qp_text(window, entry)) == length &&
	       sw_qp_agree(window, entry, key) == length;
}

/*
 * The place of the bytes of an entry's value. `length` becomes their number. A program may read
 * them there; sw_qp_value copies them.
 */
SW_INLINE sw_at sw_qp_value_at(sw_at window, sw_at entry, __u32 *length)
{
	__u32 bytes = sw_u32(window + SW_QP_VALUE_BYTES), first;
	struct sw_qp_text text;
	sw_at at = entry;

	if (bytes == SW_QP_BYTE_STRINGS) {
		text = sw_qp_text(window, entry);
		at = text.tail + text.rest;
		first = sw_u8(at);
		bytes = first;
		at++;
		if (first >= SW_QP_VALUE_U16) {
			bytes = sw_u8(at) | (__u32)sw_u8(at + 1) << 8;
			at += 2;
		}
		if (first == SW_QP_VALUE_U32) {
			bytes |= (__u32)sw_u8(at) << 16 | (__u32)sw_u8(at + 1) << 24;
			at += 2;
		}
	}
	*length = bytes;
	return at;
}

#endif
