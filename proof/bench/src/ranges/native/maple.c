// SPDX-License-Identifier: GPL-2.0-only
/*
 * What the benchmark asks of the kernel's maple tree, as plain functions. Compiled when the
 * benchmark runs, from the sources of Debian's package linux-source, with the kernel's own
 * stand-ins for user space (tools/testing/radix-tree). One thread, no reader: grace periods are
 * over at once.
 */
#include <errno.h>
#include <limits.h>
#include <malloc.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* In the place of liburcu, which the stand-ins use. */
#define _RCUPDATE_H
struct rcu_head {
	struct rcu_head *next;
	void (*func)(struct rcu_head *head);
};
#define rcu_dereference(p) __atomic_load_n(&(p), __ATOMIC_ACQUIRE)
#define rcu_dereference_raw(p) rcu_dereference(p)
#define rcu_dereference_protected(p, cond) (p)
#define rcu_dereference_check(p, cond) rcu_dereference(p)
#define rcu_assign_pointer(p, v) __atomic_store_n(&(p), v, __ATOMIC_RELEASE)
#define RCU_INIT_POINTER(p, v) do { (p) = (v); } while (0)
#define rcu_read_lock() do { } while (0)
#define rcu_read_unlock() do { } while (0)
#define call_rcu(head, f) (f)(head)
#define uatomic_inc(x) do { } while (0)
#define uatomic_read(x) 0

#include <linux/kernel.h>
#include <linux/slab.h>

#ifndef fallthrough
#define fallthrough __attribute__((__fallthrough__))
#endif

/* Nodes: freed ones are kept, as the kernel's caches of objects do. */
struct kmem_cache {
	size_t size, align;
	void *free;
	size_t live;
};

static struct kmem_cache node_cache;

struct kmem_cache *kmem_cache_create(const char *name, unsigned int size, unsigned int align,
				     unsigned int flags, void (*ctor)(void *))
{
	(void)name, (void)flags, (void)ctor;
	node_cache.size = size;
	node_cache.align = align ? align : 16;
	return &node_cache;
}

void *kmem_cache_alloc_lru(struct kmem_cache *cache, struct list_lru *lru, int flags)
{
	void *node = cache->free;

	(void)lru;
	if (node)
		memcpy(&cache->free, node, sizeof(cache->free));
	else if (posix_memalign(&node, cache->align, cache->size))
		return NULL;
	if (flags & __GFP_ZERO)
		memset(node, 0, cache->size);
	cache->live++;
	return node;
}

void kmem_cache_free(struct kmem_cache *cache, void *node)
{
	memcpy(node, &cache->free, sizeof(cache->free));
	cache->free = node;
	cache->live--;
}

void kmem_cache_free_bulk(struct kmem_cache *cache, size_t count, void **nodes)
{
	for (size_t i = 0; i < count; i++)
		kmem_cache_free(cache, nodes[i]);
}

int kmem_cache_alloc_bulk(struct kmem_cache *cache, gfp_t flags, size_t count, void **nodes)
{
	for (size_t i = 0; i < count; i++)
		nodes[i] = kmem_cache_alloc_lru(cache, NULL, flags);
	return count;
}

#include MAPLE_SOURCE

struct shim_tally {
	uint64_t found, mixed;
};

struct shim_sum {
	uint64_t count, values, bounds;
};

static uint64_t rotate(uint64_t word, int by)
{
	return word << by | word >> (64 - by);
}

struct maple_tree *shim_new(void)
{
	struct maple_tree *tree = calloc(1, sizeof(*tree));

	if (!node_cache.size)
		maple_tree_init();
	mt_init_flags(tree, MT_FLAGS_ALLOC_RANGE | MT_FLAGS_LOCK_EXTERN);
	return tree;
}

void shim_free(struct maple_tree *tree)
{
	__mt_destroy(tree);
	free(tree);
}

/* All trees have one cache: the benchmark has one tree at a time. */
size_t shim_bytes(const struct maple_tree *tree)
{
	return sizeof(*tree) + node_cache.live * node_cache.size;
}

void shim_store(struct maple_tree *tree, uint64_t start, uint64_t end, uint64_t value)
{
	MA_STATE(mas, tree, start, end);

	if (mas_store_gfp(&mas, xa_mk_value(value), GFP_KERNEL))
		abort();
}

void shim_clear(struct maple_tree *tree, uint64_t start, uint64_t end)
{
	MA_STATE(mas, tree, start, end);

	if (mas_store_gfp(&mas, NULL, GFP_KERNEL))
		abort();
}

int shim_erase(struct maple_tree *tree, uint64_t index, uint64_t *value)
{
	MA_STATE(mas, tree, index, index);
	void *entry = mas_erase(&mas);

	if (!entry)
		return 0;
	*value = xa_to_value(entry);
	return 1;
}

struct shim_tally shim_loads(struct maple_tree *tree, const uint64_t *indices, size_t count,
			     int dependent, uint64_t mask)
{
	struct shim_tally tally = { 0, 0 };

	for (size_t i = 0; i < count;) {
		void *entry = mtree_load(tree, indices[i]);
		uint64_t value = entry ? xa_to_value(entry) : UINT64_MAX;

		tally.found += entry != NULL;
		tally.mixed = rotate(tally.mixed, 7) ^ value;
		i += 1 + (dependent ? value & mask : 0);
	}
	return tally;
}

struct shim_sum shim_entries(struct maple_tree *tree)
{
	struct shim_sum sum = { 0, 0, 0 };
	MA_STATE(mas, tree, 0, 0);
	void *entry;

	mas_for_each(&mas, entry, ULONG_MAX) {
		sum.count++;
		sum.values += xa_to_value(entry);
		sum.bounds = rotate(sum.bounds, 7) ^ mas.index ^ rotate(mas.last, 32);
	}
	return sum;
}

int shim_gap(struct maple_tree *tree, uint64_t size, uint64_t from, uint64_t to, uint64_t *start)
{
	MA_STATE(mas, tree, 0, 0);

	if (mas_empty_area(&mas, from, to, size))
		return 0;
	*start = mas.index;
	return 1;
}
