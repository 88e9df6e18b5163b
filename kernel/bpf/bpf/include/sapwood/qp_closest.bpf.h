/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * All lookups of a name server for one name, in one descent.
 *
 *     struct sw_closest found = { .cut_mask = IS_CUT };
 *     sw_at cursor = sw_window(CURSORS, SW_KIND_WORDS) + cpu * SW_QP_CURSOR_BYTES;
 *     long error = sw_qp_closest(ZONE, cursor, &name, &found);
 *
 *     if (!error && found.cut) refer(sw_u64(found.cut));
 *     else if (!error && found.exact) answer(sw_u64(found.exact));
 *     else if (!error && found.wildcard) answer(sw_u64(found.wildcard));
 *
 * Names are keys as sw_dns_key makes them: labels in reverse order, each ended by a zero byte. The
 * terms are those of RFC 4592 and of the type Closest in Rust. Each place was right at some moment
 * of the call. Beside a writer, they need not be of the same moment.
 */
#ifndef SAPWOOD_QP_CLOSEST_BPF_H
#define SAPWOOD_QP_CLOSEST_BPF_H

#include "qp_prefix.bpf.h"
#include "qp_walk.bpf.h"

/* The result for a name: places of values, 0 where there is none. */
struct sw_closest {
	/*
	 * Set by the caller: an entry is a cut if the first eight bytes of its value have one of
	 * these bits.
	 */
	__u64 cut_mask;
	/* The name's own entry. */
	__u64 exact;
	/* The entry of the longest stored name at or above the name. */
	__u64 ancestor;
	/* The entry of `*` below the closest encloser; none when the name exists. */
	__u64 wildcard;
	/* The entry with the greatest key less than the name. */
	__u64 predecessor;
	/* The topmost entry at or above the name whose value is a cut. */
	__u64 cut;
	/* The length of the longest prefix that the name shares with a stored key. */
	__u32 agree;
	/*
	 * The length of the name's closest encloser: the longest name at or above it that exists.
	 */
	__u32 encloser;
	/* Whether the name exists: it has an entry, or an entry lies below it. */
	__u32 exists;
	__u32 spare;
};

/* Whether this many first bytes of a name are a name: the root, a parent, or the name itself. */
SW_INLINE int sw_qp_is_name(const struct sw_key *name, __u32 bytes)
{
	__u32 length = sw_key_length(name);

	return !bytes || bytes == length || (bytes < length && !sw_key_byte(name, bytes - 1));
}

/* A byte of the wildcard below an encloser, or SW_QP_NO_BYTE behind its end. */
SW_INLINE int sw_qp_wild_byte(const struct sw_key *name, __u32 encloser, __u32 at)
{
	if (at < encloser)
		return (int)sw_key_byte(name, at);
	if (at == encloser)
		return '*';
	return at == encloser + 1 ? 0 : SW_QP_NO_BYTE;
}

/* The blind search of sw_qp_blind for the wildcard below an encloser. */
SW_INLINE __u32 sw_qp_blind_wild(sw_at borders, __u32 header, const struct sw_key *name, __u32 encloser)
{
	__u32 leaves = sw_qp_cluster_leaves(header), base = sw_qp_cluster_base(header);
	__u32 pos = sw_zero(), lim = pos + 256, i, border;
	sw_at bytes = borders + sw_qp_cluster_capacity(header);

	for (i = sw_zero() + 1; i < leaves && sw_can_loop; i++) {
		border = sw_u8(borders + i);
		if (border >= lim)
			continue;
		/*
		 * At a border with byte 0, the key before it may end. All longer ones are behind it.
		 */
		if (sw_qp_wild_byte(name, encloser, base + border) >= (int)sw_u8(bytes + i)) {
			pos = i;
			lim = 256;
		} else {
			lim = border;
		}
	}
	return pos;
}

/*
 * The entry of the wildcard below an encloser, found from this cell on; 0 when there is none, or
 * when its key would have more than SW_KEY_MAX bytes.
 */
