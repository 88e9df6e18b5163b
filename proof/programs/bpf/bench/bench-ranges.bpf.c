// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * The benchmark of range maps: lookups and searches for gaps in a timed loop inside the kernel. A
 * question is three words: the expected answer (0: none), an index, and the size of a gap. See
 * proof/bench/src/suite/bpf/ranges.rs.
 */
#include "run.h"
#include "sapwood/maple.bpf.h"

char _license[] SEC("license") = "Dual BSD/GPL";

HASH(sw_hash, 0);
HASH(sw_hash_noprealloc, BPF_F_NO_PREALLOC);

/* The value of the entry that holds an index, or 0. */
SW_INLINE __u64 of_ranges(__u32 map, __u64 index)
{
	struct sw_range range = {};
	long found = sw_ranges_get(map, index, &range);

	return found ? (found == -ENOENT ? 0 : ~0ull) : range.value;
}

/* The first index of the lowest gap of this size from an index on, or 0. */
SW_INLINE __u64 of_gap(__u32 map, __u64 index, __u64 size)
{
	__u64 start = 0;
	long found = sw_ranges_find_gap(map, size, index, ~0ull, &start);

	return found ? (found == -ENOENT ? 0 : ~0ull) : start;
}

SW_INLINE __u64 of_index(void *map, const __u64 *index)
{
	__u64 *value = bpf_map_lookup_elem(map, index);

	return value ? *value : 0;
}

/* A program that answers all questions by `answer`, an expression with `map`, `index` and `size`. */
#define RUN_RANGES(name, answer)                                               \
	SEC("xdp")                                                             \
	int name(struct xdp_md *ctx)                                           \
	{                                                                      \
		struct run *run = (void *)(long)ctx->data;                     \
		__u64 ns, wrong = 0, expected, size, index = 0;                \
		__u32 map, count;                                              \
		sw_at at, first, end;                                          \
                                                                               \
		if ((void *)(run + 1) > (void *)(long)ctx->data_end)           \
			return XDP_ABORTED;                                    \
		sw_use_arena();                                                \
		map = run->map;                                                \
		(void)map;                                                     \
		at = first = run->at;                                          \
		end = first + (__u64)run->questions * 24;                      \
		count = run->count;                                            \
		ns = bpf_ktime_get_ns();                                       \
		for (; count && sw_can_loop; count--) {                        \
			expected = sw_u64(at);                                 \
			*(volatile __u64 *)&index = sw_u64_of(at, 8);          \
			size = sw_u64_of(at, 16);                              \
			(void)size;                                            \
			at += 24;                                              \
			if (at == end)                                         \
				at = first;                                    \
			wrong += (answer) != expected;                         \
		}                                                              \
		run->ns = bpf_ktime_get_ns() - ns;                             \
		run->wrong = wrong;                                            \
		run->left = count;                                             \
		return XDP_PASS;                                               \
	}

/*
 * The empty loop, whose time is subtracted. Only questions without an answer have right answers.
 */
RUN_RANGES(sw_run_empty, 0)
RUN_RANGES(sw_run_ranges, of_ranges(map, index))
RUN_RANGES(sw_run_gap, of_gap(map, index, size))
RUN_RANGES(sw_run_hash, of_index(&sw_hash, &index))
RUN_RANGES(sw_run_hash_noprealloc, of_index(&sw_hash_noprealloc, &index))
