/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Lookups by the trie and by the index. Included by qp.bpf.h. */
#ifndef SAPWOOD_QP_LOOKUP_BPF_H
#define SAPWOOD_QP_LOOKUP_BPF_H

#include "qp_entry.bpf.h"

/* The kinds of windows that these functions read. */
#define SW_QP_KINDS (1u << SW_KIND_QP | 1u << SW_KIND_KERNEL_QP)

/*
 * The blind search in a cluster of either kind: the number of an entry with the longest prefix in
 * common with the key. It reads only the borders, and takes at most 31 steps.
 */
SW_INLINE __u32 sw_qp_blind(sw_at borders, __u32 header, const struct sw_key *key)
{
	__u32 leaves = sw_qp_cluster_leaves(header), base = sw_qp_cluster_base(header);
	__u32 length = sw_key_length(key), pos = sw_zero(), lim = pos + 256, i, at, border;
	sw_at bytes = borders + sw_qp_cluster_capacity(header);

	for (i = sw_zero() + 1; i < leaves && sw_can_loop; i++) {
		border = sw_u8(borders + i);
		if (border >= lim)
			continue;
		at = base + border;
		if (at < length && sw_key_byte(key, at) >= sw_u8(bytes + i)) {
			pos = i;
			lim = 256;
		} else {
			lim = border;
		}
	}
	return pos;
}

/*
 * The entry with the longest prefix in common with a key, below the cell of a cluster or a leaf.
 * `pos` becomes the number of its slot.
 */
SW_INLINE sw_at sw_qp_nearest(sw_at window, __u32 cell, const struct sw_key *key, __u32 *pos)
{
	sw_at node = sw_qp_node(window, cell), entry;
	__u32 header;
	__u64 beside;

	*pos = 0;
	if (!(cell & SW_QP_CLUSTER))
		return node;
	header = sw_u32(node);
	*pos = sw_qp_blind(sw_qp_borders(cell, node, header), header, key);
	entry = sw_qp_entry(window, cell, node, header, *pos);
	if (entry != window)
		return entry;
	beside = sw_qp_beside_dead(node, *pos);
	*pos = (__u32)beside;
	return sw_qp_node(window, (__u32)(beside >> 32));
}

/*
 * The result for a map whose root is 0: `empty`, or -EOPNOTSUPP when the map has only an index, and
 * so no order.
 */
SW_INLINE long sw_qp_no_root(sw_at window, long empty)
{
	return sw_u32(window + SW_QP_HAS_INDEX) == SW_QP_ONLY_INDEX ? -EOPNOTSUPP : empty;
}

/*
 * The slots of the cluster at a place with this tag: slot 8 * k + j as bit 8 * j + k. Slots behind
 * the entries may be among them.
 */
SW_INLINE __u64 sw_qp_tagged(sw_at node, __u32 cell, __u32 header, __u32 tag)
{
	sw_at tags = node + (sw_qp_is_inline(cell) ? SW_QP_INLINE_TAGS : SW_QP_TAGS_AT);
	__u64 pattern = tag * SW_ONES, hits;

	hits = sw_qp_hits(sw_u64(tags), pattern) >> 7 |
	       sw_qp_hits(sw_u64_of(tags, 8), pattern) >> 6 |
	       sw_qp_hits(sw_u64_of(tags, 16), pattern) >> 5;
	/*
	 * Few clusters have more leaves, and no inline one has. For a lower limit, the processor would
	 * mispredict this branch.
	 */
	if (!sw_qp_is_inline(cell) && sw_qp_cluster_leaves(header) > SW_QP_FILL_MAX)
		hits |= sw_qp_hits(sw_u64_of(tags, 24), pattern) >> 4;
	return hits;
}

/* The number of such a slot, from its bit. */
SW_INLINE __u64 sw_qp_tagged_slot(__u64 bit)
{
	/* The sum of the bytes: 1 << k. */
	__u64 word = (bit * SW_ONES) >> 56;

	word = (word >> 1) - (word >> 3);
	return word * 8 + (((((bit - 1) >> 7) & SW_ONES) * SW_ONES) >> 56);
}

/*
 * The entry of a cluster with this key, -ENOENT, or -ELOOP. `hits` are the slots that may have it,
 * as sw_qp_tagged returns them.
 */
