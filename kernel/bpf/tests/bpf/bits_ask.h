/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Questions about prefixes of bit strings, for a program or C in user space. The answer replaces
 * the question.
 */
#ifndef SAPWOOD_BITS_ASK_H
#define SAPWOOD_BITS_ASK_H

#include "sapwood/bits.bpf.h"
#include "sapwood/qp_walk.bpf.h"

/* The question: the kind, the window and the key; and the answer. */
struct ask {
	__u32 what;
	__u32 window;
	__u64 cursor;
	__u32 bits;
	__u32 spare;
	__s64 result;
	__u64 value;
	struct sw_key key;
};

/* A hash of all matches, the longest first, which depends on their order. */
SW_GLOBAL long sw_all_matches(__u32 map, struct sw_key *key SW_NONNULL, __u64 *mixed SW_NONNULL)
{
	__u32 bits = 0, i;
	__u64 sum = 0;
	long found;

	sw_use_arena();
	sw_for (i, SW_BITS_MAX + 1) {
		found = sw_bits_lookup(map, key, &bits);
		if (found == -ENOENT)
			break;
		if (found < 0)
			return found;
		sum = (sum + sw_u64(found) + bits) * 31;
		if (!bits) {
			i++;
			break;
		}
		found = sw_bits_cut(key, bits - 1);
		if (found)
			return found;
	}
	*mixed = sum;
	return i;
}

/* A hash of the prefixes that a prefix covers, which depends on their order. */
SW_GLOBAL long sw_all_covered(__u32 map, sw_at cursor, const struct sw_key *key SW_NONNULL,
			      __u64 *mixed SW_NONNULL)
{
	long found = sw_qp_walk_from(map, cursor, key), covered;
	__u64 sum = 0;
	__u32 i;

	sw_use_arena();
	for (i = sw_zero(); !found && i < (1 << 20) && sw_can_loop; i++) {
		found = sw_qp_walk_step(cursor);
		if (found < 0)
			return found;
		if (!found)
			break;
		covered = sw_bits_covers(map, key, found);
		if (covered < 0)
			return covered;
		if (!covered)
			break;
		sum = (sum + sw_u64(found)) * 31;
		found = 0;
	}
	*mixed = sum;
	return i;
}

/* Answers a question in place. */
SW_INLINE void answer(struct ask *ask)
{
	__u32 bits = 0;
	__u64 mixed = 0;

	switch (ask->what) {
	case 0:
		ask->result = sw_bits_lookup(ask->window, &ask->key, &bits);
		if (ask->result > 0)
			ask->value = sw_u64(ask->result);
		ask->bits = bits;
		break;
	case 1:
		ask->result = sw_bits_cut(&ask->key, ask->bits);
		break;
	case 2:
		ask->result = sw_all_matches(ask->window, &ask->key, &mixed);
		ask->value = mixed;
		break;
	case 3:
		ask->result = sw_all_covered(ask->window, ask->cursor, &ask->key, &mixed);
		ask->value = mixed;
		break;
	default:
		ask->result = -EINVAL;
	}
}

#endif
