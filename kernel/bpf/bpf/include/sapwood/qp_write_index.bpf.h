/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The index of a map that programs write; a part of qp_write.bpf.h. The index has one table, which
 * user space makes. All keys with the same home are changed one after the other, under its lock. A
 * slot is taken or freed under the lock of its bucket.
 *
 * Buckets and their words: docs/shared.md. Readers may read meanwhile. So a cell is stored before
 * its tag, and a key is removed from its bucket before the counts of its home change.
 */
#ifndef SAPWOOD_QP_WRITE_INDEX_BPF_H
#define SAPWOOD_QP_WRITE_INDEX_BPF_H

#define SW_KQP_OUT_MAX 0x3f
#define SW_KQP_REACH_MAX 0xff
#define SW_KQP_STICKY 0xffull

SW_INLINE __u32 sw_kqp_tag(__u64 hash)
{
	__u32 tag = hash & 0xff;

	return tag | !tag;
}

/* The number of buckets of the index's table. */
SW_INLINE __u32 sw_kqp_total(sw_at lane)
{
	sw_at window = sw_kqp_window(lane);

	return sw_u32(sw_ref(window, sw_u32(window + SW_QP_TABLE)) + SW_QP_TABLE_TOTAL);
}

/* The place of the bucket `far` buckets behind the home of a hash; 0 when outside the window. */
SW_INLINE sw_at sw_kqp_bucket(sw_at lane, __u64 hash, __u32 far)
{
	sw_at window = sw_kqp_window(lane), table = sw_ref(window, sw_u32(window + SW_QP_TABLE));
	__u32 home = (__u32)(((hash >> 32) * sw_u32(table + SW_QP_TABLE_HOMES)) >> 32);
	sw_at bucket = sw_qp_bucket(window, table, sw_u32(table + SW_QP_TABLE_SHIFT) & 31, home + far);

	return bucket && sw_kqp_inside(lane, (bucket - window) / 8) ? bucket : 0;
}

/*
 * Whether a leaf has this key. This and the search for the next slot with the key's tag are
 * functions apart: at -O1, the verifier would follow the branches of both in each round of
 * sw_kqp_index_find.
 */
SW_GLOBAL int sw_kqp_is_key(__u64 leaf, __u32 value_bytes, const struct sw_key *key SW_NONNULL)
{
	sw_use_arena();
	if (sw_key_is_long(key))
		return sw_qp_is_long_key(leaf + value_bytes, key);
	return sw_qp_is_key_of_fixed(leaf, value_bytes, key);
}

/*
 * Finds a key in the index, and records its slot in the scratch: the place of its leaf; -ENOENT;
 * -ENODATA when the key may be in the trie alone; -ELOOP; -EUCLEAN.
 */
SW_GLOBAL long sw_kqp_index_find(__u64 lane, const struct sw_key *key SW_NONNULL)
{
	sw_at window, bucket, leaf;
	__u32 from = sw_zero();
	long found;

	while (sw_can_loop) {
		window = sw_kqp_window(lane);
		found = sw_ref(window, sw_u32(window + SW_QP_TABLE));
		found = sw_qp_candidate(window, found, sw_kqp_get(lane, SW_KQP_HASH), from);
		/* There is one table. */
		if (found <= 0)
			return found && found != -EAGAIN ? found : -EUCLEAN;
		from = (__u32)((__u64)found >> 32);
		sw_hide(lane);
		window = sw_kqp_window(lane);
		leaf = sw_qp_node(window, (__u32)found);
		if (!sw_kqp_is_key(leaf, sw_kqp_value_bytes(window), key))
			continue;
		bucket = sw_kqp_bucket(lane, sw_kqp_get(lane, SW_KQP_HASH), (from - 1) >> 6);
		if (!bucket)
			return -EUCLEAN;
		sw_kqp_set(lane, SW_KQP_BUCKET, bucket);
		sw_kqp_set(lane, SW_KQP_BUCKET_SLOT, sw_qp_candidate_slot(from));
		sw_kqp_set(lane, SW_KQP_FAR, (from - 1) >> 6);
		return (long)leaf;
	}
	return -ELOOP;
}

