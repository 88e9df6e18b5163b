// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * The benchmark of queues: a program takes the first entry and inserts one that is due later, over
 * and over. See proof/bench/src/suite/bpf/queue.rs.
 */

/* Newer kernel headers have these two structs, older ones have not. They are declared below. */
#define bpf_rb_root linux_bpf_rb_root
#define bpf_rb_node linux_bpf_rb_node
#include <linux/bpf.h>
#undef bpf_rb_root
#undef bpf_rb_node

#include "run.h"
#include "sapwood/qp_first.bpf.h"

char _license[] SEC("license") = "Dual BSD/GPL";

static long (*bpf_map_push_elem)(void *map, const void *value, __u64 flags) = (void *)87;
static long (*bpf_map_pop_elem)(void *map, void *value) = (void *)88;
static long (*bpf_spin_lock)(struct bpf_spin_lock *lock) = (void *)93;
static long (*bpf_spin_unlock)(struct bpf_spin_lock *lock) = (void *)94;

/* A run, as the packet holds it. */
struct hold {
	__u32 map;
	__u32 steps;
	/* The source of random numbers, and the number of the first new entry. */
	__u64 seed;
	__u64 number;
	/* The answer: the time, lost entries, entries before their predecessors, the last error. */
	__u64 ns;
	__u64 lost;
	__u64 disorder;
	__s64 error;
};

/* An entry: when it is due, and its number. */
struct entry {
	__u64 due;
	__u64 number;
};

/* The BPF_MAP_TYPE_QUEUE. */
struct {
	__uint(type, BPF_MAP_TYPE_QUEUE);
	__uint(key_size, 0);
	__uint(value_size, sizeof(struct entry));
	__uint(max_entries, 1 << 18);
} sw_queue SEC(".maps");

/* As the kernel declares them. */
struct bpf_rb_root {
	__u64 opaque[2];
} __attribute__((aligned(8)));
struct bpf_rb_node {
	__u64 opaque[4];
} __attribute__((aligned(8)));

/* The red-black tree of the kernel, with the lock that it needs. */
struct node {
	struct bpf_rb_node node;
	struct entry entry;
};

#define PRIVATE SEC(".data.tree") __attribute__((visibility("hidden"), aligned(8)))

PRIVATE struct bpf_spin_lock tree_lock;
PRIVATE struct bpf_rb_root tree __attribute__((btf_decl_tag("contains:node:node")));

extern void *bpf_obj_new_impl(__u64 type, void *meta) __attribute__((section(".ksyms")));
extern void bpf_obj_drop_impl(void *object, void *meta) __attribute__((section(".ksyms")));
extern int bpf_rbtree_add_impl(struct bpf_rb_root *root, struct bpf_rb_node *node,
			       _Bool(less)(struct bpf_rb_node *a, const struct bpf_rb_node *b), void *meta,
			       __u64 offset) __attribute__((section(".ksyms")));
extern struct bpf_rb_node *bpf_rbtree_first(struct bpf_rb_root *root) __attribute__((section(".ksyms")));
extern struct bpf_rb_node *bpf_rbtree_remove(struct bpf_rb_root *root, struct bpf_rb_node *node)
	__attribute__((section(".ksyms")));

#define NODE(of) ((struct node *)((void *)(of) - __builtin_offsetof(struct node, node)))

static _Bool less(struct bpf_rb_node *a, const struct bpf_rb_node *b)
{
	return NODE(a)->entry.due < NODE(b)->entry.due;
}

/* Each engine's insertion and removal: 0 or an error. */
static __attribute__((always_inline)) long push_tree(__u32 map, struct sw_key *key, const struct entry *entry)
{
	struct node *node = bpf_obj_new_impl(__builtin_btf_type_id(*(struct node *)0, 0), 0);

	if (!node)
		return -ENOMEM;
	node->entry.due = entry->due;
	node->entry.number = entry->number;
	bpf_spin_lock(&tree_lock);
	bpf_rbtree_add_impl(&tree, &node->node, less, 0, 0);
	bpf_spin_unlock(&tree_lock);
	return 0;
}

static __attribute__((always_inline)) long pop_tree(__u32 map, struct sw_key *key, struct entry *entry)
{
	struct bpf_rb_node *first;
	struct node *node;

	bpf_spin_lock(&tree_lock);
	first = bpf_rbtree_first(&tree);
	if (!first) {
		bpf_spin_unlock(&tree_lock);
		return -ENOENT;
	}
	first = bpf_rbtree_remove(&tree, first);
	bpf_spin_unlock(&tree_lock);
	if (!first)
		return -ENOENT;
	node = NODE(first);
	entry->due = node->entry.due;
	entry->number = node->entry.number;
	bpf_obj_drop_impl(node, 0);
	return 0;
}

