/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Lookups in ordered maps over byte strings, in windows of the arena. Rust writes them (QpShared),
 * or programs do (ProgramMap). Programs that write include qp_write.bpf.h.
 *
 *     struct sw_key key = {};                       // all 256 bytes are set
 *     sw_key_set(&key, eth->h_source, 6);
 *     long found = sw_qp_lookup(0, &key);           // in the window with number 0
 *     if (found > 0)                                // the place of the value
 *             value = sw_u64(found);
 *
 * In a map of byte strings (UserMap<[u8]>) the place is that of an entry, and sw_qp_value copies
 * its value:
 *
 *     struct sw_value text;
 *     long length = found > 0 ? sw_qp_value(0, found, 0, &text) : found;
 *
 * Results: the place of a value (positive), or -ENOENT; -EINVAL when there is no such window;
 * -ELOOP when the kernel ended a loop; -EUCLEAN when the bytes break the format of a map. A map may
 * have a trie, an index, or both. Ordered operations return -EOPNOTSUPP for a map that has only an
 * index (UserPointMap). Layout and protocol: docs/qp.md, docs/shared.md.
 *
 * A change reaches the index and the trie one after the other. A program that uses both in turn may
 * see an older value after a newer one.
 *
 * A program must not keep a place beyond the end of its run. A removed entry stays until the
 * programs that were running at its removal have ended. Sleepable programs need an arena that
 * allows them (BpfArena::allow_sleepable).
 */
#ifndef SAPWOOD_QP_BPF_H
#define SAPWOOD_QP_BPF_H

#include "arena.bpf.h"

/* The kinds of windows that these functions read. */
#define SW_QP_KINDS (1u << SW_KIND_QP | 1u << SW_KIND_KERNEL_QP)

/* The longest key that programs look up, in bytes. Longer ones may be in the map. */
#define SW_KEY_MAX 4096
/* The longest short key. A short key lies in its struct sw_key. */
#define SW_KEY_SHORT_MAX 254
#define SW_KEY_WORDS 32
/* Instead of the length: the key is a long one, and its bytes lie in the arena. */
#define SW_KEY_LONG 255

/*
 * A key. A short key lies here as in a leaf: its length, its bytes, and zeros to the end, or at
 * least up to a multiple of 32 bytes. For a long key, this has the place and the number of its
 * bytes in the arena. key.bpf.h makes keys of either kind.
 */
struct sw_key {
	union {
		__u64 words[SW_KEY_WORDS];
		struct {
			__u8 length;
			__u8 bytes[SW_KEY_WORDS * 8 - 1];
		};
		struct {
			__u64 long_mark;
			sw_at long_at;
			__u64 long_bytes;
		};
	};
};

_Static_assert(sizeof(struct sw_key) == 8 * SW_KEY_WORDS, "a key has 32 words");
_Static_assert(SW_QP_LEAF == 1 && SW_QP_CLUSTER == 2 && SW_QP_BIG == 1u << 24 &&
		       SW_QP_BIG_CELLS == 260 && SW_QP_SMALL_MAX == 32 && SW_QP_SLOTS_MAX == 32,
	       "qp.bpf.h is written for these branches and clusters");
_Static_assert(SW_QP_BUCKET_BYTES == 64 && SW_QP_BUCKET_SLOTS == 12 && SW_QP_BUCKET_LEAVES == 16,
	       "qp.bpf.h is written for these buckets");

/*
 * Makes a short key of this many bytes, a constant: the key must be all zeros before, as
 * `struct sw_key key = {}` is.
 *
 *     struct sw_key key = {};
 *     sw_key_set(&key, eth->h_source, 6);
 */
#define sw_key_set(key, from, n)                                               \
	do {                                                                   \
		_Static_assert((n) <= SW_KEY_SHORT_MAX, "the longest short key has 254 bytes"); \
		(key)->length = (n);                                           \
		__builtin_memcpy((key)->bytes, from, n);                       \
	} while (0)

/* Whether the bytes of a key lie in the arena. */
SW_INLINE int sw_key_is_long(const struct sw_key *key)
{
	return key->length == SW_KEY_LONG;
}

