// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * What the benchmark measures of names: many lookups in a loop inside the kernel, with the clock around them.
 *
 * The questions lie in the arena, one after the other: the answer that is expected (0: none), and the image of the key with as many
 * words for every key of a case, a multiple of four. All engines copy it to the same place, and look it up there; the program
 * that does nothing but copy says what to subtract.
 */
#include <linux/bpf.h>
#include "sapwood/qp.bpf.h"

char _license[] SEC("license") = "Dual BSD/GPL";

static void *(*bpf_map_lookup_elem)(void *map, const void *key) = (void *)1;
static long (*bpf_map_update_elem)(void *map, const void *key, const void *value, __u64 flags) = (void *)2;
static long (*bpf_map_delete_elem)(void *map, const void *key) = (void *)3;
static __u64 (*bpf_ktime_get_ns)(void) = (void *)5;

#define HASH(name, flags)                                                      \
	struct {                                                               \
		__uint(type, BPF_MAP_TYPE_HASH);                               \
		__uint(map_flags, flags);                                      \
		/* Set by who loads: they depend on the case. */               \
		__uint(key_size, 8);                                           \
		__uint(value_size, 8);                                         \
		__uint(max_entries, 1);                                        \
	} name SEC(".maps")

HASH(sw_hash, 0);
HASH(sw_hash_noprealloc, BPF_F_NO_PREALLOC);

/* Where keys are copied to: as long as the longest, whatever the case. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(key_size, 4);
	__uint(value_size, SW_KEY_WORDS * 8);
	__uint(max_entries, 1);
} sw_scratch SEC(".maps");

/* A run: the packet. */
struct run {
	/* Where the questions lie, how many there are, and the words of each key, a multiple of four. */
	__u64 at;
	__u32 questions;
	__u32 words;
	/* The number of the window, and how many answers are wanted: after the last question comes the first. */
	__u32 map;
	__u32 count;
	/* What comes back: how long it took, how many answers were wrong, and how many questions were not answered. */
	__u64 ns;
	__u64 wrong;
	__u64 left;
};

/* The value of a hash's entry, or 0. */
SW_INLINE __u64 of_hash(void *map, const struct sw_key *key)
{
	__u64 *value = bpf_map_lookup_elem(map, key);

	return value ? *value : 0;
}

/* The value at a place of ours, 0 for "not there", and what cannot be a value for errors. */
SW_INLINE __u64 of_ours(long found)
{
	if (found > 0)
		return sw_u64(found);
	return found == -ENOENT ? 0 : ~0ull;
}

/* What a change of a hash makes of the expected answer: itself if it was done. */
SW_INLINE __u64 put(void *map, const struct sw_key *key, __u64 value, __u64 flags)
{
	return bpf_map_update_elem(map, key, &value, flags) ? ~value : value;
}

SW_INLINE __u64 taken(void *map, const struct sw_key *key, __u64 value)
{
	return bpf_map_delete_elem(map, key) ? ~value : value;
}

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

/* What is subtracted. All answers are "wrong" but those to questions about what is not there. */
RUN(sw_run_empty, 0)
RUN(sw_run_trie, of_ours(sw_qp_trie_lookup(map, key)))
RUN(sw_run_index, of_ours(sw_qp_lookup(map, key)))
RUN(sw_run_hash, of_hash(&sw_hash, key))
RUN(sw_run_hash_noprealloc, of_hash(&sw_hash_noprealloc, key))

/* Changes; "expected" is the value that is stored. */
RUN(sw_run_hash_insert, put(&sw_hash, key, expected, BPF_NOEXIST))
RUN(sw_run_hash_overwrite, put(&sw_hash, key, expected, BPF_EXIST))
RUN(sw_run_hash_remove, taken(&sw_hash, key, expected))
RUN(sw_run_hash_noprealloc_insert, put(&sw_hash_noprealloc, key, expected, BPF_NOEXIST))
RUN(sw_run_hash_noprealloc_overwrite, put(&sw_hash_noprealloc, key, expected, BPF_EXIST))
RUN(sw_run_hash_noprealloc_remove, taken(&sw_hash_noprealloc, key, expected))