static __attribute__((always_inline)) long push_queue(__u32 map, struct sw_key *key, const struct entry *entry)
{
	return bpf_map_push_elem(&sw_queue, entry, 0);
}

static __attribute__((always_inline)) long pop_queue(__u32 map, struct sw_key *key, struct entry *entry)
{
	return bpf_map_pop_elem(&sw_queue, entry);
}

static __attribute__((always_inline)) long push_ours(__u32 map, struct sw_key *key, const struct entry *entry)
{
	return sw_qp_push_due(map, key, entry->due, entry->number, entry->number);
}

static __attribute__((always_inline)) long pop_ours(__u32 map, struct sw_key *key, struct entry *entry)
{
	struct sw_qp_value value;
	long error = sw_qp_pop_first(map, key, &value);

	if (error)
		return error;
	entry->due = sw_key_due_at(key);
	entry->number = value.words[0];
	return 0;
}

/* The program for a loop that changes nothing. */
static __attribute__((always_inline)) long push_none(__u32 map, struct sw_key *key, const struct entry *entry)
{
	key->words[0] = entry->due;
	key->words[1] = entry->number;
	return 0;
}

static __attribute__((always_inline)) long pop_none(__u32 map, struct sw_key *key, struct entry *entry)
{
	entry->due = key->words[0];
	entry->number = key->words[1];
	return 0;
}

/* The next random number. */
static __attribute__((always_inline)) __u64 draw(__u64 *seed)
{
	*seed = *seed * 6364136223846793005ull + 1442695040888963407ull;
	return *seed >> 44;
}

/*
 * Two programs for an engine. The first inserts entries. The second takes the first entry and
 * inserts one that is due up to 2^20 later.
 */
#define QUEUE(name)                                                   \
	SEC("xdp")                                                             \
	int sw_fill_##name(struct xdp_md *ctx)                                 \
	{                                                                      \
		struct hold *hold = (void *)(long)ctx->data;                   \
		struct entry entry = {};                                       \
		__u32 zero = 0, left;                                          \
		struct sw_key *key;                                            \
		__u64 seed;                                                    \
		long error;                                                    \
                                                                               \
		if ((void *)(hold + 1) > (void *)(long)ctx->data_end)          \
			return XDP_ABORTED;                                    \
		key = bpf_map_lookup_elem(&sw_scratch, &zero);                 \
		if (!key)                                                      \
			return XDP_ABORTED;                                    \
		sw_use_arena();                                                \
		seed = hold->seed;                                             \
		for (left = sw_zero() + hold->steps; left && sw_can_loop; left--) { \
			entry.due = draw(&seed);                               \
			entry.number = hold->number++;                         \
			error = push_##name(hold->map, key, &entry);           \
			if (error) {                                           \
				hold->lost++;                                  \
				hold->error = error;                           \
			}                                                      \
		}                                                              \
		hold->lost += left;                                            \
		return XDP_PASS;                                               \
	}                                                                      \
                                                                               \
	SEC("xdp")                                                             \
	int sw_hold_##name(struct xdp_md *ctx)                                 \
	{                                                                      \
		struct hold *hold = (void *)(long)ctx->data;                   \
		struct entry entry = {};                                       \
		__u32 zero = 0, left;                                          \
		__u64 seed, ns, before = 0;                                    \
		struct sw_key *key;                                            \
		long error;                                                    \
                                                                               \
		if ((void *)(hold + 1) > (void *)(long)ctx->data_end)          \
			return XDP_ABORTED;                                    \
		key = bpf_map_lookup_elem(&sw_scratch, &zero);                 \
		if (!key)                                                      \
			return XDP_ABORTED;                                    \
		sw_use_arena();                                                \
		seed = hold->seed;                                             \
		ns = bpf_ktime_get_ns();                                       \
		for (left = sw_zero() + hold->steps; left && sw_can_loop; left--) { \
			error = pop_##name(hold->map, key, &entry);            \
			if (!error) {                                          \
				hold->disorder += entry.due < before;          \
				before = entry.due;                            \
				entry.due += draw(&seed);                      \
				entry.number = hold->number++;                 \
				error = push_##name(hold->map, key, &entry);   \
			}                                                      \
			if (error) {                                           \
				hold->lost++;                                  \
				hold->error = error;                           \
			}                                                      \
		}                                                              \
		hold->ns = bpf_ktime_get_ns() - ns;                            \
		hold->lost += left;                                            \
		return XDP_PASS;                                               \
	}

QUEUE(none)
QUEUE(ours)
QUEUE(queue)
QUEUE(tree)
