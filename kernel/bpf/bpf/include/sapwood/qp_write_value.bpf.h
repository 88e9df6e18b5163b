/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Values of maps that programs write (qp_write.bpf.h): long ones, those that are changed under the
 * key's lock, and counts for each processor.
 *
 *     error = sw_qp_set_bytes(NAMES, &key, record, 1024, SW_ANY);
 *     error = sw_qp_update_with(FLOWS, &key, add_packet, &packet);
 *     error = sw_qp_count(SOURCES, &key, 1);
 *
 * The loader refuses sleepable programs that call these functions; they may call sw_qp_sum.
 */
#ifndef SAPWOOD_QP_WRITE_VALUE_BPF_H
#define SAPWOOD_QP_WRITE_VALUE_BPF_H

#ifdef SAPWOOD_QP_WRITE_SLEEPABLE_BPF_H
#error "programs that may sleep cannot call qp_write_value.bpf.h: give the others an object of their own"
#endif

#include "qp_write_more.bpf.h"

/*
 * Where the words of a new value wait in a lane: in the scratch, or, if the value is long, in a
 * room of the window. 0 when the window has no such room.
 */
SW_INLINE sw_at sw_kqp_room_of(sw_at lane)
{
	sw_at window = sw_kqp_window(lane), room;
	__u32 number = (__u32)((lane - window - SW_KQP_LANES_AT) / SW_KQP_LANE_BYTES);
	__u32 bytes = sw_kqp_value_bytes(window);

	if (bytes <= SW_KQP_VALUE_SHORT)
		return lane + SW_KQP_LANE_SCRATCH + SW_KQP_VALUE;
	room = sw_ref(window, sw_u32(window + SW_KQP_ROOMS)) + (__u64)number * bytes;
	return sw_kqp_inside(lane, (room - window) / 8) ? room : 0;
}

/*
 * Claims a lane for a value of as many bytes as the map's values have: the lane, whose SW_KQP_FROM
 * is the place for the value; or an error. sw_kqp_end_value must follow.
 */
SW_GLOBAL long sw_kqp_begin_value(__u32 map, const struct sw_key *key SW_NONNULL, __u32 length, __u64 flags)
{
	sw_at window = sw_kqp_open(map, key), lane, room;
	long result;

	if (!window || flags > SW_EXIST || length != sw_kqp_value_bytes(window) || length > SW_KQP_VALUE_MAX)
		return -EINVAL;
	result = sw_kqp_claim(map, sw_kqp_hash(window, key), flags);
	if (result < 0)
		return result;
	lane = result;
	room = sw_kqp_room_of(lane);
	if (!room) {
		sw_kqp_end(lane);
		return -EUCLEAN;
	}
	sw_kqp_set(lane, SW_KQP_FROM, room);
	return result;
}

/*
 * Inserts a key with the value that waits in the lane, or replaces its value, and returns the lane.
 * With `whole` 0, it only returns the lane: -ELOOP.
 */
SW_GLOBAL long sw_kqp_end_value(__u64 lane, const struct sw_key *key SW_NONNULL, __u32 whole)
{
	if (!whole) {
		sw_kqp_end(lane);
		return -ELOOP;
	}
	return sw_kqp_insert(lane, key);
}

/*
 * Inserts a key with a value of this many bytes, or replaces its value as a whole: readers see the
 * old value or the new one, never a part of each. `value` is memory of the program: a value of a
 * map, a global variable, a record of a ring buffer, or the stack. The verifier must know that the
 * bytes lie there: `length` is a constant, or has a bound. It is a multiple of 8, as many bytes as
 * the map's values have, up to 4,096; and `value` is aligned to 8.
 *
 *     struct record *record = bpf_map_lookup_elem(&records, &zero);
 *     if (record) error = sw_qp_set_bytes(NAMES, &key, record, sizeof(*record), SW_ANY);
 *
 * The bytes are copied twice: into the window, before a lock is taken, and into the leaf. 0, or an
 * error of sw_qp_insert; -EINVAL also when the values of the map have another length.
 */
