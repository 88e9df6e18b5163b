/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Ordered maps over byte strings, read where Rust writes them (QpShared, in a window of the arena), or where programs do
 * (KernelMap). Programs that write include qp_write.bpf.h.
 *
 *     struct sw_key key = {};                       // all 256 bytes are set
 *     sw_key_set(&key, eth->h_source, 6);
 *     long found = sw_qp_lookup(0, &key);           // in the window with number 0
 *     if (found > 0)                                // the place of the value
 *             value = sw_u64(found);
 *
 * Results: the place of a value (positive), or -ENOENT; -EINVAL when there is no such window; -ELOOP when the kernel ended a loop;
 * -EUCLEAN when what was read cannot be a map. Layout and protocol: docs/qp.md, docs/shared.md.
 *
 * A program must hold no place across the end of its run: what is removed stays until the programs that were running then
 * have ended. Sleepable programs must not use these functions.
 */
#ifndef SAPWOOD_QP_BPF_H
#define SAPWOOD_QP_BPF_H

#include "arena.bpf.h"

/* The kinds of windows that are read here. */
#define SW_QP_KINDS (1u << SW_KIND_QP | 1u << SW_KIND_KERNEL_QP)

/* The longest key that programs look up. Longer ones may be in the map. */
#define SW_KEY_MAX 254
#define SW_KEY_WORDS 32

/* A key as it lies in a leaf: its length, its bytes, and zeros to the end. */
struct sw_key {
	union {
		__u64 words[SW_KEY_WORDS];
		struct {
			__u8 length;
			__u8 bytes[SW_KEY_WORDS * 8 - 1];
		};
	};
};

/*
 * Makes a key of so many bytes, a constant: the key must be all zeros before, as `struct sw_key key = {}` is.
 *
 *     struct sw_key key = {};
 *     sw_key_set(&key, eth->h_source, 6);
 */
#define sw_key_set(key, from, n)                                               \
	do {                                                                   \
		_Static_assert((n) <= SW_KEY_MAX, "the longest key has 254 bytes"); \
		(key)->length = (n);                                           \
		__builtin_memcpy((key)->bytes, from, n);                       \
	} while (0)

SW_INLINE __u32 sw_qp_offset(__u32 header)
{
	return header & 0xffff;
}
SW_INLINE __u32 sw_qp_labels(__u32 header)
{
	return ((header >> 16) & 0xff) + 1;
}
/* Where the cell of the first label is, and where the cell of END is, if there is one. */
SW_INLINE __u32 sw_qp_first(__u32 header)
{
	return (header >> 25) & 0x3c;
}
SW_INLINE sw_at sw_qp_node(sw_at window, __u32 cell)
{
	return window + (__u64)(cell & ~1u) * 4;
}

/* The number of the label among those of a branch; -1 if it has none such. */
SW_INLINE int sw_qp_label(sw_at node, __u32 header, __u32 byte)
{
	__u32 labels = sw_qp_labels(header);
	__u64 word, hits, pattern = byte * SW_ONES;
	__u32 i;

	if (labels <= 8) {
		word = sw_u64(node + 4) ^ pattern;
		hits = (word - SW_ONES) & ~word & SW_HIGHS;
		/* The lowest hit is a true one; up to four labels are followed by cells. */
		i = sw_first_byte(hits | 1ull << 63);
		return hits && i < labels ? (int)i : -1;
	}
	if (labels <= SW_QP_SMALL_MAX) {
		for (i = sw_zero(); i < labels && sw_can_loop; i += 8) {
			word = sw_u64(node + 4 + i) ^ pattern;
			hits = (word - SW_ONES) & ~word & SW_HIGHS;
			if (hits) {
				i += sw_first_byte(hits);
				return i < labels ? (int)i : -1;
			}
		}
		return -1;
	}
	word = sw_u64(node + 8 + ((byte >> 6) << 3));
	hits = 1ull << (byte & 63);
	if (!(word & hits))
		return -1;
	return (int)(sw_u8(node + 4 + (byte >> 6)) + sw_popcount(word & (hits - 1)));
}

/*
 * A loop over so many words of a key, 32 at most. To the verifier the place is some number below 32 in each round, and the count of
 * those that are left is no address: so it looks at one round, where it would look at each of 32 with a place that it knows.
 */