/* The number of bytes of a key. */
SW_INLINE __u32 sw_key_length(const struct sw_key *key)
{
	__u64 length = key->length;

	if (length == SW_KEY_LONG)
		length = key->long_bytes < SW_KEY_MAX ? key->long_bytes : SW_KEY_MAX;
	return (__u32)length;
}

/*
 * Makes a key of bytes in the arena, SW_KEY_MAX at most. They must stay there while the key is in
 * use:
 *
 *     sw_key_long(&key, sw_window(WORDS, SW_KIND_WORDS), 4096);
 */
SW_INLINE void sw_key_long(struct sw_key *key, sw_at at, __u32 length)
{
	key->long_mark = SW_KEY_LONG;
	key->long_at = at;
	key->long_bytes = length;
}

/* The bits of a cell for the kind of its node; those of a branch are 0. */
#define SW_QP_KIND (SW_QP_LEAF | SW_QP_CLUSTER)
/*
 * The place of the labels in a small branch, of the map in a big one, and of the tags in a cluster.
 */
#define SW_QP_LABELS_AT 4
#define SW_QP_TAGS_AT 4

/*
 * The place of the node of a cell. A cell is four times a reference in units of 8 bytes, plus a
 * kind.
 */
SW_INLINE sw_at sw_qp_node(sw_at window, __u32 cell)
{
	return window + (__u64)(cell & ~SW_QP_KIND) * 2;
}
/* The index of the key byte by which a branch chooses a child. */
SW_INLINE __u32 sw_qp_offset(__u32 header)
{
	return header & 0xffff;
}
/* The number of labels of a branch, 1 to 256. It has one more child. */
SW_INLINE __u32 sw_qp_labels(__u32 header)
{
	return ((header >> 16) & 0xff) + 1;
}
/* Bytes from the beginning of a branch to its first cell. */
SW_INLINE __u32 sw_qp_cells_at(__u32 header)
{
	return header & SW_QP_BIG ? SW_QP_BIG_CELLS : (header >> 25) & 0x3c;
}

/* The offset from which the borders of a cluster count. */
SW_INLINE __u32 sw_qp_cluster_base(__u32 header)
{
	return header & 0xffff;
}
/* The number of leaves of a cluster: 32 at most, whatever the header has. */
SW_INLINE __u32 sw_qp_cluster_leaves(__u32 header)
{
	__u32 leaves = (header >> 16) & 0xff;

	return leaves <= SW_QP_SLOTS_MAX ? leaves : SW_QP_SLOTS_MAX;
}
/*
 * The number of slots of a cluster. The next three functions return the places of its cells, of its
 * borders (where neighbours part, counted from the base), and of the bytes that separate
 * neighbours.
 */
SW_INLINE __u32 sw_qp_cluster_capacity(__u32 header)
{
	return (header >> 25) & 0x3c;
}
SW_INLINE __u32 sw_qp_cluster_cells_at(__u32 header)
{
	return SW_QP_TAGS_AT + sw_qp_cluster_capacity(header);
}
SW_INLINE __u32 sw_qp_cluster_borders_at(__u32 header)
{
	return SW_QP_TAGS_AT + 5 * sw_qp_cluster_capacity(header);
}
SW_INLINE __u32 sw_qp_cluster_bytes_at(__u32 header)
{
	return SW_QP_TAGS_AT + 6 * sw_qp_cluster_capacity(header);
}

/*
 * The high bits of the bytes in which a word is equal to the pattern. Only the lowest set bit is
 * reliable.
 */
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
 * The number of labels in a word that are not greater than a byte, times `each`, which is 1 or 4.
 * `others` is the number of bits of the word, from the highest on, that are padding or cells.
 */
SW_INLINE __u64 sw_qp_count(__u64 word, __u64 byte, __u64 others, __u64 each)
{
	__u64 all = byte * SW_ONES, low;

	/* The high bit of each byte is set if the lower seven bits of the label are not greater. */
	low = (all | SW_HIGHS) - (word & SW_LOWS);
	/* Where the eighth bits differ, that of the byte decides. */
	low ^= (low ^ all) & (word ^ all);
	low &= SW_HIGHS >> others;
	return ((low >> (each == 4 ? 5 : 7)) * SW_ONES) >> 56;
}