SW_INLINE long sw_qp_set_bytes(__u32 map, const struct sw_key *key, const void *value, __u32 length, __u64 flags)
{
	long lane = sw_kqp_begin_value(map, key, length, flags);
	__u32 i, done = sw_zero();
	sw_at to;

	if (lane < 0)
		return lane;
	to = sw_kqp_get(lane, SW_KQP_FROM);
	for (i = sw_zero(); i < length && sw_can_loop; i += 8) {
		/* The verifier does not know that i is a multiple of 8. */
		sw_hide(i);
		i &= 2 * SW_KQP_VALUE_MAX - 8;
		sw_hide(i);
		if (i >= length)
			break;
		sw_set_u64(to + i, *(const __u64 *)((const char *)value + i));
		done += 8;
	}
	return sw_kqp_end_value(lane, key, done == length);
}

/*
 * The same with a value that lies in the arena, aligned to 8 bytes: a value of another map, words,
 * or a room of the program's own. It is copied once. Nobody may change it meanwhile: the new value
 * would have bytes of both.
 *
 *     error = sw_qp_set_from(COPIES, &key, sw_qp_lookup(NAMES, &key), 1024, SW_NOEXIST);
 *
 * -EINVAL also when `from` is 0 or negative, as an error of a lookup is.
 */
SW_GLOBAL long sw_qp_set_from(__u32 map, const struct sw_key *key SW_NONNULL, __u64 from, __u32 length,
			      __u64 flags)
{
	long lane;

	if ((__s64)from <= 0)
		return -EINVAL;
	lane = sw_kqp_begin_value(map, key, length, flags);
	if (lane < 0)
		return lane;
	if (length > SW_KQP_VALUE_SHORT)
		sw_kqp_set(lane, SW_KQP_FROM, from);
	else
		sw_kqp_copy_words(from, lane + SW_KQP_LANE_SCRATCH + SW_KQP_VALUE, length / 8);
	return sw_kqp_insert(lane, key);
}

/*
 * Finds a key of a map with a trie, and locks the cell of its leaf, unless the key's home in the
 * index is locked already: the place of its value, or an error.
 */
SW_GLOBAL long sw_kqp_hold_leaf(__u64 lane, const struct sw_key *key SW_NONNULL, __u32 is_held)
{
	__u32 round;
	long found;

	for (round = sw_zero(); round < SW_KQP_ROUNDS && sw_can_loop; round++) {
		found = sw_kqp_seek(lane, key);
		if (found == SW_KQP_SAME && !is_held) {
			found = sw_kqp_hold_path(lane, sw_kqp_noted(lane, SW_KQP_DEPTH), 0);
			if (!found)
				found = sw_kqp_stands(lane) ? SW_KQP_SAME : -EAGAIN;
			if (found == -EAGAIN)
				sw_kqp_let_all(lane);
		}
		if (found == SW_KQP_SAME)
			return (long)sw_qp_node(sw_kqp_window(lane), sw_kqp_noted(lane, SW_KQP_CELL));
		if (found != -EAGAIN)
			return found < 0 ? found : -ENOENT;
	}
	return -EBUSY;
}

/* The same for a map with an index: locks the key's home. */
SW_GLOBAL long sw_kqp_hold_home(__u64 lane, const struct sw_key *key SW_NONNULL, __u64 hash)
{
	long found = sw_kqp_index_hold(lane, key);
	__u32 now;
	sw_at use;

	if (found > 0) {
		use = sw_kqp_use_here(lane, hash);
		now = sw_kqp_now();
		if (sw_kqp_is_idle(sw_kqp_window(lane), use, now))
			return -ENOENT;
		if (use)
			sw_set_u32(use, now);
	}
	return found ? found : -ENOENT;
}