/* Locks the home of a hash: 0, -EBUSY, -EUCLEAN. */
SW_GLOBAL long sw_kqp_index_home(__u64 lane, __u64 hash)
{
	sw_at home = sw_kqp_bucket(lane, hash, 0);

	sw_kqp_set(lane, SW_KQP_BUCKET, 0);
	return home ? sw_kqp_hold_bucket(lane, SW_KQP_HOME, home) : -EUCLEAN;
}

/*
 * Locks the home of a key, and finds the key: the place of its leaf; -ENOENT; -ENODATA when the key
 * may be in the trie alone; or an error. Locks the key's bucket, too, if it lies behind the home.
 */
SW_INLINE long sw_kqp_index_hold(sw_at lane, const struct sw_key *key)
{
	long error = sw_kqp_index_home(lane, sw_kqp_get(lane, SW_KQP_HASH)), found;

	if (error)
		return error;
	found = sw_kqp_index_find(lane, key);
	if (found > 0 && sw_kqp_get(lane, SW_KQP_FAR)) {
		error = sw_kqp_hold_bucket(lane, SW_KQP_BEHIND, sw_kqp_get(lane, SW_KQP_BUCKET));
		if (error)
			return error;
	}
	return found;
}

/*
 * Locks the slot of a key in the index, if the map has an index: 0, whether the key is there or
 * not, and SW_KQP_BUCKET says which; or an error.
 */
SW_INLINE long sw_kqp_index_enter(sw_at lane, const struct sw_key *key)
{
	long found = 0;

	sw_kqp_set(lane, SW_KQP_BUCKET, 0);
	if (sw_u32(sw_kqp_window(lane) + SW_KQP_PARTS) & SW_KQP_INDEX)
		found = sw_kqp_index_hold(lane, key);
	return found < 0 && found != -ENOENT && found != -ENODATA ? found : 0;
}

/*
 * Finds a free slot for a key whose home is locked, and records it in the scratch: 0; -ENOSPC when
 * no slot near the home is free; -EBUSY, -EUCLEAN, -ELOOP. A slot behind the home is then in a
 * locked bucket.
 */
SW_GLOBAL long sw_kqp_index_free(__u64 lane, __u64 hash)
{
	sw_at window = sw_kqp_window(lane), table = sw_ref(window, sw_u32(window + SW_QP_TABLE));
	sw_at bucket = sw_kqp_bucket(lane, hash, 0);
	__u32 home = (__u32)(((hash >> 32) * sw_u32(table + SW_QP_TABLE_HOMES)) >> 32);
	__u32 total = sw_u32(table + SW_QP_TABLE_TOTAL), far, most = 1, slot;
	__u64 slots;
	long error;

	sw_kqp_set(lane, SW_KQP_BUCKET, 0);
	if (!bucket || home >= total)
		return -EUCLEAN;
	if (((sw_u64(bucket + 8) >> SW_QP_BUCKET_OUT) & SW_KQP_OUT_MAX) < SW_KQP_OUT_MAX)
		most = total - home;
	if (most > SW_KQP_REACH_MAX + 1)
		most = SW_KQP_REACH_MAX + 1;
	for (far = sw_zero(); far < most && sw_can_loop; far++) {
		bucket = sw_kqp_bucket(lane, hash, far);
		if (!bucket)
			return -EUCLEAN;
		slots = sw_qp_slots(sw_u64(bucket), sw_u64(bucket + 8));
		if (slots && far) {
			error = sw_kqp_hold_bucket(lane, SW_KQP_BEHIND, bucket);
			if (error)
				return error;
			slots = sw_qp_slots(sw_u64(bucket), sw_u64(bucket + 8));
			if (!slots)
				sw_kqp_let_bucket(lane, SW_KQP_BEHIND);
		}
		if (slots) {
			slot = sw_qp_first_slot(slots) / 4;
			sw_kqp_set(lane, SW_KQP_BUCKET, bucket);
			sw_kqp_set(lane, SW_KQP_BUCKET_SLOT, slot);
			sw_kqp_set(lane, SW_KQP_FAR, far);
			return 0;
		}
	}
	return far < most ? -ELOOP : -ENOSPC;
}