/* The same for a branch with up to 8 labels. */
SW_INLINE __u64 sw_qp_count_8(sw_at node, __u32 header, __u64 byte, __u64 each)
{
	return sw_qp_count(sw_u64_of(node, SW_QP_LABELS_AT), byte, (header >> 13 & 0x38) ^ 0x38,
			   each);
}

/* The same for a branch with 9 to 32 labels. */
SW_INLINE __u64 sw_qp_count_32(sw_at node, __u32 header, __u64 byte, __u64 each)
{
	__u64 labels = sw_qp_labels(header), eight, others;

	/*
	 * Labels ascend, so the words before this one have no greater label. This word has at least
	 * one label.
	 */
	eight = sw_less(sw_u8_of(node, SW_QP_LABELS_AT + 7), byte + 1) +
		(sw_less(sw_u8_of(node, SW_QP_LABELS_AT + 15), byte + 1) & sw_less(16, labels)) +
		(sw_less(sw_u8_of(node, SW_QP_LABELS_AT + 23), byte + 1) & sw_less(24, labels));
	eight *= 8;
	/* The number of labels that the word lacks, which is 0 unless it is the last word. */
	others = (eight + 8 - labels) & -sw_less(labels, eight + 8);
	return eight * each + sw_qp_count(sw_u64_of(node + eight, SW_QP_LABELS_AT), byte,
					  (others & 7) * 8, each);
}

/* The number of the child for a byte in a big branch. With 256 labels, its map has one less. */
SW_INLINE __u64 sw_qp_child_big(sw_at node, __u32 header, __u64 byte)
{
	return sw_u8_of(node + byte, SW_QP_LABELS_AT) + (sw_qp_labels(header) >> 8);
}

/*
 * The number of the child for a byte of a key: the number of labels that are not greater. A key
 * that ends at the offset belongs to child 0.
 */
SW_INLINE __u64 sw_qp_child(sw_at node, __u32 header, __u64 byte)
{
	/* The branch has at most 8 labels. These are bits of their number minus one. */
	if (!(header & 0xf80000))
		return sw_qp_count_8(node, header, byte, 1);
	if (!(header & SW_QP_BIG))
		return sw_qp_count_32(node, header, byte, 1);
	return sw_qp_child_big(node, header, byte);
}

/*
 * The cell of that child. A lookup waits for each step, so there are few steps, and conditional
 * jumps depend only on the layout of the labels.
 */
SW_INLINE __u32 sw_qp_child_cell(sw_at node, __u32 header, __u64 byte)
{
	sw_at cells = node + ((header >> 25) & 0x3c);

	if (!(header & 0xf80000))
		return sw_u32(cells + sw_qp_count_8(node, header, byte, 4));
	if (!(header & SW_QP_BIG))
		return sw_u32(cells + sw_qp_count_32(node, header, byte, 4));
	return sw_u32_of(node + sw_qp_child_big(node, header, byte) * 4, SW_QP_BIG_CELLS);
}

/*
 * A loop over this many words of a key, 32 at most. For the verifier, the place is an unknown
 * number below 32 in each round, and the count of remaining words is not an address. So it checks
 * one round, and not each of 32 rounds with a known place.
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
	__u32 byte;

	if (sw_key_is_long(key)) {
		byte = sw_u8(key->long_at + i);
		/* Without this, the compiler joins both loads, which the verifier refuses. */
		sw_hide(byte);
		return byte;
	}
	i++;
	sw_hide(i);
	return ((const __u8 *)key)[i & (SW_KEY_WORDS * 8 - 1)];
}

/* All ones if `i` is less than `words`, else 0. */
SW_INLINE __u64 sw_among(__u32 i, __u64 words)
{
	__s64 before = (__s64)i - (__s64)words;

	/* Without this, the compiler makes a branch of it. */
	sw_hide(before);
	return (__u64)(before >> 63);
}

/*
 * The bytes at a place of the arena as a word, eight at most, with zeros for missing bytes. Nothing
 * behind the bytes is read, because a load that reaches a page without memory gives only zeros.
 */
SW_GLOBAL __u64 sw_word_of(__u64 at, __s64 bytes)
{
	__u64 word = 0;

	sw_use_arena();
	if (bytes >= 8)
		return sw_u64(at);
	if (bytes <= 0)
		return 0;
	at += bytes;
	if (bytes & 1) {
		at -= 1;
		word = sw_u8(at);
	}
	if (bytes & 2) {
		at -= 2;
		word = word << 16 | sw_u16(at);
	}
	if (bytes & 4) {
		at -= 4;
		word = word << 32 | sw_u32(at);
	}
	return word;
}

