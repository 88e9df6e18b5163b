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
 * -EUCLEAN when what was read cannot be a map. A map may have a trie, an index, or both; what asks for order says -EOPNOTSUPP of one that has
 * only an index (PointNameMap). Layout and protocol: docs/qp.md, docs/shared.md.
 *
 * A change is in the index and in the trie one after the other: a program that asks both by turns may see a value go back by one change.
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

/* A key as it lies in a leaf: its length, its bytes, and zeros to the end, or up to a multiple of 32 bytes at least. */
struct sw_key {
	union {
		__u64 words[SW_KEY_WORDS];
		struct {
			__u8 length;
			__u8 bytes[SW_KEY_WORDS * 8 - 1];
		};
	};
};

_Static_assert(sizeof(struct sw_key) == 8 * SW_KEY_WORDS, "a key has 32 words");
_Static_assert(SW_QP_LEAF == 1 && SW_QP_END == 1u << 24 && SW_QP_BIG == 1u << 25 && SW_QP_SMALL_MAX == 32,
	       "qp.bpf.h is written for these branches");
_Static_assert(SW_QP_BUCKET_BYTES == 64 && SW_QP_BUCKET_SLOTS == 12 && SW_QP_BUCKET_LEAVES == 16,
	       "qp.bpf.h is written for these buckets");

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

/* The high bits of the bytes of a word that are as those of the pattern; only the lowest that is set is sure to be right. */
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
 * Where the cell of the child with this label is; 0 if there is no such child. A lookup waits for each step of this, so there are as few
 * as may be, and branches only where they say what kind of branch it is.
 */
SW_INLINE sw_at sw_qp_cell(sw_at node, __u32 header, __u64 byte)
{
	__u64 labels = sw_qp_labels(header), pattern = byte * SW_ONES, word, bit, eight = 0;
	sw_at cells = node + sw_qp_first(header);

	if (labels <= SW_QP_SMALL_MAX) {
		if (labels > 8) {
			/* They ascend: the word is the first one whose last label is not less. */
			eight = sw_less(sw_u8_of(node, 4 + 7), byte) +
				(sw_less(sw_u8_of(node, 4 + 15), byte) & sw_less(15, labels)) +
				(sw_less(sw_u8_of(node, 4 + 23), byte) & sw_less(23, labels));
			eight *= 8;
			word = sw_u64_of(node + eight, 4);
		} else {
			word = sw_u64_of(node, 4);
		}
		word = sw_qp_hits(word, pattern);
		if (!word)
			return 0;
		/* The bytes up to the lowest hit, times four; cells may follow the labels in the same word. */
		word = (((word - 1) & SW_ONES) * (4 * SW_ONES) >> 56) + eight * 4;
		return word <= labels * 4 ? cells + word - 4 : 0;
	}
	node += byte >> 6;
	word = sw_u64_of(node + (byte >> 6) * 7, 8);
	bit = 1ull << (byte & 63);
	if (!(word & bit))
		return 0;
	return cells + (sw_u8_of(node, 4) + (__u64)sw_popcount(word & (bit - 1))) * 4;
}

