// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Operations on maps that programs write, for a test. The packet holds the question, and the answer
 * replaces it.
 */
#include <linux/bpf.h>
#include "sapwood/qp_first.bpf.h"
#include "sapwood/qp_write_more.bpf.h"
#include "map_ask.h"

char _license[] SEC("license") = "Dual BSD/GPL";

static void *(*bpf_map_lookup_elem)(void *map, const void *key) = (void *)1;

SEC("xdp")
int sw_ask_kqp(struct xdp_md *ctx)
{
	struct ask *ask = (void *)(long)ctx->data;

	if ((void *)(ask + 1) > (void *)(long)ctx->data_end)
		return XDP_ABORTED;
	answer_ask(ask);
	return XDP_PASS;
}

/* Many operations on keys that are made of numbers, and their results. */
struct storm {
	__u32 window;
	__u32 keys; /* the keys are numbers below this */
	__u64 seed;
	__u32 count; /* operations */
	__u32 removals; /* of 256 */
	__u32 done;
	__u32 found;
	__u32 torn; /* values that belong to another key or are torn */
	__u32 no_entry;
	__u32 no_memory;
	__u32 busy;
	__u32 full;
	__u32 other;
	__s64 error; /* the last other result */
	struct sw_qp_value value;
	struct sw_key key;
};

static __attribute__((always_inline)) __u64 storm_mix(__u64 x)
{
	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9ull;
	x = (x ^ x >> 27) * 0x94d049bb133111ebull;
	return x ^ x >> 31;
}

/* A key of 7 to 14 bytes: seven letters out of four, and several copies of one letter. */
static __attribute__((always_inline)) void storm_key(struct sw_key *key, __u32 number)
{
	__u64 word = 0x6161616161616100ull, more = number % 8;
	__u32 i;

	for (i = 0; i < 7; i++)
		word += (__u64)(number >> 2 * i & 3) << (8 * i + 8);
	key->words[0] = word + 7 + more;
	key->words[1] = 0x7878787878787878ull & ((1ull << 8 * more) - 1);
}

static __attribute__((always_inline)) void storm_count(struct storm *storm, long result)
{
	switch (result) {
	case 0:
		storm->done++;
		break;
	case -ENOENT:
		storm->no_entry++;
		break;
	case -ENOMEM:
		storm->no_memory++;
		break;
	case -EBUSY:
		storm->busy++;
		break;
	case -E2BIG:
		storm->full++;
		break;
	default:
		storm->other++;
		storm->error = result;
	}
}

/* A value of four words shows its key, and whether it is torn. */
static __attribute__((always_inline)) void storm_look(struct storm *storm, __u32 number)
{
	long found = sw_qp_lookup(storm->window, &storm->key);
	__u64 first;

	if (found <= 0) {
		storm_count(storm, found);
		return;
	}
	storm->found++;
	first = sw_u64(found);
	if (sw_u64(found + 8) != number || sw_u64(found + 16) != ~first ||
	    sw_u64(found + 24) != storm_mix(first ^ number))
		storm->torn++;
}

/* One operation: a removal, an insertion or none, and a lookup. */
static __attribute__((always_inline)) void storm_step(struct storm *storm)
{
	__u64 random = storm_mix(storm->seed += 0x9e3779b97f4a7c15ull);
	__u32 number = (__u32)(random >> 16) % storm->keys;

	storm_key(&storm->key, number);
	if ((random & 0xff) < storm->removals) {
		storm_count(storm, sw_qp_remove(storm->window, &storm->key));
	} else if (random & 0x100) {
		storm->value.words[0] = random;
		storm->value.words[1] = number;
		storm->value.words[2] = ~random;
		storm->value.words[3] = storm_mix(random ^ number);
		storm_count(storm, sw_qp_insert_value(storm->window, &storm->key, &storm->value, SW_ANY));
	}
	storm_look(storm, number);
}

SEC("xdp")
int sw_storm(struct xdp_md *ctx)
{
	struct storm *storm = (void *)(long)ctx->data;
	__u32 left;

	if ((void *)(storm + 1) > (void *)(long)ctx->data_end)
		return XDP_ABORTED;
	for (left = sw_zero() + storm->count; left && sw_can_loop; left--)
		storm_step(storm);
	return XDP_PASS;
}

/*
 * A key of 8 or 24 bytes, by kind: 0 a random number; 1 numbers in ascending order; 2 the same
 * behind what all keys share; 3 numbers as the processor stores them, the lowest byte first.
 */
static __attribute__((always_inline)) void burst_key(struct sw_key *key, __u32 kind, __u64 number)
{
	if (kind != 3)
		number = __builtin_bswap64(kind ? number : storm_mix(number));
	key->words[0] = number << 8 | 8;
	key->words[1] = number >> 56;
	key->words[2] = 0;
	key->words[3] = 0;
	if (kind == 2) {
		key->words[0] = 0x6161616161616100ull | 24;
		key->words[1] = 0x6161616161616161ull;
		key->words[2] = number << 8 | 0x61;
		key->words[3] = number >> 56;
	}
}

/*
 * Inserts, removes or uses as many keys as `count` says, from the one that the seed says on. `keys`
 * is the kind of the keys.
 */
SEC("xdp")
int sw_burst(struct xdp_md *ctx)
{
	struct storm *storm = (void *)(long)ctx->data;
	__u32 i;
	long result;

	if ((void *)(storm + 1) > (void *)(long)ctx->data_end)
		return XDP_ABORTED;
	sw_for (i, storm->count) {
		burst_key(&storm->key, storm->keys, storm->seed + i);
		if (storm->removals == 1)
			result = sw_qp_remove(storm->window, &storm->key);
		else if (storm->removals == 2)
			result = sw_qp_use(storm->window, &storm->key);
		else
			result = sw_qp_insert(storm->window, &storm->key, storm->seed + i, SW_NOEXIST);
		if (result > 0)
			storm->found++;
		else
			storm_count(storm, result);
	}
	return XDP_PASS;
}

/* The operations in interrupts of a processor, on one of four maps after the other. */
struct interrupts {
	struct storm storm;
	__u32 windows[4];
	__u32 next;
	__u32 unused;
};

struct {
	int (*type)[2]; /* BPF_MAP_TYPE_ARRAY */
	__u32 *key;
	struct interrupts *value;
	int (*max_entries)[64];
} interrupts SEC(".maps");

/* A timer expires, in an interrupt. */
SEC("raw_tp/hrtimer_expire_entry")
int sw_storm_interrupt(void *ctx)
{
	__u32 cpu = (sw_kqp_self() - 1) & 63;
	struct interrupts *mine = bpf_map_lookup_elem(&interrupts, &cpu);

	(void)ctx;
	if (!mine || !mine->storm.keys)
		return 0;
	mine->storm.window = mine->windows[mine->next++ & 3];
	storm_step(&mine->storm);
	return 0;
}
