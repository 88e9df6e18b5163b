/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What a writer has for itself, and the locks; a part of qp_write.bpf.h.
 *
 * A writer claims a lane of the window for the time of a change. A lane has a stock of blocks, a
 * slab, a ring for retired blocks, counts, and scratch. Each processor has two lanes of its own,
 * and takes others when both are in use: by a writer that was interrupted, or preempted.
 *
 * Locks: a bucket of the index has a bit, a branch of the trie has two bits of its header (held,
 * obsolete), and the root's cell has a word. The order is: a branch, the branch above it, a home
 * bucket, a bucket behind it. So no circle of waits is possible. A writer waits for a bounded time.
 * A writer that has interrupted the holder of a lock does not wait.
 */
#ifndef SAPWOOD_QP_WRITE_LANE_BPF_H
#define SAPWOOD_QP_WRITE_LANE_BPF_H

/* The attempts of a writer to take a lock: about a millisecond at most. */
#define SW_KQP_SPINS (1u << 17)
/* The attempts to change a count that other processors change, too. */
#define SW_KQP_TRIES 64
/* A lane takes as many entries of the limit at once, and returns that many when it has twice. */
#define SW_KQP_QUOTA 32

/* The state of a lock in the header of a branch, and in the root's word. */
#define SW_KQP_HELD (1u << 26)
#define SW_KQP_GONE (1u << 31)
#define SW_KQP_LOCKS (SW_KQP_HELD | SW_KQP_GONE)

/* The locks that a writer holds. */
enum sw_kqp_which {
	SW_KQP_LOWER = 0, /* a branch that the change replaces */
	SW_KQP_UPPER = 1, /* the branch above the change, or the root's cell */
	SW_KQP_HOME = 2, /* the home bucket of the key */
	SW_KQP_BEHIND = 3, /* a bucket behind the home */
};

/*
 * Scratch: values that the steps of an operation pass to each other. They lie in the lane, not in
 * registers, so that the verifier checks each step by itself, with unknown numbers.
 */
enum sw_kqp_scratch {
	SW_KQP_VALUE = 0, /* the new value, eight words */
	SW_KQP_LIMIT = 64, /* the number of references from SW_KQP_BEGIN on that may be followed */
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
	SW_KQP_WINDOW = 192, /* the place of the window */
	SW_KQP_LEVEL = 200, /* the depth on the path of the cell that changes */
	SW_KQP_BEGIN = 208, /* the first reference behind the lanes */
	SW_KQP_HEADER = 216, /* the header of the cluster at the end of the path */
	SW_KQP_DEAD = 224, /* the dead slot to which its borders lead the key, plus one; 0: none */
	SW_KQP_HASH = 232, /* the hash of the key */
	SW_KQP_FLAGS = 240, /* the flags of the insertion */
	SW_KQP_UNITS = 248, /* the units of the node that a new key needs; 0: none */
	SW_KQP_SOURCE = 256, /* where the three blocks come from, in their order; see sw_kqp_source */
	SW_KQP_NEED = 280, /* the blocks that a stock lacks */
	SW_KQP_KEPT = 288, /* the blocks that have to stay in their ring */
	SW_KQP_BOTH = 296, /* the cells of two neighbours that are joined, packed */
	SW_KQP_OLDEST = 304, /* of the entries that were compared, the age of the oldest one, */
	SW_KQP_BEST = 312, /* and the distance of its bucket from the home */
	SW_KQP_FROM = 320, /* the place of a long value's words, or 0: SW_KQP_VALUE, then zeros */
	SW_KQP_PATH = 336, /* the path to a leaf: two words for each branch, and two more; a ring */
};

/* The branches of a path that are kept: the lowest ones. */
#define SW_KQP_PATH_MAX 128

_Static_assert(SW_KQP_LANE_SCRATCH + SW_KQP_PATH + SW_KQP_PATH_MAX * 16 <= SW_KQP_LANE_STOCK, "the path fits");
_Static_assert(SW_KQP_LANE_STOCK + SW_KQP_CLASSES * SW_KQP_STOCK_BYTES <= SW_KQP_LANE_BYTES, "the stock fits");
_Static_assert(SW_KQP_NODE == SW_KQP_LEAF + 8 && SW_KQP_MORE == SW_KQP_LEAF + 16, "the three blocks");
_Static_assert(SW_KQP_CLASSES < 256, "a class and one is less than a unit of what is cut");
_Static_assert(SW_KQP_STOCK_BYTES == 4 + 4 * SW_KQP_STOCK_MAX && SW_KQP_STOCK_MAX > 2, "a stock's blocks");

