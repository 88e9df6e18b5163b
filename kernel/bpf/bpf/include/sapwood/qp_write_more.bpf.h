/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Changes that depend on the value that a key has, in maps that programs write (qp_write.bpf.h).
 *
 *     __u64 expected = 1;
 *     long error = sw_qp_compare_exchange(STATES, &key, &expected, 2);
 *     long place = sw_qp_get_or_insert(STATES, &key, 0);
 *     if (place > 0) sw_fetch_add_u64(place, 1);
 */
#ifndef SAPWOOD_QP_WRITE_MORE_BPF_H
#define SAPWOOD_QP_WRITE_MORE_BPF_H

#include "qp_write.bpf.h"

/* The most attempts of sw_qp_get_or_insert, while other writers insert and remove the key. */
#define SW_KQP_ATTEMPTS 8

/* A place that a lookup returned; -EUCLEAN if no value can lie there, in a damaged window. */
SW_INLINE long sw_kqp_checked(__u32 map, long place)
{
	sw_at window;
	__u64 begin;
	__s64 limit;

	if (place <= 0)
		return place;
	window = sw_window_in(map, 1u << SW_KIND_KERNEL_QP);
	begin = sw_kqp_begin(window);
	limit = sw_kqp_limit(map, begin);
	return limit > 0 && (place - window) / 8 - begin < (__u64)limit ? place : -EUCLEAN;
}

/*
 * Replaces the value of a key if it is `*expected`. The map's values have one word. When the value
 * is another, `*expected` becomes that value. The exchange is one atomic instruction on the value.
 *
 * 0; -EAGAIN: the value is another; -ENOENT; -EINVAL: no such window, values of more than a word,
 * or a key longer than the map's longest; or an error of sw_qp_lookup. A removal may take effect
 * while the exchange runs: then the exchange counts as the earlier of the two.
 */
SW_GLOBAL long sw_qp_compare_exchange(__u32 map, const struct sw_key *key SW_NONNULL, __u64 *expected SW_NONNULL,
				      __u64 value)
{
	sw_at window = sw_kqp_open(map, key);
	__u64 wanted = *expected, seen;
	long place;

	if (!window || sw_kqp_value_bytes(window) != 8)
		return -EINVAL;
	place = sw_kqp_checked(map, sw_qp_lookup(map, key));
	if (place <= 0)
		return place;
	seen = sw_cmpxchg_u64(place, wanted, value);
	*expected = seen;
	return seen == wanted ? 0 : -EAGAIN;
}

/*
 * Looks a key up, and inserts it with this value if it is absent: the place of its value, as
 * sw_qp_lookup gives it. An error is one of sw_qp_insert, or -EAGAIN when other writers insert and
 * remove the key again and again.
 */
SW_GLOBAL long sw_qp_get_or_insert(__u32 map, const struct sw_key *key SW_NONNULL, __u64 value)
{
	__u32 left;
	long result;

	if (!sw_kqp_open(map, key))
		return -EINVAL;
	for (left = sw_zero() + SW_KQP_ATTEMPTS; left && sw_can_loop; left--) {
		result = sw_qp_lookup(map, key);
		if (result != -ENOENT)
			return sw_kqp_checked(map, result);
		result = sw_qp_insert(map, key, value, SW_NOEXIST);
		if (result && result != -EEXIST)
			return result;
	}
	return -EAGAIN;
}

/* The slots with a key's tag that sw_qp_use looks at. */
#define SW_KQP_LOOKS 64

/*
 * Looks a key up in a map whose entries leave by themselves (ProgramMapBuilder::lru), and marks its
 * entry as used. Then others leave first, and the entry's time without use begins anew. Lookups by
 * sw_qp_lookup mark nothing.
 *
 *     long found = sw_qp_use(SOURCES, &key);
 *     if (found > 0) sw_fetch_add_u64(found, 1);
 *
 * The place of the value; -ENOENT when the key is absent, or was not used for too long;
 * -EOPNOTSUPP: entries of the map do not leave by themselves; -EAGAIN: other writers changed the
 * key's home again and again; or an error of sw_qp_lookup.
 */
SW_GLOBAL long sw_qp_use(__u32 map, const struct sw_key *key SW_NONNULL)
{
	sw_at window = sw_kqp_open(map, key), table, leaf, use;
	__u32 from = sw_zero(), i, now;
	__u64 hash, begin;
	long found;

	if (!window)
		return -EINVAL;
	if (!sw_u32(window + SW_KQP_USES))
		return -EOPNOTSUPP;
	hash = sw_kqp_hash(window, key);
	sw_for (i, SW_KQP_LOOKS) {
		/* Values are computed again where they are needed: the stack is short. */
		sw_hide(window);
		table = sw_ref(window, sw_u32(window + SW_QP_TABLE));
		found = sw_qp_candidate(window, table, hash, from);
		if (found <= 0)
			return found == -ENODATA ? -ENOENT : found;
		from = (__u32)((__u64)found >> 32);
		leaf = sw_qp_node(window, (__u32)found);
		if (!sw_kqp_is_key(leaf, sw_kqp_value_bytes(window), key))
			continue;
		begin = sw_kqp_begin(window);
		use = sw_kqp_use(window, begin, sw_kqp_limit(map, begin),
				 sw_kqp_home(window, hash) + (from - 1) / 64, sw_qp_candidate_slot(from));
		now = sw_kqp_now();
		if (!use || sw_kqp_is_idle(window, use, now))
			return use ? -ENOENT : -EUCLEAN;
		if (sw_u32(use) != now)
			sw_set_u32(use, now);
		return (long)leaf;
	}
	return -EAGAIN;
}

#endif
