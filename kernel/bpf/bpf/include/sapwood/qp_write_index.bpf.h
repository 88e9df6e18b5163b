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

/* The place of the bucket `far` buckets behind the home of a hash; 0 when outside the window. */
SW_INLINE sw_at sw_kqp_bucket(sw_at lane, __u64 hash, __u32 far)
{
	sw_at window = sw_kqp_window(lane), table = sw_ref(window, sw_u32(window + SW_QP_TABLE));
	__u32 home = (__u32)(((hash >> 32) * sw_u32(table + SW_QP_TABLE_HOMES)) >> 32);
	sw_at bucket = sw_qp_bucket(window, table, sw_u32(table + SW_QP_TABLE_SHIFT) & 31, home + far);

	return bucket && sw_kqp_inside(lane, (bucket - window) / 8) ? bucket : 0;
}

/*
 * The slot of this key among the hits in one word of tags, plus one; 0 if none. `*leaf` is the
 * key's leaf then.
 */
SW_INLINE __u32 sw_kqp_hit(sw_at window, sw_at bucket, __u64 hits, __u32 first, const struct sw_key *key, sw_at *leaf)
{
	__u32 i, slot;

	for (i = sw_zero(); i < 8 && hits && sw_can_loop; i++) {
		slot = first + sw_first_byte(hits);
		*leaf = sw_qp_node(window, sw_u32(bucket + SW_QP_BUCKET_LEAVES + slot * 4));
		if (sw_qp_is_leaf_key(*leaf, sw_kqp_value_bytes(window), key, sw_key_is_long(key)))
			return slot + 1;
		hits &= hits - 1;
	}
	return 0;
}

/*
 * Finds a key in the index, and records its slot in the scratch: the place of its leaf; -ENOENT;
 * -ENODATA when the key may be in the trie alone; -ELOOP; -EUCLEAN.
 */
SW_GLOBAL long sw_kqp_index_find(__u64 lane, const struct sw_key *key SW_NONNULL, __u64 hash)
{
	sw_at window = sw_kqp_window(lane);
	__u32 tag = sw_kqp_tag(hash), far, reach = 0, slot;
	sw_at bucket = sw_kqp_bucket(lane, hash, 0), leaf = 0;
	__u64 high, state, pattern = tag * SW_ONES;

	if (!bucket)
		return -EUCLEAN;
	state = sw_u64(bucket + 8);
	if (state >> (SW_QP_BUCKET_FILTER + (tag & 7)) & 1)
		reach = (state >> SW_QP_BUCKET_REACH) & SW_KQP_REACH_MAX;
	for (far = sw_zero(); far <= reach && sw_can_loop; far++) {
		bucket = sw_kqp_bucket(lane, hash, far);
		if (!bucket)
			return -EUCLEAN;
		high = sw_u64(bucket + 8);
		slot = sw_kqp_hit(window, bucket, sw_zero_bytes(sw_u64(bucket) ^ pattern), 0, key, &leaf);
		if (!slot)
			slot = sw_kqp_hit(window, bucket, sw_zero_bytes(high ^ pattern) & SW_HIGHS >> 32, 8, key, &leaf);
		if (slot) {
			sw_kqp_set(lane, SW_KQP_BUCKET, bucket);
			sw_kqp_set(lane, SW_KQP_BUCKET_SLOT, slot - 1);
			sw_kqp_set(lane, SW_KQP_FAR, far);
			return (long)leaf;
		}
	}
	if (far <= reach)
		return -ELOOP;
	return state & SW_KQP_STICKY << SW_QP_BUCKET_SPILLED ? -ENODATA : -ENOENT;
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
SW_INLINE long sw_kqp_index_hold(sw_at lane, const struct sw_key *key, __u64 hash)
{
	long error = sw_kqp_index_home(lane, hash), found;

	if (error)
		return error;
	found = sw_kqp_index_find(lane, key, hash);
	if (found > 0 && sw_kqp_get(lane, SW_KQP_FAR)) {
		error = sw_kqp_hold_bucket(lane, SW_KQP_BEHIND, sw_kqp_get(lane, SW_KQP_BUCKET));
		if (error)
			return error;
	}
	return found;
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

#endif