SW_INLINE __u64 sw_kqp_get(sw_at lane, __u32 what)
{
	return sw_u64(lane + SW_KQP_LANE_SCRATCH + what);
}

SW_INLINE void sw_kqp_set(sw_at lane, __u32 what, __u64 value)
{
	sw_set_u64(lane + SW_KQP_LANE_SCRATCH + what, value);
}

/* A value of the scratch that has at most 32 bits. */
SW_INLINE __u32 sw_kqp_noted(sw_at lane, __u32 what)
{
	return (__u32)sw_kqp_get(lane, what);
}

/* The window of a lane that is in use. */
SW_INLINE sw_at sw_kqp_window(sw_at lane)
{
	return sw_kqp_get(lane, SW_KQP_WINDOW);
}

/*
 * Whether every place that programs compute from a node with this reference lies in the window, and
 * behind the lanes: a writer that overwrote its own scratch would lose the window's bounds.
 */
SW_INLINE int sw_kqp_inside(sw_at lane, __u64 ref)
{
	return ref - sw_kqp_get(lane, SW_KQP_BEGIN) < sw_kqp_get(lane, SW_KQP_LIMIT);
}

/* The first reference behind the lanes; behind every window, if a damaged one says 0 lanes. */
SW_INLINE __u64 sw_kqp_begin(sw_at window)
{
	__u32 last = sw_u32(window + SW_KQP_LANES) - 1;

	return SW_KQP_LANES_AT / 8 + ((__u64)last + 1) * (SW_KQP_LANE_BYTES / 8);
}

/* The number of references from `begin` on that may be followed; 0 or less in a damaged window. */
SW_INLINE __s64 sw_kqp_limit(__u32 map, __u64 begin)
{
	sw_at entry = SW_WINDOWS_AT + (__u64)(map & (SW_WINDOWS_MAX - 1)) * SW_WINDOW_BYTES;

	return sw_u64(entry + SW_WINDOW_LEN) / 8 - begin - SW_KQP_MARGIN;
}

/* The bytes of a value; in a damaged window, too, less than 2 * SW_KQP_VALUE_MAX. */
SW_INLINE __u32 sw_kqp_value_bytes(sw_at window)
{
	return sw_u32(window + SW_QP_VALUE_BYTES) & (2 * SW_KQP_VALUE_MAX - 8);
}

#ifdef __bpf__
static __u32 (*const sw_kqp_cpu)(void) = (void *)8; /* bpf_get_smp_processor_id */
#define sw_kqp_self() (sw_kqp_cpu() + 1)
#else
/* A thread stands for a processor. */
#define sw_kqp_self() ((__u32)(unsigned long)&sw_base >> 4 | 1)
#endif

/* The place of a lane of the window. */
SW_INLINE sw_at sw_kqp_lane(sw_at window, __u32 number)
{
	return window + SW_KQP_LANES_AT + (__u64)number * SW_KQP_LANE_BYTES;
}

/* The first lane of a processor. */
SW_INLINE sw_at sw_kqp_own_lane(sw_at window, __u32 self)
{
	return sw_kqp_lane(window, (self - 1) * 2 & (sw_u32(window + SW_KQP_LANES) - 1) & (SW_KQP_LANES_MAX - 1));
}

/*
 * Claims a lane if nobody has it: whether it was claimed. The lower half of the lane's first word
 * is the processor plus one, and the upper half the entries that the lane may still add.
 */
SW_INLINE int sw_kqp_claim_lane(sw_at lane, __u32 self)
{
	__u64 word = sw_u64(lane);

	return !(__u32)word && sw_cmpxchg_u64(lane, word, word | self) == word;
}

/* Returns a lane. */
SW_INLINE void sw_kqp_return_lane(sw_at lane)
{
	sw_publish_u32(lane, 0);
}