/*
 * The length of the longest common prefix of the bytes at two places of the arena, `bytes` at most.
 * If the kernel ended the loop, the result is too small.
 */
SW_GLOBAL __u32 sw_agree(__u64 one, __u64 other, __u32 bytes)
{
	__u32 at, back;
	__u64 differ;

	sw_use_arena();
	/* More at a time would take more of the stack, of which a program has little. */
	for (at = sw_zero(); at + 32 <= bytes && sw_can_loop; at += 32) {
		differ = (sw_u64(one) ^ sw_u64(other)) | (sw_u64_of(one, 8) ^ sw_u64_of(other, 8)) |
			 (sw_u64_of(one, 16) ^ sw_u64_of(other, 16)) |
			 (sw_u64_of(one, 24) ^ sw_u64_of(other, 24));
		if (differ)
			break;
		one += 32;
		other += 32;
	}
	while (at + 8 <= bytes && sw_can_loop) {
		differ = sw_u64(one) ^ sw_u64(other);
		if (differ)
			goto differs;
		at += 8;
		one += 8;
		other += 8;
	}
	back = at + 8 - bytes;
	if (back < 8 && bytes >= 8) {
		/* The last eight bytes, some of which were compared already. */
		at -= back;
		differ = sw_u64(one - back) ^ sw_u64(other - back);
		if (differ)
			goto differs;
		return bytes;
	}
	for (; at < bytes && sw_u8(one) == sw_u8(other) && sw_can_loop; at++) {
		one++;
		other++;
	}
	return at;
differs:
	/* The high bit of every byte that is not 0. */
	differ = (((differ & SW_LOWS) + SW_LOWS) | differ) & SW_HIGHS;
	return at + sw_first_byte(differ);
}

/* The length of a key, from its first byte; 255 means that the next two bytes have it. */
SW_INLINE __u32 sw_qp_length(sw_at at)
{
	__u32 length = sw_u8(at);

	return length == 255 ? sw_u8(at + 1) | (__u32)sw_u8(at + 2) << 8 : length;
}

/* The place of the bytes of a leaf's key, from the place of its length. */
SW_INLINE sw_at sw_qp_bytes(sw_at at)
{
	return sw_u8(at) == 255 ? at + 3 : at + 1;
}

/* The number of words of a short key with its length. */
SW_INLINE __u64 sw_key_words(const struct sw_key *key)
{
	return key->length / 8 + 1;
}

/*
 * The bytes of a leaf before its key: those of the value, or none when values are byte strings,
 * which lie behind the key.
 */
SW_INLINE __u32 sw_qp_before_key(sw_at window)
{
	return sw_u32(window + SW_QP_VALUE_BYTES) & ~(__u32)SW_QP_BYTE_STRINGS;
}

/*
 * The bits in which four words of a leaf and a key differ, for the words that the key has. Bytes
 * behind a leaf are read and not used. So no branch depends on the length of a key, which the
 * processor would mispredict.
 */
SW_INLINE __u64 sw_qp_differ(sw_at at, const __u64 *words, __u64 left)
{
	__u64 b = sw_among(1, left), c = sw_among(2, left), d = sw_among(3, left);

	return (sw_u64(at) ^ words[0]) | ((sw_u64_of(at, 8) ^ words[1]) & b) |
	       ((sw_u64_of(at, 16) ^ words[2]) & c) |
	       ((sw_u64_of(at, 24) ^ words[3]) & d);
}

/* Whether a leaf with a byte string, which lies behind the key, has this short key. */
SW_INLINE int sw_qp_is_key_of_string(sw_at leaf, const struct sw_key *key)
{
	/* A mask of the key's bytes in the last word. */
	__u64 mine = ~0ull >> ((~(__u32)key->length & 7) * 8);
	__u32 i, left;

	sw_each_word(i, left, key->length / 8) {
		if (sw_u64(leaf + i * 8) != sw_key_word(key, i))
			return 0;
	}
	return !left && !((sw_u64(leaf + i * 8) ^ sw_key_word(key, i)) & mine);
}

