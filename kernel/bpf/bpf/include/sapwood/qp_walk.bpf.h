/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Walks over the maps of qp.bpf.h in ascending order of keys, and neighbours of a key.
 *
 *     sw_at cursor = sw_window(CURSORS, SW_KIND_WORDS) + cpu * SW_QP_CURSOR_BYTES;
 *     long found = sw_qp_walk_prefix(NAMES, cursor, &prefix);
 *
 *     for (i = sw_zero(); !found && i < MOST && sw_can_loop; i++) {
 *             found = sw_qp_walk_step(cursor);
 *             if (found <= 0)
 *                     break;                                // 0: the end
 *             sum += sw_u64(found);                         // the place of the value; sw_qp_key has the key
 *             found = 0;
 *     }
 *
 * Results: the place of an entry (positive), which is the place of its value; 0 when there is none;
 * -EINVAL when there is no such window or cursor; -EOPNOTSUPP when the map has only an index;
 * -E2BIG when the map is deeper than a cursor (never while all its keys have at most 254 bytes;
 * with longer ones, when more than SW_QP_CURSOR_DEPTH_MAX branches lie above one entry); -ELOOP
 * when the kernel ended a loop; -EAGAIN when changes of the map disturbed every attempt; -EUCLEAN
 * when the bytes break the format of a map.
 *
 * A walk beside a writer ascends, returns no key twice, and finds every key that is there
 * throughout. sw_qp_next and sw_qp_prev check their result, and begin anew when the map has changed
 * meanwhile.
 *
 * The state of a walk is in a cursor: SW_QP_CURSOR_BYTES of memory in the arena (Words::create),
 * which must have no other user meanwhile. One cursor for each processor is enough, because
 * programs of one type do not interrupt each other there. Sleepable programs do: each of their runs
 * needs a cursor of its own. The walk ends with the run of the program, because removed nodes may
 * be freed then.
 */
#ifndef SAPWOOD_QP_WALK_BPF_H
#define SAPWOOD_QP_WALK_BPF_H

#include "qp.bpf.h"

/*
 * A cursor: the window, the current run of cells, and a frame for each later run, the next one
 * last. The depth is the number of frames. A run is two places in units of 4 bytes: its next cell,
 * and its end. Its cells lie in a branch or a cluster. The current run may also be one of an inline
 * cluster, whose cell is then in the cursor, else 0: it is the number of its next entry, and its
 * end. A walk that begins with one leaf has a copy of that leaf's cell in the cursor, as a run,
 * because a writer may replace the original by a node with other keys. Behind the frames are the
 * cells of branches, only during the search for a key.
 */
#define SW_QP_CURSOR_WINDOW 0
#define SW_QP_CURSOR_DEPTH 8
#define SW_QP_CURSOR_LEAF 12
#define SW_QP_CURSOR_RUN 16
#define SW_QP_CURSOR_INLINE 24
#define SW_QP_CURSOR_FRAMES 64
#define SW_QP_CURSOR_NODES (SW_QP_CURSOR_FRAMES + 8 * SW_QP_CURSOR_DEPTH_MAX)

_Static_assert(SW_QP_CURSOR_NODES + 4 * SW_QP_CURSOR_DEPTH_MAX <= SW_QP_CURSOR_BYTES,
	       "a cursor's parts are inside");
_Static_assert(SW_QP_CURSOR_DEPTH_MAX > SW_KEY_SHORT_MAX + 1, "the way to a short key fits a cursor");

/* The end of a key, in place of a byte. It sorts before all bytes. */
#define SW_QP_NO_BYTE (-1)
/*
 * Results of sw_qp_compare: for equal keys, and, in addition to the place, for an entry with the
 * greater key.
 */
#define SW_QP_SAME 0x7fffffffu
#define SW_QP_GREATER 0x80000000u

