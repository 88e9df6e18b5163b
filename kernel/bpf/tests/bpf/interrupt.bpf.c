// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Two programs on the same map and the same cache. One runs in a loop, the other one in interrupts
 * during the changes of the first one. Each records its changes, so that the test can compare.
 */
#include <linux/bpf.h>
#include "sapwood/qp_write.bpf.h"
#include "route_storm.h"

char _license[] SEC("license") = "Dual BSD/GPL";

/* The number of processors, and the keys of each program on each processor. */
#define CPUS 64
#define KEYS 256

/*
 * The changes of one program on one processor. Those of the loop come first, then those of
 * interrupts.
 */
struct side {
	__u32 window;
	__u32 letter;
	__u64 random;
	__u64 done;
	__u64 no_entry;
	__u64 no_memory;
	__u64 busy;
	__u64 mine; /* changes while a program of this processor had the lock; refused ones of them; nanoseconds of all */
	__u64 mine_busy;
	__u64 mine_time;
	__u64 wrong; /* answers that contradict earlier changes */
	__s64 error; /* any other result */
	struct sw_key key;
};

struct {
	int (*type)[2]; /* BPF_MAP_TYPE_ARRAY */
	__u32 *key;
	struct side *value;
	int (*max_entries)[2 * CPUS];
} sides SEC(".maps");

/* The same for the cache. */
struct {
	int (*type)[2];
	__u32 *key;
	struct storm *value;
	int (*max_entries)[2 * CPUS];
} storms SEC(".maps");

/* The value of each key, or 0. */
struct {
	int (*type)[2];
	__u32 *key;
	__u64 *value;
	int (*max_entries)[2 * CPUS * KEYS];
} values SEC(".maps");

/* The truth at the last invalidation of all entries. No lookup may return an older answer. */
struct {
	int (*type)[2];
	__u32 *key;
	__u64 *value;
	int (*max_entries)[1];
} settled SEC(".maps");

/* Changes the truth, and invalidates all earlier answers. */
static __attribute__((always_inline)) void news(__u32 window)
{
	__u32 zero = 0;
	__u64 *now_true = map_lookup(&truth, &zero), *least = map_lookup(&settled, &zero), new;

	if (!now_true || !least)
		return;
	new = __sync_fetch_and_add(now_true, 1) + 1;
	sw_route_invalidate_all(window);
	*(volatile __u64 *)least = new;
}

/* One change of the map. */
SW_GLOBAL long sw_change(struct side *side SW_NONNULL, __u32 index)
{
	sw_at window = sw_window(side->window, SW_KIND_KERNEL_QP);
	__u32 number, mine, at, removes;
	__u64 *value, before, random, new;
	long result;

	sw_use_arena();
	if (!window)
		return -EINVAL;
	random = side->random * 0x5851f42d4c957f2dull + 0x14057b7ef767814full;
	side->random = random;
	number = (__u32)(random >> 40) % KEYS;
	at = index * KEYS + number;
	value = map_lookup(&values, &at);
	if (!value)
		return -EINVAL;
	removes = (random >> 33 & 7) < 3;
	new = random | 1;
	side->key.words[0] = 4 | side->letter << 8 | index << 16 | (number & 15) << 24 | (__u64)(number >> 4) << 32;
	mine = sw_u32(sw_kqp_own_lane(window, sw_kqp_self())) == sw_kqp_self();
	before = ktime();
	if (removes)
		result = sw_qp_remove(side->window, &side->key);
	else
		result = sw_qp_insert(side->window, &side->key, new, SW_ANY);
	before = ktime() - before;
	if (mine) {
		side->mine++;
		side->mine_busy += result == -EBUSY;
		side->mine_time += before;
	}
	switch (result) {
	case 0:
		side->done++;
		side->wrong += removes && !*value;
		*value = removes ? 0 : new;
		return 0;
	case -ENOENT:
		side->no_entry++;
		side->wrong += !removes || *value;
		return 0;
	case -ENOMEM:
		side->no_memory++;
		return 0;
	case -EBUSY:
		side->busy++;
		return 0;
	default:
		side->error = result;
		return result;
	}
}

/* One change of the map, and one lookup in the cache. */
static __attribute__((always_inline)) void both(__u32 index)
{
	struct side *side = map_lookup(&sides, &index);
	struct storm *storm = map_lookup(&storms, &index);
	__u32 zero = 0;
	__u64 *least = map_lookup(&settled, &zero);

	if (!side || !storm || !storm->keys || !least)
		return;
	sw_change(side, index);
	if (index >= CPUS && side->random >> 61 < 3)
		news(storm->window);
	storm->least = *(volatile __u64 *)least;
	storm->rounds++;
	sw_storm_round(storm);
}

/* A timer expires, in an interrupt. */
SEC("raw_tp/hrtimer_expire_entry")
int sw_interrupt(void *ctx)
{
	both(CPUS + (sw_route_cpu() & (CPUS - 1)));
	return 0;
}

/* The packet holds the number of rounds. */
SEC("xdp")
int sw_loop(struct xdp_md *ctx)
{
	__u32 *count = (void *)(long)ctx->data, left;

	if ((void *)(count + 1) > (void *)(long)ctx->data_end)
		return XDP_ABORTED;
	for (left = sw_zero() + *count; left && sw_can_loop; left--)
		both(sw_route_cpu() & (CPUS - 1));
	return left ? XDP_ABORTED : XDP_PASS;
}
