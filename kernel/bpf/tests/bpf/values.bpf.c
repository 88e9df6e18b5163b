// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Long values, values that are changed under their key's lock, and counts for each processor, in
 * maps that programs write, for a test. The packet holds the question, and the answer replaces it.
 */
#include <linux/bpf.h>
#include "sapwood/qp_write_value.bpf.h"
#include "map_ask.h"

char _license[] SEC("license") = "Dual BSD/GPL";

static void *(*bpf_map_lookup_elem)(void *map, const void *key) = (void *)1;

/* Memory of the program for the longest value. */
struct room {
	__u64 words[SW_KQP_VALUE_MAX / 8];
};

struct {
	int (*type)[2]; /* BPF_MAP_TYPE_ARRAY */
	__u32 *key;
	struct room *value;
	int (*max_entries)[1];
} rooms SEC(".maps");

/* What a change adds, to how many words, and what it saw. */
struct change {
	__u64 more;
	__u32 words;
	__u32 torn;
};

/* Adds to all words of a value. They must be as far from each other as they are always. */
static long add_to_all(sw_at value, void *ctx)
{
	struct change *change = ctx;
	__u64 first = sw_u64(value), apart = sw_u64(value + 8) - first;
	__u32 i;

	sw_for (i, change->words) {
		if (sw_u64(value + i * 8) != first + i * apart)
			change->torn++;
		sw_set_u64(value + i * 8, sw_u64(value + i * 8) + change->more);
	}
	return 0;
}

/* A change of a key that is locked already. */
static long change_again(sw_at value, void *ctx)
{
	struct ask *ask = ctx;

	(void)value;
	return sw_qp_set_from(ask->window, &ask->key, ask->value.words[0], ask->value.words[1], SW_ANY);
}

SEC("xdp")
int sw_ask_values(struct xdp_md *ctx)
{
	struct ask *ask = (void *)(long)ctx->data;
	struct change change = {};

	if ((void *)(ask + 1) > (void *)(long)ctx->data_end)
		return XDP_ABORTED;
	change.more = ask->value.words[0];
	change.words = ask->value.words[1];
	switch (ask->what) {
	case 2:
		ask->result = sw_qp_lookup(ask->window, &ask->key);
		break;
	case 3:
		ask->result = sw_qp_insert(ask->window, &ask->key, ask->value.words[0], ask->flags);
		break;
	case 4:
		ask->result = sw_qp_insert_value(ask->window, &ask->key, &ask->value, ask->flags);
		break;
	case 5:
		ask->result = sw_qp_remove(ask->window, &ask->key);
		break;
	case 12:
		ask->result = sw_qp_set_from(ask->window, &ask->key, ask->value.words[0], ask->value.words[1],
					     ask->flags);
		break;
	case 13:
		ask->result = sw_qp_update_with(ask->window, &ask->key, add_to_all, &change);
		break;
	case 14:
		ask->result = sw_qp_count(ask->window, &ask->key, ask->value.words[0]);
		break;
	case 15:
		ask->result = sw_qp_sum(ask->window, &ask->key, &ask->value.words[0]);
		break;
	default:
		ask->result = -EINVAL;
	}
	answer_value(ask);
	return XDP_PASS;
}

/* A change within a change of the same key. */
SEC("xdp")
int sw_change_again(struct xdp_md *ctx)
{
	struct ask *ask = (void *)(long)ctx->data;

	if ((void *)(ask + 1) > (void *)(long)ctx->data_end)
		return XDP_ABORTED;
	ask->result = sw_qp_update_with(ask->window, &ask->key, change_again, ask);
	return XDP_PASS;
}

/* Many operations on keys that are made of numbers, and their results. */
struct storm {
	__u32 window;
	__u32 keys; /* the keys are numbers below this */
	__u64 seed;
	__u32 count; /* operations */
	__u32 bytes; /* of a value */
	__u32 kind; /* of changes in interrupts: 1: in place; 2: counts */
	__u32 done;
	__u32 found;
	__u32 torn;
	__u32 no_entry;
	__u32 no_memory;
	__u32 busy;
	__u32 other;
	__s64 error; /* the last other result */
	struct sw_key key;
};

static __attribute__((always_inline)) __u64 mix(__u64 x)
{
	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9ull;
	x = (x ^ x >> 27) * 0x94d049bb133111ebull;
	return x ^ x >> 31;
}

/* The key of a number: four bytes. */
static __attribute__((always_inline)) void number_key(struct sw_key *key, __u32 number)
{
	key->words[0] = (__u64)number << 8 | 4;
}

static __attribute__((always_inline)) void count(struct storm *storm, long result)
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
	default:
		storm->other++;
		storm->error = result;
	}
}