/*
 * Makes the key of an entry of this map. A short key is copied. A long key refers to the entry,
 * which stays until the run of the program ends. Returns 0, or -E2BIG when the key has more than
 * SW_KEY_MAX bytes.
 *
 *     found = sw_qp_first_leaf(NAMES);
 *     if (found > 0 && !sw_qp_key(NAMES, found, &key)) found = sw_qp_next(NAMES, &key);
 */
SW_GLOBAL long sw_qp_key(__u32 map, sw_at entry, struct sw_key *key SW_NONNULL)
{
	sw_at window = sw_window_in(map, SW_QP_KINDS);
	struct sw_qp_text text;
	__u32 i, left, length;
	__u64 word, spare;

	sw_use_arena();
	if (!window)
		return -EINVAL;
	text = sw_qp_text(window, entry);
	length = sw_qp_text_length(text);
	if (length > SW_KEY_SHORT_MAX) {
		sw_key_long(key, text.tail, length);
		/* Only leaves have such keys. */
		return length > SW_KEY_MAX || text.head ? -E2BIG : 0;
	}
	spare = length + 1;
	sw_each_word(i, left, SW_KEY_WORDS) {
		word = spare ? sw_qp_text_word(text.head, text.tail, text.cut, text.rest, i) : 0;
		if (spare < 8)
			word &= (1ull << spare * 8) - 1;
		spare = spare > 8 ? spare - 8 : 0;
		sw_hide(i);
		key->words[i & (SW_KEY_WORDS - 1)] = word;
	}
	key->length = (__u8)length;
	return left ? -ELOOP : 0;
}

/* A byte of a key, or SW_QP_NO_BYTE behind its end. */
SW_INLINE int sw_qp_key_byte(const struct sw_key *key, __u32 at)
{
	return at < sw_key_length(key) ? (int)sw_key_byte(key, at) : SW_QP_NO_BYTE;
}

/*
 * Compares the key of an entry with another key. Returns SW_QP_SAME when they are equal, else the
 * place of the first byte in which they differ, or at which one of them ends. SW_QP_GREATER is
 * added when the entry's key is greater.
 *
 *     if (sw_qp_compare(window, entry, &key) & SW_QP_GREATER) break;
 */
SW_GLOBAL __u32 sw_qp_compare(sw_at window, sw_at entry, const struct sw_key *key SW_NONNULL)
{
	struct sw_qp_text text = sw_qp_text(window, entry);
	__u32 at = sw_qp_agree(window, entry, key), length = sw_qp_text_length(text);
	int there;

	sw_use_arena();
	if (at == length && at == sw_key_length(key))
		return SW_QP_SAME;
	there = at < length ? (int)sw_qp_text_byte(text, at) : SW_QP_NO_BYTE;
	return there > sw_qp_key_byte(key, at) ? at | SW_QP_GREATER : at;
}

/* The number of cells, or of entries, of the node of a cell that is not a leaf's. */
SW_INLINE __u32 sw_qp_count_cells(__u32 cell, __u32 header)
{
	return cell & SW_QP_CLUSTER ? sw_qp_cluster_leaves(header) : sw_qp_labels(header) + 1;
}

/* The place of the first of these cells, in bytes from the node's beginning. */
SW_INLINE __u32 sw_qp_first_cell(__u32 cell, __u32 header)
{
	return cell & SW_QP_CLUSTER ? sw_qp_cluster_cells_at(header) : sw_qp_cells_at(header);
}

/* The number of the child on a key's path. */
SW_INLINE __u32 sw_qp_key_child(sw_at node, __u32 header, const struct sw_key *key)
{
	__u32 offset = sw_qp_offset(header);

	if (offset >= sw_key_length(key))
		return 0;
	return (__u32)sw_qp_child(node, header, sw_key_byte(key, offset));
}

/*
 * The place of a key in a cluster: the number of the first slot whose keys are not less. `pos` is
 * that of sw_qp_nearest, and `compared` the result of the comparison with that entry.
 */