SW_GLOBAL long sw_qp_wildcard(sw_at window, __u32 cell, const struct sw_key *name SW_NONNULL, __u32 encloser)
{
	__u32 header, depth, child, offset;
	struct sw_qp_text text;
	sw_at node;
	int byte;

	sw_use_arena();
	if (encloser > SW_KEY_MAX - 2)
		return 0;
	for (depth = sw_zero(); depth < SW_QP_DEPTH_MAX && sw_can_loop; depth++) {
		if (!cell)
			return 0;
		node = sw_qp_node(window, cell);
		if (cell & SW_QP_KIND)
			goto bottom;
		header = sw_u32(node);
		offset = sw_qp_offset(header);
		byte = sw_qp_wild_byte(name, encloser, offset);
		child = byte < 0 ? 0 : (__u32)sw_qp_child(node, header, (__u32)byte & 255);
		cell = sw_u32(node + sw_qp_cells_at(header) + 4 * child);
	}
	return depth < SW_QP_DEPTH_MAX ? -ELOOP : -EUCLEAN;
bottom:
	if (cell & SW_QP_CLUSTER) {
		header = sw_u32(node);
		child = sw_qp_blind_wild(sw_qp_borders(cell, node, header), header, name, encloser);
		node = sw_qp_entry(window, cell, node, header, child);
		/* A dead slot has no entry, and the wildcard would be in it. */
		if (node == window)
			return 0;
	}
	text = sw_qp_text(window, node);
	if (sw_qp_text_length(text) != encloser + 2 || sw_qp_text_byte(text, encloser) != '*' ||
	    sw_qp_text_byte(text, encloser + 1))
		return 0;
	return sw_qp_agree(window, node, name) >= encloser ? (long)node : 0;
}

/* Records an entry at or above the name. They come longest first. */
SW_INLINE void sw_qp_note_above(sw_at window, struct sw_closest *found, sw_at entry)
{
	if (!found->ancestor)
		found->ancestor = entry;
	if (found->cut_mask && sw_qp_value_word(window, entry) & found->cut_mask)
		found->cut = entry;
}

/* Whether all results about the names above are known. */
SW_INLINE int sw_qp_has_above(const struct sw_closest *found)
{
	return found->ancestor && !found->cut_mask;
}

/* Records the names above a name in the cluster at the end of its path, before entry `pos`. */
SW_GLOBAL long sw_qp_above_in(sw_at window, __u32 cell, __u32 pos, const struct sw_key *name SW_NONNULL,
			      struct sw_closest *found SW_NONNULL)
{
	sw_at node = sw_qp_node(window, cell), entry;
	__u32 header = sw_u32(node), base = sw_qp_cluster_base(header), lim = 256, border;
	sw_at borders = sw_qp_borders(cell, node, header);
	sw_at bytes = borders + sw_qp_cluster_capacity(header);

	sw_use_arena();
	for (pos += sw_zero(); pos && !sw_qp_has_above(found) && sw_can_loop; pos--) {
		border = sw_u8(borders + pos);
		/* Entry pos - 1 agrees up to here with all entries that were visited. */
		if (border > lim)
			continue;
		lim = border;
		border += base;
		/* The entry's key ends there, and is a name. */
		if (sw_u8(bytes + pos) || border > found->agree || !sw_qp_is_name(name, border))
			continue;
		entry = sw_qp_entry(window, cell, node, header, pos - 1);
		if (entry != window)
			sw_qp_note_above(window, found, entry);
	}
	return pos && !sw_qp_has_above(found) ? -ELOOP : 0;
}

/* The cell of a branch on the cursor's path, by its number. */
SW_INLINE __u32 sw_qp_on_way(sw_at cursor, __u32 number)
{
	return sw_u32(cursor + SW_QP_CURSOR_NODES + (__u64)number * 4);
}

/* Records the names above a name that end at branches on the cursor's path. */
SW_GLOBAL long sw_qp_above_on(sw_at cursor, const struct sw_key *name SW_NONNULL,
			      struct sw_closest *found SW_NONNULL)
{
	sw_at window = sw_u64(cursor + SW_QP_CURSOR_WINDOW), node, end;
	__u32 header, offset;
	__u32 depth = sw_u32(cursor + SW_QP_CURSOR_DEPTH);

	sw_use_arena();
	for (; depth && !sw_qp_has_above(found) && sw_can_loop; depth--) {
		node = sw_qp_node(window, sw_qp_on_way(cursor, depth - 1));
		header = sw_u32(node);
		offset = sw_qp_offset(header);
		if (offset > found->agree || !sw_qp_is_name(name, offset))
			continue;
		/*
		 * The path leads to child 0 itself, which was visited, or which agrees beyond the
		 * offset.
		 */
		if (!sw_qp_key_child(node, header, name))
			continue;
		end = sw_qp_end(window, sw_u32(node + sw_qp_cells_at(header)), offset);
		if (end && sw_qp_is_prefix(window, end, offset, name))
			sw_qp_note_above(window, found, end);
	}
	return depth && !sw_qp_has_above(found) ? -ELOOP : 0;
}

/*
 * The entry before a name, or 0. `cell` is at the end of the cursor's path, and entry `pos` in it
 * compares like this with the name.
 */