SW_INLINE long sw_qp_among(sw_at window, __u32 cell, __u64 hits, const struct sw_key *key, int is_long)
{
	__u32 header;
	sw_at node, entry;
	__u64 slot;

	for (; hits && sw_can_loop; hits &= hits - 1) {
		/* Otherwise, the compiler keeps on the stack what it computes of the cell. */
		sw_hide(cell);
		node = sw_qp_node(window, cell);
		header = sw_u32(node);
		slot = sw_qp_tagged_slot(hits & -hits);
		if (slot >= sw_qp_cluster_leaves(header))
			continue;
		entry = sw_qp_entry(window, cell, node, header, slot);
		/* The slot is dead. */
		if (entry == window)
			continue;
		if (is_long ? sw_qp_is_prefix(window, entry, sw_key_length(key), key) :
			      sw_qp_is_short_entry(window, entry, key))
			return (long)entry;
	}
	return hits ? -ELOOP : -ENOENT;
}

/*
 * The same for a key of each kind. They are functions of their own, so that lookups, which seldom
 * need them, take less of the stack.
 */
SW_GLOBAL long sw_qp_among_short(sw_at window, __u32 cell, __u64 hits, const struct sw_key *key SW_NONNULL)
{
	sw_use_arena();
	return sw_qp_among(window, cell, hits, key, 0);
}
SW_GLOBAL long sw_qp_among_long(sw_at window, __u32 cell, __u64 hits, const struct sw_key *key SW_NONNULL)
{
	sw_use_arena();
	return sw_qp_among(window, cell, hits, key, 1);
}

SW_INLINE long sw_qp_others(sw_at window, __u32 cell, __u64 hits, const struct sw_key *key, int is_long)
{
	if (!hits)
		return -ENOENT;
	return is_long ? sw_qp_among_long(window, cell, hits, key) : sw_qp_among_short(window, cell, hits, key);
}

/*
 * The entry with this key below the cell of a cluster or a leaf, -ENOENT, or -ELOOP. The code that
 * compares a leaf is there once, so that lookups take less of the stack.
 */
SW_INLINE long sw_qp_at_end(sw_at window, __u32 cell, const struct sw_key *key, int is_long)
{
	sw_at node = sw_qp_node(window, cell), leaf = node;
	__u32 header, before, distance, rest;
	__u64 hits = 0, slot;

	if (cell & SW_QP_CLUSTER) {
		header = sw_u32_of(node, 0);
		hits = sw_qp_tagged(node, cell, header, sw_qp_key_tag(key));
		if (!hits)
			return -ENOENT;
		/* Mostly, no other slot has the tag. */
		slot = sw_qp_tagged_slot(hits & -hits);
		if (slot >= sw_qp_cluster_leaves(header))
			goto others;
		if (sw_qp_is_inline(cell)) {
			before = sw_qp_before_key(window);
			distance = sw_qp_held_distance(window, node, header, slot);
			rest = sw_u8(node + distance + before);
			if (rest != SW_QP_INLINE_OUTSIDE) {
				/* A block holds only short keys. */
				if (!is_long && sw_qp_is_held_key(window, node, header, distance,
								  node + distance + before + 1, rest, key))
					return (long)sw_qp_inside(node + distance, distance);
				goto others;
			}
			leaf = sw_qp_outside(window, node + distance, before);
		} else {
			leaf = sw_qp_entry(window, cell, node, header, slot);
			/* The slot is dead. */
			if (leaf == window)
				goto others;
		}
	}
	if (sw_qp_is_leaf_key(leaf, sw_u32_of(window, SW_QP_VALUE_BYTES), key, is_long))
		return (long)leaf;
others:
	return sw_qp_others(window, cell, hits & (hits - 1), key, is_long);
}

/* Looks a key up in the trie below a root. `is_long`, a constant, is the kind of the key. */
SW_INLINE long sw_qp_trie_find(sw_at window, __u32 cell, const struct sw_key *key, int is_long)
{
	__u32 header, offset, length = is_long ? sw_key_length(key) : key->length, depth;
	sw_at node;

	if (!cell)
		return sw_qp_no_root(window, -ENOENT);
	for (depth = sw_zero(); depth < SW_QP_DEPTH_MAX && sw_can_loop; depth++) {
		if (cell & SW_QP_KIND)
			return sw_qp_at_end(window, cell, key, is_long);
		node = window + (__u64)cell * 2;
		header = sw_u32_of(node, 0);
		offset = sw_qp_offset(header);
		sw_hide(offset);
		if (offset >= length) {
			if (offset > length)
				return -ENOENT;
			cell = sw_u32(node + sw_qp_cells_at(header));
			continue;
		}
		/* The length of a short key is a byte, so the offset is in the key. */
		cell = sw_qp_child_cell(node, header,
					is_long ? sw_u8(key->long_at + offset) : key->bytes[offset & 255]);
	}
	return -ELOOP;
}

