/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Ordered maps over byte strings that programs write (ProgramMap in Rust; windows of the kind
 * SW_KIND_KERNEL_QP).
 *
 *     struct sw_key key = {};                       // sets all 256 bytes
 *     key.length = 3;
 *     key.bytes[0] = 'f', ...
 *     long error = sw_qp_insert(ROUTES, &key, 17, SW_ANY);
 *     long found = sw_qp_lookup(ROUTES, &key);      // as in qp.bpf.h
 *     error = sw_qp_remove(ROUTES, &key);
 *
 * Keys have at most the bytes that the map was made for, and never more than 4,096. Writers take a
 * lock in the window; readers take none. A writer tries to take the lock for a bounded time, so it
 * may run anywhere. A writer that interrupts a program with the lock gets -EBUSY.
 *
 * Blocks for leaves, clusters and branches come from rings that user space fills. Retired blocks go
 * into another ring, and are used again after a grace period. No function here writes outside the
 * window that it was called for, whatever the window holds. Sleepable programs must not use these
 * functions. Layout and protocol: docs/bpf.md.
 *
 * The functions do not trust the contents of the window: they compare each reference with the
 * window's bounds before they store anything behind it, and each loop has a bound.
 */
#ifndef SAPWOOD_QP_WRITE_BPF_H
#define SAPWOOD_QP_WRITE_BPF_H

#include "qp.bpf.h"

/* The flags of sw_qp_insert; the numbers are those of bpf_map_update_elem. */
#define SW_ANY 0 /* insert or replace */
#define SW_NOEXIST 1 /* insert only */
#define SW_EXIST 2 /* replace only */

/* A value of up to eight words; a map uses as many as its values have. */
struct sw_qp_value {
	__u64 words[SW_KQP_VALUE_MAX / 8];
};

/* The attempts of a writer to take the lock: some hundred microseconds at most. */
#define SW_KQP_SPINS 16384
/* The answers of sw_kqp_seek besides an offset: the key is there, or the trie is empty. */
#define SW_KQP_SAME 0x10000
#define SW_KQP_EMPTY 0x10001
/* Greater than every offset. */
#define SW_KQP_NEVER 0x10002
/* More branches than can lie above a leaf. The path keeps the lowest SW_KQP_PATH_MAX of them. */
#define SW_KQP_DEPTH_MAX (SW_KEY_MAX + 4)
#define SW_KQP_PATH_MAX 256
/*
 * The most searches for the place of a key. One split of a full cluster makes room for the key. A
 * cluster of long keys may have borders far from each other: it is split until the key's neighbours
 * are in a cluster of their own.
 */
#define SW_KQP_ROUNDS (SW_QP_FILL_MAX + 4)

/*
 * Scratch: values that the steps of an operation pass to each other. They lie in the window, not in
 * registers, so that the verifier checks each step by itself, with unknown numbers.
 */
enum sw_kqp_scratch {
	SW_KQP_VALUE = 0, /* the new value, eight words */
	SW_KQP_LIMIT = 64, /* the number of references from SW_KQP_FIRST on that may be followed */
	SW_KQP_SLOT = 72, /* the place of the cell that a new key changes */
	SW_KQP_CELL = 80, /* after a search: the cell of the leaf */
	SW_KQP_DEPTH = 88, /* the number of branches on the path */
	SW_KQP_POS = 96, /* the slot of the leaf in its cluster, if it lies in one */
	SW_KQP_LABEL = 104, /* the label between a key and the leaf where they part */
	SW_KQP_BUCKET = 112, /* the place of a bucket; 0: the key has none */
	SW_KQP_BUCKET_SLOT = 120, /* the slot in it */
	SW_KQP_FAR = 128, /* the number of buckets between the key's home and this bucket */
	SW_KQP_LEAF = 136, /* the references of blocks that were taken: for a leaf, */
	SW_KQP_NODE = 144, /* for a cluster or a branch, */
	SW_KQP_MORE = 152, /* and for a branch above it */
	SW_KQP_BEFORE = 160, /* whether the key comes before the leaf */
	SW_KQP_PART = 168, /* the offset at which the new key parts from the others */
	SW_KQP_STEP = 176, /* the change that it needs: enum sw_kqp_step */
	SW_KQP_AT = 184, /* the place of the change: a slot of a cluster, or a child of a branch */
	SW_KQP_PATH = 192, /* the path to a leaf: a word for each branch, and one more; a ring */
};

_Static_assert(SW_KQP_SCRATCH + SW_KQP_PATH + SW_KQP_PATH_MAX * 8 <= SW_KQP_RINGS, "the path fits the header page");

SW_INLINE __u64 sw_kqp_get(sw_at window, __u32 what)
{
	return sw_u64(window + SW_KQP_SCRATCH + what);
}

