/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Order: the maps of qp.bpf.h walked in ascending order of keys, and neighbours of a key.
 *
 *     sw_at leaf, cursor = sw_window(CURSORS, SW_KIND_WORDS) + cpu * SW_QP_CURSOR_BYTES;
 *     long found = sw_qp_walk_prefix(NAMES, cursor, &prefix);
 *
 *     for (i = sw_zero(); !found && i < MOST && sw_can_loop; i++) {
 *             found = sw_qp_walk_step(cursor);
 *             if (found <= 0)
 *                     break;                                // 0: the end
 *             sum += sw_u64(found);                         // the place of the value; the key is behind it
 *             found = 0;
 *     }
 *
 * Results: the place of a leaf (positive), which is the place of its value; 0 when there is none; -EINVAL when there is no such window
 * or cursor; -EOPNOTSUPP when the map has only an index; -E2BIG when the map is deeper than a cursor (never while all its keys have at most 254 bytes); -ELOOP when the kernel
 * ended a loop; -EAGAIN when the map was changed again and again meanwhile; -EUCLEAN when what was read cannot be a map.
 *
 * A walk beside a writer ascends, gives no key twice, and misses none that is there throughout. sw_qp_next and sw_qp_prev look twice,
 * and begin anew when they see that the map was changed between.
 *
 * A walk lives in a cursor: SW_QP_CURSOR_BYTES of scratch memory in the arena (Words::create), which nobody else uses meanwhile; one
 * for each processor does, as programs of one type do not interrupt each other there. It ends with the run of the program, as what
 * was removed may be freed then.
 */
#ifndef SAPWOOD_QP_WALK_BPF_H
#define SAPWOOD_QP_WALK_BPF_H

#include "qp.bpf.h"

/*
 * A cursor: the window, how deep it stands, a leaf that comes first, and for each branch on its way a frame: where the next cell is and
 * where the cells end, both in units of 4 bytes from the window's beginning. Behind the frames, the branches' cells (only while a key is
 * sought).
 */
#define SW_QP_CURSOR_WINDOW 0
#define SW_QP_CURSOR_DEPTH 8
#define SW_QP_CURSOR_LEAF 12
#define SW_QP_CURSOR_FRAMES 64
#define SW_QP_CURSOR_NODES (SW_QP_CURSOR_FRAMES + 8 * SW_QP_CURSOR_DEPTH_MAX)

_Static_assert(SW_QP_CURSOR_NODES + 4 * SW_QP_CURSOR_DEPTH_MAX <= SW_QP_CURSOR_BYTES,
	       "a cursor's parts are inside");
_Static_assert(SW_QP_CURSOR_DEPTH_MAX > SW_KEY_MAX + 1, "keys that programs know fit into a cursor");

/* No byte: where a key ends. It sorts before all bytes. */
#define SW_QP_NO_BYTE (-1)
/* What sw_qp_compare says: of equal keys, and, beside the place, of a leaf whose key is the greater one. */
#define SW_QP_SAME 0x7fffffffu
#define SW_QP_GREATER 0x80000000u

/* Bytes of a leaf's key; `at` is where the length is: behind the value. Example: sw_qp_length(leaf + value_bytes). */
SW_INLINE __u32 sw_qp_length(sw_at at)
{
	__u32 length = sw_u8(at);

	return length == 255 ? sw_u16(at + 1) : length;
}

/* Where the bytes of a leaf's key are, given where its length is. */
SW_INLINE sw_at sw_qp_bytes(sw_at at)
{
	return sw_u8(at) == 255 ? at + 3 : at + 1;
}

/*
 * Copies the key of a leaf of this map: 0, or -E2BIG when it has more than 254 bytes.
 *
 *     found = sw_qp_first(NAMES);
 *     if (found > 0 && !sw_qp_key(NAMES, found, &key)) found = sw_qp_next(NAMES, &key);
 */
