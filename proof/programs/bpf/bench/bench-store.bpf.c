// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* The benchmark of commits: whether a program sees one version, or parts of two. */
#include "run.h"

char _license[] SEC("license") = "Dual BSD/GPL";

HASH(sw_hash, 0);

/* Lookups of many keys, the numbers from 0 on, as the packet holds them. */
struct look {
	__u32 map;
	__u32 count;
	/*
	 * The answer: the value of the first key, the number of keys with another value, and the
	 * number of missing keys.
	 */
	__u64 value;
	__u64 others;
	__u64 missing;
};

/* A program that looks up all keys. `place` is an expression with `map`, `root` and `key`. */
#define LOOK(name, place)                                                      \
	SEC("xdp")                                                             \
	int name(struct xdp_md *ctx)                                           \
	{                                                                      \
		struct look *look = (void *)(long)ctx->data;                   \
		__u64 value = 0, others = 0, missing = 0, there;               \
		__u32 map, root, i, count, zero = 0;                           \
		struct sw_key *key;                                            \
                                                                               \
		if ((void *)(look + 1) > (void *)(long)ctx->data_end)          \
			return XDP_ABORTED;                                    \
		key = bpf_map_lookup_elem(&sw_scratch, &zero);                 \
		if (!key)                                                      \
			return XDP_ABORTED;                                    \
		sw_use_arena();                                                \
		map = look->map;                                               \
		root = sw_qp_root(map);                                        \
		(void)root;                                                    \
		count = look->count;                                           \
		sw_for (i, count) {                                            \
			key->words[0] = 4 | (__u64)__builtin_bswap32(i) << 8;  \
			there = place;                                         \
			missing += !there;                                     \
			if (!i)                                                \
				value = there;                                 \
			others += there != value;                              \
		}                                                              \
		look->value = value;                                           \
		look->others = others;                                         \
		look->missing = missing + (i < count);                         \
		return XDP_PASS;                                               \
	}

SW_INLINE __u64 of_store(long found)
{
	return found > 0 ? sw_u64(found) : 0;
}

LOOK(sw_look_store, of_store(sw_qp_lookup_at(map, root, key)))
LOOK(sw_look_hash, of_hash(&sw_hash, key))
