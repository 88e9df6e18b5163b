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

/* How far behind the beginning of an inline cluster entry number `i` lies. */
SW_INLINE __u32 sw_qp_held_distance(sw_at window, sw_at node, __u32 header, __u64 i)
{
	sw_at places = node + sw_qp_cluster_capacity(header);

	return sw_u8_of(places + i, SW_QP_INLINE_TAGS) * sw_u32_of(window, SW_QP_STEP);
}

/*
 * The place of the leaf of an entry at a place in a block, whose mark says that it is outside. Byte
 * strings lie behind the key, so the cell is behind the mark.
 */
SW_INLINE sw_at sw_qp_outside(sw_at window, sw_at at, __u32 before)
{
	return sw_qp_node(window, sw_u32(before ? at : at + 1));
}

/* The place of an entry in a block, with its distance from the block's beginning. */
SW_INLINE sw_at sw_qp_inside(sw_at at, __u32 distance)
{
	return at | (__u64)(distance / SW_QP_INLINE_UNIT & 0xff) << SW_AT_BITS;
}

/*
 * The place of entry number `i` of the inline cluster at a place. That of a long entry, which is a
 * leaf of its own, is the leaf's.
 */
SW_INLINE sw_at sw_qp_held(sw_at window, sw_at node, __u32 header, __u32 i)
{
	__u32 before = sw_qp_before_key(window), distance = sw_qp_held_distance(window, node, header, i);
	sw_at at = node + distance;

	if (sw_u8(at + before) == SW_QP_INLINE_OUTSIDE)
		return sw_qp_outside(window, at, before);
	return sw_qp_inside(at, distance);
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
 * The first entry of a cluster in a slot from `i` on; 0 when a writer has cut off all these slots
 * since. -EUCLEAN when all of them are dead, which the last one never is.
 */
SW_GLOBAL long sw_qp_alive_from(sw_at window, __u32 cell, __u32 i)
{
	sw_at node = sw_qp_node(window, cell), entry;
	__u32 header = sw_u32(node), leaves = sw_qp_cluster_leaves(header);

	sw_use_arena();
	if (i >= leaves)
		return 0;
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
 * nearest one on one side, by the least border between them. A writer may have cut off the slot and
 * all behind it since; then it is on the left. The cell is 0 if the kernel ended a loop.
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
	for (; left && (!cell || sw_u8(borders + left) > least) && sw_can_loop; left--) {
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

/* The place of the bytes that all keys of a block share. */
SW_INLINE sw_at sw_qp_head(sw_at block, __u32 header)
{
	return block + SW_QP_INLINE_TAGS + 2 * sw_qp_cluster_capacity(header);
}

/* The key of an entry in a block with this header. The length of its tail is at a place. */
SW_INLINE struct sw_qp_text sw_qp_text_in(sw_at block, __u32 header, sw_at length)
{
	struct sw_qp_text text;

	text.head = sw_qp_head(block, header);
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

/* As sw_qp_agree, for a short key. */
SW_INLINE __u32 sw_qp_agree_short(struct sw_qp_text text, const struct sw_key *key)
{
	__u32 there = sw_qp_text_length(text), length = key->length, i, left;
	__u32 shorter = there < length ? there : length;
	/* This byte has the length. */
	__u64 word, ignore = 0xff;

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

/*
 * The length of the longest common prefix of the key of an entry and a key. If the kernel ended a
 * loop, the result is too small.
 */
SW_GLOBAL __u32 sw_qp_agree(sw_at window, sw_at entry, const struct sw_key *key SW_NONNULL)
{
	struct sw_qp_text text = sw_qp_text(window, entry);
	__u32 there = sw_qp_text_length(text), length = sw_key_length(key), i, first;
	__u32 shorter = there < length ? there : length;

	sw_use_arena();
	if (!sw_key_is_long(key))
		return sw_qp_agree_short(text, key);
	first = text.cut < shorter ? text.cut : shorter;
	i = first ? sw_agree(text.head, key->long_at, first) : 0;
	if (i < first)
		return i;
	return first + sw_agree(text.tail, key->long_at + first, shorter - first);
}

/*
 * Whether an entry has this short key. It is a function of its own, so that lookups, which seldom
 * need it, take less of the stack.
 */
SW_GLOBAL int sw_qp_is_short_entry(sw_at window, sw_at entry, const struct sw_key *key SW_NONNULL)
{
	struct sw_qp_text text = sw_qp_text(window, entry);

	sw_use_arena();
	return sw_qp_text_length(text) == key->length && sw_qp_agree_short(text, key) == key->length;
}

/* Whether the key of an entry is a prefix of this key and has this many bytes. */
SW_INLINE int sw_qp_is_prefix(sw_at window, sw_at entry, __u32 bytes, const struct sw_key *key)
{
	return sw_qp_text_length(sw_qp_text(window, entry)) == bytes &&
	       sw_qp_agree(window, entry, key) == bytes;
}

/*
 * The bits in which word `i` of a piece of a block differs from a key, if all of the word belongs
 * to the piece, which has `length` bytes. `bytes` are those of the key where the piece begins.
 */
SW_INLINE __u64 sw_qp_differ_at(sw_at piece, __u64 length, const __u8 *bytes, __u32 i)
{
	return (sw_u64_of(piece, i * 8) ^ sw_key_word_at(bytes + i * 8)) & sw_among(i * 8 + 7, length);
}

/*
 * Whether a short key ends with a tail of less than 32 bytes, behind `cut` bytes. What lies behind
 * the tail is read and not used. Few branches depend on lengths, which the processor would
 * mispredict.
 */
SW_INLINE int sw_qp_is_tail(sw_at tail, __u32 rest, const struct sw_key *key, __u32 cut)
{
	__u32 last = key->length - 7;
	const __u8 *bytes = key->bytes + cut;
	__u64 differ;

	/*
	 * The bytes behind whole words are the last ones of a word. A block has eight bytes or more
	 * before a tail.
	 */
	sw_hide(last);
	if (last <= SW_KEY_WORDS * 8 - 8)
		differ = sw_key_word_at((const __u8 *)key + last);
	else
		differ = key->words[0] << (-last * 8 & 63);
	differ = (differ ^ sw_u64(tail + rest - 8)) >> (~rest & 7) * 8 >> 8;
	differ |= sw_qp_differ_at(tail, rest, bytes, 0);
	differ |= sw_qp_differ_at(tail, rest, bytes, 1);
	if (rest >= 24)
		differ |= sw_qp_differ_at(tail, 24, bytes, 2);
	return !differ;
}

/* Whether a short key begins with the `cut` bytes, less than 32, of a block's prefix. */
SW_INLINE int sw_qp_is_head(sw_at head, __u32 cut, const struct sw_key *key)
{
	__u32 last = cut & 0x18;
	__u64 differ;

	/* A block has eight bytes or more behind its prefix. */
	differ = (sw_u64(head + last) ^ sw_key_word_at(key->bytes + last)) << (~cut & 7) * 8 << 8;
	differ |= sw_qp_differ_at(head, cut, key->bytes, 0);
	if (cut >= 16) {
		differ |= sw_qp_differ_at(head, 16, key->bytes, 1);
		differ |= sw_qp_differ_at(head, cut, key->bytes, 2);
	}
	return !differ;
}

/* The bits in which 32 bytes of a block and of a key differ. */
SW_INLINE __u64 sw_qp_differ_32(sw_at at, const __u8 *bytes)
{
	return (sw_u64(at) ^ sw_key_word_at(bytes)) | (sw_u64_of(at, 8) ^ sw_key_word_at(bytes + 8)) |
	       (sw_u64_of(at, 16) ^ sw_key_word_at(bytes + 16)) |
	       (sw_u64_of(at, 24) ^ sw_key_word_at(bytes + 24));
}

/*
 * Whether a piece of a block, of 32 to 254 bytes, and the bytes of a short key from byte `from` on
 * are equal. The verifier checks each round, which are eight at most.
 */
SW_INLINE int sw_qp_is_piece(sw_at at, __u32 bytes, const struct sw_key *key, __u32 from)
{
	__u32 left = bytes, step;

	for (;;) {
		sw_hide(from);
		if (from > SW_KEY_SHORT_MAX - 32 || sw_qp_differ_32(at, key->bytes + from))
			return 0;
		if (left <= 32)
			return 1;
		/* The last 32 bytes may overlap those before. */
		step = 32;
		if (left < 64)
			step = left - 32;
		left = left < 64 ? 32 : left - 32;
		at += step;
		from += step;
	}
}

/*
 * Whether an entry in a block has this short key, which has as many bytes. It is a function of its
 * own, so that lookups take less of the stack.
 */
SW_GLOBAL int sw_qp_is_held_long(sw_at window, sw_at entry, const struct sw_key *key SW_NONNULL)
{
	struct sw_qp_text text = sw_qp_text(window, entry);
	__u32 cut = text.cut;

	sw_use_arena();
	if (text.rest >= 32) {
		if (!sw_qp_is_piece(text.tail, text.rest, key, cut))
			return 0;
	} else {
		sw_hide(cut);
		if (cut > SW_KEY_SHORT_MAX - 32)
			return sw_qp_is_short_entry(window, entry, key);
		if (!sw_qp_is_tail(text.tail, text.rest, key, cut))
			return 0;
	}
	if (text.cut >= 32)
		return sw_qp_is_piece(text.head, text.cut, key, 0);
	return sw_qp_is_head(text.head, text.cut & 31, key);
}

/*
 * Whether the entry at this distance in a block has this short key. `header` is that of the block,
 * and the tail has `rest` bytes and begins at a place.
 */
SW_INLINE int sw_qp_is_held_key(sw_at window, sw_at block, __u32 header, __u32 distance, sw_at tail,
				__u32 rest, const struct sw_key *key)
{
	__u32 cut = sw_u8_of(block, SW_QP_INLINE_PREFIX_BYTES);

	if (cut + rest != key->length)
		return 0;
	if (cut >= 32 || rest >= 32)
		return sw_qp_is_held_long(window, sw_qp_inside(block + distance, distance), key);
	sw_hide(cut);
	cut &= 31;
	return sw_qp_is_tail(tail, rest, key, cut) && sw_qp_is_head(sw_qp_head(block, header), cut, key);
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