/* The same for a long key. */
SW_GLOBAL long sw_qp_trie_find_long(__u64 window, __u32 cell, const struct sw_key *key SW_NONNULL)
{
	sw_use_arena();
	return sw_qp_trie_find(window, cell, key, 1);
}

/* Looks a short key up in the trie, in the newest version. */
SW_GLOBAL long sw_qp_trie_short(__u32 map, const struct sw_key *key SW_NONNULL)
{
	sw_at window = sw_window_in(map, SW_QP_KINDS);

	sw_use_arena();
	if (!window)
		return -EINVAL;
	return sw_qp_trie_find(window, sw_u32_of(window, SW_QP_ROOT), key, 0);
}

/*
 * Looks a key up in the trie alone; -EOPNOTSUPP when there is none. Here and elsewhere, the
 * functions for the two kinds of keys do not call each other, because the kernel limits the sum of
 * the stacks of nested calls.
 */
SW_INLINE long sw_qp_trie_lookup(__u32 map, const struct sw_key *key)
{
	sw_at window;

	if (!sw_key_is_long(key))
		return sw_qp_trie_short(map, key);
	window = sw_window_in(map, SW_QP_KINDS);
	return window ? sw_qp_trie_find_long(window, sw_u32_of(window, SW_QP_ROOT), key) : -EINVAL;
}

/*
 * The newest version of a store (UserStore), for all lookups of a run that must see the same
 * version:
 *
 *     __u32 root = sw_qp_root(ZONE);
 *     long a = sw_qp_lookup_at(ZONE, root, &key), b = sw_qp_lookup_at(ZONE, root, &other);
 *
 * A commit writes this word once, so a version has all of a commit or none of it. Returns 0 when
 * the store is empty, or there is no such window. For other maps, this is only the cell at which
 * lookups begin.
 */
SW_INLINE __u32 sw_qp_root(__u32 map)
{
	sw_at window = sw_window_in(map, SW_QP_KINDS);

	return window ? sw_acquire_u32(window + SW_QP_ROOT) : 0;
}

/* The same for a short key. */
SW_GLOBAL long sw_qp_trie_find_short(__u64 window, __u32 cell, const struct sw_key *key SW_NONNULL)
{
	sw_use_arena();
	return sw_qp_trie_find(window, cell, key, 0);
}

/* Looks a key up in the version that sw_qp_root returned in this run of the program. */
SW_INLINE long sw_qp_lookup_at(__u32 map, __u32 root, const struct sw_key *key)
{
	sw_at window = sw_window_in(map, SW_QP_KINDS);

	if (!window)
		return -EINVAL;
	return sw_key_is_long(key) ? sw_qp_trie_find_long(window, root, key) :
				     sw_qp_trie_find_short(window, root, key);
}

/* The place of a bucket of a table; 0 when its chunk is not there. */
SW_INLINE sw_at sw_qp_bucket(sw_at window, sw_at table, __u32 shift, __u32 bucket)
{
	__u32 entry = sw_acquire_u32_of(table + (__u64)(bucket >> shift) * 4, SW_QP_TABLE_DIRECTORY);

	if (!entry)
		return 0;
	return window + (__u64)(entry & ~7u) * 8 +
	       (__u64)(bucket & ((1u << shift) - 1)) * SW_QP_BUCKET_BYTES;
}

/*
 * The slots of a bucket whose tags are zero in these words: slots 0 to 7 as the bits 0, 8, …, and
 * slots 8 to 11 as 4, 12, …
 */
SW_INLINE __u64 sw_qp_slots(__u64 low, __u64 high)
{
	return sw_zero_bytes(low) >> 7 | (sw_zero_bytes(high) >> 3 & 0x10101010);
}

/*
 * Four times the number of the first such slot, which must exist: the distance of its cell from
 * that of slot 0.
 */