SW_INLINE __u32 sw_qp_place(sw_at borders, __u32 header, __u32 pos, __u32 compared)
{
	__u32 leaves = sw_qp_cluster_leaves(header), base = sw_qp_cluster_base(header);
	__u32 at = compared & ~SW_QP_GREATER;

	if (at == SW_QP_SAME)
		return pos;
	/*
	 * Entries that share more bytes with this one than the key does are on the same side of the
	 * key.
	 */
	if (compared & SW_QP_GREATER) {
		for (; pos && base + sw_u8(borders + pos) > at && sw_can_loop; pos--)
			;
	} else {
		for (pos++; pos < leaves && base + sw_u8(borders + pos) > at && sw_can_loop; pos++)
			;
	}
	return pos;
}

/* The first (or last) entry below a cell that is not empty. */
SW_GLOBAL long sw_qp_down(sw_at window, __u32 cell, int last)
{
	__u32 depth, header, pos;
	sw_at node, entry;

	sw_use_arena();
	for (depth = sw_zero(); depth < SW_QP_DEPTH_MAX && sw_can_loop; depth++) {
		if (!cell)
			return -EUCLEAN;
		node = sw_qp_node(window, cell);
		if (sw_qp_is_leaf(cell))
			return (long)node;
		header = sw_u32(node);
		if (cell & SW_QP_CLUSTER) {
			pos = last ? sw_qp_cluster_leaves(header) - 1 : 0;
			entry = sw_qp_entry(window, cell, node, header, pos);
			return entry != window ? (long)entry : sw_qp_alive_from(window, cell, pos);
		}
		node += sw_qp_cells_at(header);
		cell = sw_u32(node + (last ? 4 * sw_qp_labels(header) : 0));
	}
	return depth < SW_QP_DEPTH_MAX ? -ELOOP : -EUCLEAN;
}

/* The entry with the least key. Example: long found = sw_qp_first_leaf(NAMES); */
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

/* The entry with the longest prefix in common with a key; 0 in an empty map. */
SW_GLOBAL long sw_qp_near(sw_at window, const struct sw_key *key SW_NONNULL)
{
	__u32 cell = sw_u32(window + SW_QP_ROOT), depth, header, pos;
	sw_at node;

	sw_use_arena();
	if (!cell)
		return sw_qp_no_root(window, 0);
	for (depth = sw_zero(); depth < SW_QP_DEPTH_MAX && sw_can_loop; depth++) {
		if (!cell)
			return -EUCLEAN;
		if (cell & SW_QP_KIND)
			return (long)sw_qp_nearest(window, cell, key, &pos);
		node = sw_qp_node(window, cell);
		header = sw_u32(node);
		cell = sw_u32(node + sw_qp_cells_at(header) +
			      4 * sw_qp_key_child(node, header, key));
	}
	return depth < SW_QP_DEPTH_MAX ? -ELOOP : -EUCLEAN;
}

/*
 * The neighbour of a key that compares like this with the entry near it: its place; 0 when there is
 * none; or a negative error, -EAGAIN when the comparison has changed.
 */