SW_INLINE void sw_kqp_set(sw_at window, __u32 what, __u64 value)
{
	sw_set_u64(window + SW_KQP_SCRATCH + what, value);
}

/* Whether every place that programs compute from a node with this reference lies in the window. */
SW_INLINE int sw_kqp_inside(sw_at window, __u32 ref)
{
	return (__u64)ref - SW_KQP_FIRST < sw_kqp_get(window, SW_KQP_LIMIT);
}

SW_INLINE __u32 sw_kqp_value_bytes(sw_at window)
{
	return sw_u32(window + SW_QP_VALUE_BYTES) & 0x78;
}

#ifdef __bpf__
static __u32 (*const sw_kqp_cpu)(void) = (void *)8; /* bpf_get_smp_processor_id */
#define sw_kqp_self() (sw_kqp_cpu() + 1)
#else
#define sw_kqp_self() ((__u32)(unsigned long)&sw_base | 1)
#endif

/*
 * Takes the window's lock: 0, or -EBUSY. When the lock is held on the writer's own processor, the
 * writer has interrupted the program that has the lock, and does not wait.
 */
SW_GLOBAL int sw_kqp_lock(__u64 window)
{
	__u32 self = sw_kqp_self(), left, held;

	for (left = sw_zero() + SW_KQP_SPINS; left && sw_can_loop; left--) {
		held = sw_u32(window + SW_KQP_LOCK);
		if (!held && !sw_cmpxchg_u32(window + SW_KQP_LOCK, 0, self))
			return 0;
		if (held == self)
			return -EBUSY;
	}
	return -EBUSY;
}

/*
 * Releases the lock. A process that copies the window checks before and after that the lock is free
 * and that the sequence number is the same.
 */
SW_INLINE void sw_kqp_unlock(sw_at window)
{
	sw_publish_u64(window + SW_KQP_SEQUENCE, sw_u64(window + SW_KQP_SEQUENCE) + 1);
	sw_publish_u32(window + SW_KQP_LOCK, 0);
}

/* The class of blocks for this many units, and the units of that class's blocks. */
SW_INLINE __u32 sw_kqp_class(__u32 units)
{
	if (units > SW_KQP_EXACT)
		return SW_KQP_EXACT - SW_KQP_LEAST + 1 + (units - SW_KQP_EXACT - 1) / 8;
	return units - SW_KQP_LEAST;
}
SW_INLINE __u32 sw_kqp_block_units(__u32 units)
{
	if (units > SW_KQP_EXACT)
		return SW_KQP_EXACT + ((units - SW_KQP_EXACT + 7) & ~7u);
	return units;
}

SW_INLINE sw_at sw_kqp_ring(sw_at window, __u32 class)
{
	return window + SW_KQP_RINGS + (__u64)class * SW_KQP_RING_BYTES;
}

/* The place of the slot of a ring for this count. */
SW_INLINE sw_at sw_kqp_ring_slot(sw_at window, sw_at ring, __u32 count)
{
	return sw_ref(window, sw_u32(ring + SW_KQP_RING_SLOTS)) +
	       (__u64)(count & sw_u32(ring + SW_KQP_RING_MASK)) * 4;
}

/*
 * Whether a ring still has a block when programs have taken `count` of it. With `keep`, the blocks
 * that are kept for removals do not count. 0, -ENOMEM, -EUCLEAN.
 */
SW_INLINE long sw_kqp_has(sw_at ring, __u32 count, __u32 keep)
{
	__u32 have = sw_acquire_u32(ring + SW_KQP_RING_USER) - count;

	if (have > sw_u32(ring + SW_KQP_RING_MASK) + 1)
		return -EUCLEAN;
	return have <= (keep ? sw_u32(ring + SW_KQP_RING_KEPT) : 0) ? -ENOMEM : 0;
}

/*
 * Whether this many cells can be retired: 0; -ENOMEM when user space has not fetched the earlier
 * cells; -EUCLEAN.
 */
SW_GLOBAL long sw_kqp_room(__u64 window, __u32 cells)
{
	sw_at ring = sw_kqp_ring(window, SW_KQP_CLASSES);
	__u32 mask = sw_u32(ring + SW_KQP_RING_MASK);
	__u32 used = sw_u32(ring + SW_KQP_RING_PROGRAMS) - sw_acquire_u32(ring + SW_KQP_RING_USER);
	__u64 last = (__u64)sw_u32(ring + SW_KQP_RING_SLOTS) + mask / 2;

	if (used > mask + 1 || last - SW_KQP_FIRST >= sw_kqp_get(window, SW_KQP_LIMIT))
		return -EUCLEAN;
	return mask + 1 - used < cells ? -ENOMEM : 0;
}