SW_GLOBAL long sw_qp_key(__u32 map, sw_at leaf, struct sw_key *key SW_NONNULL)
{
	sw_at window = sw_window_in(map, SW_QP_KINDS), at;
	__u32 i, left, length;
	__u64 word, spare;

	sw_use_arena();
	if (!window)
		return -EINVAL;
	at = leaf + sw_u32(window + SW_QP_VALUE_BYTES);
	length = sw_u8(at);
	if (length > SW_KEY_MAX)
		return -E2BIG;
	spare = length + 1;
	sw_each_word(i, left, SW_KEY_WORDS) {
		/* Behind the key are zeros to the end of the word, then something else. */
		word = spare ? sw_u64(at + i * 8) : 0;
		spare = spare > 8 ? spare - 8 : 0;
		sw_hide(i);
		key->words[i & (SW_KEY_WORDS - 1)] = word;
	}
	return left ? -ELOOP : 0;
}

/* The place of the first byte in which a key and that of a leaf differ, or one of them has ended; SW_QP_SAME when they are equal. */
SW_INLINE __u32 sw_qp_mismatch(sw_at window, sw_at leaf, const struct sw_key *key)
{
	sw_at at = leaf + sw_u32(window + SW_QP_VALUE_BYTES), words;
	__u32 i, left, shorter, there = sw_qp_length(at), length = key->length, first = sw_zero();
	__u64 differ, ignore = 0xff;

	/* As if each key had its length in one byte before it. */
	words = sw_qp_bytes(at) - 1;
	shorter = there < length ? there : length;
	sw_each_word(i, left, (shorter & 0xff) / 8 + 1) {
		differ = (sw_u64(words + first) ^ sw_key_word(key, i)) & ~ignore;
		if (differ) {
			/* The lowest byte that is not zero. */
			first += sw_first_byte((((differ & SW_LOWS) + SW_LOWS) | differ) & SW_HIGHS) - 1;
			return first < shorter ? first : shorter;
		}
		ignore = 0;
		first += 8;
	}
	return there == length ? SW_QP_SAME : shorter;
}

/* A byte of a key, or that it has ended. */
SW_INLINE int sw_qp_key_byte(const struct sw_key *key, __u32 at)
{
	return at < key->length ? (int)sw_key_byte(key, at) : SW_QP_NO_BYTE;
}

/*
 * Compares the key of a leaf with another: SW_QP_SAME when they are equal; else the place of the first byte in which they differ, or one of
 * them has ended, and SW_QP_GREATER in addition when the leaf's is greater.
 *
 *     if (sw_qp_compare(window, leaf, &key) & SW_QP_GREATER) break;
 */
SW_GLOBAL __u32 sw_qp_compare(sw_at window, sw_at leaf, const struct sw_key *key SW_NONNULL)
{
	sw_at length = leaf + sw_u32(window + SW_QP_VALUE_BYTES);
	__u32 at = sw_qp_mismatch(window, leaf, key);
	int there;

	sw_use_arena();
	if (at == SW_QP_SAME)
		return at;
	there = at < sw_qp_length(length) ? (int)sw_u8(sw_qp_bytes(length) + at) : SW_QP_NO_BYTE;
	return there > sw_qp_key_byte(key, at) ? at | SW_QP_GREATER : at;
}

/* How many children a branch has, END included. */
SW_INLINE __u32 sw_qp_children(__u32 header)
{
	return sw_qp_labels(header) + !!(header & SW_QP_END);
}

/* Where the cells of a branch begin, END's first. */
SW_INLINE sw_at sw_qp_cells(sw_at node, __u32 header)
{
	return node + sw_qp_first(header) - (header & SW_QP_END ? 4 : 0);
}

/* The number of the child with this byte, among all; -1 if there is none such. */
SW_INLINE int sw_qp_child(sw_at node, __u32 header, int byte)
{
	int end = !!(header & SW_QP_END), label;

	if (byte < 0)
		return end - 1;
	label = sw_qp_label(node, header, byte);
	return label < 0 ? -1 : label + end;
}

/* How many children come before a child with this byte. */
SW_INLINE __u32 sw_qp_rank(sw_at node, __u32 header, int byte)
{
	__u32 labels = sw_qp_labels(header), end = !!(header & SW_QP_END), i;
	__u64 word;

	if (byte < 0)
		return 0;
	if (labels > SW_QP_SMALL_MAX) {
		word = sw_u64(node + 8 + ((byte >> 6) << 3)) & ((1ull << (byte & 63)) - 1);
		return end + sw_u8(node + 4 + (byte >> 6)) + sw_popcount(word);
	}
	for (i = sw_zero(); i < labels && sw_can_loop; i++) {
		if (sw_u8(node + 4 + i) >= (__u32)byte)
			break;
	}
	return end + i;
}