SW_GLOBAL long sw_qp_beside(sw_at window, const struct sw_key *key SW_NONNULL, __u32 compared, int last)
{
	/* The cell of the last branch beside the path below which a neighbour may be. */
	__u32 cell = sw_u32(window + SW_QP_ROOT), best = 0, depth, header, child, pos;
	__u32 at = compared & ~SW_QP_GREATER;
	sw_at node, cells, entry;
	long found;

	sw_use_arena();
	last = !!last;
	if (!cell)
		return -EAGAIN;
	for (depth = sw_zero(); depth < SW_QP_DEPTH_MAX && sw_can_loop; depth++) {
		if (!cell)
			return -EUCLEAN;
		if (cell & SW_QP_KIND)
			goto bottom;
		node = sw_qp_node(window, cell);
		header = sw_u32(node);
		if (sw_qp_offset(header) > at) {
			/* All keys below this cell are on one side of the key. */
			found = sw_qp_down(window, cell, 0);
			if (found < 0)
				return found;
			if (sw_qp_compare(window, found, key) != compared)
				return -EAGAIN;
			if ((!(compared & SW_QP_GREATER)) == last)
				best = cell;
			goto below;
		}
		cells = node + sw_qp_cells_at(header);
		child = sw_qp_key_child(node, header, key);
		if (last && child)
			best = sw_u32(cells + 4 * (child - 1));
		if (!last && child < sw_qp_labels(header))
			best = sw_u32(cells + 4 * (child + 1));
		cell = sw_u32(cells + 4 * child);
	}
	return depth < SW_QP_DEPTH_MAX ? -ELOOP : -EUCLEAN;
bottom:
	found = (long)sw_qp_nearest(window, cell, key, &pos);
	if (sw_qp_compare(window, found, key) != compared)
		return -EAGAIN;
	if (!(cell & SW_QP_CLUSTER)) {
		if (at != SW_QP_SAME && (!(compared & SW_QP_GREATER)) == last)
			return found;
		goto below;
	}
	node = sw_qp_node(window, cell);
	header = sw_u32(node);
	pos = sw_qp_place(sw_qp_borders(cell, node, header), header, pos, compared);
	/* That before the first entry is no entry either. */
	pos += last ? -1 : at == SW_QP_SAME;
	/* A writer may have cut off slots at the end since. */
	if (last && pos != -1u && pos >= sw_qp_cluster_leaves(header))
		pos = sw_qp_cluster_leaves(header) - 1;
	if (pos < sw_qp_cluster_leaves(header)) {
		entry = sw_qp_entry(window, cell, node, header, pos);
		if (entry != window)
			return (long)entry;
		/* The last slot is not dead, but all before this one may be. */
		found = last ? sw_qp_alive_before(window, cell, pos) : sw_qp_alive_from(window, cell, pos);
		if (found)
			return found;
	}
below:
	return best ? sw_qp_down(window, best, last) : 0;
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
		/* The result must be on the requested side. Otherwise the map has changed. */
		compared = sw_qp_compare(window, found, key);
		if (compared != SW_QP_SAME && (!(compared & SW_QP_GREATER)) == last)
			return found;
	}
	return tries < 8 ? -ELOOP : -EAGAIN;
}

/*
 * The entry with the least key that is greater than this key. The map need not have this key.
 *
 *     long found = sw_qp_next(NAMES, &key);
 */
SW_GLOBAL long sw_qp_next(__u32 map, const struct sw_key *key SW_NONNULL)
{
	sw_use_arena();
	return sw_qp_neighbour(map, key, 0);
}

/*
 * The entry with the greatest key that is less than this key. The map need not have this key.
 *
 *     long found = sw_qp_prev(NAMES, &key);
 */
SW_GLOBAL long sw_qp_prev(__u32 map, const struct sw_key *key SW_NONNULL)
{
	sw_use_arena();
	return sw_qp_neighbour(map, key, 1);
}

/*
 * Makes a cursor's walk empty. Returns 0, or -EINVAL when there is no memory at the cursor's place.
 */
SW_INLINE long sw_qp_walk_nothing(sw_at window, sw_at cursor)
{
	if (!window || !cursor || cursor & 7)
		return -EINVAL;
	sw_set_u32(cursor + SW_QP_CURSOR_DEPTH, 0);
	sw_set_u64(cursor + SW_QP_CURSOR_RUN, 0);
	sw_set_u64(cursor + SW_QP_CURSOR_WINDOW, window);
	return sw_u64(cursor + SW_QP_CURSOR_WINDOW) == window ? 0 : -EINVAL;
}

/* The run of the cells from one place to another. */
SW_INLINE __u64 sw_qp_run(sw_at from, __u32 cells)
{
	__u32 first = (__u32)(from >> 2);

	return (__u64)(first + cells) << 32 | first;
}

/* The run of all cells, or entries, of the node of a cell that is not a leaf's. */
SW_INLINE __u64 sw_qp_run_of(sw_at window, __u32 cell)
{
	sw_at node = sw_qp_node(window, cell);
	__u32 header = sw_u32(node);

	if (sw_qp_is_inline(cell))
		return (__u64)sw_qp_cluster_leaves(header) << 32;
	return sw_qp_run(node + sw_qp_first_cell(cell, header), sw_qp_count_cells(cell, header));
}