/* Counts an operation that failed: in the first lane of the processor, by reason. */
SW_GLOBAL int sw_kqp_drop(__u64 window, __s64 error)
{
	__u32 reason = error == -EBUSY ? 0 : error == -ENOMEM ? 8 : 16;
	sw_at lane = sw_kqp_own_lane(window, sw_kqp_self());

	if (error == -EBUSY || error == -ENOMEM || error == -E2BIG || error == -ENOSPC)
		sw_add_u64(lane + SW_KQP_LANE_DROPS + reason, 1);
	return 0;
}

/* The place where a lane notes a lock that it holds. */
SW_INLINE sw_at sw_kqp_held(sw_at lane, __u32 which)
{
	return lane + SW_KQP_LANE_HELD + which * 8;
}

/*
 * Claims a lane, and records the window's bounds, the key's hash and the flags: the lane's place,
 * -EBUSY, -EUCLEAN. The lane holds no lock: what a damaged window says of this is not believed,
 * because places that are noted as locks are written at the end.
 */
SW_GLOBAL long sw_kqp_claim(__u32 map, __u64 hash, __u64 flags)
{
	sw_at window = sw_window_in(map, 1u << SW_KIND_KERNEL_QP), lane;
	__u32 self = sw_kqp_self(), lanes = sw_u32(window + SW_KQP_LANES), i;
	__u64 begin = sw_kqp_begin(window);
	__s64 limit = sw_kqp_limit(map, begin);

	if (!window || sw_u32(window + SW_QP_VALUE_BYTES) > SW_KQP_VALUE_MAX || lanes - 1 >= SW_KQP_LANES_MAX ||
	    limit < 0)
		return -EUCLEAN;
	for (i = sw_zero(); i < lanes && sw_can_loop; i++) {
		lane = sw_kqp_lane(window, ((self - 1) * 2 + i) & (lanes - 1) & (SW_KQP_LANES_MAX - 1));
		if (sw_kqp_claim_lane(lane, self)) {
			sw_kqp_set(lane, SW_KQP_WINDOW, window);
			sw_kqp_set(lane, SW_KQP_BEGIN, begin);
			sw_kqp_set(lane, SW_KQP_LIMIT, limit);
			sw_kqp_set(lane, SW_KQP_HASH, hash);
			sw_kqp_set(lane, SW_KQP_FLAGS, flags);
			sw_set_u64(sw_kqp_held(lane, SW_KQP_LOWER), 0);
			sw_set_u64(sw_kqp_held(lane, SW_KQP_UPPER), 0);
			sw_set_u64(sw_kqp_held(lane, SW_KQP_HOME), 0);
			sw_set_u64(sw_kqp_held(lane, SW_KQP_BEHIND), 0);
			return (long)lane;
		}
	}
	sw_kqp_drop(window, -EBUSY);
	return -EBUSY;
}

/*
 * Whether a writer on this processor holds the lock at this place: one that this writer has
 * interrupted, and that cannot go on before it ends.
 */
SW_GLOBAL int sw_kqp_ours(__u64 lane, __u64 place)
{
	sw_at window = sw_kqp_window(lane), other;
	__u32 self = sw_kqp_self(), lanes = sw_u32(window + SW_KQP_LANES), i;

	for (i = sw_zero(); i < lanes && i < SW_KQP_LANES_MAX && sw_can_loop; i++) {
		other = sw_kqp_lane(window, i);
		if (other == lane || sw_u32(other) != self)
			continue;
		other += SW_KQP_LANE_HELD;
		if (sw_u64(other) == place || sw_u64(other + 8) == place ||
		    sw_u64(other + 16) == place || sw_u64(other + 24) == place)
			return 1;
	}
	return 0;
}

/*
 * Takes the lock of a branch, or that of the root: 0; -EAGAIN when the branch is obsolete; -EBUSY.
 * The lane notes the lock before it has it, so that a writer that interrupts this one finds it.
 */
SW_GLOBAL long sw_kqp_hold(__u64 lane, __u32 which, __u64 place)
{
	sw_at held = sw_kqp_held(lane, which & 1);
	__u32 left, word;

	for (left = sw_zero() + SW_KQP_SPINS; left && sw_can_loop; left--) {
		word = sw_u32(place);
		if ((word & SW_KQP_LOCKS) == SW_KQP_GONE)
			return -EAGAIN;
		if (!(word & SW_KQP_LOCKS)) {
			sw_set_u64(held, place);
			if (sw_cmpxchg_u32(place, word, word | SW_KQP_HELD) == word)
				return 0;
			sw_set_u64(held, 0);
		} else if (!(left & 1023) && sw_kqp_ours(lane, place)) {
			return -EBUSY;
		}
	}
	return -EBUSY;
}