/*
 * Locks a key, so that no other program changes or removes its entry, or holds it by this function:
 * a handle, which is positive; or an error, and then nothing is locked. sw_qp_unlock_value must
 * follow on every path, soon: others wait for a millisecond at most, and then get -EBUSY.
 * sw_qp_update_with does both. The verifier does not know this lock: a program that forgets to
 * unlock leaves the entry, and those near it, locked for ever.
 *
 *     long held = sw_qp_lock_value(FLOWS, &key);
 *     if (held > 0) {
 *             place = sw_qp_locked_value(held);
 *             sw_set_u64(place + 8, sw_u64(place + 8) + bytes);
 *             sw_qp_unlock_value(held);
 *     }
 *
 * -ENOENT: there is no such key; -EBUSY, -EINVAL, -EUCLEAN, -ELOOP: as sw_qp_insert.
 */
SW_GLOBAL long sw_qp_lock_value(__u32 map, const struct sw_key *key SW_NONNULL)
{
	sw_at window = sw_kqp_open(map, key), lane;
	__u32 parts;
	__u64 hash;
	long found;

	if (!window)
		return -EINVAL;
	hash = sw_kqp_hash(window, key);
	found = sw_kqp_claim(map, hash, 0);
	if (found < 0)
		return found;
	lane = found;
	parts = sw_u32(window + SW_KQP_PARTS);
	found = -ENODATA;
	if (parts & SW_KQP_INDEX)
		found = sw_kqp_hold_home(lane, key, hash);
	/* Who holds the home holds the key, also one that is in the trie alone. */
	if (found == -ENODATA)
		found = parts & SW_KQP_TRIE ? sw_kqp_hold_leaf(lane, key, parts & SW_KQP_INDEX) : -ENOENT;
	if (found > 0 && !sw_kqp_inside(lane, (found - window) / 8))
		found = -EUCLEAN;
	if (found > 0) {
		sw_kqp_set(lane, SW_KQP_FROM, found);
		return (long)lane;
	}
	sw_kqp_end(lane);
	sw_kqp_drop(window, found);
	return found;
}

/* The place of the value that a handle of sw_qp_lock_value has locked. */
SW_INLINE sw_at sw_qp_locked_value(long held)
{
	return sw_kqp_get(held, SW_KQP_FROM);
}

/* Releases what sw_qp_lock_value has locked. */
SW_GLOBAL int sw_qp_unlock_value(__u64 held)
{
	return sw_kqp_end(held);
}

/*
 * Changes the value of a key in place, under the key's lock: `change` gets the place of the value
 * and `ctx`, and what it returns is returned. Of several programs that change one value so, one
 * comes after the other, also those that insert, replace or remove the key; but values of one word
 * are replaced (sw_qp_insert, sw_qp_compare_exchange) without a lock.
 *
 *     static long add_packet(sw_at value, void *ctx)
 *     {
 *             struct packet *packet = ctx;
 *
 *             sw_set_u64(value, sw_u64(value) + 1);
 *             sw_set_u64(value + 8, sw_u64(value + 8) + packet->bytes);
 *             return 0;
 *     }
 *     ...
 *     error = sw_qp_update_with(FLOWS, &key, add_packet, &packet);
 *
 * `change` is a static function of the program. It may read and write the bytes of the value by
 * sw_u64 and sw_set_u64, call helpers, and look keys up. It must end within microseconds, since
 * others wait for the lock. Changes of the same map may meet the lock, and get -EBUSY then, as a
 * program gets that interrupts this one. Readers that take no lock see each word before or after it
 * changes, and so perhaps some words of the old value beside some of the new one: to show readers
 * whole values, use sw_qp_set_bytes or sw_qp_insert_value.
 *
 * -ENOENT: there is no such key; -EBUSY and other errors of sw_qp_lock_value: `change` was not
 * called.
 */
SW_INLINE long sw_qp_update_with(__u32 map, const struct sw_key *key, long (*change)(sw_at value, void *ctx),
				 void *ctx)
{
	long held = sw_qp_lock_value(map, key), result;

	if (held < 0)
		return held;
	result = change(sw_qp_locked_value(held), ctx);
	sw_qp_unlock_value(held);
	return result;
}