/* Retires the node of a cell. The caller has checked that there is room. */
SW_INLINE void sw_kqp_retire(sw_at window, __u32 cell)
{
	sw_at ring = sw_kqp_ring(window, SW_KQP_CLASSES);
	__u32 count = sw_u32(ring + SW_KQP_RING_PROGRAMS);

	sw_set_u32(sw_kqp_ring_slot(window, ring, count), cell);
	sw_publish_u32(ring + SW_KQP_RING_PROGRAMS, count + 1);
}

/*
 * Makes sure that the slab has this many units, for one block or more: takes the next slab when
 * this one has fewer. With `keep`, the last slab stays in the ring. 0, -ENOMEM, -EUCLEAN.
 *
 * The ring of retired blocks reports each cut to user space, before the block itself can be retired
 * there. The entry is a cell of the kind SW_KQP_CUT, which no node has, with the block's units in
 * place of the reference; 0 units for a new slab.
 */
SW_GLOBAL long sw_kqp_slab(__u64 window, __u32 units, __u32 keep)
{
	sw_at ring = sw_kqp_ring(window, SW_KQP_SLABS);
	/*
	 * The most cells of one change: a slab, three blocks and the two nodes of a split; or a
	 * slab, two blocks and the three nodes of a join.
	 */
	long error = sw_kqp_room(window, 6);
	__u32 count, ref;

	if (error)
		return error;
	if (sw_u32(window + SW_KQP_SLAB_LEFT) >= units)
		return 0;
	count = sw_u32(ring + SW_KQP_RING_PROGRAMS);
	error = sw_kqp_has(ring, count, keep);
	if (error)
		return error;
	ref = sw_u32(sw_kqp_ring_slot(window, ring, count));
	sw_publish_u32(ring + SW_KQP_RING_PROGRAMS, count + 1);
	sw_kqp_retire(window, SW_KQP_CUT);
	sw_set_u32(window + SW_KQP_SLAB, ref);
	sw_set_u32(window + SW_KQP_SLAB_LEFT, SW_KQP_SLAB_UNITS);
	return 0;
}

/* Cuts a block of this many units, those of a class, off the slab. */
SW_INLINE __u32 sw_kqp_cut(sw_at window, __u32 units)
{
	__u32 ref = sw_u32(window + SW_KQP_SLAB);

	sw_kqp_retire(window, units << 2 | SW_KQP_CUT);
	sw_set_u32(window + SW_KQP_SLAB, ref + units);
	sw_set_u32(window + SW_KQP_SLAB_LEFT, sw_u32(window + SW_KQP_SLAB_LEFT) - units);
	return ref;
}

/*
 * Takes the next block of a ring; or, when `units` is not 0, cuts that many units off the slab.
 * Records the block in the scratch: 0, -EUCLEAN.
 */
SW_GLOBAL long sw_kqp_get_block(__u64 window, __u64 ring, __u32 units, __u32 what)
{
	__u32 ref, count;

	if (units) {
		ref = sw_kqp_cut(window, units);
	} else {
		count = sw_u32(ring + SW_KQP_RING_PROGRAMS);
		ref = sw_u32(sw_kqp_ring_slot(window, ring, count));
		sw_publish_u32(ring + SW_KQP_RING_PROGRAMS, count + 1);
	}
	/* The block is for one of the three. */
	if (what != SW_KQP_LEAF && what != SW_KQP_NODE)
		what = SW_KQP_MORE;
	sw_kqp_set(window, what, ref);
	return sw_kqp_inside(window, ref) ? 0 : -EUCLEAN;
}

/*
 * Finds the source of a block of this many units, after `taken` blocks of its ring: 0 for the ring;
 * or, when the ring has none, the units to be cut off the slab; or -EUCLEAN.
 */
SW_INLINE long sw_kqp_look(sw_at ring, __u32 units, __u32 taken, __u32 keep)
{
	long error = sw_kqp_has(ring, sw_u32(ring + SW_KQP_RING_PROGRAMS) + taken, keep);

	return error == -ENOMEM ? (long)sw_kqp_block_units(units) : error;
}

/*
 * Takes blocks of these units for SW_KQP_LEAF, SW_KQP_NODE and SW_KQP_MORE; no block where the
 * units are 0. It takes all blocks or none. A block whose ring is empty is cut off the slab. With
 * `keep`, the blocks that are kept for removals stay. 0; -ENOMEM; -EUCLEAN when a reference in a
 * ring lies outside the window.
 */