/*
 * The same for a bucket; a third one has the place of a branch. With SW_KQP_ONCE in `which`, a
 * writer does not wait, because it locks the bucket out of order.
 */
#define SW_KQP_THIRD SW_KQP_UPPER
#define SW_KQP_ONCE 4
SW_GLOBAL long sw_kqp_hold_bucket(__u64 lane, __u32 which, __u64 bucket)
{
	sw_at held = sw_kqp_held(lane, which & 3);
	__u32 left;
	__u64 word;

	for (left = sw_zero() + (which & SW_KQP_ONCE ? 1 : SW_KQP_SPINS); left && sw_can_loop; left--) {
		word = sw_u64(bucket + 8);
		if (!(word & SW_QP_BUCKET_LOCK)) {
			sw_set_u64(held, bucket);
			if (sw_cmpxchg_u64(bucket + 8, word, word | SW_QP_BUCKET_LOCK) == word)
				return 0;
			sw_set_u64(held, 0);
		} else if (!(left & 1023) && sw_kqp_ours(lane, bucket)) {
			return -EBUSY;
		}
	}
	return -EBUSY;
}

/* Releases the lock of a branch or of the root, if the lane has it; `state` is SW_KQP_GONE or 0. */
SW_INLINE void sw_kqp_let(sw_at lane, __u32 which, __u32 state)
{
	sw_at held = sw_kqp_held(lane, which), place = sw_u64(held);

	if (place) {
		sw_publish_u32(place, (sw_u32(place) & ~SW_KQP_LOCKS) | state);
		sw_set_u64(held, 0);
	}
}

/* Releases the lock of a bucket, if the lane has it. */
SW_INLINE void sw_kqp_let_bucket(sw_at lane, __u32 which)
{
	sw_at held = sw_kqp_held(lane, which), bucket = sw_u64(held);

	if (bucket) {
		sw_publish_u64(bucket + 8, sw_u64(bucket + 8) & ~SW_QP_BUCKET_LOCK);
		sw_set_u64(held, 0);
	}
}

/* Releases all locks of a lane. */
SW_GLOBAL int sw_kqp_let_all(__u64 lane)
{
	sw_kqp_let(lane, SW_KQP_LOWER, 0);
	sw_kqp_let(lane, SW_KQP_UPPER, 0);
	sw_kqp_let_bucket(lane, SW_KQP_BEHIND);
	sw_kqp_let_bucket(lane, SW_KQP_HOME);
	return 0;
}

/*
 * Ends a change: releases the locks and returns the lane. A process that copies the window checks
 * before and after that no lane is in use, and that the sequence numbers are the same.
 */
SW_GLOBAL int sw_kqp_end(__u64 lane)
{
	sw_kqp_let_all(lane);
	sw_publish_u64(lane + SW_KQP_LANE_SEQUENCE, sw_u64(lane + SW_KQP_LANE_SEQUENCE) + 1);
	sw_kqp_return_lane(lane);
	return 0;
}

/* The entries that this lane may still add. */
SW_INLINE __u32 sw_kqp_quota(sw_at lane)
{
	return sw_u32(lane + 4);
}
SW_INLINE void sw_kqp_set_quota(sw_at lane, __u32 entries)
{
	sw_set_u32(lane + 4, entries);
}

/*
 * Takes the entries that a lane which nobody uses may still add: their number; 0 when no such lane
 * has any; -EBUSY when only lanes in use have some, or -EDEADLK when a writer that this one has
 * interrupted has the last ones.
 */
SW_INLINE long sw_kqp_inherit(sw_at lane, __u32 lanes)
{
	__u32 self = sw_kqp_self(), i;
	long in_use = 0;
	sw_at other;
	__u64 word;

	for (i = sw_zero(); i < lanes && i < SW_KQP_LANES_MAX && sw_can_loop; i++) {
		other = sw_kqp_lane(sw_kqp_window(lane), i);
		word = sw_u64(other);
		if (other == lane || !(word >> 32))
			continue;
		if (!(__u32)word && sw_cmpxchg_u64(other, word, 0) == word)
			return (long)(word >> 32);
		if ((__u32)word != self)
			in_use = -EBUSY;
		else if (!in_use)
			in_use = -EDEADLK;
	}
	return in_use;
}