/* Whether a leaf with a value of fixed size has this short key. */
SW_INLINE int sw_qp_is_key_of_fixed(sw_at leaf, __u32 value_bytes, const struct sw_key *key)
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

/* Whether a leaf has this short key. */
SW_INLINE int sw_qp_is_short_key(sw_at leaf, __u32 value_bytes, const struct sw_key *key)
{
	if (value_bytes == SW_QP_BYTE_STRINGS)
		return sw_qp_is_key_of_string(leaf, key);
	return sw_qp_is_key_of_fixed(leaf, value_bytes, key);
}

/* Whether the leaf's key at `text` is this long key. */
SW_INLINE int sw_qp_is_long_key(sw_at text, const struct sw_key *key)
{
	__u32 length = sw_key_length(key);

	return sw_qp_length(text) == length && sw_agree(sw_qp_bytes(text), key->long_at, length) == length;
}

/* Whether a leaf has this key. `is_long`, mostly a constant, is the kind of the key. */
SW_INLINE int sw_qp_is_key(sw_at leaf, __u32 value_bytes, const struct sw_key *key, int is_long)
{
	if (is_long)
		return sw_qp_is_long_key(leaf + (value_bytes & ~(__u32)SW_QP_BYTE_STRINGS), key);
	return sw_qp_is_short_key(leaf, value_bytes, key);
}

/*
 * A word of a key from any byte on. It is only for arguments of SW_GLOBAL functions, because the
 * verifier requires whole words for keys on a program's own stack.
 */
SW_INLINE __u64 sw_key_word_at(const __u8 *at)
{
	__u64 word;

#ifdef __bpf__
	/*
	 * This is one load. The compiler would load each byte separately, because the place may not
	 * be a multiple of 8.
	 */
	word = *(const __u64 *)at;
#else
	__builtin_memcpy(&word, at, 8);
#endif
	return word;
}

/*
 * The part of four words in the sum of which a key's tag is made: those at `bytes` and at three
 * places behind it.
 */
SW_INLINE __u64 sw_qp_tag_four(const __u8 *bytes, __u32 b, __u32 c, __u32 d)
{
	return sw_key_word_at(bytes) * 0x9e3779b185ebca87ull +
	       sw_key_word_at(bytes + b) * 0xc2b2ae3d27d4eb4full +
	       sw_key_word_at(bytes + c) * 0x165667b19e3779f9ull +
	       sw_key_word_at(bytes + d) * 0x85ebca77c2b2ae63ull;
}

SW_INLINE __u64 sw_qp_tag_mixed(__u64 sum)
{
	return (sum ^ sum >> 32) * 0x9e3779b97f4a7c15ull;
}

/* As sw_qp_tag_four, for words in the arena. */
SW_INLINE __u64 sw_qp_tag_four_at(sw_at a, sw_at b, sw_at c, sw_at d)
{
	return sw_u64(a) * 0x9e3779b185ebca87ull + sw_u64(b) * 0xc2b2ae3d27d4eb4full +
	       sw_u64(c) * 0x165667b19e3779f9ull + sw_u64(d) * 0x85ebca77c2b2ae63ull;
}

/* As sw_qp_key_tag, for a key of `length` bytes at `at` in the arena. */
SW_GLOBAL __u32 sw_qp_tag_at(__u64 at, __u32 length)
{
	__u64 sum = length, last = at + length - 8;
	__u32 left;

	sw_use_arena();
	if (length < 8) {
		sum += sw_word_of(at, length) * 0x9e3779b185ebca87ull;
	} else if (length <= 32) {
		if (length < 16)
			sum += sw_qp_tag_four_at(at, last, at, last);
		else
			sum += sw_qp_tag_four_at(at, at + 8, last - 8, last);
	} else {
		for (left = length; left > 32 && sw_can_loop; left -= 32) {
			sum = sw_qp_tag_mixed(sum + sw_qp_tag_four_at(at, at + 8, at + 16, at + 24));
			at += 32;
		}
		sum += sw_qp_tag_four_at(last - 24, last - 16, last - 8, last);
	}
	return (__u32)(sw_qp_tag_mixed(sum) >> 56);
}

/*
 * The tag of a key of more than 32 bytes, from its pieces of 32 bytes, the last of which overlaps
 * the one before. It is a separate function because of the verifier.
 */
