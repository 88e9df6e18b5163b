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
 * The place is a number by which sw_u64 and the like read the value, and which the functions here
 * take. The upper bits of an entry of a store (UserStore) say where the rest of it lies: only the
 * lower 32 bits are bytes from the beginning of the arena.
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

#include "qp_lookup.bpf.h"

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
 * Copies up to SW_VALUE_MAX bytes of a value, from byte `from` on, which is less than 2^31. `entry`
 * is the result of a lookup or a walk in this map. Returns the length of the whole value, or
 * -EINVAL, -ELOOP.
 *
 *     for (from = 0; from < length; from += SW_VALUE_MAX)
 *             length = sw_qp_value(TEXTS, found, from, &part);
 */
SW_GLOBAL long sw_qp_value(__u32 map, sw_at entry, __u32 from, struct sw_value *value SW_NONNULL)
{
	sw_at window = sw_window_in(map, SW_QP_KINDS), at;
	__u32 length, left, i, n, byte;
	__u64 word;

	sw_use_arena();
	if (!window || from > 0x7fffffff)
		return -EINVAL;
	at = sw_qp_value_at(window, entry, &length) + from;
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
SW_INLINE __u64 sw_qp_value_word(sw_at window, sw_at entry)
{
	__u32 length, i;
	sw_at at = sw_qp_value_at(window, entry, &length);
	__u64 word = 0;

	if (length >= 8)
		return sw_u64(at);
	for (i = sw_zero(); i < length && i < 8 && sw_can_loop; i++)
		word |= (__u64)sw_u8(at + i) << (i & 7) * 8;
	return word;
}

#endif