SW_INLINE __u64 sw_qp_first_slot(__u64 slots)
{
	__u64 last = slots & -slots, other = -(last & 0x10101010);

	sw_hide(other);
	return (((last - 1) & SW_ONES) * SW_ONES >> 56) * 4 + ((__u64)((__s64)other >> 63) & 28);
}

/*
 * The next slot, from `from` on, with the tag of a hash, in its home bucket in the table at `table`
 * and, if necessary, in the buckets behind. Returns the slot's cell, and in the upper half the next
 * `from`; -ENOENT when there is none, -EAGAIN when the key has its home in the next table, -ENODATA
 * when only the trie can tell, -ELOOP. `from` is 0 at first.
 */
SW_GLOBAL long sw_qp_candidate(__u64 window, __u64 table, __u64 hash, __u32 from)
{
	__u32 shift = sw_u32_of(table, SW_QP_TABLE_SHIFT) & 31, tag = sw_qp_tag(hash), far, reach;
	__u32 home = (__u32)(((hash >> 32) * sw_u32_of(table, SW_QP_TABLE_HOMES)) >> 32);
	sw_at bucket = sw_qp_bucket(window, table, shift, home);
	__u64 state, slots, pattern = tag * SW_ONES;

	sw_use_arena();
	if (!bucket)
		return -EAGAIN;
	state = sw_acquire_u64_of(bucket, 8);
	if (state & SW_QP_BUCKET_MOVED)
		return -EAGAIN;
	reach = state >> (SW_QP_BUCKET_FILTER + (tag & 7)) & 1;
	reach = -reach & (state >> SW_QP_BUCKET_REACH) & 0xff;
	for (far = from >> 6; far <= reach && sw_can_loop; far++) {
		bucket = sw_qp_bucket(window, table, shift, home + far);
		if (!bucket)
			return -EAGAIN;
		slots = sw_acquire_u64(bucket) ^ pattern;
		slots = sw_qp_slots(slots, sw_acquire_u64_of(bucket, 8) ^ pattern);
		/* The bits from `from` on. */
		slots &= ~0ull << (from & 63);
		if (slots) {
			bucket += sw_qp_first_slot(slots);
			from = far << 6 | sw_popcount((slots & -slots) - 1);
			return (long)((__u64)(from + 1) << 32 |
				      sw_acquire_u32_of(bucket, SW_QP_BUCKET_LEAVES));
		}
		from = 0;
	}
	if (far <= reach)
		return -ELOOP;
	/* A writer that moves a key sets MOVED before it clears the key here. */
	sw_barrier();
	bucket = sw_qp_bucket(window, table, shift, home);
	if (!bucket || sw_acquire_u64_of(bucket, 8) & SW_QP_BUCKET_MOVED)
		return -EAGAIN;
	return state & 0xffull << SW_QP_BUCKET_SPILLED ? -ENODATA : -ENOENT;
}

/* The number of the slot that sw_qp_candidate found, from the `from` that it returned. */
SW_INLINE __u32 sw_qp_candidate_slot(__u32 from)
{
	/* The bits 0, 8, ... are the slots from 0 on, and the bits 4, 12, ... those from 8 on. */
	__u32 bit = (from - 1) & 63;

	return bit / 8 + (bit & 4) * 2;
}

/*
 * As sw_qp_index_lookup, with all buckets and tables that a lookup may need. `is_long`, a constant,
 * is the kind of the key. A long key has the hash `hash`.
 */
SW_INLINE long sw_qp_index_search(sw_at window, __u64 hash, const struct sw_key *key, int is_long)
{
	__u32 ref, tries = sw_zero(), value_bytes = sw_u32(window + SW_QP_VALUE_BYTES);
	long found = 0;
	sw_at leaf;

	if (!window)
		return -EINVAL;
	ref = sw_acquire_u32(window + SW_QP_TABLE);
	if (!ref)
		return -ENODATA;
	if (!is_long)
		hash = sw_qp_hash(window, key);
	/* A lookup that meets more resizes than this uses the trie, if there is one. */
	while (tries < 16 && sw_can_loop) {
		found = sw_qp_candidate(window, sw_ref(window, ref), hash, (__u64)found >> 32);
		if (found > 0) {
			leaf = sw_qp_node(window, (__u32)found);
			if (sw_qp_is_leaf_key(leaf, value_bytes, key, is_long))
				return (long)leaf;
			continue;
		}
		if (found != -EAGAIN)
			return found;
		ref = sw_acquire_u32(sw_ref(window, ref) + SW_QP_TABLE_NEXT);
		if (!ref || ref == SW_QP_TABLE_NOTHING)
			return -ENOENT;
		found = 0;
		tries++;
	}
	return tries < 16 ? -ELOOP : -EAGAIN;
}

