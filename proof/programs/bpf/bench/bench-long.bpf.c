// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * The benchmark of keys of one length, up to 4,096 bytes. Questions lie in arrays of the kernel, in
 * the form that each engine takes, so that no engine copies a key for a lookup. See
 * src/suite/bpf/long.rs of the benchmark.
 */
#include "run.h"
#include "sapwood/key.bpf.h"

char _license[] SEC("license") = "Dual BSD/GPL";

HASH(sw_hash, 0);

/* A question: the expected value (0: none), and the key as Sapwood's functions take it. */
struct asked {
	__u64 expected;
	struct sw_key key;
};

/* Sizes are set by who loads: they depend on the case. */
#define QUESTIONS(name, bytes)                                                 \
	struct {                                                               \
		__uint(type, BPF_MAP_TYPE_ARRAY);                              \
		__uint(key_size, 4);                                           \
		__uint(value_size, bytes);                                     \
		__uint(max_entries, 1);                                        \
	} name SEC(".maps")

QUESTIONS(sw_asked, sizeof(struct asked));
/* The same with the bytes of the key behind the value that is expected. */
QUESTIONS(sw_asked_bytes, 8 + SW_KEY_MAX);

/* The memory for a copy of the hash table's key. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(key_size, 4);
	__uint(value_size, SW_KEY_MAX);
	__uint(max_entries, 1);
} sw_copied SEC(".maps");

/* A run: of struct run, `at` is the place of a room, and `words` the bytes of each key. */
#define RUN_ASKED(name, array, answer)                                         \
	SEC("xdp")                                                             \
	int name(struct xdp_md *ctx)                                           \
	{                                                                      \
		struct run *run = (void *)(long)ctx->data;                     \
		__u32 zero = 0, map, count, questions, length, i;              \
		__u64 ns, wrong = 0;                                           \
		struct asked *asked;                                           \
		struct sw_key *key;                                                    \
		void *copy;                                                    \
		sw_at room;                                                    \
                                                                               \
		if ((void *)(run + 1) > (void *)(long)ctx->data_end)           \
			return XDP_ABORTED;                                    \
		copy = bpf_map_lookup_elem(&sw_copied, &zero);                 \
		key = bpf_map_lookup_elem(&sw_scratch, &zero);                 \
		if (!copy || !key)                                             \
			return XDP_ABORTED;                                    \
		sw_use_arena();                                                \
		map = run->map;                                                \
		room = run->at;                                                \
		length = run->words;                                           \
		questions = run->questions;                                    \
		(void)map;                                                     \
		(void)room;                                                    \
		(void)key;                                                     \
		if (!length || length > SW_KEY_MAX)                            \
			return XDP_ABORTED;                                    \
		i = sw_zero();                                                 \
		ns = bpf_ktime_get_ns();                                       \
		for (count = run->count; count && sw_can_loop; count--) {      \
			asked = bpf_map_lookup_elem(&array, &i);               \
			if (!asked)                                            \
				break;                                         \
			wrong += (answer) != asked->expected;                  \
			i = i + 1 < questions ? i + 1 : sw_zero();             \
		}                                                              \
		run->ns = bpf_ktime_get_ns() - ns;                             \
		run->wrong = wrong;                                            \
		run->left = count;                                             \
		return XDP_PASS;                                               \
	}

SW_INLINE __u64 of_ours(long found)
{
	if (found > 0)
		return sw_u64(found);
	return found == -ENOENT ? 0 : ~0ull;
}

/* The same with a copy of the key's bytes first, as of a packet or a string. */
SW_INLINE __u64 copied(__u32 map, sw_at room, struct sw_key *key, const void *bytes, __u32 length)
{
	return sw_key_memory(key, room, bytes, 0, length) ? ~0ull : of_ours(sw_qp_lookup(map, key));
}
SW_INLINE __u64 copied_of_hash(void *to, const void *bytes, __u32 length)
{
	return sw_help_probe_read_kernel(to, length, bytes) ? ~0ull : of_hash(&sw_hash, to);
}

RUN_ASKED(sw_long_empty, sw_asked, 0)
RUN_ASKED(sw_long_trie, sw_asked, of_ours(sw_qp_trie_lookup(map, &asked->key)))
RUN_ASKED(sw_long_index, sw_asked, of_ours(sw_qp_lookup(map, &asked->key)))
RUN_ASKED(sw_long_hash, sw_asked_bytes, of_hash(&sw_hash, &asked->key))
RUN_ASKED(sw_long_hash_empty, sw_asked_bytes, 0)
RUN_ASKED(sw_long_copied, sw_asked_bytes, copied(map, room, key, &asked->key, length))
RUN_ASKED(sw_long_hash_copied, sw_asked_bytes, copied_of_hash(copy, &asked->key, length))