/* The first (or last) leaf below a cell that is not empty. */
SW_GLOBAL long sw_qp_down(sw_at window, __u32 cell, int last)
{
	__u32 depth, header;
	sw_at node;

	sw_use_arena();
	for (depth = sw_zero(); depth < SW_QP_DEPTH_MAX && sw_can_loop; depth++) {
		if (!cell)
			return -EUCLEAN;
		node = sw_qp_node(window, cell);
		if (cell & 1)
			return (long)node;
		header = sw_u32(node);
		node = sw_qp_cells(node, header);
		cell = sw_u32(node + (last ? 4 * (sw_qp_children(header) - 1) : 0));
	}
	return depth < SW_QP_DEPTH_MAX ? -ELOOP : -EUCLEAN;
}

/* The entry with the least key. Example: long found = sw_qp_first(NAMES); */
SW_GLOBAL long sw_qp_first_leaf(__u32 map)
{
	sw_at window = sw_window_in(map, SW_QP_KINDS);
	__u32 cell;

	sw_use_arena();
	if (!window)
		return -EINVAL;
	cell = sw_u32(window + SW_QP_ROOT);
	return cell ? sw_qp_down(window, cell, 0) : sw_qp_no_root(window, 0);
}

/* The entry with the greatest key. Example: long found = sw_qp_last_leaf(NAMES); */
SW_GLOBAL long sw_qp_last_leaf(__u32 map)
{
	sw_at window = sw_window_in(map, SW_QP_KINDS);
	__u32 cell;

	sw_use_arena();
	if (!window)
		return -EINVAL;
	cell = sw_u32(window + SW_QP_ROOT);
	return cell ? sw_qp_down(window, cell, 1) : sw_qp_no_root(window, 0);
}

/* Some leaf that tells where a key leaves the trie: below the branch where it does, or its own. Of an empty map: 0. */
SW_GLOBAL long sw_qp_near(sw_at window, const struct sw_key *key SW_NONNULL)
{
	__u32 cell = sw_u32(window + SW_QP_ROOT), depth, header;
	sw_at node;
	int child;

	sw_use_arena();
	if (!cell)
		return sw_qp_no_root(window, 0);
	for (depth = sw_zero(); depth < SW_QP_DEPTH_MAX && sw_can_loop; depth++) {
		if (!cell)
			return -EUCLEAN;
		node = sw_qp_node(window, cell);
		if (cell & 1)
			return (long)node;
		header = sw_u32(node);
		child = sw_qp_child(node, header, sw_qp_key_byte(key, sw_qp_offset(header)));
		if (child < 0)
			child = 0;
		cell = sw_u32(sw_qp_cells(node, header) + (__u32)child * 4);
	}
	return depth < SW_QP_DEPTH_MAX ? -ELOOP : -EUCLEAN;
}

/*
 * The neighbour of a key, which compares like this with a leaf near it: a cell, in whose subtree it is the last or the first one; 0 when
 * there is none; or a negative error.
 */
SW_GLOBAL long sw_qp_beside(sw_at window, const struct sw_key *key SW_NONNULL, __u32 compared, int last)
{
	__u32 cell = sw_u32(window + SW_QP_ROOT), best = 0, depth, header, offset, rank;
	__u32 at = compared & ~SW_QP_GREATER;
	sw_at node, cells;
	int child;

	sw_use_arena();
	last = !!last;
	if (!cell)
		return -EAGAIN;
	for (depth = sw_zero(); depth < SW_QP_DEPTH_MAX && sw_can_loop; depth++) {
		if (!cell)
			return -EUCLEAN;
		node = sw_qp_node(window, cell);
		header = cell & 1 ? 0 : sw_u32(node);
		offset = sw_qp_offset(header);
		if (cell & 1 || offset > at) {
			/* All keys below are on one side of this one. */
			return at != SW_QP_SAME && (!(compared & SW_QP_GREATER)) == last ? cell : best;
		}
		cells = sw_qp_cells(node, header);
		if (offset == at) {
			rank = sw_qp_rank(node, header, sw_qp_key_byte(key, at));
			if (last)
				return rank ? sw_u32(cells + 4 * (rank - 1)) : best;
			return rank < sw_qp_children(header) ? sw_u32(cells + 4 * rank) : best;
		}
		child = sw_qp_child(node, header, sw_qp_key_byte(key, offset));
		if (child < 0)
			return -EAGAIN;
		if (last && child)
			best = sw_u32(cells + 4 * ((__u32)child - 1));
		if (!last && (__u32)child + 1 < sw_qp_children(header))
			best = sw_u32(cells + 4 * ((__u32)child + 1));
		cell = sw_u32(cells + 4 * (__u32)child);
	}
	return depth < SW_QP_DEPTH_MAX ? -ELOOP : -EUCLEAN;
}