SW_GLOBAL long sw_kqp_take(__u64 window, __u32 leaf, __u32 node, __u32 more, __u32 keep)
{
	sw_at leaves = sw_kqp_ring(window, sw_kqp_class(leaf));
	sw_at nodes = sw_kqp_ring(window, sw_kqp_class(node));
	sw_at mores = sw_kqp_ring(window, sw_kqp_class(more));
	/* For each block: whether it comes from its ring; else the units to be cut. */
	__u32 leaf_taken = 0, node_taken = 0, cut_leaf = 0, cut_node = 0, cut_more = 0;
	long cut, error = 0;

	if (leaf) {
		cut = sw_kqp_look(leaves, leaf, 0, keep);
		if (cut < 0)
			return cut;
		cut_leaf = (__u32)cut;
		leaf_taken = !cut;
	}
	if (node) {
		cut = sw_kqp_look(nodes, node, leaf_taken && leaves == nodes, keep);
		if (cut < 0)
			return cut;
		cut_node = (__u32)cut;
		node_taken = !cut;
	}
	if (more) {
		leaf_taken = leaf_taken && leaves == mores;
		node_taken = node_taken && nodes == mores;
		cut = sw_kqp_look(mores, more, leaf_taken + node_taken, keep);
		if (cut < 0)
			return cut;
		cut_more = (__u32)cut;
	}
	if (cut_leaf + cut_node + cut_more) {
		error = sw_kqp_slab(window, cut_leaf + cut_node + cut_more, keep);
		if (error)
			return error;
	}
	if (leaf)
		error = sw_kqp_get_block(window, leaves, cut_leaf, SW_KQP_LEAF);
	if (node && !error)
		error = sw_kqp_get_block(window, nodes, cut_node, SW_KQP_NODE);
	if (more && !error)
		error = sw_kqp_get_block(window, mores, cut_more, SW_KQP_MORE);
	return error;
}

/* Adds to one of the counts; `more` may be negative. */
SW_INLINE void sw_kqp_count(sw_at window, __u32 what, __u32 more)
{
	sw_set_u32(window + what, sw_u32(window + what) + more);
}

#include "qp_write_index.bpf.h"
#include "qp_write_trie.bpf.h"

/* Writes a long key to its place in a leaf, with zeros to the end of its last word. */
SW_GLOBAL int sw_kqp_put_long(__u64 to, const struct sw_key *key SW_NONNULL)
{
	__u32 length = sw_key_length(key), head = length < 255 ? 1 : 3, done;
	__u64 first = length < 255 ? length : 255 | length << 8;

	sw_use_arena();
	sw_set_u64(to, first | sw_word_of(key->long_at, length) << head * 8);
	for (done = sw_zero() + 8 - head; done < length && sw_can_loop; done += 8)
		sw_set_u64(to + done + head, sw_word_of(key->long_at + done, (__s64)length - done));
	return 0;
}

/* Writes a short key to its place in a leaf: only its own words, as another block may follow. */
SW_INLINE void sw_kqp_put_key(sw_at at, const struct sw_key *key)
{
	const __u64 *words;
	__u32 i, left;

	i = sw_zero() & 28;
	for (left = key->length / 8 + 1; left >= 4 && sw_can_loop; left -= 4) {
		sw_hide(i);
		i &= 28;
		words = key->words + i;
		sw_set_u64(at, words[0]);
		sw_set_u64(at + 8, words[1]);
		sw_set_u64(at + 16, words[2]);
		sw_set_u64(at + 24, words[3]);
		i += 4;
		at += 32;
	}
	sw_hide(i);
	i &= 28;
	words = key->words + i;
	if (left & 2) {
		sw_set_u64(at, words[0]);
		sw_set_u64(at + 8, words[1]);
		words += 2;
		at += 16;
	}
	if (left & 1)
		sw_set_u64(at, words[0]);
}

/* Writes the leaf of a key, with the value in the scratch, into its block. */
SW_GLOBAL int sw_kqp_write_leaf(__u64 window, const struct sw_key *key SW_NONNULL)
{
	sw_at leaf = sw_ref(window, (__u32)sw_kqp_get(window, SW_KQP_LEAF));
	__u32 bytes = sw_kqp_value_bytes(window), i;

	for (i = sw_zero(); i < bytes && sw_can_loop; i += 8)
		sw_set_u64(leaf + i, sw_kqp_get(window, SW_KQP_VALUE + i));
	if (sw_key_is_long(key))
		sw_kqp_put_long(leaf + bytes, key);
	else
		sw_kqp_put_key(leaf + bytes, key);
	return 0;
}

/* The units of the leaf of a key of this length. */
SW_INLINE __u32 sw_kqp_leaf_units(sw_at window, __u32 length)
{
	if (length >= 255)
		length += 2;
	return sw_kqp_value_bytes(window) / 8 + length / 8 + 1;
}

