// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * What the benchmark measures of tables of prefixes: lookups in a loop inside the kernel, with the
 * clock around it. A question is a word: the address in host order, and in the upper half the value
 * that is expected (0: none).
 */
#include <linux/bpf.h>
#include "sapwood/lpm.bpf.h"

char _license[] SEC("license") = "Dual BSD/GPL";

static void *(*bpf_map_lookup_elem)(void *map, const void *key) = (void *)1;
static __u64 (*bpf_ktime_get_ns)(void) = (void *)5;

/* The kernel's key: a length, and the address in network order. */
struct prefix {
	__u32 length;
	__u32 address;
};

struct {
	__uint(type, BPF_MAP_TYPE_LPM_TRIE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(key_size, sizeof(struct prefix));
	__uint(value_size, 4);
	/* Set by who loads. */
	__uint(max_entries, 1);
} sw_lpm_trie SEC(".maps");

/* A run: the packet. As in src/objects.rs. */
struct run {
	/* Where the questions lie, and how many there are. */
	__u64 at;
	__u64 questions;
	/* The number of the window, and how many answers are wanted: after the last question comes the first. */
	__u32 map;
	__u32 count;
	/* What comes back: how long it took, how many answers were wrong, and how many questions were not answered. */
	__u64 ns;
	__u64 wrong;
	__u64 left;
};

SW_INLINE __u32 of_ours(long found)
{
	if (found > 0)
		return sw_u32(found);
	return found == -ENOENT ? 0 : ~0u;
}

SW_INLINE __u32 of_trie(const struct prefix *key)
{
	__u32 *value = bpf_map_lookup_elem(&sw_lpm_trie, key);

	return value ? *value : 0;
}

/* A program that answers all questions by `answer`, an expression with `map` and `key`. */
#define RUN(name, answer)                                                      \
	SEC("xdp")                                                             \
	int name(struct xdp_md *ctx)                                           \
	{                                                                      \
		struct run *run = (void *)(long)ctx->data;                     \
		struct prefix key = { 32, 0 };                                 \
		__u32 map, count;                                              \
		__u64 ns, wrong = 0, question;                                 \
		sw_at at, first, end;                                          \
                                                                               \
		if ((void *)(run + 1) > (void *)(long)ctx->data_end)           \
			return XDP_ABORTED;                                    \
		sw_use_arena();                                                \
		map = run->map;                                                \
		(void)map;                                                     \
		at = first = run->at;                                          \
		end = first + run->questions * 8;                              \
		count = run->count;                                            \
		ns = bpf_ktime_get_ns();                                       \
		for (; count && sw_can_loop; count--) {                        \
			question = sw_u64(at);                                 \
			at += 8;                                               \
			if (at == end)                                         \
				at = first;                                    \
			*(volatile __u32 *)&key.address = sw_host32((__u32)question); \
			wrong += (answer) != question >> 32;                   \
		}                                                              \
		run->ns = bpf_ktime_get_ns() - ns;                             \
		run->wrong = wrong;                                            \
		run->left = count;                                             \
		return XDP_PASS;                                               \
	}

/* What is subtracted. All answers are "wrong" but those to questions about what is not there. */
RUN(sw_run_empty, 0)
RUN(sw_run_fib, of_ours(sw_lpm4_lookup_be(map, *(volatile __u32 *)&key.address)))
RUN(sw_run_lpm_trie, of_trie(&key))