SW_GLOBAL __u32 sw_qp_key_tag_more(const struct sw_key *key SW_NONNULL)
{
	__u32 length = key->length, left, at;
	__u64 sum = length;

	if (sw_key_is_long(key))
		return sw_qp_tag_at(key->long_at, sw_key_length(key));
	at = sw_zero() & 0xe0;
	for (left = length; left > 32 && at <= 192 && sw_can_loop; left -= 32) {
		sum = sw_qp_tag_mixed(sum + sw_qp_tag_four(key->bytes + at, 8, 16, 24));
		at += 32;
		sw_hide(at);
		at &= 0xe0;
	}
	at = length - 32;
	sw_hide(at);
	if (at > SW_KEY_SHORT_MAX - 32)
		return 0;
	sum += sw_qp_tag_four(key->bytes + at, 8, 16, 24);
	return (__u32)(sw_qp_tag_mixed(sum) >> 56);
}

/* The tag of a key in a cluster: 8 bits of a hash, described in format/cluster.rs. */
SW_INLINE __u32 sw_qp_key_tag(const struct sw_key *key)
{
	__u32 length = key->length, second, third, last;
	__u64 sum = length;

	if (length > 32)
		return sw_qp_key_tag_more(key);
	if (length >= 8) {
		/* The words overlap according to the length. */
		last = length - 8;
		second = length < 16 ? last : 8;
		third = last - second;
		sw_hide(last);
		sw_hide(second);
		sw_hide(third);
		sum += sw_qp_tag_four(key->bytes, second & 31, third & 31, last & 31);
	} else {
		sum += sw_key_word_at(key->bytes) * 0x9e3779b185ebca87ull;
	}
	return (__u32)(sw_qp_tag_mixed(sum) >> 56);
}

/*
 * The blind search in a cluster: the number of a leaf with the longest prefix in common with the
 * key. It reads no leaf, and takes at most 31 steps.
 */