/* The cell of a leaf at a place of the window. */
SW_INLINE __u32 sw_kqp_leaf_cell(sw_at window, sw_at leaf)
{
	return (__u32)((leaf - window) / 8) << 2 | SW_QP_LEAF;
}

/* The cell of the new leaf. */
SW_INLINE __u32 sw_kqp_new_leaf(sw_at window)
{
	return (__u32)sw_kqp_get(window, SW_KQP_LEAF) << 2 | SW_QP_LEAF;
}

/*
 * Finds a key: the place of its leaf; -ENOENT; or an error. SW_KQP_BUCKET is the bucket of a key
 * that lies in the index. The path leads to the leaf if the trie was searched. For an absent key
 * `*part` is the offset at which it parts from the others; sw_kqp_prepare needs it.
 */
SW_INLINE long sw_kqp_find(sw_at window, const struct sw_key *key, __u64 hash, __u32 parts, long *part)
{
	long found = -ENODATA;

	*part = -1;
	sw_kqp_set(window, SW_KQP_BUCKET, 0);
	if (parts & SW_KQP_INDEX) {
		found = sw_kqp_index_find(window, key, hash);
		if (found != -ENOENT && found != -ENODATA)
			return found;
	}
	if (!(parts & SW_KQP_TRIE))
		return -ENOENT;
	*part = sw_kqp_seek(window, key);
	if (*part < 0)
		return *part;
	if (*part == SW_KQP_SAME) {
		/* The index would have known. */
		if (found == -ENOENT)
			return -EUCLEAN;
		return (long)sw_qp_node(window, (__u32)sw_kqp_get(window, SW_KQP_CELL));
	}
	return -ENOENT;
}

/*
 * Makes the path to a leaf that the index found: 0; -EUCLEAN when the trie does not have the leaf;
 * -ELOOP.
 */
SW_INLINE long sw_kqp_reach(sw_at window, const struct sw_key *key, __u32 cell)
{
	long found = sw_kqp_descend(window, key, SW_KQP_NEVER);

	if (found < 0)
		return found;
	found = sw_kqp_pick(window, key, (__u32)found);
	if (found < 0)
		return found;
	return found == cell ? 0 : -EUCLEAN;
}

/* Replaces the value of the leaf at `leaf`. `seen` says whether the path leads to the leaf. */
SW_GLOBAL long sw_kqp_replace(__u64 window, const struct sw_key *key SW_NONNULL, __u64 leaf, __u32 seen)
{
	__u32 parts = sw_u32(window + SW_KQP_PARTS), old = sw_kqp_leaf_cell(window, leaf), cell;
	sw_at bucket = sw_kqp_get(window, SW_KQP_BUCKET);
	long error;

	if (!sw_kqp_inside(window, old >> 2))
		return -EUCLEAN;
	if (sw_kqp_value_bytes(window) == 8) {
		sw_publish_u64(leaf, sw_kqp_get(window, SW_KQP_VALUE));
		return 0;
	}
	if ((parts & SW_KQP_TRIE) && !seen) {
		error = sw_kqp_reach(window, key, old);
		if (error)
			return error;
	}
	error = sw_kqp_room(window, 2);
	if (error)
		return error;
	error = sw_kqp_take(window, sw_kqp_leaf_units(window, sw_key_length(key)), 0, 0, 1);
	if (error)
		return error;
	sw_kqp_write_leaf(window, key);
	cell = sw_kqp_new_leaf(window);
	if (bucket)
		sw_publish_u32(bucket + SW_QP_BUCKET_LEAVES + sw_kqp_get(window, SW_KQP_BUCKET_SLOT) * 4, cell);
	if (parts & SW_KQP_TRIE)
		sw_publish_u32(sw_kqp_leaf_slot(window), cell);
	sw_kqp_retire(window, old);
	return 0;
}

/*
 * Plans the change of the trie for a new key: the units of the node that sw_kqp_attach makes, or an
 * error. If the key's cluster is full, the function splits it, which changes no key of the map.
 */
SW_INLINE long sw_kqp_prepare(sw_at window, const struct sw_key *key, __u32 part)
{
	__u32 round;
	long units, error;

	for (round = sw_zero(); round < SW_KQP_ROUNDS && sw_can_loop; round++) {
		units = sw_kqp_plan(window, key, part);
		if (units < 0 || sw_kqp_get(window, SW_KQP_STEP) != SW_KQP_SPLIT)
			return units;
		error = sw_kqp_split_plan(window);
		if (error)
			return error;
		sw_kqp_split_make(window);
		error = sw_kqp_seek(window, key);
		if (error != part)
			return error < 0 ? error : -EUCLEAN;
	}
	return -ELOOP;
}

/*
 * Makes the leaf of an absent key, and puts the leaf into the index. If `node` is not 0, takes a
 * block of that many units for a node of the trie. 0, or an error.
 */