/* Moves a cursor before all leaves below a cell. They come before those of its `depth` frames. */
SW_INLINE long sw_qp_walk_below(sw_at window, sw_at cursor, __u32 depth, __u32 cell)
{
	__u64 run = 0;

	sw_set_u32(cursor + SW_QP_CURSOR_INLINE, sw_qp_is_inline(cell) ? cell : 0);
	if (sw_qp_is_leaf(cell)) {
		sw_set_u32(cursor + SW_QP_CURSOR_LEAF, cell);
		run = sw_qp_run(cursor + SW_QP_CURSOR_LEAF, 1);
	} else if (cell) {
		run = sw_qp_run_of(window, cell);
	}
	sw_set_u64(cursor + SW_QP_CURSOR_RUN, run);
	sw_set_u32(cursor + SW_QP_CURSOR_DEPTH, depth);
	return 0;
}

/* The same for the entries of a cluster from one number to another. */
SW_INLINE long sw_qp_walk_leaves(sw_at window, sw_at cursor, __u32 depth, __u32 cell, __u32 from, __u32 to)
{
	__u64 run = (__u64)to << 32 | from;
	sw_at node;

	sw_set_u32(cursor + SW_QP_CURSOR_INLINE, sw_qp_is_inline(cell) ? cell : 0);
	if (!sw_qp_is_inline(cell)) {
		node = sw_qp_node(window, cell);
		run = sw_qp_run(node + sw_qp_cluster_cells_at(sw_u32(node)) + 4 * from, to - from);
	}
	sw_set_u64(cursor + SW_QP_CURSOR_RUN, run);
	sw_set_u32(cursor + SW_QP_CURSOR_DEPTH, depth);
	return 0;
}

/*
 * Begins a walk over a whole map. Returns 0 or a negative error.
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

/* Moves a cursor before the entries of a cluster whose keys have this prefix. Returns 0. */
SW_GLOBAL long sw_qp_walk_prefix_in(sw_at window, sw_at cursor, __u32 cell,
				    const struct sw_key *prefix SW_NONNULL)
{
	__u32 header, base, leaves, length = sw_key_length(prefix), from, to, pos;
	sw_at entry = sw_qp_nearest(window, cell, prefix, &pos), node, borders;

	sw_use_arena();
	if ((sw_qp_compare(window, entry, prefix) & ~SW_QP_GREATER) < length)
		return 0;
	node = sw_qp_node(window, cell);
	header = sw_u32(node);
	base = sw_qp_cluster_base(header);
	leaves = sw_qp_cluster_leaves(header);
	borders = sw_qp_borders(cell, node, header);
	for (from = pos; from && base + sw_u8(borders + from) >= length && sw_can_loop; from--)
		;
	for (to = pos + 1; to < leaves && base + sw_u8(borders + to) >= length && sw_can_loop; to++)
		;
	return sw_qp_walk_leaves(window, cursor, 0, cell, from, to);
}

/*
 * Begins a walk over the entries whose keys have this prefix. Returns 0 or a negative error.
 *
 *     long error = sw_qp_walk_prefix(NAMES, cursor, &prefix);
 */
SW_GLOBAL long sw_qp_walk_prefix(__u32 map, sw_at cursor, const struct sw_key *prefix SW_NONNULL)
{
	sw_at window = sw_window_in(map, SW_QP_KINDS), node;
	__u32 cell, header, depth, offset, length = sw_key_length(prefix);
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
			return -EUCLEAN;
		if (cell & SW_QP_CLUSTER)
			return sw_qp_walk_prefix_in(window, cursor, cell, prefix);
		if (cell & SW_QP_LEAF)
			goto one_side;
		node = sw_qp_node(window, cell);
		header = sw_u32(node);
		offset = sw_qp_offset(header);
		if (offset >= length)
			goto one_side;
		cell = sw_u32(node + sw_qp_cells_at(header) +
			      4 * (__u32)sw_qp_child(node, header, sw_key_byte(prefix, offset)));
	}
	return depth < SW_QP_DEPTH_MAX ? -ELOOP : -EUCLEAN;
