/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Maps that programs write (qp_write.bpf.h) as queues in the order of their keys: take the first
 * entry; insert an entry that is due at a time, and take what is due.
 *
 *     struct sw_key *key = bpf_map_lookup_elem(&scratch, &zero);
 *     struct sw_qp_value value;
 *     __u64 now = bpf_ktime_get_ns();
 *
 *     error = sw_qp_push_due(TIMERS, key, now + 1000000, now, flow);
 *     while (!sw_qp_pop_due(TIMERS, now, key, &value) && sw_can_loop)
 *             flow = value.words[0];
 *
 * The map must have a trie. Programs on all processors push and pop at once: no two of them take
 * one entry, and no entry is lost. An entry was the first when its program looked. If another
 * program inserts a lesser key before this program has taken the entry, the lesser key stays for
 * the next one that takes. If another program replaces the entry's value at the same time, the
 * result has the old value or the new one.
 */
#ifndef SAPWOOD_QP_FIRST_BPF_H
#define SAPWOOD_QP_FIRST_BPF_H

#include "qp_walk.bpf.h"
#include "qp_write.bpf.h"

/* The most attempts to take the first entry, while other programs take it each time. */
#define SW_QP_POP_TRIES 64
/* The most sequence numbers that an insertion tries for one time. */
#define SW_QP_PUSH_TRIES 64

/* The bytes of the key of an entry of a queue by time. */
#define SW_KEY_DUE_BYTES 16

/*
 * Makes the key of an entry that is due at a time. Keys sort by time, then by sequence number. The
 * unit of the times is the caller's. Example: sw_key_due(&key, bpf_ktime_get_ns(), 0);
 */
SW_INLINE void sw_key_due(struct sw_key *key, __u64 due, __u64 sequence)
{
	due = __builtin_bswap64(due);
	sequence = __builtin_bswap64(sequence);
	key->words[0] = due << 8 | SW_KEY_DUE_BYTES;
	key->words[1] = sequence << 8 | due >> 56;
	key->words[2] = sequence >> 56;
	key->words[3] = 0;
}

/*
 * The time of such a key: the first eight bytes of a short key, as a big-endian number. A shorter
 * key counts as if zeros followed it.
 */
SW_INLINE __u64 sw_key_due_at(const struct sw_key *key)
{
	return __builtin_bswap64(key->words[0] >> 8 | key->words[1] << 56);
}

/* The sequence number of such a key. */
SW_INLINE __u64 sw_key_due_sequence(const struct sw_key *key)
{
	return __builtin_bswap64(key->words[1] >> 8 | key->words[2] << 56);
}

/* Copies the key of the first entry: the place of its value; 0 in an empty map; or an error. */
SW_INLINE long sw_qp_first_key(__u32 map, struct sw_key *key)
{
	/* Entries of these maps are leaves. */
	sw_at window = sw_window(map, SW_KIND_KERNEL_QP), at;
	__u64 word, spare, more;
	long leaf, error;

	leaf = window ? sw_qp_first_leaf(map) : -EINVAL;
	if (leaf <= 0)
		return leaf;
	at = leaf + sw_qp_before_key(window);
	word = sw_u64(at);
	spare = word & 0xff;
	if (spare >= 32) {
		error = sw_qp_key(map, leaf, key);
		return error ? error : leaf;
	}
	/* Behind the key are zeros up to the end of its last word, then other blocks. */
	key->words[0] = word;
	more = sw_u64_of(at, 8);
	key->words[1] = spare >= 8 ? more : 0;
	more = sw_u64_of(at, 16);
	key->words[2] = spare >= 16 ? more : 0;
	more = sw_u64_of(at, 24);
	key->words[3] = spare >= 24 ? more : 0;
	return leaf;
}

/*
 * Takes the first entry, if its key begins with a time up to `until`. `always` says that the time
 * does not matter.
 */
