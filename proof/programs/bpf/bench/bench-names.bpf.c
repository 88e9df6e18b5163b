// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* The benchmark of names: lookups, changes of the kernel's hash tables, whole walks. See run.h. */
#include "run.h"
#include "sapwood/qp_walk.bpf.h"

char _license[] SEC("license") = "Dual BSD/GPL";

HASH(sw_hash, 0);
HASH(sw_hash_noprealloc, BPF_F_NO_PREALLOC);

/* The value at a place of Sapwood's; 0 for "not there", and an impossible value for errors. */
SW_INLINE __u64 of_ours(long found)
{
	if (found > 0)
		return sw_u64(found);
	return found == -ENOENT ? 0 : ~0ull;
}

/* The result of a change of a hash table: the expected answer if the change was done. */
SW_INLINE __u64 put(void *map, const struct sw_key *key, __u64 value, __u64 flags)
{
	return bpf_map_update_elem(map, key, &value, flags) ? ~value : value;
}

SW_INLINE __u64 taken(void *map, const struct sw_key *key, __u64 value)
{
	return bpf_map_delete_elem(map, key) ? ~value : value;
}

/*
 * The empty loop, whose time is subtracted. Only questions about missing keys have right answers.
 */
RUN(sw_run_empty, 0)
RUN(sw_run_trie, of_ours(sw_qp_trie_lookup(map, key)))
RUN(sw_run_index, of_ours(sw_qp_lookup(map, key)))
RUN(sw_run_hash, of_hash(&sw_hash, key))
RUN(sw_run_hash_noprealloc, of_hash(&sw_hash_noprealloc, key))

/* Changes. "expected" is the stored value. */
RUN(sw_run_hash_insert, put(&sw_hash, key, expected, BPF_NOEXIST))
RUN(sw_run_hash_overwrite, put(&sw_hash, key, expected, BPF_EXIST))
RUN(sw_run_hash_remove, taken(&sw_hash, key, expected))
RUN(sw_run_hash_noprealloc_insert, put(&sw_hash_noprealloc, key, expected, BPF_NOEXIST))
RUN(sw_run_hash_noprealloc_overwrite, put(&sw_hash_noprealloc, key, expected, BPF_EXIST))
RUN(sw_run_hash_noprealloc_remove, taken(&sw_hash_noprealloc, key, expected))

/* A walk over a whole map, as the packet holds it. */
struct walk {
	/* The place of a cursor. */
	__u64 cursor;
	__u64 map;
	/* The answer: the time, the number of entries, the sum of their values. */
	__u64 ns;
	__s64 entries;
	__u64 sum;
};

/* More entries than any case has. */
#define STEPS (1 << 22)

/* Walks over a map. Returns the number of entries, and the sum of their values. */
SW_GLOBAL long sw_walk_sum(__u32 map, sw_at cursor, __u64 *sum SW_NONNULL)
{
	long found = sw_qp_walk_begin(map, cursor);
	__u64 values = 0;
	__u32 i;

	sw_use_arena();
	for (i = sw_zero(); !found && i < STEPS && sw_can_loop; i++) {
		found = sw_qp_walk_step(cursor);
		if (!found) {
			*sum = values;
			return i;
		}
		if (found < 0)
			return found;
		values += sw_u64(found);
		found = 0;
	}
	return found ? found : -ELOOP;
}

SEC("xdp")
int sw_run_walk(struct xdp_md *ctx)
{
	struct walk *walk = (void *)(long)ctx->data;
	__u64 ns, sum = 0;

	if ((void *)(walk + 1) > (void *)(long)ctx->data_end)
		return XDP_ABORTED;
	ns = bpf_ktime_get_ns();
	walk->entries = sw_walk_sum(walk->map, walk->cursor, &sum);
	walk->ns = bpf_ktime_get_ns() - ns;
	walk->sum = sum;
	return XDP_PASS;
}

static long (*bpf_for_each_map_elem)(void *map, void *callback, void *context, __u64 flags) = (void *)164;

static long add_value(void *map, const void *key, __u64 *value, __u64 *sum)
{
	(void)map;
	(void)key;
	*sum += *value;
	return 0;
}

/* The same, of a hash, in whatever order. */
#define WALK_HASH(name, hash)                                                  \
	SEC("xdp")                                                             \
	int name(struct xdp_md *ctx)                                           \
	{                                                                      \
		struct walk *walk = (void *)(long)ctx->data;                   \
		__u64 ns, sum = 0;                                             \
                                                                               \
		if ((void *)(walk + 1) > (void *)(long)ctx->data_end)          \
			return XDP_ABORTED;                                    \
		sw_use_arena();                                                \
		ns = bpf_ktime_get_ns();                                       \
		walk->entries = bpf_for_each_map_elem(&hash, add_value, &sum, 0); \
		walk->ns = bpf_ktime_get_ns() - ns;                            \
		walk->sum = sum;                                               \
		return XDP_PASS;                                               \
	}

WALK_HASH(sw_run_hash_walk, sw_hash)
WALK_HASH(sw_run_hash_noprealloc_walk, sw_hash_noprealloc)