one_side:
	/*
	 * All keys below have the same first bytes, so one entry shows whether these are the prefix.
	 */
	error = sw_qp_down(window, cell, 0);
	if (error < 0)
		return error;
	if ((sw_qp_compare(window, error, prefix) & ~SW_QP_GREATER) < length)
		return 0;
	return sw_qp_walk_below(window, cursor, 0, cell);
}

/*
 * Writes the path of a key to the cursor: frames that begin behind the path, the branches on it,
 * and the depth. Returns the cell of the leaf or cluster at its end, 0 in an empty map, or a
 * negative error.
 */
SW_GLOBAL long sw_qp_walk_near(sw_at window, sw_at cursor, const struct sw_key *key SW_NONNULL)
{
	__u32 cell = sw_u32(window + SW_QP_ROOT), header, depth, child;
	sw_at node, cells;

	sw_use_arena();
	if (!cell)
		return sw_qp_no_root(window, 0);
	for (depth = sw_zero(); depth <= SW_QP_CURSOR_DEPTH_MAX && sw_can_loop; depth++) {
		if (!cell)
			return -EUCLEAN;
		if (cell & SW_QP_KIND) {
			sw_set_u32(cursor + SW_QP_CURSOR_DEPTH, depth);
			return cell;
		}
		if (depth == SW_QP_CURSOR_DEPTH_MAX)
			return -E2BIG;
		node = sw_qp_node(window, cell);
		header = sw_u32(node);
		child = sw_qp_key_child(node, header, key);
		cells = node + sw_qp_cells_at(header) + 4 * child;
		sw_set_u64(cursor + SW_QP_CURSOR_FRAMES + (__u64)depth * 8,
			   sw_qp_run(cells + 4, sw_qp_labels(header) - child));
		sw_set_u32(cursor + SW_QP_CURSOR_NODES + (__u64)depth * 4, cell);
		cell = sw_u32(cells);
	}
	return -ELOOP;
}

/*
 * Reduces the frames of a key's path to the entries that are not less than the key. `cell` is at
 * the end of the path, and entry `pos` in it compares like this.
 */
SW_GLOBAL long sw_qp_walk_part(sw_at window, sw_at cursor, __u32 cell, __u32 pos, __u32 compared)
{
	__u32 depth = sw_u32(cursor + SW_QP_CURSOR_DEPTH), at = compared & ~SW_QP_GREATER;
	__u32 above, header;
	sw_at node;

	sw_use_arena();
	/*
	 * Finds the highest branch below which the key does not fit. All leaves there are on one
	 * side of the key.
	 */
	for (; depth && at != SW_QP_SAME && sw_can_loop; depth--) {
		above = sw_u32(cursor + SW_QP_CURSOR_NODES + (__u64)(depth - 1) * 4);
		if (sw_qp_offset(sw_u32(sw_qp_node(window, above))) <= at)
			goto parted;
		cell = above;
	}
	if (depth && at != SW_QP_SAME)
		return -ELOOP;
parted:
	node = sw_qp_node(window, cell);
	if (cell & SW_QP_CLUSTER) {
		header = sw_u32(node);
		pos = sw_qp_place(sw_qp_borders(cell, node, header), header, pos, compared);
		return sw_qp_walk_leaves(window, cursor, depth, cell, pos, sw_qp_cluster_leaves(header));
	}
	if (at != SW_QP_SAME && !(compared & SW_QP_GREATER))
		cell = 0;
	return sw_qp_walk_below(window, cursor, depth, cell);
}

/*
 * Begins a walk at a key, or at the next key if it is not there. Returns 0 or a negative error.
 *
 *     long error = sw_qp_walk_from(NAMES, cursor, &key);
 */
