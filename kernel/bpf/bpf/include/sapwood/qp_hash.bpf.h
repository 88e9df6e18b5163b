/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The tags of keys in clusters, and the hash of the index. Included by qp.bpf.h. */
#ifndef SAPWOOD_QP_HASH_BPF_H
#define SAPWOOD_QP_HASH_BPF_H

#include "qp_key.bpf.h"

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
 * The hash of a key of `length` bytes at a place of the arena, in the form that it has in a leaf,
 * where the length comes first. It takes four words at a time, and mixes after every 32 words.
 */
SW_GLOBAL __u64 sw_qp_hash_at(__u64 window, __u64 bytes, __u32 length)
{
	__u32 head = length < 255 ? 1 : 3, done;
	sw_at secrets = window + SW_QP_SECRETS, at = bytes, secret;
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
		at = bytes + done;
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

/* The hash of a long key. */
SW_INLINE __u64 sw_qp_hash_long(sw_at window, const struct sw_key *key)
{
	return sw_qp_hash_at(window, key->long_at, sw_key_length(key));
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

#endif