#define sw_each_word(i, left, count)                                           \
	for (i = sw_zero() & (SW_KEY_WORDS - 1), left = (count); left && sw_can_loop; \
	     left--, i = (i + 1) & (SW_KEY_WORDS - 1))

SW_INLINE __u64 sw_key_word(const struct sw_key *key, __u32 i)
{
	sw_hide(i);
	return key->words[i & (SW_KEY_WORDS - 1)];
}

SW_INLINE __u32 sw_key_byte(const struct sw_key *key, __u32 i)
{
	i++;
	sw_hide(i);
	return ((const __u8 *)key)[i & (SW_KEY_WORDS * 8 - 1)];
}

/* Whether a leaf has this key. */
SW_INLINE int sw_qp_is_key(sw_at leaf, __u32 value_bytes, const struct sw_key *key)
{
	__u32 i, left;

	sw_each_word(i, left, key->length / 8 + 1) {
		if (sw_u64(leaf + value_bytes + i * 8) != sw_key_word(key, i))
			return 0;
	}
	return !left;
}

/* Looks a key up in the trie alone. */
SW_GLOBAL long sw_qp_trie_lookup(__u32 map, const struct sw_key *key SW_NONNULL)
{
	sw_at window = sw_window_in(map, SW_QP_KINDS), node;
	__u32 cell, header, offset, length, depth;
	int label;

	sw_use_arena();
	if (!window)
		return -EINVAL;
	length = key->length;
	cell = sw_u32(window + SW_QP_ROOT);
	for (depth = sw_zero(); depth < SW_QP_DEPTH_MAX && sw_can_loop; depth++) {
		if (!cell)
			return -ENOENT;
		node = sw_qp_node(window, cell);
		if (cell & 1) {
			__u32 value_bytes = sw_u32(window + SW_QP_VALUE_BYTES);

			return sw_qp_is_key(node, value_bytes, key) ? (long)node : -ENOENT;
		}
		header = sw_u32(node);
		offset = sw_qp_offset(header);
		if (offset >= length) {
			if (offset > length || !(header & SW_QP_END))
				return -ENOENT;
			cell = sw_u32(node + sw_qp_first(header) - 4);
			continue;
		}
		label = sw_qp_label(node, header, sw_key_byte(key, offset));
		if (label < 0)
			return -ENOENT;
		cell = sw_u32(node + sw_qp_first(header) + (__u32)label * 4);
	}
	return -ELOOP;
}

/* The hash of a key: NH over its words, mixed. See docs/shared.md. */
SW_INLINE __u64 sw_qp_hash(sw_at window, const struct sw_key *key)
{
	__u64 sum = 0, word, secret;
	__u32 i, left;

	sw_each_word(i, left, key->length / 8 + 1) {
		word = sw_key_word(key, i);
		secret = sw_u64(window + SW_QP_SECRETS + i * 8);
		sum += (__u64)((__u32)word + (__u32)secret) *
		       (__u64)((__u32)(word >> 32) + (__u32)(secret >> 32));
	}
	sum = (sum ^ sum >> 32) * 0x9e3779b97f4a7c15ull;
	sum = (sum ^ sum >> 29) * 0xbf58476d1ce4e5b9ull;
	return sum ^ sum >> 32;
}

/* Where a bucket of a table is; 0 when its chunk is not there. */
SW_INLINE sw_at sw_qp_bucket(sw_at window, sw_at table, __u32 shift, __u32 bucket)
{
	__u32 entry = sw_acquire_u32(table + SW_QP_TABLE_DIRECTORY + (__u64)(bucket >> shift) * 4);

	if (!entry)
		return 0;
	return window + (__u64)(entry & ~7u) * 8 +
	       (__u64)(bucket & ((1u << shift) - 1)) * SW_QP_BUCKET_BYTES;
}

/* The leaf with this key among the hits in one word of tags, or 0. `first` is the slot of the word's lowest byte. */
SW_INLINE sw_at sw_qp_hit(sw_at window, sw_at bucket, __u64 hits, __u32 first, __u32 value_bytes,
			  const struct sw_key *key)
{
	__u32 i, slot;
	sw_at leaf;

	for (i = sw_zero(); i < 8 && hits && sw_can_loop; i++) {
		slot = first + sw_first_byte(hits);
		leaf = sw_qp_node(window, sw_acquire_u32(bucket + SW_QP_BUCKET_LEAVES + slot * 4));
		if (sw_qp_is_key(leaf, value_bytes, key))
			return leaf;
		hits &= hits - 1;
	}
	return 0;
}

