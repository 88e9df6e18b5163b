/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A timed loop inside the kernel that answers many questions.
 *
 * The questions lie in the arena, one after the other. Each has the expected answer (0: none) and
 * the image of the key. All keys of a case have the same number of words, a multiple of four. All
 * engines copy the key to the same place, and look it up there. The time of a program that only
 * copies is subtracted.
 */
#ifndef SAPWOOD_BENCH_RUN_H
#define SAPWOOD_BENCH_RUN_H

#include <linux/bpf.h>
#include "sapwood/qp.bpf.h"

static void *(*bpf_map_lookup_elem)(void *map, const void *key) __attribute__((unused)) = (void *)1;
static long (*bpf_map_update_elem)(void *map, const void *key, const void *value, __u64 flags)
	__attribute__((unused)) = (void *)2;
static long (*bpf_map_delete_elem)(void *map, const void *key) __attribute__((unused)) = (void *)3;
static __u64 (*bpf_ktime_get_ns)(void) __attribute__((unused)) = (void *)5;

/* The memory for a copy of the key, which has the length of the longest key in every case. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(key_size, 4);
	__uint(value_size, SW_KEY_WORDS * 8);
	__uint(max_entries, 1);
} sw_scratch SEC(".maps");

/* A run, as the packet holds it. As in src/lib.rs. */
struct run {
	/*
	 * The place and the number of the questions, and the words of each key, a multiple of four.
	 */
	__u64 at;
	__u32 questions;
	__u32 words;
	/*
	 * The number of the window, and the number of lookups. After the last question comes the
	 * first.
	 */
	__u32 map;
	__u32 count;
	/*
	 * The answer: the time, the number of wrong answers, and the number of unanswered
	 * questions.
	 */
	__u64 ns;
	__u64 wrong;
	__u64 left;
};

/* A program that answers all questions by `answer`, an expression with `map`, `key` and `expected`. */
#define RUN(name, answer)                                                      \
	SEC("xdp")                                                             \
	int name(struct xdp_md *ctx)                                           \
	{                                                                      \
		struct run *run = (void *)(long)ctx->data;                     \
		__u32 zero = 0, map, count, words, i, more;                    \
		__u64 ns, wrong = 0;                                           \
		struct sw_key *key;                                            \
		__u64 *to;                                                     \
		sw_at at, first, end;                                          \
                                                                               \
		if ((void *)(run + 1) > (void *)(long)ctx->data_end)           \
			return XDP_ABORTED;                                    \
		key = bpf_map_lookup_elem(&sw_scratch, &zero);                 \
		if (!key)                                                      \
			return XDP_ABORTED;                                    \
		sw_use_arena();                                                \
		words = run->words;                                            \
		map = run->map;                                                \
		(void)map;                                                     \
		at = first = run->at;                                          \
		end = first + (__u64)run->questions * (8 + words * 8);         \
		count = run->count;                                            \
		ns = bpf_ktime_get_ns();                                       \
		for (; count && sw_can_loop; count--) {                        \
			__u64 expected = sw_u64(at);                           \
                                                                               \
			at += 8;                                               \
			i = sw_zero() & 28;                                    \
			for (more = words; more && sw_can_loop; more -= 4) {   \
				sw_hide(i);                                    \
				i &= 28;                                       \
				to = key->words + i;                           \
				to[0] = sw_u64_of(at, 0);                      \
				to[1] = sw_u64_of(at, 8);                      \
				to[2] = sw_u64_of(at, 16);                     \
				to[3] = sw_u64_of(at, 24);                     \
				i += 4;                                        \
				at += 32;                                      \
			}                                                      \
			if (at == end)                                         \
				at = first;                                    \
			wrong += (answer) != expected;                         \
		}                                                              \
		run->ns = bpf_ktime_get_ns() - ns;                             \
		run->wrong = wrong;                                            \
		run->left = count;                                             \
		return XDP_PASS;                                               \
	}

/* A hash table of the kernel, with the length of a key in front of it and zeros behind. */
#define HASH(name, flags)                                                      \
	struct {                                                               \
		__uint(type, BPF_MAP_TYPE_HASH);                               \
		__uint(map_flags, flags);                                      \
		/* Set by who loads: they depend on the case. */               \
		__uint(key_size, 8);                                           \
		__uint(value_size, 8);                                         \
		__uint(max_entries, 1);                                        \
	} name SEC(".maps")

/* The value of a hash's entry, or 0. */
SW_INLINE __u64 of_hash(void *map, const struct sw_key *key)
{
	__u64 *value = bpf_map_lookup_elem(map, key);

	return value ? *value : 0;
}

#endif
