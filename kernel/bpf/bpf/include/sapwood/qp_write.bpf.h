/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Ordered maps over byte strings that programs write (ProgramMap in Rust; windows of the kind
 * SW_KIND_KERNEL_QP).
 *
 *     struct sw_key key = {};                       // sets all 256 bytes
 *     key.length = 3;
 *     key.bytes[0] = 'f', ...
 *     long error = sw_qp_insert(ROUTES, &key, 17, SW_ANY);
 *     long found = sw_qp_lookup(ROUTES, &key);      // as in qp.bpf.h
 *     error = sw_qp_remove(ROUTES, &key);
 *
 * Keys have at most the bytes that the map was made for, and never more than 4,096. Programs on all
 * processors write at once: a writer locks the bucket and the branch that it changes, and readers
 * take no lock. A writer waits for a lock for a bounded time, about a millisecond, so it may run
 * anywhere. A writer that interrupts the holder of a lock that it needs gets -EBUSY at once.
 *
 * Blocks for leaves, clusters and branches come from slabs and rings that user space fills. Retired
 * blocks go into chunks, and are used again after a grace period. No function here writes outside
 * the window that it was called for, whatever the window holds. The loader refuses sleepable
 * programs that call these functions: they are for qp_write_sleepable.bpf.h. Layout and protocol:
 * docs/bpf.md.
 *
 * The functions do not trust the contents of the window. Before they store anything behind a
 * reference, they check that it leads into the window, and behind the lanes, where the writers keep
 * their own state. Each loop has a bound.
 */
#ifndef SAPWOOD_QP_WRITE_BPF_H
#define SAPWOOD_QP_WRITE_BPF_H

#include "qp.bpf.h"

/* The flags of sw_qp_insert; the numbers are those of bpf_map_update_elem. */
#define SW_ANY 0 /* insert or replace */
#define SW_NOEXIST 1 /* insert only */
#define SW_EXIST 2 /* replace only */
/* For sw_kqp_index_meet: the entry is gone, and is not replaced. */
#define SW_GONE 3

/*
 * A value of up to eight words; a map uses as many as its values have. Longer values:
 * qp_write_value.bpf.h.
 */
struct sw_qp_value {
	__u64 words[SW_KQP_VALUE_SHORT / 8];
};

/* The answers of sw_kqp_seek besides an offset: the key is there, or the trie is empty. */
#define SW_KQP_SAME 0x10000
#define SW_KQP_EMPTY 0x10001
/* Greater than every offset. */
#define SW_KQP_NEVER 0x10002
/* More branches than can lie above a leaf. */
#define SW_KQP_DEPTH_MAX (SW_KEY_MAX + 4)
/*
 * The most searches for the place of a key. A search begins anew when another writer has changed
 * the place, and after the split of a full cluster. One split makes room for the key. A cluster of
 * long keys may have borders far from each other: it is split until the key's neighbours are in a
 * cluster of their own.
 */
#define SW_KQP_ROUNDS 256

#include "qp_write_lane.bpf.h"
#include "qp_write_index.bpf.h"
#include "qp_write_node.bpf.h"
#include "qp_write_trie.bpf.h"

/* Writes a long key to its place in a leaf, with zeros to the end of its last word. */
SW_GLOBAL int sw_kqp_put_long(__u64 to, const struct sw_key *key SW_NONNULL)
{
	__u32 length = sw_key_length(key), head = length < 255 ? 1 : 3, done;
	__u64 first = length < 255 ? length : 255 | length << 8;

	sw_use_arena();
	sw_set_u64(to, first | sw_word_of(key->long_at, length) << head * 8);
	for (done = sw_zero() + 8 - head; done < length && sw_can_loop; done += 8)
		sw_set_u64(to + done + head, sw_word_of(key->long_at + done, (__s64)length - done));
	return 0;
}

/* Writes a short key to its place in a leaf: only its own words, as another block may follow. */
SW_INLINE void sw_kqp_put_key(sw_at at, const struct sw_key *key)
{
	const __u64 *words;
	__u32 i, left;

	i = sw_zero() & 28;
	for (left = key->length / 8 + 1; left >= 4 && sw_can_loop; left -= 4) {
		sw_hide(i);
		i &= 28;
		words = key->words + i;
		sw_set_u64(at, words[0]);
		sw_set_u64(at + 8, words[1]);
		sw_set_u64(at + 16, words[2]);
		sw_set_u64(at + 24, words[3]);
		i += 4;
		at += 32;
	}
	sw_hide(i);
	i &= 28;
	words = key->words + i;
	if (left & 2) {
		sw_set_u64(at, words[0]);
		sw_set_u64(at + 8, words[1]);
		words += 2;
		at += 16;
	}
	if (left & 1)
		sw_set_u64(at, words[0]);
}

