// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Many changes and lookups of prefixes on one processor of several; tests/bits/storm.rs repeats them. */
#include <linux/bpf.h>
#include "sapwood/bits.bpf.h"
#include "sapwood/qp_write.bpf.h"

char _license[] SEC("license") = "Dual BSD/GPL";

/* Operations of one run, and the bits of an address: tests/bits/storm.rs has the same numbers. */
#define COUNT 64
#define BITS 61

/*
 * What is asked. Lengths of prefixes are owned: this processor changes those of `owner`, `owner +
 * owners` bits and so on, so that it knows which of them there are.
 */
struct storm {
	__u32 window;
	__u32 owner;
	__u32 owners;
	__u32 removals; /* of 256 */
	__u64 seed;
	__u64 torn; /* values of other prefixes than the one that was found */
	__u64 address;
	struct sw_key key;
	/* Of each operation: what came of the change in the low byte, and of the lookup in the high one. */
	__u16 results[COUNT];
};

static __attribute__((always_inline)) __u64 mix(__u64 x)
{
	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9ull;
	x = (x ^ x >> 27) * 0x94d049bb133111ebull;
	return x ^ x >> 31;
}

/* What values of a prefix begin with. */
static __attribute__((always_inline)) __u64 proof(__u64 address, __u32 bits)
{
	return mix((bits ? address & ~0ull << (64 - bits) : 0) + bits) & ~0xffffull;
}

/* Makes the key of an address. */
static __attribute__((always_inline)) void make_key(struct storm *storm, __u64 address)
{
	__u32 i;

	storm->address = __builtin_bswap64(address);
	for (i = 0; i < SW_KEY_WORDS; i++)
		storm->key.words[i] = 0;
	sw_bits_key(&storm->key, &storm->address, BITS);
}

SEC("xdp")
int sw_storm_bits(struct xdp_md *ctx)
{
	struct storm *storm = (void *)(long)ctx->data;
	__u32 i, bits, length, at;
	__u64 random, address;
	__u16 *result;
	long changed, found;

	if ((void *)(storm + 1) > (void *)(long)ctx->data_end)
		return XDP_ABORTED;
	sw_use_arena();
	sw_for (i, COUNT) {
		random = mix(storm->seed += 0x9e3779b97f4a7c15ull);
		/* Half of the addresses are one, the others have one bit that is another. */
		address = 0xa5a5a5a5a5a5a5a5ull;
		if (random >> 20 & 1)
			address ^= 1ull << (random >> 32 & 63);
		length = storm->owner + (__u32)(random >> 40) % (BITS / storm->owners) * storm->owners;
		make_key(storm, address);
		changed = sw_bits_cut(&storm->key, length);
		if (changed)
			return XDP_ABORTED;
		changed = 1;
		if ((random & 0xff) < storm->removals)
			changed = sw_qp_remove(storm->window, &storm->key);
		else if (random & 0x100)
			changed = sw_qp_insert(storm->window, &storm->key,
					       proof(address, length) | (random >> 48), SW_ANY);
		make_key(storm, address);
		bits = 0;
		found = sw_bits_lookup(storm->window, &storm->key, &bits);
		if (found > 0) {
			if ((sw_u64(found) & ~0xffffull) != proof(address, bits))
				storm->torn++;
			found = bits;
		}
		at = i & (COUNT - 1);
		sw_hide(at);
		at &= COUNT - 1;
		result = (void *)(long)ctx->data + __builtin_offsetof(struct storm, results) + at * 2;
		if ((void *)(result + 1) > (void *)(long)ctx->data_end)
			return XDP_ABORTED;
		*result = (__u16)((changed & 0xff) | (found & 0xff) << 8);
	}
	return i < COUNT ? XDP_ABORTED : XDP_PASS;
}