SW_INLINE __u32 sw_qp_blind(sw_at node, __u32 header, const struct sw_key *key)
{
	__u32 leaves = sw_qp_cluster_leaves(header), base = sw_qp_cluster_base(header);
	__u32 length = sw_key_length(key), pos = sw_zero(), lim = pos + 256, i, at, border;
	sw_at borders = node + sw_qp_cluster_borders_at(header);
	sw_at bytes = node + sw_qp_cluster_bytes_at(header);

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
 * The result for a map whose root is 0: `empty`, or -EOPNOTSUPP when the map has only an index, and
 * so no order.
 */
SW_INLINE long sw_qp_no_root(sw_at window, long empty)
{
	return sw_u32(window + SW_QP_HAS_INDEX) == SW_QP_ONLY_INDEX ? -EOPNOTSUPP : empty;
}

/*
 * The slots of a cluster with this tag: slot 8 * k + j as bit 8 * j + k. Slots behind the leaves
 * may be among them.
 */
SW_INLINE __u64 sw_qp_tagged(sw_at node, __u32 leaves, __u32 tag)
{
	__u64 pattern = tag * SW_ONES, hits;

	hits = sw_qp_hits(sw_u64_of(node, SW_QP_TAGS_AT), pattern) >> 7 |
	       sw_qp_hits(sw_u64_of(node, SW_QP_TAGS_AT + 8), pattern) >> 6 |
	       sw_qp_hits(sw_u64_of(node, SW_QP_TAGS_AT + 16), pattern) >> 5;
	/*
	 * Few clusters have more leaves. For a lower limit, the processor would mispredict this
	 * branch.
	 */
	if (leaves > SW_QP_FILL_MAX)
		hits |= sw_qp_hits(sw_u64_of(node, SW_QP_TAGS_AT + 24), pattern) >> 4;
	return hits;
}

/* The number of such a slot, from its bit. */
SW_INLINE __u32 sw_qp_tagged_slot(__u64 bit)
{
	/* The sum of the bytes: 1 << k. */
	__u64 word = (bit * SW_ONES) >> 56;

	word = (word >> 1) - (word >> 3);
	return (__u32)(word * 8 + (((((bit - 1) >> 7) & SW_ONES) * SW_ONES) >> 56));
}

/* The leaf of a cluster with this key, -ENOENT, or -ELOOP. */
SW_INLINE long sw_qp_in_cluster(sw_at window, sw_at node, const struct sw_key *key, int is_long)
{
	__u32 header = sw_u32_of(node, 0), leaves = sw_qp_cluster_leaves(header), slot, i;
	__u64 hits = sw_qp_tagged(node, leaves, sw_qp_key_tag(key)), bit;
	__u32 value_bytes = sw_u32_of(window, SW_QP_VALUE_BYTES);
	sw_at cells = node + sw_qp_cluster_cells_at(header), leaf;

	for (i = sw_zero(); hits && i < SW_QP_SLOTS_MAX && sw_can_loop; i++) {
		bit = hits & -hits;
		hits ^= bit;
		slot = sw_qp_tagged_slot(bit);
		if (slot >= leaves)
			continue;
		leaf = sw_qp_node(window, sw_u32(cells + slot * 4));
		if (sw_qp_is_key(leaf, value_bytes, key, is_long))
			return (long)leaf;
	}
	return hits ? -ELOOP : -ENOENT;
}

/* Looks a key up in the trie below a root. `is_long`, a constant, is the kind of the key. */
SW_INLINE long sw_qp_trie_find(sw_at window, __u32 cell, const struct sw_key *key, int is_long)
{
	__u32 header, offset, length = is_long ? sw_key_length(key) : key->length, depth;
	sw_at node;

	if (!cell)
		return sw_qp_no_root(window, -ENOENT);
	for (depth = sw_zero(); depth < SW_QP_DEPTH_MAX && sw_can_loop; depth++) {
		if (cell & SW_QP_KIND) {
			node = sw_qp_node(window, cell);
			if (cell & SW_QP_CLUSTER)
				return sw_qp_in_cluster(window, node, key, is_long);
			return sw_qp_is_key(node, sw_u32_of(window, SW_QP_VALUE_BYTES), key, is_long) ?
				       (long)node :
				       -ENOENT;
		}
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

/* The products of NH, for one word and for four. */
SW_INLINE __u64 sw_nh(__u64 word, __u64 secret)
{
	return (__u64)((__u32)word + (__u32)secret) * (__u64)((__u32)(word >> 32) + (__u32)(secret >> 32));
}
SW_INLINE __u64 sw_nh_four(sw_at secrets, const __u64 *words)
{
	return sw_nh(words[0], sw_u64_of(secrets, 0)) + sw_nh(words[1], sw_u64_of(secrets, 8)) +
	       sw_nh(words[2], sw_u64_of(secrets, 16)) + sw_nh(words[3], sw_u64_of(secrets, 24));
}

SW_INLINE __u64 sw_qp_hash_mixed(__u64 sum)
{
	sum = (sum ^ sum >> 32) * 0x9e3779b97f4a7c15ull;
	return sum ^ sum >> 32;
}

/*
 * The hash of a long key in the form that it has in a leaf, where the length comes first. It takes
 * four words at a time, and mixes after every 32 words.
 */
SW_GLOBAL __u64 sw_qp_hash_long(__u64 window, const struct sw_key *key SW_NONNULL)
{
	__u32 length = sw_key_length(key), head = length < 255 ? 1 : 3, done;
	sw_at secrets = window + SW_QP_SECRETS, at = key->long_at, secret;
	/* Bytes behind the first word. */
	__s64 left = (__s64)length + head - 8;
	__u64 first, sum;

	sw_use_arena();
	first = length < 255 ? length : 255 | length << 8;
	first |= sw_word_of(at, length) << head * 8;
	at += 8 - head;
	sum = sw_nh(first, sw_u64(secrets)) + sw_nh(sw_word_of(at, left), sw_u64_of(secrets, 8)) +
	      sw_nh(sw_word_of(at + 8, left - 8), sw_u64_of(secrets, 16)) +
	      sw_nh(sw_word_of(at + 16, left - 16), sw_u64_of(secrets, 24));
	/* All values are computed from `done`, or the verifier would distinguish the rounds. */
	for (done = sw_zero() + 32 - head; done < length && sw_can_loop; done += 32) {
		at = key->long_at + done;
		secret = (done + head) & (SW_KEY_WORDS * 8 - 1);
		if (!secret)
			sum = sw_qp_hash_mixed(sum);
		secret += secrets;
		left = length - done;
		if (left >= 32) {
			sum += sw_nh(sw_u64(at), sw_u64(secret)) +
			       sw_nh(sw_u64_of(at, 8), sw_u64_of(secret, 8)) +
			       sw_nh(sw_u64_of(at, 16), sw_u64_of(secret, 16)) +
			       sw_nh(sw_u64_of(at, 24), sw_u64_of(secret, 24));
		} else {
			sum += sw_nh(sw_word_of(at, left), sw_u64(secret)) +
			       sw_nh(sw_word_of(at + 8, left - 8), sw_u64_of(secret, 8)) +
			       sw_nh(sw_word_of(at + 16, left - 16), sw_u64_of(secret, 16)) +
			       sw_nh(sw_word_of(at + 24, left - 24), sw_u64_of(secret, 24));
		}
	}
	return sw_qp_hash_mixed(sum);
}

/* The hash of a short key: NH over its words, four at a time, mixed. See docs/shared.md. */
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
	return sw_qp_hash_mixed(sum);
}

/* The tag of a hash: its low byte, 1 for 0. */
SW_INLINE __u32 sw_qp_tag(__u64 hash)
{
	__u64 low = hash & 0xff;

	return (__u32)(low | (low - 1) >> 63);
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
			if (sw_qp_is_key(leaf, value_bytes, key, is_long))
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

/* The number of bytes of a value that a program copies at once. */
#define SW_VALUE_MAX 256

/* A part of a value: its bytes, and zeros behind. */
struct sw_value {
	union {
		__u64 words[SW_VALUE_MAX / 8];
		__u8 bytes[SW_VALUE_MAX];
	};
};

/*
 * The place of the bytes of an entry's value. `length` becomes their number. A program may read
 * them there; sw_qp_value copies them.
 */
SW_INLINE sw_at sw_qp_value_at(sw_at window, sw_at leaf, __u32 *length)
{
	__u32 bytes = sw_u32(window + SW_QP_VALUE_BYTES), first;
	sw_at at = leaf;

	if (bytes == SW_QP_BYTE_STRINGS) {
		at = sw_qp_bytes(leaf) + sw_qp_length(leaf);
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

/*
 * Copies up to SW_VALUE_MAX bytes of a value, from byte `from` on, which is less than 2^31. `leaf`
 * is the result of a lookup or a walk in this map. Returns the length of the whole value, or
 * -EINVAL, -ELOOP.
 *
 *     for (from = 0; from < length; from += SW_VALUE_MAX)
 *             length = sw_qp_value(TEXTS, found, from, &part);
 */
SW_GLOBAL long sw_qp_value(__u32 map, sw_at leaf, __u32 from, struct sw_value *value SW_NONNULL)
{
	sw_at window = sw_window_in(map, SW_QP_KINDS), at;
	__u32 length, left, i, n, byte;
	__u64 word;

	sw_use_arena();
	if (!window || from > 0x7fffffff)
		return -EINVAL;
	at = sw_qp_value_at(window, leaf, &length) + from;
	left = from < length ? length - from : 0;
	sw_each_word(i, n, SW_VALUE_MAX / 8) {
		word = 0;
		if (left >= 8) {
			word = sw_u64(at);
			left -= 8;
		} else if (left) {
			/* The bytes behind the last byte do not belong to the value. */
			for (byte = sw_zero(); byte < left && byte < 8 && sw_can_loop; byte++)
				word |= (__u64)sw_u8(at + byte) << (byte & 7) * 8;
			left = 0;
		}
		at += 8;
		sw_hide(i);
		value->words[i & (SW_VALUE_MAX / 8 - 1)] = word;
	}
	return n ? -ELOOP : (long)length;
}

/* The first eight bytes of a value, with zeros behind a shorter one. */
SW_INLINE __u64 sw_qp_value_word(sw_at window, sw_at leaf)
{
	__u32 length, i;
	sw_at at = sw_qp_value_at(window, leaf, &length);
	__u64 word = 0;

	if (length >= 8)
		return sw_u64(at);
	for (i = sw_zero(); i < length && i < 8 && sw_can_loop; i++)
		word |= (__u64)sw_u8(at + i) << (i & 7) * 8;
	return word;
}

#endif