/* Copies words, eight at a time. */
SW_INLINE void sw_kqp_copy_words(sw_at from, sw_at to, __u32 words)
{
	__u32 i;

	for (i = sw_zero(); i + 8 <= words && sw_can_loop; i += 8) {
		sw_set_u64(to, sw_u64(from));
		sw_set_u64(to + 8, sw_u64_of(from, 8));
		sw_set_u64(to + 16, sw_u64_of(from, 16));
		sw_set_u64(to + 24, sw_u64_of(from, 24));
		sw_set_u64(to + 32, sw_u64_of(from, 32));
		sw_set_u64(to + 40, sw_u64_of(from, 40));
		sw_set_u64(to + 48, sw_u64_of(from, 48));
		sw_set_u64(to + 56, sw_u64_of(from, 56));
		from += 64;
		to += 64;
	}
	for (; i < words && sw_can_loop; i++) {
		sw_set_u64(to, sw_u64(from));
		from += 8;
		to += 8;
	}
}

/*
 * Writes a value of more than SW_KQP_VALUE_SHORT bytes to a leaf: the words that the scratch has
 * the place of; or, without a place, one word and zeros.
 */
SW_GLOBAL int sw_kqp_put_value(__u64 lane, __u64 leaf, __u32 words)
{
	sw_at from = sw_kqp_get(lane, SW_KQP_FROM);

	if (from) {
		sw_kqp_copy_words(from, leaf, words);
		return 0;
	}
	sw_set_u64(leaf, sw_kqp_get(lane, SW_KQP_VALUE));
	for (; words > 1 && sw_can_loop; words--) {
		leaf += 8;
		sw_set_u64(leaf, 0);
	}
	return 0;
}

/*
 * Writes the leaf of a key, with its value, into its block. In a damaged window, a value may be so
 * long that the leaf would reach behind the margin at the window's end.
 */
SW_GLOBAL int sw_kqp_write_leaf(__u64 lane, const struct sw_key *key SW_NONNULL)
{
	sw_at window = sw_kqp_window(lane), leaf = sw_ref(window, sw_kqp_noted(lane, SW_KQP_LEAF));
	__u32 bytes = sw_kqp_value_bytes(window), i;

	if (bytes / 8 + sw_key_length(key) / 8 + 1 > SW_KQP_LEAF_UNITS)
		return 0;
	if (bytes > SW_KQP_VALUE_SHORT) {
		sw_kqp_put_value(lane, leaf, bytes / 8);
	} else {
		for (i = sw_zero(); i < bytes && sw_can_loop; i += 8)
			sw_set_u64(leaf + i, sw_kqp_get(lane, SW_KQP_VALUE + i));
	}
	if (sw_key_is_long(key))
		sw_kqp_put_long(leaf + bytes, key);
	else
		sw_kqp_put_key(leaf + bytes, key);
	return 0;
}

/* The units of the leaf of a key of this length. */
SW_INLINE __u32 sw_kqp_leaf_units(sw_at window, __u32 length)
{
	if (length >= 255)
		length += 2;
	return sw_kqp_value_bytes(window) / 8 + length / 8 + 1;
}

/* The units of the block of a key's leaf. */
SW_INLINE __u32 sw_kqp_key_units(sw_at lane, const struct sw_key *key)
{
	return sw_kqp_block_units(sw_kqp_leaf_units(sw_kqp_window(lane), sw_key_length(key)));
}

/* The cell of a leaf at a place of the window. */
SW_INLINE __u32 sw_kqp_leaf_cell(sw_at window, sw_at leaf)
{
	return (__u32)((leaf - window) / 8) << 2 | SW_QP_LEAF;
}

/* The cell of the new leaf. */
SW_INLINE __u32 sw_kqp_new_leaf(sw_at lane)
{
	return sw_kqp_noted(lane, SW_KQP_LEAF) << 2 | SW_QP_LEAF;
}

/* Retires the leaf of a key. */
SW_INLINE void sw_kqp_retire_leaf(sw_at lane, const struct sw_key *key, __u32 cell)
{
	sw_kqp_retire(lane, cell >> 2, sw_kqp_key_units(lane, key));
}

/*
 * Replaces the leaf of a cell by a new one with the value in the scratch, under the locks, when
 * there is room for the old one: in the bucket of the scratch, if any, and at `slot` in the trie,
 * if it is not 0.
 */
SW_GLOBAL long sw_kqp_replace_leaf(__u64 lane, const struct sw_key *key SW_NONNULL, __u32 old, __u64 slot)
{
	sw_at bucket = sw_kqp_get(lane, SW_KQP_BUCKET);
	__u32 cell;
	long error;

	if (!sw_kqp_inside(lane, old >> 2))
		return -EUCLEAN;
	error = sw_kqp_take(lane, sw_kqp_leaf_units(sw_kqp_window(lane), sw_key_length(key)), 0, 0, 1);
	if (error)
		return error;
	sw_kqp_write_leaf(lane, key);
	cell = sw_kqp_new_leaf(lane);
	if (bucket)
		sw_publish_u32(bucket + SW_QP_BUCKET_LEAVES + sw_kqp_get(lane, SW_KQP_BUCKET_SLOT) * 4, cell);
	if (slot)
		sw_publish_u32(slot, cell);
	sw_kqp_retire_leaf(lane, key, old);
	return 0;
}