SW_GLOBAL long sw_qp_before(sw_at cursor, __u32 cell, __u32 pos, __u32 compared,
			    const struct sw_key *name SW_NONNULL)
{
	sw_at window = sw_u64(cursor + SW_QP_CURSOR_WINDOW), node;
	__u32 depth = sw_u32(cursor + SW_QP_CURSOR_DEPTH), at = compared & ~SW_QP_GREATER;
	__u32 above, header, child, whole = depth;
	long found;

	sw_use_arena();
	/*
	 * Finds the highest branch below which the name does not fit. All entries there are on one
	 * side of the name.
	 */
	for (; depth && at != SW_QP_SAME && sw_can_loop; depth--) {
		above = sw_qp_on_way(cursor, depth - 1);
		if (sw_qp_offset(sw_u32(sw_qp_node(window, above))) <= at)
			break;
		cell = above;
	}
	if (depth == whole && cell & SW_QP_CLUSTER) {
		node = sw_qp_node(window, cell);
		header = sw_u32(node);
		pos = sw_qp_place(sw_qp_borders(cell, node, header), header, pos, compared);
		found = pos ? sw_qp_alive_before(window, cell, pos) : 0;
		if (found)
			return found;
	} else if (at != SW_QP_SAME && !(compared & SW_QP_GREATER)) {
		return sw_qp_down(window, cell, 1);
	}
	for (; depth && sw_can_loop; depth--) {
		node = sw_qp_node(window, sw_qp_on_way(cursor, depth - 1));
		header = sw_u32(node);
		child = sw_qp_key_child(node, header, name);
		if (child)
			return sw_qp_down(window, sw_u32(node + sw_qp_cells_at(header) + 4 * (child - 1)), 1);
	}
	return depth ? -ELOOP : 0;
}

/*
 * The highest cell on the cursor's path below which are all keys that share this many first bytes
 * with the name and then differ from it. The path ends at `cell`.
 */
SW_INLINE __u32 sw_qp_parting(sw_at window, sw_at cursor, __u32 cell, __u32 bytes)
{
	__u32 depth = sw_u32(cursor + SW_QP_CURSOR_DEPTH), above;

	for (; depth && sw_can_loop; depth--) {
		above = sw_qp_on_way(cursor, depth - 1);
		if (sw_qp_offset(sw_u32(sw_qp_node(window, above))) < bytes)
			break;
		cell = above;
	}
	return cell;
}

/*
 * Finds the results for a name. Returns 0, or a negative error as the functions of qp_walk.bpf.h
 * do. The cursor is one of that header.
 */
SW_GLOBAL long sw_qp_closest(__u32 map, sw_at cursor, const struct sw_key *name SW_NONNULL,
			     struct sw_closest *found SW_NONNULL)
{
	sw_at window = sw_window_in(map, SW_QP_KINDS), entry;
	__u32 pos, compared, agree, encloser, length = sw_key_length(name), cell;
	volatile __u32 *count;
	long result;

	sw_use_arena();
	found->exact = found->ancestor = found->wildcard = found->predecessor = found->cut = 0;
	found->agree = found->encloser = found->exists = 0;
	result = sw_qp_walk_nothing(window, cursor);
	if (result)
		return result;
	result = sw_qp_walk_near(window, cursor, name);
	if (result <= 0)
		return result;
	cell = (__u32)result;
	entry = sw_qp_nearest(window, cell, name, &pos);
	compared = sw_qp_compare(window, entry, name);
	agree = compared & ~SW_QP_GREATER;
	if (agree == SW_QP_SAME) {
		agree = length;
		found->exact = entry;
	}
	if (agree > length)
		return -EUCLEAN;
	found->agree = agree;
	found->exists = agree == length;
	/* The verifier does not know what it reads there, and so checks one round. */
	count = &found->encloser;
	for (*count = agree; (encloser = *count) && sw_can_loop; *count = encloser - 1) {
		if (sw_qp_is_name(name, encloser))
			break;
	}
	if (encloser == agree && sw_qp_text_length(sw_qp_text(window, entry)) == agree)
		sw_qp_note_above(window, found, entry);
	result = cell & SW_QP_CLUSTER ? sw_qp_above_in(window, cell, pos, name, found) : 0;
	if (!result)
		result = sw_qp_above_on(cursor, name, found);
	if (result)
		return result;
	result = sw_qp_before(cursor, cell, pos, compared, name);
	if (result < 0)
		return result;
	found->predecessor = (__u64)result;
	if (found->exists)
		return 0;
	result = sw_qp_wildcard(window, sw_qp_parting(window, cursor, cell, encloser), name, encloser);
	if (result < 0)
		return result;
	found->wildcard = (__u64)result;
	return 0;
}

/*
 * What proves that a name is not there, for a signed zone: the type Denial in Rust. It is too large
 * for a stack; keep it in a map's value, one for each CPU.
 */