/* Word i of a value is its first word and i times a number that shows the key. */
static __attribute__((always_inline)) long set(struct storm *storm, __u32 number, __u64 first)
{
	__u32 zero = 0, i, bytes = storm->bytes;
	struct room *room = bpf_map_lookup_elem(&rooms, &zero);

	if (!room || bytes > sizeof(*room))
		return -EINVAL;
	sw_for (i, bytes / 8)
		room->words[i & (SW_KQP_VALUE_MAX / 8 - 1)] = first + (__u64)i * (2 * number + 1);
	return sw_qp_set_bytes(storm->window, &storm->key, room, bytes, SW_ANY);
}

static __attribute__((noinline)) void look(struct storm *storm, __u32 number)
{
	long found = sw_qp_lookup(storm->window, &storm->key);
	__u64 first;
	__u32 i;

	if (found <= 0) {
		count(storm, found);
		return;
	}
	storm->found++;
	first = sw_u64(found);
	sw_for (i, storm->bytes / 8) {
		if (sw_u64(found + i * 8) == first + (__u64)i * (2 * number + 1))
			continue;
		storm->torn++;
		return;
	}
}

SEC("xdp")
int sw_values(struct xdp_md *ctx)
{
	struct storm *storm = (void *)(long)ctx->data;
	__u64 random;
	__u32 i, number;

	if ((void *)(storm + 1) > (void *)(long)ctx->data_end)
		return XDP_ABORTED;
	sw_for (i, storm->count) {
		random = mix(storm->seed += 0x9e3779b97f4a7c15ull);
		number = (__u32)(random >> 16) % storm->keys;
		number_key(&storm->key, number);
		if ((random & 7) == 0)
			count(storm, sw_qp_remove(storm->window, &storm->key));
		else if ((random & 7) < 4)
			count(storm, set(storm, number, random));
		else
			look(storm, number);
	}
	return XDP_PASS;
}

/* Changes keys in place; between two changes, it inserts and removes a key of others. */
SEC("xdp")
int sw_updates(struct xdp_md *ctx)
{
	struct storm *storm = (void *)(long)ctx->data;
	struct change change = { .more = 1 };
	__u64 random;
	__u32 i;

	if ((void *)(storm + 1) > (void *)(long)ctx->data_end)
		return XDP_ABORTED;
	change.words = storm->bytes / 8;
	sw_for (i, storm->count) {
		random = mix(storm->seed += 0x9e3779b97f4a7c15ull);
		if (random & 3) {
			number_key(&storm->key, (__u32)(random >> 16) % storm->keys);
			count(storm, sw_qp_update_with(storm->window, &storm->key, add_to_all, &change));
			continue;
		}
		number_key(&storm->key, storm->keys + (__u32)(random >> 16) % 50);
		if (random & 4)
			sw_qp_insert(storm->window, &storm->key, 0, SW_ANY);
		else
			sw_qp_remove(storm->window, &storm->key);
	}
	storm->torn += change.torn;
	return XDP_PASS;
}

SEC("xdp")
int sw_counts(struct xdp_md *ctx)
{
	struct storm *storm = (void *)(long)ctx->data;
	__u64 random;
	__u32 i;

	if ((void *)(storm + 1) > (void *)(long)ctx->data_end)
		return XDP_ABORTED;
	sw_for (i, storm->count) {
		random = mix(storm->seed += 0x9e3779b97f4a7c15ull);
		number_key(&storm->key, (__u32)(random >> 16) % storm->keys);
		count(storm, sw_qp_count(storm->window, &storm->key, 3));
	}
	return XDP_PASS;
}

/* The changes in interrupts of each processor. */
struct {
	int (*type)[2]; /* BPF_MAP_TYPE_ARRAY */
	__u32 *key;
	struct storm *value;
	int (*max_entries)[64];
} interrupts SEC(".maps");

/* A timer expires, in an interrupt: changes a key in place, or counts it. */
SEC("raw_tp/hrtimer_expire_entry")
int sw_values_interrupt(void *ctx)
{
	__u32 cpu = (sw_kqp_self() - 1) & 63;
	struct storm *storm = bpf_map_lookup_elem(&interrupts, &cpu);
	struct change change = { .more = 1 };
	__u64 random;

	(void)ctx;
	if (!storm || !storm->keys)
		return 0;
	random = mix(storm->seed += 0x9e3779b97f4a7c15ull);
	number_key(&storm->key, (__u32)(random >> 16) % storm->keys);
	change.words = storm->bytes / 8;
	if (storm->kind == 1)
		count(storm, sw_qp_update_with(storm->window, &storm->key, add_to_all, &change));
	else
		count(storm, sw_qp_count(storm->window, &storm->key, 3));
	storm->torn += change.torn;
	return 0;
}