/*
 * Replaces the value of the leaf at the end of the path: 0; -EAGAIN when the search must begin
 * anew; or an error. Some locks may be held afterwards. This function and the next ones are inline,
 * because the kernel limits the depth of calls and the sum of their stacks. Between two steps they
 * keep only the lane and the key: `sw_hide` keeps places in the lane out of the stack.
 */
SW_INLINE long sw_kqp_replace(sw_at lane, const struct sw_key *key)
{
	sw_at slot;
	long error;

	if (sw_kqp_value_bytes(sw_kqp_window(lane)) == 8) {
		slot = sw_qp_node(sw_kqp_window(lane), sw_kqp_noted(lane, SW_KQP_CELL));
		sw_publish_u64(slot, sw_kqp_get(lane, SW_KQP_VALUE));
		return 0;
	}
	error = sw_kqp_enter_leaf(lane, key, 0);
	if (error)
		return error;
	sw_hide(lane);
	slot = sw_kqp_leaf_slot(lane);
	return sw_kqp_replace_leaf(lane, key, sw_u32(slot), slot);
}

/* Makes the leaf of an absent key, under the locks: 0, or an error, and then nothing is changed. */
SW_GLOBAL long sw_kqp_make_leaf(__u64 lane, const struct sw_key *key SW_NONNULL)
{
	__u32 units = sw_kqp_leaf_units(sw_kqp_window(lane), sw_key_length(key));
	long error = sw_kqp_may_add(lane);

	/* And a node of the trie, if the change needs one. */
	if (!error)
		error = sw_kqp_take(lane, units, sw_kqp_noted(lane, SW_KQP_UNITS), 0, 1);
	if (error)
		return error;
	sw_hide(lane);
	sw_kqp_write_leaf(lane, key);
	sw_kqp_count(lane, SW_KQP_LANE_LEAF_UNITS, sw_kqp_block_units(units));
	sw_kqp_set_quota(lane, sw_kqp_quota(lane) - 1);
	return 0;
}

/* Drops the dead slots of the cluster at the end of the path, or splits it: as sw_kqp_add. */
SW_INLINE long sw_kqp_remake(sw_at lane)
{
	long error;

	if (sw_kqp_get(lane, SW_KQP_STEP) == SW_KQP_SQUEEZE) {
		error = sw_kqp_enter(lane);
		if (!error)
			error = sw_kqp_squeeze(lane);
	} else {
		error = sw_kqp_split_plan(lane);
		if (!error)
			sw_kqp_split_make(lane);
	}
	/* Then there is room, but maybe in another cluster. */
	return error ? error : -EAGAIN;
}

/*
 * Adds a key that parts from all others at `part`: 0; -EAGAIN when the search must begin anew; or
 * an error. Some locks may be held afterwards.
 */
SW_INLINE long sw_kqp_add(sw_at lane, const struct sw_key *key, __u32 part)
{
	long error = sw_kqp_plan(lane, key, part);

	if (error)
		return error;
	sw_hide(lane);
	if (sw_kqp_get(lane, SW_KQP_STEP) == SW_KQP_REVIVE && !sw_kqp_is_tag(lane, sw_kqp_new_tag(key)))
		sw_kqp_set(lane, SW_KQP_STEP, SW_KQP_SQUEEZE);
	sw_hide(lane);
	if (sw_kqp_get(lane, SW_KQP_STEP) >= SW_KQP_SPLIT)
		return sw_kqp_remake(lane);
	sw_hide(lane);
	error = sw_kqp_enter(lane);
	if (!error)
		error = sw_kqp_index_ready(lane, key);
	if (!error)
		error = sw_kqp_make_leaf(lane, key);
	if (error)
		return error;
	sw_hide(lane);
	sw_kqp_attach(lane, key, sw_kqp_new_leaf(lane));
	sw_hide(lane);
	if (sw_u32(sw_kqp_window(lane) + SW_KQP_PARTS) & SW_KQP_INDEX)
		sw_kqp_index_put(lane, sw_kqp_get(lane, SW_KQP_HASH), sw_kqp_new_leaf(lane));
	return 0;
}

/*
 * Inserts a key into a map with a trie, or replaces its value. The value and the flags are in the
 * scratch.
 */
SW_INLINE long sw_kqp_insert_trie(sw_at lane, const struct sw_key *key)
{
	__u32 round;
	long result;

	for (round = sw_zero(); round < SW_KQP_ROUNDS && sw_can_loop; round++) {
		sw_hide(lane);
		result = sw_kqp_seek(lane, key);
		if (result == -EAGAIN)
			continue;
		if (result < 0)
			return result;
		sw_hide(lane);
		if (result == SW_KQP_SAME) {
			if (sw_kqp_get(lane, SW_KQP_FLAGS) == SW_NOEXIST)
				return -EEXIST;
			result = sw_kqp_replace(lane, key);
		} else {
			if (sw_kqp_get(lane, SW_KQP_FLAGS) == SW_EXIST)
				return -ENOENT;
			result = sw_kqp_add(lane, key, (__u32)result);
		}
		if (result != -EAGAIN)
			return result;
		sw_kqp_let_all(lane);
	}
	return -EBUSY;
}

