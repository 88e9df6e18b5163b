/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Keys, and the keys of leaves. Included by qp.bpf.h. */
#ifndef SAPWOOD_QP_KEY_BPF_H
#define SAPWOOD_QP_KEY_BPF_H

#include "arena.bpf.h"

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
SW_INLINE int sw_qp_is_leaf_key(sw_at leaf, __u32 value_bytes, const struct sw_key *key, int is_long)
{
	if (is_long)
		return sw_qp_is_long_key(leaf + (value_bytes & ~(__u32)SW_QP_BYTE_STRINGS), key);
	return sw_qp_is_short_key(leaf, value_bytes, key);
}

#endif