/* The same for a key of each kind. -EAGAIN when resizes disturbed every attempt. */
SW_GLOBAL long sw_qp_index_closer(__u32 map, const struct sw_key *key SW_NONNULL)
{
	sw_use_arena();
	return sw_qp_index_search(sw_window_in(map, SW_QP_KINDS), 0, key, 0);
}
SW_GLOBAL long sw_qp_index_long(__u64 window, __u64 hash, const struct sw_key *key SW_NONNULL)
{
	sw_use_arena();
	return sw_qp_index_search(window, hash, key, 1);
}

/*
 * The first step of a lookup by the index, which is enough for nine of ten lookups of short keys
 * and has no loop for them. Either the first slot of the home bucket with the tag has the key, or
 * no slot has the tag and all keys of this home lie in the bucket. -EAGAIN when neither holds.
 */
SW_GLOBAL long sw_qp_index_first(__u32 map, const struct sw_key *key SW_NONNULL)
{
	sw_at window = sw_window_in(map, SW_QP_KINDS), table, bucket, leaf;
	__u64 hash, low, high, hits, pattern;
	__u32 ref, home, tag;

	sw_use_arena();
	if (!window)
		return -EINVAL;
	ref = sw_acquire_u32_of(window, SW_QP_TABLE);
	if (!ref)
		return -ENODATA;
	hash = sw_qp_hash(window, key);
	table = sw_ref(window, ref);
	home = (__u32)(((hash >> 32) * sw_u32_of(table, SW_QP_TABLE_HOMES)) >> 32);
	bucket = sw_qp_bucket(window, table, sw_u32_of(table, SW_QP_TABLE_SHIFT) & 31, home);
	if (bucket) {
		tag = sw_qp_tag(hash);
		pattern = tag * SW_ONES;
		low = sw_acquire_u64(bucket);
		high = sw_acquire_u64_of(bucket, 8);
		hits = sw_qp_slots(low ^ pattern, high ^ pattern);
		if (!hits) {
			if (!(high & (SW_QP_BUCKET_MOVED | 0xffull << SW_QP_BUCKET_SPILLED |
				      1ull << (SW_QP_BUCKET_FILTER + (tag & 7)))))
				return -ENOENT;
		} else if (!(high & SW_QP_BUCKET_MOVED)) {
			leaf = bucket + sw_qp_first_slot(hits);
			leaf = sw_qp_node(window, sw_acquire_u32_of(leaf, SW_QP_BUCKET_LEAVES));
			if (sw_qp_is_short_key(leaf, sw_u32_of(window, SW_QP_VALUE_BYTES), key))
				return (long)leaf;
		}
	}
	return -EAGAIN;
}

/*
 * Looks a key up by the index. -ENODATA when there is no index, or it cannot tell; -EAGAIN when
 * resizes disturbed every attempt. The two functions do not call each other, because the kernel
 * limits the sum of the stacks of nested calls.
 */
SW_INLINE long sw_qp_index_lookup(__u32 map, const struct sw_key *key)
{
	sw_at window;
	long found;

	if (sw_key_is_long(key)) {
		window = sw_window_in(map, SW_QP_KINDS);
		/* The hash function has its own stack, which ends before the search begins. */
		return window ? sw_qp_index_long(window, sw_qp_hash_long(window, key), key) : -EINVAL;
	}
	found = sw_qp_index_first(map, key);
	return found == -EAGAIN ? sw_qp_index_closer(map, key) : found;
}

/*
 * Looks a key up by the index if there is one, else in the trie. -EAGAIN when resizes of a map
 * without a trie disturbed every attempt, which occurs only in a small map that changes fast.
 */
SW_INLINE long sw_qp_lookup(__u32 map, const struct sw_key *key)
{
	long indexed = sw_qp_index_lookup(map, key), found;

	if (indexed != -ENODATA && indexed != -EAGAIN)
		return indexed;
	found = sw_qp_trie_lookup(map, key);
	if (found != -EOPNOTSUPP)
		return found;
	/* The map has only the index, so without a table it is empty. */
	return indexed == -ENODATA ? -ENOENT : -EAGAIN;
}

#endif
