// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * The benchmark of tables of prefixes: lookups and changes in a timed loop inside the kernel. A
 * question about an IPv4 address is a word: the address in host order, and in the upper half the
 * expected value (0: none). A question about a longer bit string is three words: the value with the
 * number of bits in its upper half, and 16 bytes.
 */
#include <linux/bpf.h>
#include "sapwood/bits.bpf.h"
#include "sapwood/lpm.bpf.h"
#include "sapwood/qp_write.bpf.h"

char _license[] SEC("license") = "Dual BSD/GPL";

static void *(*bpf_map_lookup_elem)(void *map, const void *key) = (void *)1;
static long (*bpf_map_update_elem)(void *map, const void *key, const void *value, __u64 flags) = (void *)2;
static long (*bpf_map_delete_elem)(void *map, const void *key) = (void *)3;
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
	/* The loader sets it. */
	__uint(max_entries, 1);
} sw_lpm_trie SEC(".maps");

/* The same for IPv6 addresses, and for a network number with an IPv4 address. */
struct prefix6 {
	__u32 length;
	__u8 bytes[16];
};
#define NETWORK_BITS 56
struct prefix_bits {
	__u32 length;
	__u8 bytes[NETWORK_BITS / 8];
} __attribute__((packed));

#define TRIE(name, key)                                                        \
	struct {                                                               \
		__uint(type, BPF_MAP_TYPE_LPM_TRIE);                           \
		__uint(map_flags, BPF_F_NO_PREALLOC);                          \
		__uint(key_size, sizeof(key));                                 \
		__uint(value_size, 4);                                         \
		__uint(max_entries, 1);                                        \
	} name SEC(".maps")

TRIE(sw_lpm_trie6, struct prefix6);
TRIE(sw_lpm_trie_bits, struct prefix_bits);

/* A run, as the packet holds it. As in src/lib.rs. */
struct run {
	/* The place and the number of the questions. */
	__u64 at;
	__u64 questions;
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

/*
 * The empty loop, whose time is subtracted. Only questions about missing prefixes have right
 * answers.
 */
RUN(sw_run_empty, 0)
RUN(sw_run_fib, of_ours(sw_lpm4_lookup_be(map, *(volatile __u32 *)&key.address)))
RUN(sw_run_lpm_trie, of_trie(&key))

/* The memory in which keys are made. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(key_size, 4);
	__uint(value_size, sizeof(struct sw_key));
	__uint(max_entries, 1);
} sw_scratch SEC(".maps");

/*
 * The same for questions of three words. `answer` is an expression with `map`, `expected`, `bits`,
 * `address` (16 bytes) and `key`. The key is all zeros, or as the last expression left it.
 */
#define RUN3(name, answer)                                                     \
	SEC("xdp")                                                             \
	int name(struct xdp_md *ctx)                                           \
	{                                                                      \
		struct run *run = (void *)(long)ctx->data;                     \
		struct sw_key *key;                                            \
		__u32 zero = 0;                                                \
		__u64 ns, wrong = 0, address[2];                               \
		__u32 map, count, expected, bits;                              \
		sw_at at, first, end;                                          \
                                                                               \
		if ((void *)(run + 1) > (void *)(long)ctx->data_end)           \
			return XDP_ABORTED;                                    \
		key = bpf_map_lookup_elem(&sw_scratch, &zero);                 \
		if (!key)                                                      \
			return XDP_ABORTED;                                    \
		sw_use_arena();                                                \
		map = run->map;                                                \
		(void)map;                                                     \
		at = first = run->at;                                          \
		end = first + (__u64)(__u32)run->questions * 24;               \
		count = run->count;                                            \
		ns = bpf_ktime_get_ns();                                       \
		for (; count && sw_can_loop; count--) {                        \
			expected = sw_u32(at);                                 \
			bits = sw_u32_of(at, 4);                               \
			(void)bits;                                            \
			*(volatile __u64 *)&address[0] = sw_u64_of(at, 8);     \
			*(volatile __u64 *)&address[1] = sw_u64_of(at, 16);    \
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

SW_INLINE __u32 of_trie6(__u32 bits, const __u64 *address)
{
	struct prefix6 key = { .length = bits };
	__u32 *value;

	__builtin_memcpy(key.bytes, address, 16);
	value = bpf_map_lookup_elem(&sw_lpm_trie6, &key);
	return value ? *value : 0;
}

SW_INLINE void to_bits(struct prefix_bits *key, __u32 bits, const __u64 *address)
{
	key->length = bits;
	__builtin_memcpy(key->bytes, address, sizeof(key->bytes));
}

SW_INLINE __u32 of_trie_bits(__u32 bits, const __u64 *address)
{
	struct prefix_bits key;
	__u32 *value;

	to_bits(&key, bits, address);
	value = bpf_map_lookup_elem(&sw_lpm_trie_bits, &key);
	return value ? *value : 0;
}

/* Changes. The result is the value if the change was done. */
SW_INLINE __u32 put_trie_bits(__u32 bits, const __u64 *address, __u32 value)
{
	struct prefix_bits key;

	to_bits(&key, bits, address);
	return bpf_map_update_elem(&sw_lpm_trie_bits, &key, &value, BPF_ANY) ? ~value : value;
}

SW_INLINE __u32 taken_trie_bits(__u32 bits, const __u64 *address, __u32 value)
{
	struct prefix_bits key;

	to_bits(&key, bits, address);
	return bpf_map_delete_elem(&sw_lpm_trie_bits, &key) ? ~value : value;
}

SW_INLINE __u32 of_bits(__u32 map, struct sw_key *key, const __u64 *address)
{
	__u32 bits = 0;

	sw_bits_key(key, address, NETWORK_BITS);
	return of_ours(sw_bits_lookup(map, key, &bits));
}

SW_INLINE long cut(struct sw_key *key, const __u64 *address, __u32 bits)
{
	sw_bits_key(key, address, NETWORK_BITS);
	return sw_bits_cut(key, bits);
}

SW_INLINE __u32 put_bits(__u32 map, struct sw_key *key, const __u64 *address, __u32 bits, __u32 value)
{
	return cut(key, address, bits) || sw_qp_insert(map, key, value, SW_ANY) ? ~value : value;
}

SW_INLINE __u32 taken_bits(__u32 map, struct sw_key *key, const __u64 *address, __u32 bits, __u32 value)
{
	return cut(key, address, bits) || sw_qp_remove(map, key) ? ~value : value;
}

RUN3(sw_run3_empty, 0)
RUN3(sw_run_fib6, of_ours(sw_lpm6_lookup_be(map, (const __u32 *)address)))
RUN3(sw_run_trie6, of_trie6(bits, address))
RUN3(sw_run_bits, of_bits(map, key, address))
RUN3(sw_run_trie_bits, of_trie_bits(bits, address))
RUN3(sw_run_trie_bits_insert, put_trie_bits(bits, address, expected))
RUN3(sw_run_trie_bits_remove, taken_trie_bits(bits, address, expected))
RUN3(sw_run_bits_insert, put_bits(map, key, address, bits, expected))
RUN3(sw_run_bits_remove, taken_bits(map, key, address, bits, expected))