/* The entry before or behind a key. */
SW_INLINE long sw_qp_neighbour(__u32 map, const struct sw_key *key, int last)
{
	sw_at window = sw_window_in(map, SW_QP_KINDS);
	__u32 tries, compared;
	long found;

	if (!window)
		return -EINVAL;
	for (tries = sw_zero(); tries < 8 && sw_can_loop; tries++) {
		found = sw_qp_near(window, key);
		if (found <= 0)
			return found;
		found = sw_qp_beside(window, key, sw_qp_compare(window, found, key), last);
		if (found == -EAGAIN)
			continue;
		if (found <= 0)
			return found;
		found = sw_qp_down(window, (__u32)found, last);
		if (found <= 0)
			return found;
		/* It must be on the side that was asked for; else the map was changed between. */
		compared = sw_qp_compare(window, found, key);
		if (compared != SW_QP_SAME && (!(compared & SW_QP_GREATER)) == last)
			return found;
	}
	return tries < 8 ? -ELOOP : -EAGAIN;
}

/*
 * The entry with the least key that is greater than this one, which need not be there.
 *
 *     long found = sw_qp_next(NAMES, &key);
 */
SW_GLOBAL long sw_qp_next(__u32 map, const struct sw_key *key SW_NONNULL)
{
	sw_use_arena();
	return sw_qp_neighbour(map, key, 0);
}

/*
 * The entry with the greatest key that is less than this one, which need not be there.
 *
 *     long found = sw_qp_prev(NAMES, &key);
 */
SW_GLOBAL long sw_qp_prev(__u32 map, const struct sw_key *key SW_NONNULL)
{
	sw_use_arena();
	return sw_qp_neighbour(map, key, 1);
}

/* Puts a cursor on nothing. 0, or -EINVAL when there is no memory at its place. */
SW_INLINE long sw_qp_walk_nothing(sw_at window, sw_at cursor)
{
	if (!window || !cursor)
		return -EINVAL;
	sw_set_u32(cursor + SW_QP_CURSOR_DEPTH, 0);
	sw_set_u32(cursor + SW_QP_CURSOR_LEAF, 0);
	sw_set_u64(cursor + SW_QP_CURSOR_WINDOW, window);
	return sw_u64(cursor + SW_QP_CURSOR_WINDOW) == window ? 0 : -EINVAL;
}

/* Puts a cursor before all that is below a cell, in addition to what its `depth` frames hold. */
SW_INLINE long sw_qp_walk_below(sw_at window, sw_at cursor, __u32 depth, __u32 cell)
{
	__u32 header, first;
	sw_at node;

	if (cell & 1) {
		sw_set_u32(cursor + SW_QP_CURSOR_LEAF, cell);
	} else if (cell) {
		if (depth >= SW_QP_CURSOR_DEPTH_MAX)
			return -E2BIG;
		node = sw_qp_node(window, cell);
		header = sw_u32(node);
		first = (__u32)((sw_qp_cells(node, header) - window) >> 2);
		sw_set_u64(cursor + SW_QP_CURSOR_FRAMES + (__u64)depth * 8,
			   (__u64)(first + sw_qp_children(header)) << 32 | first);
		depth++;
	}
	sw_set_u32(cursor + SW_QP_CURSOR_DEPTH, depth);
	return 0;
}

/*
 * Begins a walk over a whole map: 0 or a negative error.
 *
 *     long error = sw_qp_walk_begin(NAMES, cursor);
 */