SW_GLOBAL long sw_kqp_make_leaf(__u64 window, const struct sw_key *key SW_NONNULL, __u64 hash,
				__u32 node)
{
	__u32 parts = sw_u32(window + SW_KQP_PARTS), units = sw_kqp_leaf_units(window, sw_key_length(key));
	long error;

	if (parts & SW_KQP_INDEX) {
		error = sw_kqp_index_free(window, hash);
		if (error && (error != -ENOSPC || !(parts & SW_KQP_TRIE)))
			return error;
	}
	error = sw_kqp_room(window, 2);
	if (error)
		return error;
	error = sw_kqp_take(window, units, node, 0, 1);
	if (error)
		return error;
	sw_kqp_write_leaf(window, key);
	if (parts & SW_KQP_INDEX)
		sw_kqp_index_put(window, hash, sw_kqp_new_leaf(window));
	sw_kqp_count(window, SW_KQP_LEAF_UNITS, sw_kqp_block_units(units));
	sw_kqp_count(window, SW_KQP_COUNT, 1);
	return 0;
}

/*
 * Completes most insertions of short keys in one step. The map must have an index and values of one
 * word, and the caller holds the lock. Two cases are complete: the first slot with the key's tag in
 * its home has the key; or no slot there has the tag, the home says that the key does not lie
 * elsewhere, and, for a new key, the map has no trie and a slot is free. The answer is that of
 * sw_qp_insert; or -EAGAIN in all other cases, and then nothing was changed.
 */
SW_GLOBAL long sw_kqp_quick(__u64 window, const struct sw_key *key SW_NONNULL, __u64 hash, __u64 value, __u64 flags)
{
	__u32 tag = sw_kqp_tag(hash), length = key->length, units = length / 8 + 2, count, entries, cell;
	sw_at bucket = sw_kqp_bucket(window, hash, 0), ring, leaf;
	__u64 low, high, slots, pattern = tag * SW_ONES;

	if (!bucket)
		return -EAGAIN;
	low = sw_u64(bucket);
	high = sw_u64_of(bucket, 8);
	slots = sw_qp_slots(low ^ pattern, high ^ pattern);
	if (slots) {
		cell = sw_u32_of(bucket + sw_qp_first_slot(slots), SW_QP_BUCKET_LEAVES);
		leaf = sw_qp_node(window, cell);
		if (!sw_kqp_inside(window, cell >> 2) || !sw_qp_is_key_of_fixed(leaf, 8, key))
			return -EAGAIN;
		if (flags == SW_NOEXIST)
			return -EEXIST;
		sw_publish_u64(leaf, value);
		return 0;
	}
	if (high & (SW_KQP_STICKY << SW_QP_BUCKET_SPILLED | 1ull << (SW_QP_BUCKET_FILTER + (tag & 7))))
		return -EAGAIN;
	if (flags == SW_EXIST)
		return -ENOENT;
	slots = sw_qp_slots(low, high);
	entries = sw_u32(window + SW_KQP_COUNT);
	ring = sw_kqp_ring(window, sw_kqp_class(units));
	count = sw_u32(ring + SW_KQP_RING_PROGRAMS);
	if (!slots || entries >= sw_u32(window + SW_KQP_MAX) || sw_kqp_has(ring, count, 1) ||
	    (sw_u32(window + SW_KQP_PARTS) & SW_KQP_TRIE))
		return -EAGAIN;
	cell = sw_u32(sw_kqp_ring_slot(window, ring, count));
	if (!sw_kqp_inside(window, cell))
		return -EAGAIN;
	sw_publish_u32(ring + SW_KQP_RING_PROGRAMS, count + 1);
	leaf = sw_ref(window, cell);
	sw_set_u64(leaf, value);
	sw_kqp_put_key(leaf + 8, key);
	slots = sw_qp_first_slot(slots);
	sw_publish_u32(bucket + slots + SW_QP_BUCKET_LEAVES, cell << 2 | SW_QP_LEAF);
	/* The slot's tag is 0 so far. */
	if (slots < 32)
		sw_publish_u64(bucket, low | (__u64)tag << slots * 2);
	else
		sw_publish_u64(bucket + 8, high | (__u64)tag << (slots - 32) * 2);
	sw_kqp_count(window, SW_KQP_LEAF_UNITS, units);
	sw_set_u32(window + SW_KQP_COUNT, entries + 1);
	return 0;
}