/*
 * Entries that leave by themselves: in a map with uses, each slot of the index has the tick of its
 * last use. A full map removes the entry of the new key's home that was not used for the longest
 * time. An entry that was not used for the map's idle ticks is gone: it is not found by sw_qp_use,
 * and an insertion takes its place.
 */
#ifdef __bpf__
static __u64 (*const sw_kqp_clock)(void) = (void *)5; /* bpf_ktime_get_ns */
#define sw_kqp_now() ((__u32)(sw_kqp_clock() >> SW_KQP_TICK))
#else
/* The tick, which user space sets. */
static _Thread_local __u32 sw_kqp_tick __attribute__((unused));
#define sw_kqp_now() sw_kqp_tick
#endif

/*
 * Locks a slot of the index for a new key, if the map has an index: 0, also when all slots near its
 * home are taken, and then SW_KQP_BUCKET is 0; or an error.
 */
SW_GLOBAL long sw_kqp_index_ready(__u64 lane, const struct sw_key *key SW_NONNULL)
{
	long error = sw_kqp_index_enter(lane, key);

	if (error || !(sw_u32(sw_kqp_window(lane) + SW_KQP_PARTS) & SW_KQP_INDEX))
		return error;
	/* The index has every key of the trie that has a slot. */
	if (sw_kqp_get(lane, SW_KQP_BUCKET))
		return -EUCLEAN;
	error = sw_kqp_index_free(lane, sw_kqp_get(lane, SW_KQP_HASH));
	return error == -ENOSPC ? 0 : error;
}

/* The number of the home bucket of a hash in the index's table. */
SW_INLINE __u32 sw_kqp_home(sw_at window, __u64 hash)
{
	sw_at table = sw_ref(window, sw_u32(window + SW_QP_TABLE));

	return (__u32)(((hash >> 32) * sw_u32(table + SW_QP_TABLE_HOMES)) >> 32);
}

/*
 * The place of the last use of a slot of this bucket of the table; 0 when the map has no uses, or
 * they do not lie in the window.
 */
SW_INLINE sw_at sw_kqp_use(sw_at window, __u64 begin, __u64 limit, __u32 bucket, __u32 slot)
{
	__u64 ref = sw_u32(window + SW_KQP_USES);

	if (!ref)
		return 0;
	ref += (__u64)bucket * (SW_KQP_USES_BYTES / 8);
	return ref - begin < limit ? window + ref * 8 + (slot & 15) * 4 : 0;
}

/* Whether an entry whose last use is at a place was not used for too long. */
SW_INLINE int sw_kqp_is_idle(sw_at window, sw_at use, __u32 now)
{
	__u32 most = sw_u32(window + SW_KQP_IDLE);

	return use && most && now - sw_u32(use) > most;
}

/* The place of the last use of the slot in the scratch, whose key has this hash; 0 if there is none. */
SW_INLINE sw_at sw_kqp_use_here(sw_at lane, __u64 hash)
{
	__u32 bucket = sw_kqp_home(sw_kqp_window(lane), hash) + sw_kqp_noted(lane, SW_KQP_FAR);

	return sw_kqp_use(sw_kqp_window(lane), sw_kqp_get(lane, SW_KQP_BEGIN), sw_kqp_get(lane, SW_KQP_LIMIT),
			  bucket, sw_kqp_noted(lane, SW_KQP_BUCKET_SLOT));
}

/* Changes the tag of the slot in the scratch. */
SW_INLINE void sw_kqp_set_tag(sw_at lane, __u32 tag)
{
	__u32 slot = (__u32)sw_kqp_get(lane, SW_KQP_BUCKET_SLOT);
	sw_at word = sw_kqp_get(lane, SW_KQP_BUCKET) + (slot & 8);
	__u32 shift = (slot & 7) * 8;

	sw_publish_u64(word, (sw_u64(word) & ~(0xffull << shift)) | (__u64)tag << shift);
}