/*
 * What the index of a map with a trie tells of an insertion, since it knows most keys that are
 * there, and most that are not: the result; or -EAGAIN when the trie has to tell.
 */
SW_GLOBAL long sw_kqp_index_known(__u64 lane, const struct sw_key *key SW_NONNULL)
{
	long found = sw_kqp_index_find(lane, key);
	sw_at window = sw_kqp_window(lane);

	if (found > 0) {
		if (sw_kqp_get(lane, SW_KQP_FLAGS) == SW_NOEXIST)
			return -EEXIST;
		if (sw_kqp_value_bytes(window) != 8)
			return -EAGAIN;
		if (!sw_kqp_inside(lane, (__u32)((found - (long)window) / 8)))
			return -EUCLEAN;
		sw_publish_u64(found, sw_kqp_get(lane, SW_KQP_VALUE));
		return 0;
	}
	if (found == -ENOENT)
		return sw_kqp_get(lane, SW_KQP_FLAGS) == SW_EXIST ? -ENOENT : -EAGAIN;
	return found == -ENODATA ? -EAGAIN : found;
}

/* Whether there is no block of this many units. */
SW_INLINE int sw_kqp_is_short(sw_at lane, __u32 units)
{
	long cut = sw_kqp_look(lane, units, 1, 1);

	return cut > 0 && sw_kqp_slab(lane, (__u32)cut, 1);
}

/*
 * Removes the entry that sw_kqp_victim found, for a new key. The lane may then add an entry. If
 * there is no memory, the new entry gets the block of the old one at once.
 */
SW_GLOBAL int sw_kqp_evict(__u64 lane, const struct sw_key *key SW_NONNULL)
{
	sw_at window = sw_kqp_window(lane), stock;
	__u32 cell, units;

	cell = sw_u32(sw_kqp_get(lane, SW_KQP_BUCKET) + SW_QP_BUCKET_LEAVES +
		      sw_kqp_get(lane, SW_KQP_BUCKET_SLOT) * 4);
	units = sw_qp_length(sw_qp_node(window, cell) + sw_kqp_value_bytes(window));
	units = sw_kqp_block_units(sw_kqp_leaf_units(window, units));
	sw_kqp_index_remove(lane, sw_kqp_get(lane, SW_KQP_PART));
	sw_kqp_let_bucket(lane, SW_KQP_THIRD);
	sw_kqp_let_bucket(lane, SW_KQP_BEHIND);
	stock = sw_kqp_stock(lane, sw_kqp_class(units));
	if (units == sw_kqp_key_units(lane, key) && sw_kqp_is_short(lane, units) && !sw_u32(stock)) {
		sw_set_u32(stock + 4, cell >> 2);
		sw_set_u32(stock, 1);
	} else {
		sw_kqp_retire(lane, cell >> 2, units);
	}
	sw_kqp_count(lane, SW_KQP_LANE_LEAF_UNITS, -units);
	sw_kqp_removed(lane);
	return 0;
}

/*
 * Answers of the two functions below: the key is absent; its leaf has to be replaced, whose cell is
 * in SW_KQP_CELL; an entry has to leave for it.
 */
#define SW_KQP_ABSENT 1
#define SW_KQP_PRESENT 2
#define SW_KQP_FULL 3

/*
 * Begins an insertion into a map with an index alone: the result; or SW_KQP_ABSENT or
 * SW_KQP_PRESENT, and the key's home is locked.
 */
SW_GLOBAL long sw_kqp_index_meet(__u64 lane, const struct sw_key *key SW_NONNULL)
{
	sw_at window = sw_kqp_window(lane), use;
	long found = sw_kqp_index_hold(lane, key);
	__u64 flags = sw_kqp_get(lane, SW_KQP_FLAGS);
	__u32 now;

	sw_kqp_set(lane, SW_KQP_UNITS, 0);
	if (found > 0) {
		use = sw_kqp_use_here(lane, sw_kqp_get(lane, SW_KQP_HASH));
		if (use) {
			now = sw_kqp_now();
			if (sw_kqp_is_idle(window, use, now))
				flags = flags == SW_EXIST ? SW_GONE : SW_ANY;
			if (flags == SW_ANY || flags == SW_EXIST)
				sw_set_u32(use, now);
		}
		if (flags == SW_NOEXIST)
			return -EEXIST;
		if (flags == SW_GONE)
			return -ENOENT;
		if (sw_kqp_value_bytes(window) != 8) {
			sw_kqp_set(lane, SW_KQP_CELL, sw_kqp_leaf_cell(window, found));
			return SW_KQP_PRESENT;
		}
		if (!sw_kqp_inside(lane, (__u32)((found - (long)window) / 8)))
			return -EUCLEAN;
		sw_publish_u64(found, sw_kqp_get(lane, SW_KQP_VALUE));
		return 0;
	}
	/* A map without trie has a slot for each key. */
	if (found == -ENODATA)
		found = -ENOENT;
	return found == -ENOENT && flags != SW_EXIST ? SW_KQP_ABSENT : found;
}