SW_INLINE long sw_qp_pop(__u32 map, __u64 until, int always, struct sw_key *key, struct sw_qp_value *value)
{
	__u32 tries, bytes;
	long found;

	for (tries = sw_zero(); tries < SW_QP_POP_TRIES && sw_can_loop; tries++) {
		found = sw_qp_first_key(map, key);
		if (found <= 0)
			return found ? found : -ENOENT;
		if (!always && (sw_key_is_long(key) ? __builtin_bswap64(sw_u64(key->long_at)) :
						      sw_key_due_at(key)) > until)
			return -EAGAIN;
		found = sw_qp_take(map, key);
		if (found == -ENOENT)
			continue;
		if (found < 0)
			return found;
		bytes = sw_u32(sw_window_in(map, SW_QP_KINDS) + SW_QP_VALUE_BYTES);
		value->words[0] = sw_u64(found);
		value->words[1] = bytes > 8 ? sw_u64_of(found, 8) : 0;
		value->words[2] = bytes > 16 ? sw_u64_of(found, 16) : 0;
		value->words[3] = bytes > 24 ? sw_u64_of(found, 24) : 0;
		value->words[4] = bytes > 32 ? sw_u64_of(found, 32) : 0;
		value->words[5] = bytes > 40 ? sw_u64_of(found, 40) : 0;
		value->words[6] = bytes > 48 ? sw_u64_of(found, 48) : 0;
		value->words[7] = bytes > 56 ? sw_u64_of(found, 56) : 0;
		return 0;
	}
	return tries < SW_QP_POP_TRIES ? -ELOOP : -EBUSY;
}

/*
 * Takes the entry with the least key: removes it, and copies its key and its value, of which the
 * first 64 bytes. The value's words behind those of the map become 0. A key of more than
 * SW_KEY_SHORT_MAX bytes refers to the arena, and is valid until the run of the program ends.
 *
 *     long error = sw_qp_pop_first(QUEUE, &key, &value);
 *
 * 0; -ENOENT: the map is empty; -EBUSY: other programs took the first entry in each of many
 * attempts; -EOPNOTSUPP: the map has no trie; -EUCLEAN, -ELOOP, or an error of sw_qp_take. After an
 * error nothing was taken.
 */
SW_GLOBAL long sw_qp_pop_first(__u32 map, struct sw_key *key SW_NONNULL,
			       struct sw_qp_value *value SW_NONNULL)
{
	return sw_qp_pop(map, 0, 1, key, value);
}

/*
 * Takes the first entry if it is due: if the first eight bytes of its key, as a big-endian number,
 * are at most `until`. -EAGAIN: the first entry is due later, and `key` has its key; the other
 * results are those of sw_qp_pop_first.
 *
 *     long error = sw_qp_pop_due(TIMERS, bpf_ktime_get_ns(), &key, &value);
 *     if (error == -EAGAIN) next = sw_key_due_at(&key);
 */
SW_GLOBAL long sw_qp_pop_due(__u32 map, __u64 until, struct sw_key *key SW_NONNULL,
			     struct sw_qp_value *value SW_NONNULL)
{
	return sw_qp_pop(map, until, 0, key, value);
}

/*
 * Inserts an entry that is due at a time. Entries of one time leave the queue in the order of their
 * sequence numbers. If an entry has the same time and number already, this one gets the next free
 * number. So the time of the insertion is a good number: what came first leaves first. `value` is
 * the first word of the value; the other words become 0. Afterwards `key` is the entry's key, by
 * which sw_qp_remove takes it out of the queue.
 *
 *     long error = sw_qp_push_due(TIMERS, &key, due, bpf_ktime_get_ns(), flow);
 *
 * 0; -EEXIST: the next numbers are taken, too; or an error of sw_qp_insert. For values of several
 * words, call sw_key_due and sw_qp_insert_value with SW_NOEXIST.
 */
SW_GLOBAL long sw_qp_push_due(__u32 map, struct sw_key *key SW_NONNULL, __u64 due, __u64 sequence,
			      __u64 value)
{
	__u32 tries;
	long error;

	for (tries = sw_zero(); tries < SW_QP_PUSH_TRIES && sw_can_loop; tries++) {
		sw_key_due(key, due, sequence);
		error = sw_qp_insert(map, key, value, SW_NOEXIST);
		if (error != -EEXIST)
			return error;
		sequence++;
	}
	return tries < SW_QP_PUSH_TRIES ? -ELOOP : -EEXIST;
}

#endif