SW_GLOBAL long sw_qp_walk_from(__u32 map, sw_at cursor, const struct sw_key *key SW_NONNULL)
{
	sw_at window = sw_window_in(map, SW_QP_KINDS), entry;
	__u32 pos;
	long found;

	sw_use_arena();
	found = sw_qp_walk_nothing(window, cursor);
	if (found)
		return found;
	found = sw_qp_walk_near(window, cursor, key);
	if (found <= 0)
		return found;
	entry = sw_qp_nearest(window, (__u32)found, key, &pos);
	return sw_qp_walk_part(window, cursor, (__u32)found, pos, sw_qp_compare(window, entry, key));
}

/*
 * The most rounds of a step: up and down a whole path, and over the dead slots of a cluster, of
 * which the last slot is not dead.
 */
#define SW_QP_STEP_ROUNDS (2 * SW_QP_CURSOR_DEPTH_MAX + SW_QP_SLOTS_MAX)

/*
 * The next entry of a walk. Returns its place, 0 at the end, or a negative error.
 *
 *     long found = sw_qp_walk_step(cursor);
 */
SW_GLOBAL long sw_qp_walk_step(sw_at cursor)
{
	sw_at window = sw_u64_of(cursor, SW_QP_CURSOR_WINDOW);
	__u64 run = sw_u64_of(cursor, SW_QP_CURSOR_RUN);
	__u32 held = sw_u32_of(cursor, SW_QP_CURSOR_INLINE), depth, cell, steps;
	sw_at node;
	long found;

	sw_use_arena();
	if (!window)
		return -EINVAL;
	/* Each round descends, ascends, passes over a dead slot, or finds a leaf. */
	for (steps = sw_zero(); steps < SW_QP_STEP_ROUNDS && sw_can_loop; steps++) {
		if ((__u32)run >= run >> 32) {
			depth = sw_u32_of(cursor, SW_QP_CURSOR_DEPTH);
			if (!depth) {
				sw_set_u64(cursor + SW_QP_CURSOR_RUN, 0);
				return 0;
			}
			depth--;
			sw_set_u32(cursor + SW_QP_CURSOR_DEPTH, depth);
			run = sw_u64_of(cursor + (__u64)depth * 8, SW_QP_CURSOR_FRAMES);
			if (held)
				sw_set_u32(cursor + SW_QP_CURSOR_INLINE, 0);
			held = 0;
			continue;
		}
		if (held) {
			sw_set_u64(cursor + SW_QP_CURSOR_RUN, run + 1);
			node = sw_qp_node(window, held);
			return (long)sw_qp_held(window, node, sw_u32_of(node, 0), (__u32)run);
		}
		cell = sw_u32((__u64)(__u32)run * 4);
		run++;
		if (sw_qp_is_leaf(cell)) {
			sw_set_u64(cursor + SW_QP_CURSOR_RUN, run);
			return (long)sw_qp_node(window, cell);
		}
		if (!cell)
			continue;
		/* A node whose last child is taken needs no frame any more. */
		if ((__u32)run < run >> 32) {
			depth = sw_u32_of(cursor, SW_QP_CURSOR_DEPTH);
			found = -E2BIG;
			if (depth >= SW_QP_CURSOR_DEPTH_MAX)
				goto failed;
			sw_set_u64(cursor + SW_QP_CURSOR_FRAMES + (__u64)depth * 8, run);
			sw_set_u32(cursor + SW_QP_CURSOR_DEPTH, depth + 1);
		}
		run = sw_qp_run_of(window, cell);
		if (sw_qp_is_inline(cell)) {
			held = cell;
			sw_set_u32(cursor + SW_QP_CURSOR_INLINE, held);
		}
	}
	found = steps < SW_QP_STEP_ROUNDS ? -ELOOP : -EUCLEAN;
	run++;
failed:
	/* The next step repeats the error, or continues. */
	sw_set_u64(cursor + SW_QP_CURSOR_RUN, run - 1);
	return found;
}

#endif