/*
 * Makes room for a new key whose home is locked: a slot, and in a map with uses the right to add an
 * entry. 0; SW_KQP_FULL when an entry has to leave before; or an error.
 */
SW_GLOBAL long sw_kqp_index_room(__u64 lane, const struct sw_key *key SW_NONNULL)
{
	__u32 uses = sw_u32(sw_kqp_window(lane) + SW_KQP_USES);
	long error = sw_kqp_room(lane, !uses);

	if (error)
		return error;
	error = sw_kqp_index_free(lane, sw_kqp_get(lane, SW_KQP_HASH));
	if (!uses)
		return error;
	if (!error)
		error = sw_kqp_may_add(lane);
	if (!error && sw_kqp_is_short(lane, sw_kqp_key_units(lane, key)))
		error = -E2BIG;
	/* Others may have the last entries that may be added. */
	if (error != -E2BIG && error != -ENOSPC && error != -EBUSY)
		return error;
	sw_kqp_let_bucket(lane, SW_KQP_BEHIND);
	return SW_KQP_FULL;
}

/* Puts the new leaf into the slot in the scratch. In a map with uses, it is used now. */
SW_GLOBAL int sw_kqp_index_add(__u64 lane)
{
	__u64 hash = sw_kqp_get(lane, SW_KQP_HASH);
	sw_at use = sw_kqp_use_here(lane, hash);

	if (use)
		sw_set_u32(use, sw_kqp_now());
	sw_kqp_index_put(lane, hash, sw_kqp_new_leaf(lane));
	return 0;
}

/* As sw_kqp_insert_trie, for a map with an index alone. */
SW_INLINE long sw_kqp_insert_index(sw_at lane, const struct sw_key *key)
{
	long result = sw_kqp_index_meet(lane, key);

	if (result == SW_KQP_PRESENT) {
		result = sw_kqp_room(lane, 1);
		return result ? result : sw_kqp_replace_leaf(lane, key, sw_kqp_noted(lane, SW_KQP_CELL), 0);
	}
	if (result != SW_KQP_ABSENT)
		return result;
	result = sw_kqp_index_room(lane, key);
	if (result == SW_KQP_FULL) {
		result = sw_kqp_victim(lane);
		if (!result) {
			sw_kqp_evict(lane, key);
			result = sw_kqp_index_free(lane, sw_kqp_get(lane, SW_KQP_HASH));
		}
	}
	if (!result)
		result = sw_kqp_make_leaf(lane, key);
	if (!result)
		sw_kqp_index_add(lane);
	return result;
}

/* Retires the leaf of a key that was removed. */
SW_INLINE void sw_kqp_drop_leaf(sw_at lane, const struct sw_key *key, __u32 cell)
{
	sw_kqp_retire_leaf(lane, key, cell);
	sw_kqp_count(lane, SW_KQP_LANE_LEAF_UNITS, -sw_kqp_key_units(lane, key));
	sw_kqp_removed(lane);
}

/*
 * Ends the removal of a key that was taken out of the trie: removes it from the index, and retires
 * its leaf, and `node`, if it is not 0.
 */
SW_GLOBAL int sw_kqp_taken_out(__u64 lane, const struct sw_key *key SW_NONNULL, __u32 node)
{
	if (sw_u32(sw_kqp_window(lane) + SW_KQP_PARTS) & SW_KQP_INDEX)
		sw_kqp_index_remove(lane, sw_kqp_get(lane, SW_KQP_HASH));
	if (node)
		sw_kqp_retire_node(lane, node);
	sw_kqp_drop_leaf(lane, key, sw_kqp_noted(lane, SW_KQP_CELL));
	return 0;
}

/* Removes the leaf at the end of the path: its place; or an error, as sw_kqp_add. */
SW_INLINE long sw_kqp_take_out(sw_at lane, const struct sw_key *key)
{
	long error = sw_kqp_enter_leaf(lane, key, 1);

	if (error)
		return error;
	sw_hide(lane);
	sw_kqp_set(lane, SW_KQP_CELL, sw_u32(sw_kqp_leaf_slot(lane)));
	error = sw_kqp_detach(lane);
	if (error < 0)
		return error;
	sw_kqp_taken_out(lane, key, (__u32)error);
	sw_hide(lane);
	/* If there is memory. */
	if (sw_kqp_get(lane, SW_KQP_AT))
		sw_kqp_squeeze(lane);
	sw_hide(lane);
	return (long)sw_qp_node(sw_kqp_window(lane), sw_kqp_noted(lane, SW_KQP_CELL));
}

/* Removes a key from a map with a trie: the place of its leaf, or an error. */
SW_INLINE long sw_kqp_remove_trie(sw_at lane, const struct sw_key *key)
{
	__u32 round;
	long result;

	for (round = sw_zero(); round < SW_KQP_ROUNDS && sw_can_loop; round++) {
		result = sw_kqp_seek(lane, key);
		if (result == -EAGAIN)
			continue;
		if (result != SW_KQP_SAME)
			return result < 0 ? result : -ENOENT;
		result = sw_kqp_take_out(lane, key);
		if (result != -EAGAIN)
			return result;
		sw_kqp_let_all(lane);
	}
	return -EBUSY;
}

