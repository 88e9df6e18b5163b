// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Walks and neighbours for a test. The packet holds the question, and the answer replaces it. */
#include <linux/bpf.h>
#include "sapwood/qp_walk.bpf.h"
#include "number.h"

char _license[] SEC("license") = "Dual BSD/GPL";

/* The question: the kind, the window, the cursor and the key; and the answer. */
struct ask {
	__u32 what;
	__u32 window;
	__u64 cursor;
	__s64 result;
	__u64 value;
	/* The place for a long key of the answer; set to 0 when the key is too long. */
	sw_at room;
	struct sw_key key;
};

/* Copies the bytes of a long key. */
SW_GLOBAL int sw_copy_long(__u64 to, __u64 from, __u32 bytes)
{
	__u32 i;

	sw_use_arena();
	for (i = sw_zero(); i < bytes && sw_can_loop; i += 8)
		sw_set_u64(to + i, sw_u64(from + i));
	return 0;
}

/* The maximum number of steps of a whole walk. */
#define STEPS (1 << 22)

/*
 * Finishes a walk. Returns the number of its entries, and a hash of their values that depends on
 * their order.
 */
SW_GLOBAL long sw_walk_sum(__u32 map, sw_at cursor, __u64 *sum SW_NONNULL)
{
	__u64 mixed = 0;
	long found;
	__u32 i;

	sw_use_arena();
	sw_for (i, STEPS) {
		found = sw_qp_walk_step(cursor);
		if (found < 0)
			return found;
		if (!found) {
			*sum = mixed;
			return i;
		}
		mixed = mixed * 31 + sw_number(map, found);
	}
	return -ELOOP;
}

/*
 * Walks over a whole map whose keys have at most 254 bytes. Returns the number of entries with the
 * value 0, and in the upper half that of all others; -EUCLEAN when keys do not ascend.
 */
SW_GLOBAL long sw_walk_whole(__u32 map, sw_at cursor, struct sw_key *key SW_NONNULL)
{
	sw_at window = sw_window_in(map, SW_QP_KINDS);
	long found = sw_qp_walk_begin(map, cursor), error;
	__u32 i, zeros = sw_zero(), others = sw_zero();

	sw_use_arena();
	for (i = sw_zero(); !found && i < STEPS && sw_can_loop; i++) {
		found = sw_qp_walk_step(cursor);
		if (!found)
			return (long)((__u64)others << 32 | zeros);
		if (found < 0)
			return found;
		if (zeros + others) {
			if (!(sw_qp_compare(window, found, key) & SW_QP_GREATER))
				return -EUCLEAN;
		}
		error = sw_qp_key(map, found, key);
		if (error)
			return error;
		if (sw_number(map, found))
			others++;
		else
			zeros++;
		found = 0;
	}
	return found ? found : -ELOOP;
}

SEC("xdp")
int sw_ask(struct xdp_md *ctx)
{
	struct ask *ask = (void *)(long)ctx->data;

	if ((void *)(ask + 1) > (void *)(long)ctx->data_end)
		return XDP_ABORTED;
	switch (ask->what) {
	case 0:
		ask->result = sw_qp_first_leaf(ask->window);
		break;
	case 1:
		ask->result = sw_qp_last_leaf(ask->window);
		break;
	case 2:
		ask->result = sw_qp_next(ask->window, &ask->key);
		break;
	case 3:
		ask->result = sw_qp_prev(ask->window, &ask->key);
		break;
	case 4:
		ask->result = sw_qp_walk_begin(ask->window, ask->cursor);
		break;
	case 5:
		ask->result = sw_qp_walk_from(ask->window, ask->cursor, &ask->key);
		break;
	case 6:
		ask->result = sw_qp_walk_prefix(ask->window, ask->cursor, &ask->key);
		break;
	case 7:
		ask->result = sw_qp_walk_step(ask->cursor);
		break;
	case 8:
		ask->result = sw_walk_sum(ask->window, ask->cursor, &ask->value);
		return XDP_PASS;
	case 9:
		ask->result = sw_walk_whole(ask->window, ask->cursor, &ask->key);
		return XDP_PASS;
	default:
		ask->result = -EINVAL;
	}
	if (ask->result > 0) {
		ask->value = sw_number(ask->window, ask->result);
		if (sw_qp_key(ask->window, ask->result, &ask->key))
			ask->room = 0;
		else if (sw_key_is_long(&ask->key))
			sw_copy_long(ask->room, ask->key.long_at, sw_key_length(&ask->key));
	}
	return XDP_PASS;
}