struct sw_denial {
	/* What sw_qp_closest finds. The caller sets its cut_mask. */
	struct sw_closest closest;
	/*
	 * The entry with the greatest key less than the name that is below no cut, and the same for
	 * the wildcard: the owners of the NSEC records that cover them. 0 where there is none; for
	 * the wildcard also when the name exists.
	 */
	__u64 predecessor, wildcard_predecessor;
	/*
	 * Whether `*` below the closest encloser exists: it has an entry, or an entry lies below
	 * it. 0 when the name exists.
	 */
	__u32 wildcard_exists;
	__u32 spare;
	/* The key and the results of further searches. */
	struct sw_key key;
	struct sw_closest other;
};

/*
 * Makes the key of the wildcard below an encloser of a name. A long key is made in the room.
 * Returns 0, -EINVAL when it is long and there is no room, -E2BIG or -ELOOP.
 */
SW_GLOBAL long sw_qp_wild_key(const struct sw_key *name SW_NONNULL, __u32 encloser, sw_at room,
			      struct sw_key *key SW_NONNULL)
{
	__u32 length = encloser + 2, i, left, byte, is_long;

	sw_use_arena();
	if (encloser > SW_KEY_MAX - 2)
		return -E2BIG;
	is_long = length > SW_KEY_SHORT_MAX;
	if (is_long && (!room || room & 7))
		return -EINVAL;
	for (i = 0; i < SW_KEY_WORDS; i++)
		((volatile __u64 *)key->words)[i] = 0;
	if (is_long)
		sw_key_long(key, room, length);
	else
		key->length = (__u8)length;
	/* The last byte is 0. */
	for (i = sw_zero(), left = length + sw_zero(); left && sw_can_loop; left--, i++) {
		i &= 0x1fff;
		sw_hide(i);
		byte = left == 1 ? 0 : left == 2 ? '*' : sw_key_byte(name, i);
		sw_hide(byte);
		if (is_long) {
			sw_set_u8(room + i, byte);
			/* Without this, the compiler joins both stores, which the verifier refuses. */
			sw_hide(byte);
			continue;
		}
		if (i < SW_KEY_SHORT_MAX)
			((__u8 *)key)[(i + 1) & (SW_KEY_WORDS * 8 - 1)] = (__u8)byte;
	}
	return left ? -ELOOP : 0;
}

/*
 * The entry at a place, or the topmost cut above it. Returns its place, 0 if the place is 0, or a
 * negative error.
 */
SW_INLINE long sw_qp_uncut(__u32 map, sw_at cursor, __u64 place, struct sw_denial *found)
{
	long error;

	found->other.cut_mask = found->closest.cut_mask;
	if (!place || !found->other.cut_mask)
		return (long)place;
	error = sw_qp_key(map, place, &found->key);
	if (!error)
		error = sw_qp_closest(map, cursor, &found->key, &found->other);
	if (error)
		return error;
	return (long)(found->other.cut ? found->other.cut : place);
}

/*
 * Finds what proves that a name is not there. Returns 0, or a negative error as sw_qp_closest does.
 * The room is memory of the arena for the wildcard's key, SW_KEY_ROOM_BYTES, and not that of the
 * name's. It may be 0 where the keys of all names are short: -EINVAL if one is not.
 *
 *     found->closest.cut_mask = IS_CUT;
 *     error = sw_qp_denial(ZONE, cursor, room, &name, found);
 *     if (!error && !found->closest.exists && !found->wildcard_exists)
 *             deny(sw_u64(found->predecessor), sw_u64(found->wildcard_predecessor));
 */
SW_GLOBAL long sw_qp_denial(__u32 map, sw_at cursor, sw_at room, const struct sw_key *name SW_NONNULL,
			    struct sw_denial *found SW_NONNULL)
{
	__u64 cut;
	long result;

	sw_use_arena();
	found->predecessor = found->wildcard_predecessor = 0;
	found->wildcard_exists = found->spare = 0;
	result = sw_qp_closest(map, cursor, name, &found->closest);
	if (result)
		return result;
	/* All between a cut above the name and the name is below that cut. */
	cut = found->closest.cut != found->closest.exact ? found->closest.cut : 0;
	result = cut ? (long)cut : sw_qp_uncut(map, cursor, found->closest.predecessor, found);
	if (result < 0)
		return result;
	found->predecessor = (__u64)result;
	if (found->closest.exists)
		return 0;
	result = sw_qp_wild_key(name, found->closest.encloser, room, &found->key);
	found->other.cut_mask = 0;
	if (!result)
		result = sw_qp_closest(map, cursor, &found->key, &found->other);
	if (result)
		return result;
	found->wildcard_exists = found->other.exists;
	result = cut ? (long)cut : sw_qp_uncut(map, cursor, found->other.predecessor, found);
	if (result < 0)
		return result;
	found->wildcard_predecessor = (__u64)result;
	return 0;
}

#endif