/* Removes a key from a map with an index alone: the place of its leaf, or an error. */
SW_GLOBAL long sw_kqp_remove_index(__u64 lane, const struct sw_key *key SW_NONNULL)
{
	sw_at window = sw_kqp_window(lane);
	long found = sw_kqp_index_hold(lane, key), error;
	__u32 cell;

	if (found <= 0)
		return found == -ENODATA || !found ? -ENOENT : found;
	cell = sw_kqp_leaf_cell(window, found);
	if (!sw_kqp_inside(lane, cell >> 2))
		return -EUCLEAN;
	error = sw_kqp_room(lane, 0);
	if (error)
		return error;
	sw_kqp_index_remove(lane, sw_kqp_get(lane, SW_KQP_HASH));
	sw_kqp_drop_leaf(lane, key, cell);
	return found;
}

/* The window of a map that programs write; 0 if there is none, or if the key is too long for it. */
SW_INLINE sw_at sw_kqp_open(__u32 map, const struct sw_key *key)
{
	sw_at window = sw_window_in(map, 1u << SW_KIND_KERNEL_QP);

	sw_use_arena();
	if (!window || sw_key_length(key) > sw_u32(window + SW_KQP_LONGEST))
		return 0;
	return sw_key_is_long(key) && key->long_bytes > SW_KEY_MAX ? 0 : window;
}

/*
 * The hash of a key; 0 in a map without index. The function is global: its stack is free again
 * before the next step.
 */
SW_GLOBAL __u64 sw_kqp_hash(__u64 window, const struct sw_key *key SW_NONNULL)
{
	if (!(sw_u32(window + SW_KQP_PARTS) & SW_KQP_INDEX))
		return 0;
	return sw_key_is_long(key) ? sw_qp_hash_long(window, key) : sw_qp_hash(window, key);
}

/*
 * Completes most insertions of short keys in one step. The map must have an index and values of one
 * word. Two cases are complete: the first slot with the key's tag in its home has the key; or no
 * slot there has the tag, the home says that the key does not lie elsewhere, and, for a new key,
 * the map has no trie, a slot is free, and the processor's first lane is free and has a block. The
 * answer is that of sw_qp_insert; or -EAGAIN in all other cases, and then nothing was changed.
 *
 * A value is replaced with one store, without a lock. If another writer removes the key meanwhile,
 * the value was replaced before.
 */