/*
 * Makes sure that the lane may add an entry: 0; -E2BIG when the map has all its entries; -EBUSY
 * when lanes in use have the last ones, and do not end for a millisecond or so.
 */
SW_GLOBAL long sw_kqp_may_add(__u64 lane)
{
	sw_at window = sw_kqp_window(lane);
	__u32 lanes = sw_u32(window + SW_KQP_LANES), granted, left, more, i;
	long found = -EBUSY;

	if (sw_kqp_quota(lane))
		return 0;
	for (i = sw_zero(); i < SW_KQP_TRIES && sw_can_loop; i++) {
		granted = sw_u32(window + SW_KQP_GRANTED);
		left = sw_u32(window + SW_KQP_MAX) - granted;
		if ((__s32)left <= 0)
			break;
		more = left / ((lanes & 0xff) * 2 + 1);
		more = more < 1 ? 1 : more > SW_KQP_QUOTA ? SW_KQP_QUOTA : more;
		if (sw_cmpxchg_u32(window + SW_KQP_GRANTED, granted, granted + more) == granted) {
			sw_kqp_set_quota(lane, more);
			return 0;
		}
	}
	for (i = sw_zero(); i < SW_KQP_SPINS / 16 && found == -EBUSY && sw_can_loop; i++)
		found = sw_kqp_inherit(lane, lanes);
	if (found > 0)
		sw_kqp_set_quota(lane, (__u32)found);
	return found > 0 ? 0 : found ? -EBUSY : -E2BIG;
}

/* Counts an entry that was removed. */
SW_INLINE void sw_kqp_removed(sw_at lane)
{
	sw_at window = sw_kqp_window(lane);
	__u32 quota = sw_kqp_quota(lane) + 1;

	if (quota >= 2 * SW_KQP_QUOTA) {
		quota -= SW_KQP_QUOTA;
		sw_fetch_add_u32(window + SW_KQP_GRANTED, (__u32)-SW_KQP_QUOTA);
	}
	sw_kqp_set_quota(lane, quota);
}