/* Inserts a key, or replaces its value. The lock is held, and the value is in the scratch. */
SW_GLOBAL long sw_kqp_insert(__u64 window, const struct sw_key *key SW_NONNULL, __u64 hash, __u64 flags)
{
	__u32 parts = sw_u32(window + SW_KQP_PARTS);
	long part, found = sw_kqp_find(window, key, hash, parts, &part);

	if (found > 0)
		return flags == SW_NOEXIST ? -EEXIST :
					     sw_kqp_replace(window, key, found, part == SW_KQP_SAME);
	if (found != -ENOENT || flags == SW_EXIST)
		return found;
	if (sw_u32(window + SW_KQP_COUNT) >= sw_u32(window + SW_KQP_MAX))
		return -E2BIG;
	found = 0;
	if (parts & SW_KQP_TRIE) {
		found = sw_kqp_prepare(window, key, (__u32)part);
		if (found < 0)
			return found;
	}
	found = sw_kqp_make_leaf(window, key, hash, (__u32)found);
	if (!found && (parts & SW_KQP_TRIE))
		sw_kqp_attach(window, key, sw_kqp_new_leaf(window));
	return found;
}

/* Removes a key: the place of its leaf, or an error. The lock is held. */
SW_GLOBAL long sw_kqp_remove(__u64 window, const struct sw_key *key SW_NONNULL, __u64 hash)
{
	__u32 parts = sw_u32(window + SW_KQP_PARTS), cell, node = 0;
	long part, error, found = sw_kqp_find(window, key, hash, parts, &part);

	if (found <= 0)
		return found ? found : -EUCLEAN;
	cell = sw_kqp_leaf_cell(window, found);
	if (!sw_kqp_inside(window, cell >> 2))
		return -EUCLEAN;
	error = sw_kqp_room(window, 2);
	if (error)
		return error;
	if (parts & SW_KQP_TRIE) {
		if (part != SW_KQP_SAME) {
			error = sw_kqp_reach(window, key, cell);
			if (error)
				return error;
		}
		error = sw_kqp_detach(window);
		if (error < 0)
			return error;
		node = (__u32)error;
	}
	if (parts & SW_KQP_INDEX)
		sw_kqp_index_remove(window, hash);
	if (node)
		sw_kqp_retire(window, node);
	sw_kqp_retire(window, cell);
	sw_kqp_count(window, SW_KQP_LEAF_UNITS,
		     -sw_kqp_block_units(sw_kqp_leaf_units(window, sw_key_length(key))));
	sw_kqp_count(window, SW_KQP_COUNT, -1);
	return found;
}

/* The window of a map that programs write; 0 if there is none, or if the key is too long for it. */
SW_INLINE sw_at sw_kqp_open(__u32 map, const struct sw_key *key)
{
	sw_at window = sw_window_in(map, 1u << SW_KIND_KERNEL_QP);

	sw_use_arena();
	if (!window || sw_key_length(key) > sw_u32(window + SW_KQP_LONGEST))
		return 0;
	return sw_key_is_long(key) && key->long_bytes > SW_KEY_MAX ? 0 : window;
}

/* Takes the lock, and records the window's bounds, which come from the arena's header. */
SW_INLINE long sw_kqp_begin(__u32 map, sw_at window)
{
	sw_at entry = SW_WINDOWS_AT + (__u64)(map & (SW_WINDOWS_MAX - 1)) * SW_WINDOW_BYTES;
	__u64 units = sw_u64(entry + SW_WINDOW_LEN) / 8;

	if (sw_u32(window + SW_QP_VALUE_BYTES) > SW_KQP_VALUE_MAX || units < SW_KQP_FIRST + SW_KQP_MARGIN)
		return -EUCLEAN;
	/* Mostly the lock is free. */
	if (sw_cmpxchg_u32(window + SW_KQP_LOCK, 0, sw_kqp_self()) && sw_kqp_lock(window))
		return -EBUSY;
	sw_kqp_set(window, SW_KQP_LIMIT, units - SW_KQP_FIRST - SW_KQP_MARGIN);
	return 0;
}

/*
 * The hash of a key; 0 in a map without index. The function is global: its stack is free again
 * before the next step.
 */
SW_GLOBAL __u64 sw_kqp_hash(__u64 window, const struct sw_key *key SW_NONNULL)
{
	if (!(sw_u32(window + SW_KQP_PARTS) & SW_KQP_INDEX))
		return 0;
	return sw_key_is_long(key) ? sw_qp_hash_long(window, key) : sw_qp_hash(window, key);
}

/*
 * Inserts a key, or replaces its value. The flags are SW_ANY, SW_NOEXIST or SW_EXIST. `value` is
 * the first word of the key's value; the other words become 0.
 *
 *     long error = sw_qp_insert(SEEN, &key, bpf_ktime_get_ns(), SW_ANY);
 *     if (error == -E2BIG) ...
 *
 * 0; -EEXIST with SW_NOEXIST; -ENOENT with SW_EXIST; -E2BIG: the map has max_entries; -ENOMEM: user
 * space has supplied no block of that size, or has not fetched the retired blocks; -ENOSPC: no slot
 * near the key's home is free, in a map without trie; -EBUSY: another writer has the lock; -EINVAL:
 * no such window, unknown flags, or a key longer than the map's longest; -ELOOP: the kernel ended a
 * loop; -EUCLEAN: the window holds no map. After an error the map has the same entries as before.
 */