SW_GLOBAL long sw_kqp_quick(__u32 map, const struct sw_key *key SW_NONNULL, __u64 hash, __u64 value, __u64 flags)
{
	sw_at entry = SW_WINDOWS_AT + (__u64)(map & (SW_WINDOWS_MAX - 1)) * SW_WINDOW_BYTES;
	sw_at window = sw_u64(entry + SW_WINDOW_AT), bucket, leaf, lane, stock;
	__u64 begin = sw_kqp_begin(window), limit = sw_kqp_limit(map, begin);
	__u32 tag = sw_kqp_tag(hash), units = key->length / 8 + 2, cell, self, have;
	__u64 low, high, slots, pattern = tag * SW_ONES;
	long result = -EAGAIN;
	__u32 left;

	lane = sw_ref(window, sw_u32(window + SW_QP_TABLE));
	bucket = sw_qp_bucket(window, lane, sw_u32(lane + SW_QP_TABLE_SHIFT) & 31,
			      (__u32)(((hash >> 32) * sw_u32(lane + SW_QP_TABLE_HOMES)) >> 32));
	if (!bucket || (__s64)limit <= 0 || (bucket - window) / 8 - begin >= limit)
		return -EAGAIN;
	low = sw_acquire_u64(bucket);
	high = sw_acquire_u64_of(bucket, 8);
	slots = sw_qp_slots(low ^ pattern, high ^ pattern);
	if (slots) {
		cell = sw_acquire_u32_of(bucket + sw_qp_first_slot(slots), SW_QP_BUCKET_LEAVES);
		leaf = sw_qp_node(window, cell);
		if ((__u64)(cell >> 2) - begin >= limit || !sw_qp_is_key_of_fixed(leaf, 8, key))
			return -EAGAIN;
		if (flags == SW_NOEXIST)
			return -EEXIST;
		sw_publish_u64(leaf, value);
		return 0;
	}
	if (high & (SW_KQP_STICKY << SW_QP_BUCKET_SPILLED | 1ull << (SW_QP_BUCKET_FILTER + (tag & 7))))
		return -EAGAIN;
	if (flags == SW_EXIST)
		return -ENOENT;
	slots = sw_qp_slots(low, high);
	if (!slots || (high & SW_QP_BUCKET_LOCK) || (sw_u32(window + SW_KQP_PARTS) & SW_KQP_TRIE))
		return -EAGAIN;
	sw_hide(window);
	sw_hide(hash);
	self = sw_kqp_self();
	lane = sw_kqp_own_lane(window, self);
	/* All lanes lie before `begin`. */
	if (!sw_kqp_claim_lane(lane, self))
		return -EAGAIN;
	/* All that is needed here of what the lane records. */
	sw_kqp_set(lane, SW_KQP_WINDOW, window);
	stock = sw_kqp_stock(lane, sw_kqp_class(units));
	have = sw_u32(stock);
	if (!have && !sw_kqp_refill(lane, sw_kqp_class(units), 1, 1))
		have = sw_u32(stock);
	left = sw_u32(lane + SW_KQP_LANE_SLAB_LEFT);
	if ((have ? have <= SW_KQP_STOCK_MAX : left >= units) && sw_kqp_quota(lane)) {
		cell = sw_u32(have ? stock + have * 4 : lane + SW_KQP_LANE_SLAB);
		sw_set_u64(sw_kqp_held(lane, SW_KQP_HOME), bucket);
		if ((__u64)cell - begin < limit &&
		    sw_cmpxchg_u64(bucket + 8, high, high | SW_QP_BUCKET_LOCK) == high) {
			if (sw_u64(bucket) == low) {
				leaf = sw_ref(window, cell);
				sw_set_u64(leaf, value);
				sw_kqp_put_key(leaf + 8, key);
				/* What follows is computed again: the stack is short. */
				sw_hide(lane);
				sw_hide(hash);
				units = key->length / 8 + 2;
				stock = sw_kqp_stock(lane, sw_kqp_class(units));
				tag = sw_kqp_tag(hash);
				slots = sw_qp_first_slot(slots);
				sw_publish_u32(bucket + slots + SW_QP_BUCKET_LEAVES, cell << 2 | SW_QP_LEAF);
				/* The slot's tag is 0 so far. */
				if (slots < 32)
					sw_publish_u64(bucket, low | (__u64)tag << slots * 2);
				else
					high |= (__u64)tag << (slots - 32) * 2;
				if (have)
					sw_set_u32(stock, have - 1);
				else
					sw_kqp_cut(lane, units, 1);
				sw_kqp_set_quota(lane, sw_kqp_quota(lane) - 1);
				sw_kqp_count(lane, SW_KQP_LANE_LEAF_UNITS, units);
				sw_set_u64(lane + SW_KQP_LANE_SEQUENCE, sw_u64(lane + SW_KQP_LANE_SEQUENCE) + 1);
				result = 0;
			}
			sw_publish_u64(bucket + 8, high);
		}
		sw_set_u64(sw_kqp_held(lane, SW_KQP_HOME), 0);
	}
	sw_kqp_return_lane(lane);
	return result;
}

/* Ends a change with this result: returns the lane, and counts what failed. */
SW_INLINE long sw_kqp_result(sw_at lane, long result)
{
	sw_kqp_end(lane);
	/* The lane may be another writer's by now, but its window is the same. */
	if (result < 0)
		sw_kqp_drop(sw_kqp_window(lane), result);
	return result;
}

/* Inserts a key, or replaces its value, with the value in the scratch; and returns the lane. */
SW_INLINE long sw_kqp_insert(sw_at lane, const struct sw_key *key)
{
	long result = -EAGAIN;

	if (!(sw_u32(sw_kqp_window(lane) + SW_KQP_PARTS) & SW_KQP_TRIE))
		return sw_kqp_result(lane, sw_kqp_insert_index(lane, key));
	if (sw_u32(sw_kqp_window(lane) + SW_KQP_PARTS) & SW_KQP_INDEX)
		result = sw_kqp_index_known(lane, key);
	if (result == -EAGAIN)
		result = sw_kqp_insert_trie(lane, key);
	return sw_kqp_result(lane, result);
}

/*
 * Inserts a key, or replaces its value. The flags are SW_ANY, SW_NOEXIST or SW_EXIST. `value` is
 * the first word of the key's value; the other words become 0.
 *
 *     long error = sw_qp_insert(SEEN, &key, bpf_ktime_get_ns(), SW_ANY);
 *     if (error == -E2BIG) ...
 *
 * 0; -EEXIST with SW_NOEXIST; -ENOENT with SW_EXIST; -E2BIG: the map has max_entries (an entry
 * leaves instead, if entries of the map do); -ENOMEM: user space has supplied no block of that
 * size, or has not fetched the retired blocks; -ENOSPC: no slot near the key's home is free, in a
 * map without trie; -EBUSY: a writer that this one has interrupted holds a lock, or another one
 * holds it for more than a millisecond; -EINVAL: no such window, unknown flags, or a key longer
 * than the map's longest; -ELOOP: the kernel ended a loop; -EUCLEAN: the window holds no map. After
 * an error the map has the same entries as before.
 */