/*
 * Looks a key up in the table at `table`, and the buckets behind its home if need be: the place of the value, -ENOENT, -EAGAIN when the
 * key is at home in the next table, -ENODATA when only the trie knows.
 */
SW_INLINE long sw_qp_look(sw_at window, sw_at table, __u64 hash, const struct sw_key *key)
{
	__u64 low, high, pattern, sizes = sw_u64(table + SW_QP_TABLE_HOMES);
	__u32 homes = (__u32)sizes, shift = sw_u32(table + SW_QP_TABLE_SHIFT) & 31;
	__u32 home = (__u32)(((hash >> 32) * homes) >> 32), tag = hash & 0xff, far, reach;
	__u32 value_bytes = sw_u32(window + SW_QP_VALUE_BYTES);
	sw_at bucket = sw_qp_bucket(window, table, shift, home), leaf, behind;

	tag |= !tag;
	if (!bucket)
		return -EAGAIN;
	low = sw_acquire_u64(bucket);
	high = sw_acquire_u64(bucket + 8);
	if (high & SW_QP_BUCKET_MOVED)
		return -EAGAIN;
	pattern = tag * SW_ONES;
	leaf = sw_qp_hit(window, bucket, sw_zero_bytes(low ^ pattern), 0, value_bytes, key);
	if (leaf)
		return (long)leaf;
	leaf = sw_qp_hit(window, bucket, sw_zero_bytes(high ^ pattern) & SW_HIGHS >> 32, 8, value_bytes, key);
	if (leaf)
		return (long)leaf;
	if (high >> (SW_QP_BUCKET_FILTER + (tag & 7)) & 1) {
		reach = (high >> SW_QP_BUCKET_REACH) & 0xff;
		for (far = sw_zero() + 1; far <= reach && sw_can_loop; far++) {
			behind = sw_qp_bucket(window, table, shift, home + far);
			if (!behind)
				return -EAGAIN;
			leaf = sw_qp_hit(window, behind, sw_zero_bytes(sw_acquire_u64(behind) ^ pattern), 0,
					 value_bytes, key);
			if (leaf)
				return (long)leaf;
			leaf = sw_qp_hit(window, behind,
					 sw_zero_bytes(sw_acquire_u64(behind + 8) ^ pattern) & SW_HIGHS >> 32, 8,
					 value_bytes, key);
			if (leaf)
				return (long)leaf;
		}
		if (far <= reach)
			return -ELOOP;
		/* A key that was moved meanwhile is cleared behind its home, but not before MOVED was set. */
		sw_barrier();
		if (sw_acquire_u64(bucket + 8) & SW_QP_BUCKET_MOVED)
			return -EAGAIN;
	}
	return high & 0xffull << SW_QP_BUCKET_SPILLED ? -ENODATA : -ENOENT;
}

/* Looks a key up by the index. -ENODATA when there is none, or it does not know. */
SW_GLOBAL long sw_qp_index_lookup(__u32 map, const struct sw_key *key SW_NONNULL)
{
	sw_at window = sw_window_in(map, SW_QP_KINDS), table;
	__u32 ref, tries;
	__u64 hash;
	long found;

	sw_use_arena();
	if (!window)
		return -EINVAL;
	ref = sw_acquire_u32(window + SW_QP_TABLE);
	if (!ref)
		return -ENODATA;
	hash = sw_qp_hash(window, key);
	/* A lookup that is overtaken by more than a few resizes asks the trie. */
	for (tries = sw_zero(); tries < 4 && sw_can_loop; tries++) {
		table = sw_ref(window, ref);
		found = sw_qp_look(window, table, hash, key);
		if (found != -EAGAIN)
			return found;
		ref = sw_acquire_u32(table + SW_QP_TABLE_NEXT);
		if (!ref || ref == SW_QP_TABLE_NOTHING)
			return -ENOENT;
	}
	return -ENODATA;
}

/* Looks a key up: by the index if there is one, else in the trie. */
SW_INLINE long sw_qp_lookup(__u32 map, const struct sw_key *key)
{
	long found = sw_qp_index_lookup(map, key);

	return found == -ENODATA ? sw_qp_trie_lookup(map, key) : found;
}

#endif
