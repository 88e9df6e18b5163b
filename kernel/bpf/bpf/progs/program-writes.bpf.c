// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Changes that user space orders in maps that programs write (ProgramMap::write_many). The orders
 * lie in words of the arena, and so do the results. The program is not sleepable, so the kernel's
 * grace periods wait for it, and no other thread runs on its processor while it has a lock.
 */
#include <linux/bpf.h>
#include "sapwood/qp_write_value.bpf.h"

char _license[] SEC("license") = "Dual BSD/GPL";

/* As in src/program_map/writes.rs. */
struct run {
	__u32 map;
	__u32 room;
	__u32 count; /* of orders */
	__u32 value_words;
	__u32 done;
	__u32 unused;
	__u64 expected;
	struct sw_qp_value value;
	struct sw_key key;
};

/* The kinds of orders. Flags of sw_qp_insert come first. */
#define REMOVE 3
#define COMPARE_EXCHANGE 4

/* The words of an order. The value and the key follow. */
#define ORDER_HEAD 0 /* the kind, the bytes of the key << 8, the order's bytes << 32 */
#define ORDER_EXPECTED 8 /* the expected value, then the value that was found */
#define ORDER_RESULT 16
#define ORDER_VALUE 24

/* The most bytes of orders in a room. The first word is the place of the next order. */
#define ROOM_MASK 0xfff8ull

/* Copies 32 bytes of a key that begins at `at`, if it has more than the bytes before. */
#define KEY_PART(part)                                                         \
	do {                                                                   \
		if (length < (part) * 32)                                      \
			return;                                                \
		run->key.words[(part) * 4] = sw_u64(at + (part) * 32);         \
		run->key.words[(part) * 4 + 1] = sw_u64(at + (part) * 32 + 8); \
		run->key.words[(part) * 4 + 2] = sw_u64(at + (part) * 32 + 16); \
		run->key.words[(part) * 4 + 3] = sw_u64(at + (part) * 32 + 24); \
	} while (0)

/* Reads a key: a short one lies there as in a struct sw_key, of a long one only its bytes. */
SW_INLINE void read_key(struct run *run, sw_at at, __u32 length)
{
	if (length > SW_KEY_SHORT_MAX) {
		sw_key_long(&run->key, at, length);
		return;
	}
	KEY_PART(0);
	KEY_PART(1);
	KEY_PART(2);
	KEY_PART(3);
	KEY_PART(4);
	KEY_PART(5);
	KEY_PART(6);
	KEY_PART(7);
}

SEC("xdp")
int sw_program_writes(struct xdp_md *ctx)
{
	struct run *run = (void *)(long)ctx->data;
	sw_at room, at;
	__u64 head, next;
	__u32 left, what, i;
	long result;

	sw_use_arena();
	if ((void *)(run + 1) > (void *)(long)ctx->data_end)
		return XDP_ABORTED;
	room = sw_window(run->room, SW_KIND_WORDS);
	if (!room || run->value_words < 1 || run->value_words > SW_KQP_VALUE_MAX / 8)
		return XDP_ABORTED;
	for (left = sw_zero() + run->count; left && sw_can_loop; left--) {
		next = sw_u64(room);
		at = room + (next & ROOM_MASK);
		head = sw_u64(at + ORDER_HEAD);
		what = head & 0xff;
		for (i = 0; i < SW_KQP_VALUE_SHORT / 8; i++)
			run->value.words[i] = sw_u64(at + ORDER_VALUE + i * 8);
		read_key(run, at + ORDER_VALUE + run->value_words * 8, head >> 8 & 0xffff);
		if (what == COMPARE_EXCHANGE) {
			run->expected = sw_u64(at + ORDER_EXPECTED);
			result = sw_qp_compare_exchange(run->map, &run->key, &run->expected, run->value.words[0]);
			sw_set_u64(at + ORDER_EXPECTED, run->expected);
		} else if (what == REMOVE) {
			result = sw_qp_remove(run->map, &run->key);
		} else if (run->value_words == 1) {
			result = sw_qp_insert(run->map, &run->key, run->value.words[0], what);
		} else if (run->value_words <= SW_KQP_VALUE_SHORT / 8) {
			result = sw_qp_insert_value(run->map, &run->key, &run->value, what);
		} else {
			result = sw_qp_set_from(run->map, &run->key, at + ORDER_VALUE, run->value_words * 8, what);
		}
		sw_set_u64(at + ORDER_RESULT, (__u64)result);
		/* User space supplies memory, and begins again with this order. */
		if (result == -ENOMEM)
			break;
		sw_set_u64(room, next + (head >> 32));
		run->done++;
	}
	return XDP_PASS;
}