/* The bytes from the count of one processor to that of the next, up to a cache line; 0: no counts. */
SW_INLINE __u32 sw_kqp_each(sw_at window)
{
	return sw_u32(window + SW_KQP_EACH) & 0x78;
}

/* The place of this processor's word in a value that counts for each processor. */
SW_INLINE sw_at sw_kqp_own_word(sw_at window, sw_at value)
{
	__u64 at = (__u64)(sw_kqp_self() - 1) * sw_kqp_each(window);

	return at < sw_kqp_value_bytes(window) && at < SW_KQP_VALUE_MAX ? value + at : value;
}

/* Adds to the count at a place that a lookup returned: 0, -ENOENT, or the lookup's error. */
SW_GLOBAL long sw_kqp_add_own(__u32 map, __s64 found, __u64 more)
{
	sw_at window = sw_window_in(map, 1u << SW_KIND_KERNEL_QP);

	if (window)
		found = sw_kqp_checked(map, found);
	if (!window || found <= 0)
		return found < 0 ? found : -ENOENT;
	sw_add_u64(sw_kqp_own_word(window, found), more);
	return 0;
}

/* How the entries of a map are found: by sw_qp_use (1), by sw_qp_lookup (0); or an error. */
SW_GLOBAL long sw_kqp_way(__u32 map, const struct sw_key *key SW_NONNULL)
{
	sw_at window = sw_kqp_open(map, key);

	if (!window)
		return -EINVAL;
	return sw_kqp_each(window) ? !!sw_u32(window + SW_KQP_USES) : -EOPNOTSUPP;
}

/*
 * Adds to the count of a key on this processor, in a map that counts for each processor
 * (ProgramMapBuilder::per_processor). An absent key is inserted. Each processor has a word of its
 * own, up to 64 processors in a cache line of its own, so they do not wait for each other. Readers
 * sum the words up: ProgramMap::sum, sapwood_bpf_map_sum, sw_qp_sum.
 *
 *     error = sw_qp_count(SOURCES, &key, 1);
 *
 * In a map whose entries leave by themselves, it marks the entry as used. 0; -EOPNOTSUPP: the map
 * has one value for all processors; -EAGAIN: others insert and remove the key again and again; or
 * an error of sw_qp_insert or sw_qp_lookup.
 */
SW_GLOBAL long sw_qp_count(__u32 map, const struct sw_key *key SW_NONNULL, __u64 more)
{
	__u32 left;
	long result;

	for (left = sw_zero() + SW_KQP_ATTEMPTS; left && sw_can_loop; left--) {
		result = sw_kqp_way(map, key);
		if (result < 0)
			return result;
		result = result ? sw_qp_use(map, key) : sw_qp_lookup(map, key);
		result = sw_kqp_add_own(map, result, more);
		if (result != -ENOENT)
			return result;
		result = sw_qp_insert(map, key, 0, SW_NOEXIST);
		if (result && result != -EEXIST)
			return result;
	}
	return -EAGAIN;
}

/*
 * Sums the counts of all processors up, which may be added to meanwhile. O(processors).
 *
 *     if (!sw_qp_sum(SOURCES, &key, &sum) && sum > 1000) return XDP_DROP;
 *
 * 0, and `*sum`; -ENOENT; -EOPNOTSUPP: the map has one value for all processors; or an error of
 * sw_qp_lookup.
 */
SW_GLOBAL long sw_qp_sum(__u32 map, const struct sw_key *key SW_NONNULL, __u64 *sum SW_NONNULL)
{
	sw_at window = sw_window_in(map, 1u << SW_KIND_KERNEL_QP);
	__u32 at, each, bytes;
	__u64 all = 0;
	long found;

	if (!window)
		return -EINVAL;
	each = sw_kqp_each(window);
	bytes = sw_kqp_value_bytes(window);
	if (!each)
		return -EOPNOTSUPP;
	found = sw_qp_lookup(map, key);
	if (found <= 0)
		return found ? found : -ENOENT;
	for (at = sw_zero(); at < bytes && sw_can_loop; at += each)
		all += sw_u64(found + at);
	*sum = all;
	return 0;
}

#endif