/* Puts a leaf into the slot in the scratch. Without a slot, the home counts the key as spilled. */
SW_GLOBAL int sw_kqp_index_put(__u64 lane, __u64 hash, __u32 cell)
{
	sw_at bucket = sw_kqp_get(lane, SW_KQP_BUCKET), home = sw_kqp_bucket(lane, hash, 0);
	__u64 state = sw_u64(home + 8), far = sw_kqp_get(lane, SW_KQP_FAR), reach;
	__u32 tag = sw_kqp_tag(hash);

	if (!home)
		return 0;
	if (!bucket) {
		if ((state >> SW_QP_BUCKET_SPILLED & SW_KQP_STICKY) != SW_KQP_STICKY)
			sw_publish_u64(home + 8, state + (1ull << SW_QP_BUCKET_SPILLED));
		return 0;
	}
	sw_publish_u32(bucket + SW_QP_BUCKET_LEAVES + sw_kqp_get(lane, SW_KQP_BUCKET_SLOT) * 4, cell);
	sw_kqp_set_tag(lane, tag);
	if (far) {
		reach = state >> SW_QP_BUCKET_REACH & SW_KQP_REACH_MAX;
		state &= ~((__u64)SW_KQP_REACH_MAX << SW_QP_BUCKET_REACH);
		state |= (far > reach ? far : reach) << SW_QP_BUCKET_REACH;
		state |= 1ull << (SW_QP_BUCKET_FILTER + (tag & 7));
		sw_publish_u64(home + 8, state + (1ull << SW_QP_BUCKET_OUT));
	}
	return 0;
}

/*
 * Removes the leaf that was found from its slot. Without a slot, the home no longer counts the key
 * as spilled.
 */
SW_GLOBAL int sw_kqp_index_remove(__u64 lane, __u64 hash)
{
	sw_at home = sw_kqp_bucket(lane, hash, 0);
	__u64 state, out, spilled;

	if (!home)
		return 0;
	if (!sw_kqp_get(lane, SW_KQP_BUCKET)) {
		state = sw_u64(home + 8);
		spilled = state >> SW_QP_BUCKET_SPILLED & SW_KQP_STICKY;
		if (spilled && spilled != SW_KQP_STICKY)
			sw_publish_u64(home + 8, state - (1ull << SW_QP_BUCKET_SPILLED));
		return 0;
	}
	sw_kqp_set_tag(lane, 0);
	if (sw_kqp_get(lane, SW_KQP_FAR)) {
		state = sw_u64(home + 8);
		out = state >> SW_QP_BUCKET_OUT & SW_KQP_OUT_MAX;
		if (out > 1)
			state -= 1ull << SW_QP_BUCKET_OUT;
		else
			state &= ~((__u64)SW_KQP_OUT_MAX << SW_QP_BUCKET_OUT |
				   (__u64)SW_KQP_REACH_MAX << SW_QP_BUCKET_REACH |
				   0xffull << SW_QP_BUCKET_FILTER);
		sw_publish_u64(home + 8, state);
	}
	return 0;
}

/*
 * The slot of a bucket that was not used for the longest time: sixteen times its age in ticks, plus
 * its number; or -ENOENT. The bucket at the place has this number in the table.
 */
SW_GLOBAL long sw_kqp_oldest(__u64 lane, __u64 bucket, __u32 number)
{
	sw_at window = sw_kqp_window(lane), use;
	__u32 now = sw_kqp_now(), i, age, most = sw_zero();
	long oldest = -ENOENT;

	sw_for (i, SW_QP_BUCKET_SLOTS) {
		use = sw_kqp_use(window, sw_kqp_get(lane, SW_KQP_BEGIN), sw_kqp_get(lane, SW_KQP_LIMIT), number, i);
		if (!sw_u8(bucket + i) || !use)
			continue;
		age = now - sw_u32(use) + 1;
		if (age <= most)
			continue;
		most = age;
		oldest = (long)((__u64)age << 4 | i);
	}
	return oldest;
}

/*
 * The buckets of which the one with the oldest entry is looked for; and, when it cannot leave, the
 * buckets from the home on, and those before it, of which any entry leaves.
 */
#define SW_KQP_COMPARED 4
#define SW_KQP_LOOKED_AT 32

