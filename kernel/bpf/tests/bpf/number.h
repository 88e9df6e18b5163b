/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The numbers that tests store, as values of eight bytes or as byte strings. */
#ifndef SAPWOOD_NUMBER_H
#define SAPWOOD_NUMBER_H

#include "sapwood/qp.bpf.h"

/* The length of the byte string of a number: tests/kernel/maps.rs makes the same ones. */
SW_INLINE __u32 number_length(__u64 number)
{
	__u32 most = number % 64 == 63 ? 600 : 40;

	return 8 + (__u32)(number % most);
}

/* The number in the value of an entry; all ones when its byte string is not that of a number. */
SW_GLOBAL __u64 sw_number(__u32 map, sw_at leaf)
{
	sw_at window = sw_window_in(map, SW_QP_KINDS), at;
	__u64 number;
	__u32 length, i;

	sw_use_arena();
	if (!window)
		return ~0ull;
	at = sw_qp_value_at(window, leaf, &length);
	number = sw_qp_value_word(window, leaf);
	if (sw_u32(window + SW_QP_VALUE_BYTES) != SW_QP_BYTE_STRINGS)
		return number;
	if (length != number_length(number))
		return ~0ull;
	for (i = sw_zero() + 8; i < length && sw_can_loop; i++) {
		if (sw_u8(at + i) != ((number >> (i % 8 * 8) ^ i) & 0xff))
			return ~0ull;
	}
	return number;
}

#endif