/* The number of the label among those of a branch; -1 if it has none such. */
SW_INLINE int sw_qp_label(sw_at node, __u32 header, __u32 byte)
{
	sw_at cell = sw_qp_cell(node, header, byte);

	return cell ? (int)(cell - node - sw_qp_first(header)) / 4 : -1;
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

/* All ones if the word of this number is one of the first so many, else 0. */
SW_INLINE __u64 sw_among(__u32 i, __u64 words)
{
	__s64 before = (__s64)i - (__s64)words;

	/* Or the compiler makes a branch of it. */
	sw_hide(before);
	return (__u64)(before >> 63);
}

/* Words that a key of this length takes with the length in front. */
SW_INLINE __u64 sw_key_words(const struct sw_key *key)
{
	return key->length / 8 + 1;
}

/*
 * The bits in which four words of a leaf and a key differ, of those words that the key has. What lies behind a leaf is read,
 * and not used: no branch depends on the length of a key, as the processor would guess it wrong.
 */
SW_INLINE __u64 sw_qp_differ(sw_at at, const __u64 *words, __u64 left)
{
	__u64 b = sw_among(1, left), c = sw_among(2, left), d = sw_among(3, left);

	return (sw_u64(at) ^ words[0]) | ((sw_u64_of(at, 8) ^ words[1]) & b) |
	       ((sw_u64_of(at, 16) ^ words[2]) & c) |
	       ((sw_u64_of(at, 24) ^ words[3]) & d);
}

/* Whether a leaf has this key. */
SW_INLINE int sw_qp_is_key(sw_at leaf, __u32 value_bytes, const struct sw_key *key)
{
	__u64 words = sw_key_words(key);
	sw_at at = leaf + value_bytes;
	__s64 left;
	__u32 i;

	if (sw_qp_differ(at, key->words, words))
		return 0;
	i = sw_zero() & 28;
	for (left = words - 4; left > 0 && sw_can_loop; left -= 4) {
		i = (i + 4) & 28;
		sw_hide(i);
		i &= 28;
		if (sw_qp_differ(at + i * 8, key->words + i, left))
			return 0;
	}
	return left <= 0;
}

/* What is said of a map whose root is 0: that it is empty, or, -EOPNOTSUPP, that it has only an index: no trie, and so no order. */
SW_INLINE long sw_qp_no_root(sw_at window, long empty)
{
	return sw_u32(window + SW_QP_HAS_INDEX) == SW_QP_ONLY_INDEX ? -EOPNOTSUPP : empty;
}

/* Looks a key up in the trie alone; -EOPNOTSUPP when there is none. */
SW_GLOBAL long sw_qp_trie_lookup(__u32 map, const struct sw_key *key SW_NONNULL)
{
	sw_at window = sw_window_in(map, SW_QP_KINDS), node;
	__u32 cell, header, offset, length, depth;

	sw_use_arena();
	if (!window)
		return -EINVAL;
	length = key->length;
	cell = sw_u32_of(window, SW_QP_ROOT);
	if (!cell)
		return sw_qp_no_root(window, -ENOENT);
	for (depth = sw_zero(); depth < SW_QP_DEPTH_MAX && sw_can_loop; depth++) {
		if (cell & 1) {
			node = sw_qp_node(window, cell);
			return sw_qp_is_key(node, sw_u32_of(window, SW_QP_VALUE_BYTES), key) ? (long)node : -ENOENT;
		}
		node = window + (__u64)cell * 4;
		header = sw_u32_of(node, 0);
		offset = sw_qp_offset(header);
		sw_hide(offset);
		if (offset >= length) {
			if (offset > length || !(header & SW_QP_END))
				return -ENOENT;
			cell = sw_u32(node + sw_qp_first(header) - 4);
			continue;
		}
		/* The length is a byte, so the offset is in the key. */
		node = sw_qp_cell(node, header, key->bytes[offset]);
		if (!node)
			return -ENOENT;
		cell = sw_u32_of(node, 0);
	}
	return -ELOOP;
}

/* The products of NH, of a word and of four. */
SW_INLINE __u64 sw_nh(__u64 word, __u64 secret)
{
	return (__u64)((__u32)word + (__u32)secret) * (__u64)((__u32)(word >> 32) + (__u32)(secret >> 32));
}
SW_INLINE __u64 sw_nh_four(sw_at secrets, const __u64 *words)
{
	return sw_nh(words[0], sw_u64_of(secrets, 0)) + sw_nh(words[1], sw_u64_of(secrets, 8)) +
	       sw_nh(words[2], sw_u64_of(secrets, 16)) + sw_nh(words[3], sw_u64_of(secrets, 24));
}

/* The hash of a key: NH over its words, four at a time, mixed. See docs/shared.md. */
SW_INLINE __u64 sw_qp_hash(sw_at window, const struct sw_key *key)
{
	sw_at secrets = window + SW_QP_SECRETS;
	__u64 sum = sw_nh_four(secrets, key->words);
	__u32 i, left;

	i = sw_zero() & 28;
	for (left = key->length / 32; left && sw_can_loop; left--) {
		i = (i + 4) & 28;
		sw_hide(i);
		i &= 28;
		sum += sw_nh_four(secrets + i * 8, key->words + i);
	}
	sum = (sum ^ sum >> 32) * 0x9e3779b97f4a7c15ull;
	return sum ^ sum >> 32;
}

/* The tag of a hash: its low byte, 1 for 0. */
SW_INLINE __u32 sw_qp_tag(__u64 hash)
{
	__u64 low = hash & 0xff;

	return (__u32)(low | (low - 1) >> 63);
}

/* Where a bucket of a table is; 0 when its chunk is not there. */
SW_INLINE sw_at sw_qp_bucket(sw_at window, sw_at table, __u32 shift, __u32 bucket)
{
	__u32 entry = sw_acquire_u32_of(table + (__u64)(bucket >> shift) * 4, SW_QP_TABLE_DIRECTORY);

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
	__u32 home = (__u32)(((hash >> 32) * homes) >> 32), tag = sw_qp_tag(hash), far, reach;
	__u32 value_bytes = sw_u32(window + SW_QP_VALUE_BYTES);
	sw_at bucket = sw_qp_bucket(window, table, shift, home), leaf, behind;

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

/* As sw_qp_index_lookup, with all that may have to be looked at. -EAGAIN when tables were resized again and again meanwhile. */
SW_GLOBAL long sw_qp_index_closer(__u32 map, const struct sw_key *key SW_NONNULL)
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
	/* A lookup that is overtaken by more resizes than that asks the trie, if there is one. */
	for (tries = sw_zero(); tries < 16 && sw_can_loop; tries++) {
		table = sw_ref(window, ref);
		found = sw_qp_look(window, table, hash, key);
		if (found != -EAGAIN)
			return found;
		ref = sw_acquire_u32(table + SW_QP_TABLE_NEXT);
		if (!ref || ref == SW_QP_TABLE_NOTHING)
			return -ENOENT;
	}
	return -EAGAIN;
}

/* The slots among those of a bucket whose tags are zero in these words: slots 0 to 7 as the bits 0, 8, …, and slots 8 to 11 as 4, 12, … */
SW_INLINE __u64 sw_qp_slots(__u64 low, __u64 high)
{
	return sw_zero_bytes(low) >> 7 | (sw_zero_bytes(high) >> 3 & 0x10101010);
}

/* Four times the first of such slots, of which there is one: where its cell is behind that of slot 0. */
SW_INLINE __u64 sw_qp_first_slot(__u64 slots)
{
	__u64 last = slots & -slots, other = -(last & 0x10101010);

	sw_hide(other);
	return (((last - 1) & SW_ONES) * SW_ONES >> 56) * 4 + ((__u64)((__s64)other >> 63) & 28);
}

/*
 * What settles nine of ten lookups by the index, and needs no loop for short keys: the first slot of the home with the tag has the key, or
 * no slot has the tag and no key that is at home there lies elsewhere. -EAGAIN when that does not settle it.
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
			if (sw_qp_is_key(leaf, sw_u32_of(window, SW_QP_VALUE_BYTES), key))
				return (long)leaf;
		}
	}
	return -EAGAIN;
}

/*
 * Looks a key up by the index. -ENODATA when there is none, or it does not know; -EAGAIN when it was resized again and again meanwhile.
 * Two functions that do not call each other, as the kernel limits what the stacks of those that do have together.
 */
SW_INLINE long sw_qp_index_lookup(__u32 map, const struct sw_key *key)
{
	long found = sw_qp_index_first(map, key);

	return found == -EAGAIN ? sw_qp_index_closer(map, key) : found;
}

/*
 * Looks a key up: by the index if there is one, else in the trie. -EAGAIN in a map without a trie that was resized again and again
 * meanwhile, which takes a map that is small and changes fast.
 */
SW_INLINE long sw_qp_lookup(__u32 map, const struct sw_key *key)
{
	long indexed = sw_qp_index_lookup(map, key), found;

	if (indexed != -ENODATA && indexed != -EAGAIN)
		return indexed;
	found = sw_qp_trie_lookup(map, key);
	if (found != -EOPNOTSUPP)
		return found;
	/* There is only the index: without a table it is empty. */
	return indexed == -ENODATA ? -ENOENT : -EAGAIN;
}

#endif