SW_GLOBAL long sw_qp_insert(__u32 map, const struct sw_key *key SW_NONNULL, __u64 value, __u64 flags)
{
	sw_at window = sw_kqp_open(map, key), lane;
	__u64 hash;
	__u32 i;
	long result;

	if (!window || flags > SW_EXIST)
		return -EINVAL;
	hash = sw_kqp_hash(window, key);
	if ((sw_u32(window + SW_KQP_PARTS) & SW_KQP_INDEX) && sw_kqp_value_bytes(window) == 8 &&
	    !sw_u32(window + SW_KQP_USES) && !sw_key_is_long(key)) {
		result = sw_kqp_quick(map, key, hash, value, flags);
		if (result != -EAGAIN)
			return result;
	}
	result = sw_kqp_claim(map, hash, flags);
	if (result < 0)
		return result;
	lane = result;
	sw_kqp_set(lane, SW_KQP_VALUE, value);
	sw_kqp_set(lane, SW_KQP_FROM, 0);
	for (i = sw_zero() + 8; i < sw_kqp_value_bytes(window) && i < SW_KQP_VALUE_SHORT && sw_can_loop; i += 8)
		sw_kqp_set(lane, SW_KQP_VALUE + i, 0);
	return sw_kqp_insert(lane, key);
}

/*
 * As sw_qp_insert, for values of up to eight words. One store replaces a value of one word in
 * place. A new leaf replaces a longer value, so readers see the old value or the new one.
 *
 *     struct sw_qp_value value = { .words = { bytes, packets } };
 *     long error = sw_qp_insert_value(FLOWS, &key, &value, SW_ANY);
 *
 * -EINVAL also in a map of longer values: see sw_qp_set_bytes.
 */
SW_GLOBAL long sw_qp_insert_value(__u32 map, const struct sw_key *key SW_NONNULL,
				  const struct sw_qp_value *value SW_NONNULL, __u64 flags)
{
	sw_at window = sw_kqp_open(map, key), lane;
	long result;

	if (!window || flags > SW_EXIST || sw_kqp_value_bytes(window) > SW_KQP_VALUE_SHORT)
		return -EINVAL;
	result = sw_kqp_claim(map, sw_kqp_hash(window, key), flags);
	if (result < 0)
		return result;
	lane = result;
	sw_kqp_set(lane, SW_KQP_VALUE, value->words[0]);
	sw_kqp_set(lane, SW_KQP_VALUE + 8, value->words[1]);
	sw_kqp_set(lane, SW_KQP_VALUE + 16, value->words[2]);
	sw_kqp_set(lane, SW_KQP_VALUE + 24, value->words[3]);
	sw_kqp_set(lane, SW_KQP_VALUE + 32, value->words[4]);
	sw_kqp_set(lane, SW_KQP_VALUE + 40, value->words[5]);
	sw_kqp_set(lane, SW_KQP_VALUE + 48, value->words[6]);
	sw_kqp_set(lane, SW_KQP_VALUE + 56, value->words[7]);
	return sw_kqp_insert(lane, key);
}

/* Removes a key: the place of its value, or an error of sw_qp_insert. */
SW_INLINE long sw_kqp_out(__u32 map, const struct sw_key *key)
{
	sw_at window = sw_kqp_open(map, key), lane;
	long result;

	if (!window)
		return -EINVAL;
	result = sw_kqp_claim(map, sw_kqp_hash(window, key), 0);
	if (result < 0)
		return result;
	lane = result;
	if (!(sw_u32(sw_kqp_window(lane) + SW_KQP_PARTS) & SW_KQP_TRIE))
		return sw_kqp_result(lane, sw_kqp_remove_index(lane, key));
	result = 1;
	if (sw_u32(sw_kqp_window(lane) + SW_KQP_PARTS) & SW_KQP_INDEX)
		result = sw_kqp_index_find(lane, key);
	if (result > 0 || result == -ENODATA)
		result = sw_kqp_remove_trie(lane, key);
	if (result > 0) {
		sw_kqp_let_all(lane);
		sw_kqp_join(lane);
	}
	return sw_kqp_result(lane, result);
}

/*
 * Removes a key, and returns the place of the value that it had, which stays until the run of the
 * program ends. Of several programs that take one entry at once, one gets it. When another program
 * replaces a value of one word at that moment, the new value may be lost.
 *
 *     long taken = sw_qp_take(SEEN, &key);
 *     if (taken > 0) value = sw_u64(taken);
 *
 * A positive place, -ENOENT, or an error of sw_qp_insert. A removal needs memory only when a branch
 * of three children or more loses one: then it writes a smaller branch. Some memory is kept for
 * that.
 */
SW_GLOBAL long sw_qp_take(__u32 map, const struct sw_key *key SW_NONNULL)
{
	return sw_kqp_out(map, key);
}

/*
 * Removes a key.
 *
 *     if (sw_qp_remove(SEEN, &key) == -ENOENT) ...
 *
 * 0, -ENOENT, or an error of sw_qp_take.
 */
SW_GLOBAL long sw_qp_remove(__u32 map, const struct sw_key *key SW_NONNULL)
{
	long taken = sw_kqp_out(map, key);

	return taken > 0 ? 0 : taken;
}

#endif