SW_GLOBAL long sw_qp_walk_begin(__u32 map, sw_at cursor)
{
	sw_at window = sw_window_in(map, SW_QP_KINDS);
	__u32 cell;
	long error;

	sw_use_arena();
	error = sw_qp_walk_nothing(window, cursor);
	if (error)
		return error;
	cell = sw_u32(window + SW_QP_ROOT);
	return cell ? sw_qp_walk_below(window, cursor, 0, cell) : sw_qp_no_root(window, 0);
}

/*
 * Begins a walk over the entries whose keys begin with this one: 0 or a negative error.
 *
 *     long error = sw_qp_walk_prefix(NAMES, cursor, &prefix);
 */
SW_GLOBAL long sw_qp_walk_prefix(__u32 map, sw_at cursor, const struct sw_key *prefix SW_NONNULL)
{
	sw_at window = sw_window_in(map, SW_QP_KINDS), node;
	__u32 cell, header, depth, offset, length = prefix->length;
	int child;
	long error;

	sw_use_arena();
	error = sw_qp_walk_nothing(window, cursor);
	if (error)
		return error;
	cell = sw_u32(window + SW_QP_ROOT);
	if (!cell)
		return sw_qp_no_root(window, 0);
	for (depth = sw_zero(); depth < SW_QP_DEPTH_MAX && sw_can_loop; depth++) {
		if (!cell)
			return 0;
		if (cell & 1)
			break;
		node = sw_qp_node(window, cell);
		header = sw_u32(node);
		offset = sw_qp_offset(header);
		if (offset >= length)
			break;
		child = sw_qp_child(node, header, sw_key_byte(prefix, offset));
		if (child < 0)
			return 0;
		cell = sw_u32(sw_qp_cells(node, header) + (__u32)child * 4);
	}
	/* All keys below have the same first bytes: one leaf tells whether those are the prefix. */
	error = cell ? sw_qp_down(window, cell, 0) : -ELOOP;
	if (error < 0)
		return error;
	if ((sw_qp_compare(window, error, prefix) & ~SW_QP_GREATER) < length)
		return 0;
	return sw_qp_walk_below(window, cursor, 0, cell);
}

/* One level of sw_qp_walk_from: the frame of a branch from which the way goes to this child. */
SW_INLINE void sw_qp_walk_frame(sw_at window, sw_at cursor, __u32 depth, sw_at node, __u32 header,
				__u32 next)
{
	__u32 first = (__u32)((sw_qp_cells(node, header) - window) >> 2);

	sw_set_u64(cursor + SW_QP_CURSOR_FRAMES + (__u64)depth * 8,
		   (__u64)(first + sw_qp_children(header)) << 32 | (first + next));
}

/* The way of a key as frames that point behind it, and the branches on it. Returns a leaf near the key; the depth is the cursor's. */
SW_GLOBAL long sw_qp_walk_near(sw_at window, sw_at cursor, const struct sw_key *key SW_NONNULL)
{
	__u32 cell = sw_u32(window + SW_QP_ROOT), header, depth;
	sw_at node;
	int child;

	sw_use_arena();
	if (!cell)
		return sw_qp_no_root(window, 0);
	for (depth = sw_zero(); depth <= SW_QP_CURSOR_DEPTH_MAX && sw_can_loop; depth++) {
		if (!cell)
			return -EUCLEAN;
		node = sw_qp_node(window, cell);
		if (cell & 1) {
			sw_set_u32(cursor + SW_QP_CURSOR_DEPTH, depth);
			return (long)node;
		}
		if (depth == SW_QP_CURSOR_DEPTH_MAX)
			return -E2BIG;
		header = sw_u32(node);
		child = sw_qp_child(node, header, sw_qp_key_byte(key, sw_qp_offset(header)));
		if (child < 0)
			child = 0;
		sw_qp_walk_frame(window, cursor, depth, node, header, (__u32)child + 1);
		sw_set_u32(cursor + SW_QP_CURSOR_NODES + depth * 4, cell);
		cell = sw_u32(sw_qp_cells(node, header) + (__u32)child * 4);
	}
	return -ELOOP;
}