/* Adds to one of the lane's counts; `more` may be negative. */
SW_INLINE void sw_kqp_count(sw_at lane, __u32 what, __u32 more)
{
	sw_set_u32(lane + what, sw_u32(lane + what) + more);
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

/* The stock of a lane: the number of blocks of a class, and their references. */
SW_INLINE sw_at sw_kqp_stock(sw_at lane, __u32 class)
{
	return lane + SW_KQP_LANE_STOCK + (__u64)(class < SW_KQP_CLASSES ? class : 0) * SW_KQP_STOCK_BYTES;
}

/*
 * Fills the lane's stock of a class from its ring until it has `need` blocks, or more when the ring
 * has many. With `keep`, the blocks that are kept for removals stay in the ring. 0; -ENOMEM;
 * -EUCLEAN.
 */
SW_GLOBAL long sw_kqp_refill(__u64 lane, __u32 class, __u32 need, __u32 keep)
{
	sw_at ring, stock = sw_kqp_stock(lane, class);
	__u32 count, more, have, try;

	if (sw_u32(stock) > SW_KQP_STOCK_MAX || need > SW_KQP_STOCK_MAX || class >= SW_KQP_CLASSES)
		return -EUCLEAN;
	/* Values are noted, or read again where they are needed: the stack is short. */
	sw_kqp_set(lane, SW_KQP_NEED, need - sw_u32(stock));
	ring = sw_kqp_ring(sw_kqp_window(lane), class);
	sw_kqp_set(lane, SW_KQP_KEPT, keep ? sw_u32(ring + SW_KQP_RING_KEPT) : 0);
	for (try = sw_zero(); try < SW_KQP_TRIES && sw_can_loop; try++) {
		sw_hide(lane);
		ring = sw_kqp_ring(sw_kqp_window(lane), class);
		count = sw_acquire_u32(ring + SW_KQP_RING_PROGRAMS);
		more = sw_acquire_u32(ring + SW_KQP_RING_USER) - count;
		/* Others may have taken blocks since. If it stays so, a count is wrong. */
		if (more > sw_u32(ring + SW_KQP_RING_MASK) + 1)
			continue;
		have = sw_kqp_noted(lane, SW_KQP_KEPT);
		if (more < have || more - have < sw_kqp_noted(lane, SW_KQP_NEED))
			return -ENOMEM;
		more = (more - have) / (2 * (sw_u32(sw_kqp_window(lane) + SW_KQP_LANES) & 0xff) + 1);
		stock = sw_kqp_stock(lane, class);
		have = SW_KQP_STOCK_MAX - (sw_u32(stock) & 7);
		more = more > have ? have : more;
		have = sw_kqp_noted(lane, SW_KQP_NEED);
		more = more < have ? have : more;
		sw_hide(lane);
		for (have = sw_zero(); have < more && have < SW_KQP_STOCK_MAX && sw_can_loop; have++) {
			sw_hide(class);
			ring = sw_kqp_ring(sw_kqp_window(lane), class);
			stock = sw_kqp_stock(lane, class);
			sw_set_u32(stock + 4 + (sw_u32(stock) + have) % 8 * 4,
				   sw_u32(sw_kqp_ring_slot(sw_kqp_window(lane), ring, count + have)));
		}
		sw_hide(lane);
		ring = sw_kqp_ring(sw_kqp_window(lane), class);
		stock = sw_kqp_stock(lane, class);
		if (sw_cmpxchg_u32(ring + SW_KQP_RING_PROGRAMS, count, count + more) == count) {
			sw_set_u32(stock, sw_u32(stock) + more);
			return 0;
		}
	}
	ring = sw_kqp_ring(sw_kqp_window(lane), class);
	more = sw_acquire_u32(ring + SW_KQP_RING_USER) - sw_acquire_u32(ring + SW_KQP_RING_PROGRAMS);
	return more > sw_u32(ring + SW_KQP_RING_MASK) + 1 ? -EUCLEAN : -EBUSY;
}

/* The place of a cell in a lane's chunk. `tail`: the chunk's reference, and the cell's number. */
SW_INLINE sw_at sw_kqp_cell(sw_at lane, __u64 tail)
{
	return sw_ref(sw_kqp_window(lane), tail >> 32) + (tail & (SW_KQP_CHUNK_UNITS - 1)) * 8;
}

/*
 * Retires a block of this many units: adds a cell to the lane's chunk, in which user space finds
 * it. The caller has made sure that there is room. A cell without units is the link to the next
 * chunk.
 */
SW_INLINE void sw_kqp_retire(sw_at lane, __u32 ref, __u32 units)
{
	__u64 tail = sw_u64(lane + SW_KQP_LANE_TAIL);

	sw_set_u64(sw_kqp_cell(lane, tail), (__u64)units << 32 | ref);
	sw_publish_u64(lane + SW_KQP_LANE_TAIL, tail + 1);
}

/*
 * Makes sure that the lane's slab has this many units, for one block or more: takes the next slab
 * when this one has fewer, and retires the rest of this one. With `keep`, the slabs that are kept
 * for removals stay in the ring. 0, -ENOMEM, -EUCLEAN; -EBUSY when other writers took a slab at
 * each attempt. A slab takes two slots of the ring: its reference and its units.
 */
SW_GLOBAL long sw_kqp_slab(__u64 lane, __u32 units, __u32 keep)
{
	sw_at window = sw_kqp_window(lane), ring = sw_kqp_ring(window, SW_KQP_SLABS);
	__u32 count, there, ref, more, try;
	long error = -EBUSY;

	if (sw_u32(lane + SW_KQP_LANE_SLAB_LEFT) >= units)
		return 0;
	for (try = sw_zero(); try < SW_KQP_TRIES && sw_can_loop; try++) {
		count = sw_acquire_u32(ring + SW_KQP_RING_PROGRAMS);
		there = sw_acquire_u32(ring + SW_KQP_RING_USER) - count;
		error = there > sw_u32(ring + SW_KQP_RING_MASK) + 1 ? -EUCLEAN : -EBUSY;
		if (error == -EUCLEAN)
			continue;
		if (there <= (keep ? sw_u32(ring + SW_KQP_RING_KEPT) : 0))
			return -ENOMEM;
		ref = sw_u32(sw_kqp_ring_slot(window, ring, count));
		more = sw_u32(sw_kqp_ring_slot(window, ring, count + 1));
		if (sw_cmpxchg_u32(ring + SW_KQP_RING_PROGRAMS, count, count + 2) != count)
			continue;
		count = sw_u32(lane + SW_KQP_LANE_SLAB_LEFT);
		if (count)
			sw_kqp_retire(lane, sw_u32(lane + SW_KQP_LANE_SLAB), count);
		sw_set_u32(lane + SW_KQP_LANE_SLAB, ref);
		sw_set_u32(lane + SW_KQP_LANE_SLAB_LEFT, more);
		return more >= units ? 0 : -ENOMEM;
	}
	return error;
}

/*
 * Cuts a block of this many units, those of a class, off the slab. Leaves come from its beginning,
 * nodes and chunks from its end: leaves stay, and most nodes are soon replaced. So leaves lie
 * together, and what returns forms larger runs.
 */
SW_INLINE __u32 sw_kqp_cut(sw_at lane, __u32 units, int leaf)
{
	__u32 ref = sw_u32(lane + SW_KQP_LANE_SLAB), left = sw_u32(lane + SW_KQP_LANE_SLAB_LEFT) - units;

	sw_set_u32(lane + SW_KQP_LANE_SLAB_LEFT, left);
	if (!leaf)
		return ref + left;
	sw_set_u32(lane + SW_KQP_LANE_SLAB, ref + units);
	return ref;
}

/*
 * Takes a chunk for retired blocks: from the ring of chunks, where `keep` leaves those that are
 * kept for removals; or from the lane's slab. Its reference; -ENOMEM; -EUCLEAN; -EBUSY.
 */
SW_GLOBAL long sw_kqp_chunk(__u64 lane, __u32 keep)
{
	sw_at window = sw_kqp_window(lane), ring = sw_kqp_ring(window, SW_KQP_CHUNKS);
	__u32 count, there, ref, try;
	long error = -EBUSY;

	for (try = sw_zero(); try < SW_KQP_TRIES && sw_can_loop; try++) {
		count = sw_acquire_u32(ring + SW_KQP_RING_PROGRAMS);
		there = sw_acquire_u32(ring + SW_KQP_RING_USER) - count;
		error = there > sw_u32(ring + SW_KQP_RING_MASK) + 1 ? -EUCLEAN : -EBUSY;
		if (error == -EUCLEAN)
			continue;
		error = -ENOMEM;
		if (there <= (keep ? sw_u32(ring + SW_KQP_RING_KEPT) : 0))
			break;
		ref = sw_u32(sw_kqp_ring_slot(window, ring, count));
		if (sw_cmpxchg_u32(ring + SW_KQP_RING_PROGRAMS, count, count + 1) == count)
			return ref;
		error = -EBUSY;
	}
	if (error == -ENOMEM)
		error = sw_kqp_slab(lane, SW_KQP_CHUNK_UNITS, keep);
	return error ? error : sw_kqp_cut(lane, SW_KQP_CHUNK_UNITS, 0);
}

/*
 * Makes sure that a change can retire what it may have to: eight blocks. 0; -ENOMEM when no chunk
 * is free; -EUCLEAN; -EBUSY. Behind the eight cells are two more, for the rest of a slab and for
 * the link to the next chunk.
 */
SW_GLOBAL long sw_kqp_room(__u64 lane, __u32 keep)
{
	__u64 tail = sw_u64(lane + SW_KQP_LANE_TAIL);
	long next;

	if (!sw_kqp_inside(lane, tail >> 32) || (__u32)tail >= SW_KQP_CHUNK_UNITS)
		return -EUCLEAN;
	if ((__u32)tail + 10 < SW_KQP_CHUNK_UNITS)
		return 0;
	next = sw_kqp_chunk(lane, keep);
	if (next < 0)
		return next;
	if (!sw_kqp_inside(lane, (__u32)next))
		return -EUCLEAN;
	/* The place may have moved by the rest of a slab. */
	tail = sw_u64(lane + SW_KQP_LANE_TAIL);
	sw_set_u64(sw_kqp_cell(lane, tail), (__u32)next);
	sw_publish_u64(lane + SW_KQP_LANE_TAIL, (__u64)next << 32);
	return 0;
}

/*
 * Finds the source of a block of this many units, when `need` blocks of its class are needed in
 * all: 0 for the stock; or, when the ring has too few, the units to be cut off the slab; or
 * -EUCLEAN.
 */
SW_INLINE long sw_kqp_look(sw_at lane, __u32 units, __u32 need, __u32 keep)
{
	__u32 class = sw_kqp_class(units);
	long error;

	if (sw_u32(sw_kqp_stock(lane, class)) >= need)
		return 0;
	error = sw_kqp_refill(lane, class, need, keep);
	return error == -ENOMEM ? (long)sw_kqp_block_units(units) : error;
}

/*
 * Finds the source of block number `which` of a change, of this many units, and notes it: its class
 * plus one if it comes from the stock; else the units to be cut off the slab, times 256. 0, or an
 * error.
 */
SW_INLINE long sw_kqp_source(sw_at lane, __u32 which, __u32 units, __u32 keep)
{
	__u32 stocked = sw_kqp_class(units) + 1, need;
	long cut;

	/* With those that come from the same stock. */
	need = 1 + (sw_kqp_noted(lane, SW_KQP_SOURCE) == stocked) +
	       (sw_kqp_noted(lane, SW_KQP_SOURCE + 8) == stocked);
	sw_kqp_set(lane, SW_KQP_SOURCE + which * 8, stocked);
	cut = sw_kqp_look(lane, units, need, keep);
	if (cut > 0)
		sw_kqp_set(lane, SW_KQP_SOURCE + which * 8, cut << 8);
	return cut < 0 ? cut : 0;
}

/*
 * Takes the block of number `which` from its source. Records the block in the scratch: 0, -EUCLEAN.
 */
SW_GLOBAL long sw_kqp_get_block(__u64 lane, __u32 which)
{
	__u32 source, ref, have;
	sw_at stock;

	/* It is one of the three. */
	which = which < 2 ? which : 2;
	source = sw_kqp_noted(lane, SW_KQP_SOURCE + which * 8);
	if (!source)
		return 0;
	if (source >> 8) {
		ref = sw_kqp_cut(lane, source >> 8, !which);
	} else {
		stock = sw_kqp_stock(lane, source - 1);
		have = sw_u32(stock);
		if (have - 1 >= SW_KQP_STOCK_MAX)
			return -EUCLEAN;
		ref = sw_u32(stock + have * 4);
		sw_set_u32(stock, have - 1);
	}
	sw_kqp_set(lane, SW_KQP_LEAF + which * 8, ref);
	return sw_kqp_inside(lane, ref) ? 0 : -EUCLEAN;
}

/*
 * Takes blocks of these units for SW_KQP_LEAF, SW_KQP_NODE and SW_KQP_MORE; no block where the
 * units are 0. It takes all blocks or none. A block whose ring is empty is cut off the slab. With
 * `keep`, the blocks that are kept for removals stay. 0; -ENOMEM; -EUCLEAN when a reference in a
 * ring lies outside the window.
 */
SW_GLOBAL long sw_kqp_take(__u64 lane, __u32 leaf, __u32 node, __u32 more, __u32 keep)
{
	__u32 cut;
	long error = 0;

	sw_kqp_set(lane, SW_KQP_SOURCE, 0);
	sw_kqp_set(lane, SW_KQP_SOURCE + 8, 0);
	sw_kqp_set(lane, SW_KQP_SOURCE + 16, 0);
	if (leaf)
		error = sw_kqp_source(lane, 0, leaf, keep);
	sw_hide(lane);
	if (node && !error)
		error = sw_kqp_source(lane, 1, node, keep);
	sw_hide(lane);
	if (more && !error)
		error = sw_kqp_source(lane, 2, more, keep);
	if (error)
		return error;
	sw_hide(lane);
	cut = (sw_kqp_noted(lane, SW_KQP_SOURCE) >> 8) + (sw_kqp_noted(lane, SW_KQP_SOURCE + 8) >> 8) +
	      (sw_kqp_noted(lane, SW_KQP_SOURCE + 16) >> 8);
	if (cut)
		error = sw_kqp_slab(lane, cut, keep);
	if (leaf && !error)
		error = sw_kqp_get_block(lane, 0);
	if (node && !error)
		error = sw_kqp_get_block(lane, 1);
	if (more && !error)
		error = sw_kqp_get_block(lane, 2);
	return error;
}

#endif
