/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* A program sleeps between two reads of an entry, until user space lets it go on. */
#ifndef SAPWOOD_TEST_SLEEP_H
#define SAPWOOD_TEST_SLEEP_H

#include "sapwood/qp.bpf.h"

static void *(*const map_lookup)(void *map, const void *key) = (void *)1;
static long (*const sys_bpf)(__u32 command, void *attributes, __u32 bytes) = (void *)166;
static long (*const repeat)(__u32 rounds, void *step, void *context, __u64 flags) = (void *)181;

/* The question and the answer. */
struct sleeper {
	__u32 window;
	__u32 rounds;
	__u64 words; /* the place of two words: the program has begun to sleep; it may go on */
	__u64 user; /* in user space: the bytes of a key, and their number */
	__u32 bytes;
	__u32 runs;
	__s64 result;
	__u64 changes;
	__u64 sleeps;
	__u64 value;
	struct sw_key key;
	/* A change of a map of maps: the kernel sleeps for a grace period of RCU. */
	struct {
		__u32 map;
		__u32 unused;
		__u64 key;
		__u64 value;
		__u64 flags;
	} update;
	__u32 zero;
	__u32 inner;
};

struct {
	int (*type)[2]; /* BPF_MAP_TYPE_ARRAY */
	__u32 *key;
	struct sleeper *value;
	int (*max_entries)[1];
} sleepers SEC(".maps");

struct inner {
	int (*type)[2];
	__u32 *key;
	__u32 *value;
	int (*max_entries)[1];
} inner SEC(".maps");

struct {
	int (*type)[12]; /* BPF_MAP_TYPE_ARRAY_OF_MAPS */
	__u32 *key;
	int (*max_entries)[1];
	struct inner *values[];
} outer SEC(".maps");

struct round {
	struct sleeper *ask;
	__u64 words;
};

/* Sleeps once, unless the program may go on. */
static long sleep_once(__u32 i, struct round *round)
{
	struct sleeper *ask = round->ask;

	if (sw_u64(round->words + 8))
		return 1;
	ask->sleeps++;
	return sys_bpf(BPF_MAP_UPDATE_ELEM, &ask->update, sizeof(ask->update)) != 0;
}

/* Sleeps on the place of a value, if it is one. */
SW_INLINE int sleep_on(struct sleeper *ask, long found)
{
	struct round round;
	__u64 value, text;

	ask->result = found;
	if (found <= 0)
		return 0;
	value = sw_u64(found);
	text = sw_u64(found + 8);
	ask->update.key = (unsigned long)&ask->zero;
	ask->update.value = (unsigned long)&ask->inner;
	round.ask = ask;
	round.words = ask->words;
	sw_set_u64(ask->words, 1);
	repeat(ask->rounds, sleep_once, &round, 0);
	ask->changes = (sw_u64(found) != value) + (sw_u64(found + 8) != text);
	return 0;
}

#endif