/* Leaves of a key's way what is behind the key: `found` is the leaf near it, and they compare like this. */
SW_GLOBAL long sw_qp_walk_part(sw_at window, sw_at cursor, sw_at found, const struct sw_key *key SW_NONNULL,
			       __u32 compared)
{
	__u32 depth = sw_u32(cursor + SW_QP_CURSOR_DEPTH), at = compared & ~SW_QP_GREATER;
	__u32 below = (__u32)((found - window) >> 2) | 1, cell, header, offset;
	sw_at node;

	sw_use_arena();
	for (; depth && at != SW_QP_SAME && sw_can_loop; depth--) {
		cell = sw_u32(cursor + SW_QP_CURSOR_NODES + (__u64)(depth - 1) * 4);
		node = sw_qp_node(window, cell);
		header = sw_u32(node);
		offset = sw_qp_offset(header);
		if (offset < at)
			goto parted;
		if (offset == at) {
			sw_qp_walk_frame(window, cursor, depth - 1, node, header,
					 sw_qp_rank(node, header, sw_qp_key_byte(key, at)));
			return sw_qp_walk_below(window, cursor, depth, 0);
		}
		below = cell;
	}
	if (depth && at != SW_QP_SAME)
		return -ELOOP;
parted:
	/* All that is below comes behind the key, or before it. */
	if (at != SW_QP_SAME && !(compared & SW_QP_GREATER))
		below = 0;
	return sw_qp_walk_below(window, cursor, depth, below);
}

/*
 * Begins a walk at a key, or at the next one if it is not there: 0 or a negative error.
 *
 *     long error = sw_qp_walk_from(NAMES, cursor, &key);
 */
SW_GLOBAL long sw_qp_walk_from(__u32 map, sw_at cursor, const struct sw_key *key SW_NONNULL)
{
	sw_at window = sw_window_in(map, SW_QP_KINDS);
	long found;

	sw_use_arena();
	found = sw_qp_walk_nothing(window, cursor);
	if (found)
		return found;
	found = sw_qp_walk_near(window, cursor, key);
	if (found <= 0)
		return found;
	return sw_qp_walk_part(window, cursor, found, key, sw_qp_compare(window, found, key));
}

/*
 * The next entry of a walk: the place of its leaf, 0 at the end, or a negative error.
 *
 *     long found = sw_qp_walk_step(cursor);
 */
SW_GLOBAL long sw_qp_walk_step(sw_at cursor)
{
	sw_at window = sw_u64(cursor + SW_QP_CURSOR_WINDOW), frame, node, cells;
	__u32 depth, cell, header, steps, at;
	__u64 place;

	sw_use_arena();
	if (!window)
		return -EINVAL;
	cell = sw_u32(cursor + SW_QP_CURSOR_LEAF);
	if (cell) {
		sw_set_u32(cursor + SW_QP_CURSOR_LEAF, 0);
		return (long)sw_qp_node(window, cell);
	}
	depth = sw_u32(cursor + SW_QP_CURSOR_DEPTH);
	/* Each round goes down, up, or gives a leaf. */
	for (steps = sw_zero(); steps < 2 * SW_QP_CURSOR_DEPTH_MAX && sw_can_loop; steps++) {
		if (!depth) {
			sw_set_u32(cursor + SW_QP_CURSOR_DEPTH, 0);
			return 0;
		}
		frame = cursor + SW_QP_CURSOR_FRAMES + (__u64)(depth - 1) * 8;
		place = sw_u64(frame);
		at = (__u32)place;
		if (at >= place >> 32) {
			depth--;
			continue;
		}
		cell = sw_u32(window + (__u64)at * 4);
		/* A branch whose last child is taken needs no frame any more. */
		if (at + 1 == place >> 32)
			depth--;
		else
			sw_set_u64(frame, place + 1);
		node = sw_qp_node(window, cell);
		if (cell & 1) {
			sw_set_u32(cursor + SW_QP_CURSOR_DEPTH, depth);
			return (long)node;
		}
		if (!cell)
			return -EUCLEAN;
		if (depth >= SW_QP_CURSOR_DEPTH_MAX)
			return -E2BIG;
		header = sw_u32(node);
		cells = sw_qp_cells(node, header) - window;
		at = (__u32)(cells >> 2);
		frame = cursor + SW_QP_CURSOR_FRAMES + (__u64)depth * 8;
		sw_set_u64(frame, (__u64)(at + sw_qp_children(header)) << 32 | at);
		depth++;
	}
	return steps < 2 * SW_QP_CURSOR_DEPTH_MAX ? -ELOOP : -EUCLEAN;
}

#endif