SW_GLOBAL long sw_qp_insert(__u32 map, const struct sw_key *key SW_NONNULL, __u64 value, __u64 flags)
{
	sw_at window = sw_kqp_open(map, key);
	__u64 hash;
	__u32 i;
	long result;

	if (!window || flags > SW_EXIST)
		return -EINVAL;
	hash = sw_kqp_hash(window, key);
	result = sw_kqp_begin(map, window);
	if (result)
		return result;
	if ((sw_u32(window + SW_KQP_PARTS) & SW_KQP_INDEX) && sw_kqp_value_bytes(window) == 8 &&
	    !sw_key_is_long(key)) {
		result = sw_kqp_quick(window, key, hash, value, flags);
		if (result != -EAGAIN) {
			sw_kqp_unlock(window);
			return result;
		}
	}
	sw_kqp_set(window, SW_KQP_VALUE, value);
	for (i = sw_zero() + 8; i < sw_kqp_value_bytes(window) && sw_can_loop; i += 8)
		sw_kqp_set(window, SW_KQP_VALUE + i, 0);
	result = sw_kqp_insert(window, key, hash, flags);
	sw_kqp_unlock(window);
	return result;
}

/*
 * As sw_qp_insert, for values of up to eight words. One store replaces a value of one word in
 * place. A new leaf replaces a longer value, so readers see the old value or the new one.
 *
 *     struct sw_qp_value value = { .words = { bytes, packets } };
 *     long error = sw_qp_insert_value(FLOWS, &key, &value, SW_ANY);
 */
SW_GLOBAL long sw_qp_insert_value(__u32 map, const struct sw_key *key SW_NONNULL,
				  const struct sw_qp_value *value SW_NONNULL, __u64 flags)
{
	sw_at window = sw_kqp_open(map, key);
	__u64 hash;
	long result;

	if (!window || flags > SW_EXIST)
		return -EINVAL;
	hash = sw_kqp_hash(window, key);
	result = sw_kqp_begin(map, window);
	if (result)
		return result;
	sw_kqp_set(window, SW_KQP_VALUE, value->words[0]);
	sw_kqp_set(window, SW_KQP_VALUE + 8, value->words[1]);
	sw_kqp_set(window, SW_KQP_VALUE + 16, value->words[2]);
	sw_kqp_set(window, SW_KQP_VALUE + 24, value->words[3]);
	sw_kqp_set(window, SW_KQP_VALUE + 32, value->words[4]);
	sw_kqp_set(window, SW_KQP_VALUE + 40, value->words[5]);
	sw_kqp_set(window, SW_KQP_VALUE + 48, value->words[6]);
	sw_kqp_set(window, SW_KQP_VALUE + 56, value->words[7]);
	result = sw_kqp_insert(window, key, hash, flags);
	sw_kqp_unlock(window);
	return result;
}

/*
 * Removes a key, and returns the place of the value that it had, which stays until the run of the
 * program ends. Of several programs that take one entry at once, one gets it.
 *
 *     long taken = sw_qp_take(SEEN, &key);
 *     if (taken > 0) value = sw_u64(taken);
 *
 * A positive place, -ENOENT, or an error of sw_qp_insert. A removal may return -ENOMEM, because it
 * writes a new cluster or branch with one entry less. Some blocks are kept for removals.
 */
SW_GLOBAL long sw_qp_take(__u32 map, const struct sw_key *key SW_NONNULL)
{
	sw_at window = sw_kqp_open(map, key);
	__u64 hash;
	long result;

	if (!window)
		return -EINVAL;
	hash = sw_kqp_hash(window, key);
	result = sw_kqp_begin(map, window);
	if (result)
		return result;
	result = sw_kqp_remove(window, key, hash);
	if (result > 0 && (sw_u32(window + SW_KQP_PARTS) & SW_KQP_TRIE))
		sw_kqp_join(window);
	sw_kqp_unlock(window);
	return result;
}

/*
 * Removes a key.
 *
 *     if (sw_qp_remove(SEEN, &key) == -ENOENT) ...
 *
 * 0, -ENOENT, or an error of sw_qp_take.
 */
SW_GLOBAL long sw_qp_remove(__u32 map, const struct sw_key *key SW_NONNULL)
{
	long taken = sw_qp_take(map, key);

	return taken > 0 ? 0 : taken;
}

#endif