/* The bucket of a round of sw_kqp_victim, as a distance from the home. */
SW_INLINE __u32 sw_kqp_round(__u32 i, __u32 best)
{
	if (i < SW_KQP_COMPARED)
		return i;
	i -= SW_KQP_COMPARED;
	if (!i)
		return best;
	return i <= SW_KQP_LOOKED_AT ? i - 1 : SW_KQP_LOOKED_AT - i;
}

/*
 * Whether the entry in the slot of the scratch, whose bucket is locked and has this number, may
 * leave: notes its hash in SW_KQP_PART and its distance in SW_KQP_FAR, and locks its home. `home`
 * is that of a new key, and is locked. A third bucket is locked out of order, so a writer does not
 * wait for it.
 */
SW_GLOBAL int sw_kqp_may_leave(__u64 lane, __u32 number, __u32 home)
{
	sw_at window = sw_kqp_window(lane), text;
	__u32 cell, other;
	__u64 hash;

	cell = sw_u32(sw_kqp_get(lane, SW_KQP_BUCKET) + SW_QP_BUCKET_LEAVES +
		      sw_kqp_get(lane, SW_KQP_BUCKET_SLOT) * 4);
	if (!sw_kqp_inside(lane, cell >> 2))
		return 0;
	text = sw_qp_node(window, cell) + sw_kqp_value_bytes(window);
	hash = sw_qp_hash_at(window, sw_qp_bytes(text), sw_qp_length(text));
	other = sw_kqp_home(window, hash);
	sw_kqp_set(lane, SW_KQP_PART, hash);
	sw_kqp_set(lane, SW_KQP_FAR, number - other);
	if (number - other > SW_KQP_REACH_MAX || !sw_kqp_bucket(lane, hash, 0))
		return 0;
	return other == home || other == number ||
	       !sw_kqp_hold_bucket(lane, SW_KQP_THIRD | SW_KQP_ONCE, sw_kqp_bucket(lane, hash, 0));
}

/*
 * Finds an entry that leaves for a new key, whose home is locked: in the home, or in another
 * bucket, which is then locked, too. SW_KQP_BUCKET and SW_KQP_BUCKET_SLOT become its slot. 0, or
 * -E2BIG.
 */
SW_GLOBAL long sw_kqp_victim(__u64 lane)
{
	__u32 home, far, i, which;
	sw_at bucket;
	long found;

	sw_kqp_set(lane, SW_KQP_BEST, 0);
	sw_kqp_set(lane, SW_KQP_OLDEST, 0);
	/* The first rounds compare without a lock. Then comes the best of them, then any other. */
	sw_for (i, SW_KQP_COMPARED + 1 + 2 * SW_KQP_LOOKED_AT) {
		sw_hide(lane);
		home = sw_kqp_home(sw_kqp_window(lane), sw_kqp_get(lane, SW_KQP_HASH));
		far = sw_kqp_round(i, sw_kqp_noted(lane, SW_KQP_BEST));
		if (home + far >= sw_kqp_total(lane))
			continue;
		bucket = sw_kqp_bucket(lane, sw_kqp_get(lane, SW_KQP_HASH), far);
		which = (__s32)far < 0 ? SW_KQP_BEHIND | SW_KQP_ONCE : SW_KQP_BEHIND;
		if (!bucket || (i >= SW_KQP_COMPARED && far && sw_kqp_hold_bucket(lane, which, bucket)))
			continue;
		found = sw_kqp_oldest(lane, bucket, home + far);
		sw_hide(lane);
		if (i < SW_KQP_COMPARED) {
			/* An entry's age is at least 1. */
			if (found > (long)sw_kqp_get(lane, SW_KQP_OLDEST)) {
				sw_kqp_set(lane, SW_KQP_OLDEST, found);
				sw_kqp_set(lane, SW_KQP_BEST, far);
			}
			continue;
		}
		sw_kqp_set(lane, SW_KQP_BUCKET, bucket);
		sw_kqp_set(lane, SW_KQP_BUCKET_SLOT, found & 15);
		if (found >= 0 && sw_kqp_may_leave(lane, home + far, home))
			return 0;
		sw_hide(lane);
		sw_kqp_let_bucket(lane, SW_KQP_BEHIND);
	}
	return -E2BIG;
}

#endif
