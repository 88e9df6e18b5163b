/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A cache of a resolver's answers, for example of next hops, in fixed memory. Programs fill it and
 * read it.
 *
 *     struct sw_route_key key = {};                     // all 24 bytes count
 *     struct sw_route_value value = {};
 *     struct sw_route_ticket ticket = {};
 *     __u64 now = bpf_ktime_get_ns();                   // before the resolver is asked
 *     long got = sw_route_get(FLOWS, &key, now, &value, &ticket);
 *
 *     if (got && got != -EHOSTUNREACH) {
 *             got = ask_the_resolver(&key, &value);     // 0, or it knows of no route
 *             sw_route_put(FLOWS, &key, &value, &ticket, got ? SW_ROUTE_NEGATIVE : 0);
 *     }
 *
 * FLOWS is the number of the window, which user space made (ProgramRouteCache). Lookups return an
 * answer while it is younger than `fresh`, counted from the `now` of the lookup that missed.
 * Protocol and layout: docs/bpf.md.
 *
 * A function tries at most SW_ROUTE_PATIENCE times to read or lock a set that another one is
 * writing. Only programs write, and programs end, so no set stays locked when a process dies.
 */
#ifndef SAPWOOD_ROUTE_BPF_H
#define SAPWOOD_ROUTE_BPF_H

#include "arena.bpf.h"

/*
 * A key: the destination, and all else on which the answer depends. Keys are compared by all of
 * their bytes, so unused bytes must be 0.
 */
struct sw_route_key {
	union {
		__u64 words[3];
		struct {
			__u8 address[16]; /* IPv4: the first four bytes */
			__u32 flow; /* a hash of the flow, if flows to one destination may differ; or 0 */
			__u32 other; /* for the program: address family, table, incoming interface ... */
		};
	};
};

/* A next hop, with all that a program needs to forward a packet. */
struct sw_route_hop {
	__u32 ifindex; /* the index of the interface; 0: none */
	__u16 mtu; /* bytes of an IP packet; 0: not known */
	__u8 action; /* of the program */
	__u8 family; /* AF_INET or AF_INET6 */
	__u8 smac[6];
	__u8 dmac[6];
	__u8 extra[12]; /* of the program */
};

/* An answer: a next hop, or any other 32 bytes. */
struct sw_route_value {
	union {
		__u64 words[4];
		struct sw_route_hop hop;
	};
};

/*
 * The state of the cache at a lookup that missed. By it, sw_route_put does not store an answer that
 * was invalidated meanwhile.
 */
struct sw_route_ticket {
	__u64 now;
	__u64 generation;
	__u64 disturbances;
	__u64 hash;
};

_Static_assert(sizeof(struct sw_route_key) == SW_ROUTE_KEY_BYTES, "a key");
_Static_assert(sizeof(struct sw_route_value) == SW_ROUTE_VALUE_BYTES, "a value");
_Static_assert(SW_ROUTE_SLOT_VALUE + SW_ROUTE_VALUE_BYTES == SW_ROUTE_LINE, "a slot is one line");
_Static_assert(SW_ROUTE_SLOT_KEY + SW_ROUTE_KEY_BYTES == SW_ROUTE_SLOT_VALUE, "the value is behind the key");
_Static_assert(SW_ROUTE_SLOTS == 16, "tags in two words");

/* A flag of sw_route_put: the resolver has no route. */
#define SW_ROUTE_NEGATIVE 1u

/* The marks of all slots. Above them is the slot at which the search for a victim continues. */
#define SW_ROUTE_ALL 0xffffull

/*
 * The processor of the program, for its counters. In user space, a variable that the caller sets.
 */
#ifdef __bpf__
static __u32 (*sw_route_processor)(void) = (void *)8; /* bpf_get_smp_processor_id */
#define sw_route_cpu() sw_route_processor()
#else
static __thread __u32 sw_route_processor __attribute__((unused));
#define sw_route_cpu() sw_route_processor
#endif

/*
 * Adds to a counter of this processor. The addition is atomic, because programs may interrupt each
 * other.
 */
#define sw_route_count(counters, event, more) sw_add_u64((counters) + (event), more)

SW_INLINE sw_at sw_route_counters(sw_at window)
{
	return window + SW_ROUTE_COUNTERS +
	       (sw_route_cpu() & sw_u64(window + SW_ROUTE_CPU_MASK)) * SW_ROUTE_COUNTERS_BYTES;
}

/*
 * Records the time, and returns the place of this processor's counters. The kernel's monotonic
 * clock does not step back. If a caller's clock steps back by the lifetime of an answer, all
 * entries are invalidated, because their ages are unknown. Smaller steps come from programs that
 * interrupt each other.
 */
SW_INLINE sw_at sw_route_note(sw_at window, __u64 now)
{
	sw_at counters = sw_route_counters(window);
	__u64 last = sw_u64(counters);

	if (now > last) {
		sw_set_u64(counters, now);
	} else if (last - now >= sw_u64(window + SW_ROUTE_LIFE)) {
		sw_set_u64(counters, now);
		sw_add_u64(window + SW_ROUTE_GENERATION, 1);
		sw_route_count(counters, SW_ROUTE_COUNT_CLOCK_BACK, 1);
	}
	return counters;
}

SW_INLINE __u64 sw_route_pair(__u64 word, __u64 secret)
{
	return (__u64)((__u32)word + (__u32)secret) * (__u64)((__u32)(word >> 32) + (__u32)(secret >> 32));
}

/* The hash of a key: NH over its words, mixed. The upper 32 bits choose the set, the lowest byte is the tag. */
SW_INLINE __u64 sw_route_hash(sw_at window, const struct sw_route_key *key)
{
	__u64 sum = sw_route_pair(key->words[0], sw_u64(window + SW_ROUTE_SECRETS)) +
		    sw_route_pair(key->words[1], sw_u64(window + SW_ROUTE_SECRETS + 8)) +
		    sw_route_pair(key->words[2], sw_u64(window + SW_ROUTE_SECRETS + 16));

	sum = (sum ^ sum >> 32) * 0x9e3779b97f4a7c15ull;
	sum = (sum ^ sum >> 29) * 0xbf58476d1ce4e5b9ull;
	return sum ^ sum >> 32;
}

SW_INLINE __u32 sw_route_tag(__u64 hash)
{
	__u32 tag = hash & 0xff;

	return tag | !tag;
}

/* The number of the set of a hash. The cache has at least one set. */
SW_INLINE __u64 sw_route_index(sw_at window, __u64 hash)
{
	return ((hash >> 32) * (__u64)(__u32)sw_u64(window + SW_ROUTE_SETS)) >> 32;
}

SW_INLINE sw_at sw_route_set(sw_at window, __u64 index)
{
	return window + sw_u64(window + SW_ROUTE_SETS_AT) + index * sw_u64(window + SW_ROUTE_STRIDE);
}

SW_INLINE sw_at sw_route_slot(sw_at set, __u32 way)
{
	return set + SW_ROUTE_LINE + (__u64)way * SW_ROUTE_LINE;
}

/* The way with this key among hits in one word of tags; -ENOENT, -ELOOP. `first` is the way of the word's lowest byte. */
SW_INLINE int sw_route_hit(sw_at set, __u64 hits, __u32 first, const struct sw_route_key *key)
{
	__u32 i, way;
	sw_at slot;

	for (i = sw_zero(); i < 8 && hits && sw_can_loop; i++) {
		way = first + sw_first_byte(hits);
		slot = sw_route_slot(set, way) + SW_ROUTE_SLOT_KEY;
		if (!((sw_u64(slot) ^ key->words[0]) | (sw_u64(slot + 8) ^ key->words[1]) |
		      (sw_u64(slot + 16) ^ key->words[2])))
			return (int)way;
		hits &= hits - 1;
	}
	return hits ? -ELOOP : -ENOENT;
}

/* The way with this key. */
SW_INLINE int sw_route_way(sw_at set, __u32 tag, const struct sw_route_key *key)
{
	__u64 pattern = tag * SW_ONES, hits;
	int way = -ENOENT;

	hits = sw_zero_bytes(sw_u64(set + SW_ROUTE_SET_TAGS) ^ pattern);
	if (hits)
		way = sw_route_hit(set, hits, 0, key);
	if (way != -ENOENT)
		return way;
	hits = sw_zero_bytes(sw_u64(set + SW_ROUTE_SET_TAGS + 8) ^ pattern);
	return hits ? sw_route_hit(set, hits, 8, key) : -ENOENT;
}

/* Marks a way as hit. Usually it is marked already, and nothing is written. */
SW_INLINE void sw_route_mark(sw_at set, __u32 way)
{
	__u64 bit = 1ull << (way & (SW_ROUTE_SLOTS - 1));

	if (!(sw_u64(set + SW_ROUTE_SET_MARKS) & bit))
		sw_or_u64(set + SW_ROUTE_SET_MARKS, bit);
}

/*
 * One attempt to look a key up. Returns 0, -ESTALE, -EHOSTUNREACH, -ENOENT, -ELOOP, or -EBUSY when
 * a writer disturbed it. A key whose tag or words are not in the set was absent at some moment of
 * the attempt, whatever a writer does.
 */
SW_INLINE long sw_route_look(sw_at window, sw_at set, __u32 tag, const struct sw_route_key *key, __u64 now,
			     struct sw_route_value *value)
{
	__u64 before = sw_acquire_u64(set + SW_ROUTE_SET_SEQUENCE), generation, stamp, span, w0, w1, w2, w3;
	int way = sw_route_way(set, tag, key);
	sw_at slot;

	if (way < 0)
		return way;
	slot = sw_route_slot(set, (__u32)way);
	generation = sw_u64(set + SW_ROUTE_SET_GENERATION);
	stamp = sw_u64(slot + SW_ROUTE_SLOT_STAMP);
	w0 = sw_u64(slot + SW_ROUTE_SLOT_VALUE);
	w1 = sw_u64(slot + SW_ROUTE_SLOT_VALUE + 8);
	w2 = sw_u64(slot + SW_ROUTE_SLOT_VALUE + 16);
	w3 = sw_u64(slot + SW_ROUTE_SLOT_VALUE + 24);
	sw_barrier();
	/*
	 * An odd number does not change while its writer writes, and the even one before it does
	 * not come back.
	 */
	if (sw_u64(set + SW_ROUTE_SET_SEQUENCE) != (before & ~1ull))
		return -EBUSY;
	if (generation != sw_acquire_u64(window + SW_ROUTE_GENERATION))
		return -ENOENT;
	span = sw_u64(window + (stamp & 1 ? SW_ROUTE_NEGATIVE_TTL : SW_ROUTE_FRESH));
	/* A stamp of the future, by a program that read the clock later, counts as old. */
	if ((now << 1 | 1) - stamp >= span << 1)
		return -ESTALE;
	sw_route_mark(set, (__u32)way);
	if (stamp & 1)
		return -EHOSTUNREACH;
	value->words[0] = w0;
	value->words[1] = w1;
	value->words[2] = w2;
	value->words[3] = w3;
	return 0;
}

/*
 * Looks a key up. Returns 0 and the value, or
 *
 *     -ENOENT        nothing is there
 *     -ESTALE        an entry that is older than `fresh`
 *     -EBUSY, -ELOOP a writer was in the way, or the kernel ended the program's loops
 *     -EHOSTUNREACH  the resolver knew of no route a moment ago (younger than `negative_ttl`)
 *     -EINVAL        there is no such cache
 *
 * The value is written only if the result is 0. `now` is the time in nanoseconds, by a clock that
 * does not step back. The ticket is for sw_route_put.
 */
SW_GLOBAL long sw_route_get(__u32 number, const struct sw_route_key *key SW_NONNULL, __u64 now,
			    struct sw_route_value *value SW_NONNULL, struct sw_route_ticket *ticket SW_NONNULL)
{
	sw_at window = sw_window(number, SW_KIND_ROUTE), set, counters;
	__u32 tries, tag;
	long found = -ENOENT;
	__u64 hash;

	sw_use_arena();
	if (!window)
		return -EINVAL;
	counters = sw_route_note(window, now);
	hash = sw_route_hash(window, key);
	tag = sw_route_tag(hash);
	ticket->now = now;
	ticket->generation = sw_acquire_u64(window + SW_ROUTE_GENERATION);
	ticket->hash = hash;
	ticket->disturbances = 0;
	if (sw_u64(window + SW_ROUTE_SETS)) {
		set = sw_route_set(window, sw_route_index(window, hash));
		ticket->disturbances = sw_acquire_u64(set + SW_ROUTE_SET_DISTURBANCES);
		found = -EBUSY;
		for (tries = sw_zero(); tries < SW_ROUTE_PATIENCE && sw_can_loop; tries++) {
			found = sw_route_look(window, set, tag, key, now, value);
			if (found != -EBUSY)
				break;
		}
	}
	sw_route_count(counters, found && found != -EHOSTUNREACH ? SW_ROUTE_COUNT_MISS : SW_ROUTE_COUNT_HIT, 1);
	if (found == -ESTALE)
		sw_route_count(counters, SW_ROUTE_COUNT_STALE, 1);
	else if (found == -EHOSTUNREACH)
		sw_route_count(counters, SW_ROUTE_COUNT_NEGATIVE, 1);
	return found;
}

/*
 * Locks a set. Returns its even sequence, or an odd number when others hold the lock all the time.
 */
SW_INLINE __u64 sw_route_lock(sw_at set)
{
	__u64 sequence = 1;
	__u32 tries;

	for (tries = sw_zero(); tries < SW_ROUTE_PATIENCE && sw_can_loop; tries++) {
		sequence = sw_u64(set + SW_ROUTE_SET_SEQUENCE);
		if (!(sequence & 1) &&
		    sw_cmpxchg_u64(set + SW_ROUTE_SET_SEQUENCE, sequence, sequence + 1) == sequence)
			return sequence;
	}
	return 1;
}

SW_INLINE void sw_route_unlock(sw_at set, __u64 sequence)
{
	sw_publish_u64(set + SW_ROUTE_SET_SEQUENCE, sequence + 2);
}

/* The number of bytes whose high bit is set. */
SW_INLINE __u32 sw_route_bytes(__u64 hits)
{
	return (__u32)(((hits >> 7) * SW_ONES) >> 56);
}

/* Empties a locked set whose entries are of another generation. Returns the number of entries. */
SW_INLINE __u32 sw_route_restart(sw_at set, __u64 generation)
{
	__u32 empty;

	if (sw_u64(set + SW_ROUTE_SET_GENERATION) == generation)
		return 0;
	empty = sw_route_bytes(sw_zero_bytes(sw_u64(set + SW_ROUTE_SET_TAGS))) +
		sw_route_bytes(sw_zero_bytes(sw_u64(set + SW_ROUTE_SET_TAGS + 8)));
	sw_set_u64(set + SW_ROUTE_SET_TAGS, 0);
	sw_set_u64(set + SW_ROUTE_SET_TAGS + 8, 0);
	sw_and_u64(set + SW_ROUTE_SET_MARKS, ~SW_ROUTE_ALL);
	sw_set_u64(set + SW_ROUTE_SET_GENERATION, generation);
	return SW_ROUTE_SLOTS - empty;
}

/* The number of the lowest set bit. The argument must not be 0. */
SW_INLINE __u32 sw_route_lowest(__u64 x)
{
	return sw_popcount((x & -x) - 1);
}

/*
 * The first empty way of a locked set, or 16 or more if there is none. The last tags may have no
 * slots.
 */
SW_INLINE __u32 sw_route_vacant(sw_at set)
{
	__u64 empty = sw_zero_bytes(sw_u64(set + SW_ROUTE_SET_TAGS));

	if (empty)
		return sw_first_byte(empty);
	empty = sw_zero_bytes(sw_u64(set + SW_ROUTE_SET_TAGS + 8));
	return empty ? 8 + sw_first_byte(empty) : SW_ROUTE_SLOTS;
}

/*
 * The way whose entry is evicted: the next one without a mark. When all have marks, this clears all
 * marks but one.
 */
SW_INLINE __u32 sw_route_victim(sw_at set, __u32 ways)
{
	__u64 marks = sw_u64(set + SW_ROUTE_SET_MARKS), all = (1ull << (ways & 31)) - 1, cold = ~marks & all, ahead, keep;
	__u32 hand = (marks >> SW_ROUTE_SLOTS) & (SW_ROUTE_SLOTS - 1), way, next;

	ahead = cold & (~0ull << hand);
	if (ahead)
		way = sw_route_lowest(ahead);
	else if (cold)
		way = sw_route_lowest(cold);
	else
		way = hand < ways ? hand : 0;
	next = way + 1 < ways ? way + 1 : 0;
	keep = cold ? SW_ROUTE_ALL & ~(1ull << (way & 15)) : 0;
	/* A mark that a reader sets after the load may be cleared with the others. */
	sw_and_u64(set + SW_ROUTE_SET_MARKS, keep);
	sw_or_u64(set + SW_ROUTE_SET_MARKS, (__u64)next << SW_ROUTE_SLOTS);
	return way;
}

/*
 * Whether an entry of this stamp is too old to keep its slot. A stamp of the far future is from
 * before a step of the clock.
 */
SW_INLINE int sw_route_expired(sw_at window, __u64 stamp, __u64 now)
{
	__u64 back = ((now << 1 | 1) - stamp) >> 1, ahead = (1ull << 63) - back;
	__u64 limit = sw_u64(window + (stamp & 1 ? SW_ROUTE_NEGATIVE_TTL : SW_ROUTE_KEEP));

	return (back < ahead ? back : ahead) >= limit;
}

/* What sw_route_put did with an answer. */
enum sw_route_done { SW_ROUTE_INSERTED, SW_ROUTE_REFRESHED, SW_ROUTE_OVERTAKEN, SW_ROUTE_UNKNOWN };

/* Writes the stamp and the value of a slot. */
SW_INLINE void sw_route_rewrite(sw_at slot, __u64 stamp, const struct sw_route_value *value)
{
	sw_set_u64(slot + SW_ROUTE_SLOT_STAMP, stamp);
	sw_set_u64(slot + SW_ROUTE_SLOT_VALUE, value->words[0]);
	sw_set_u64(slot + SW_ROUTE_SLOT_VALUE + 8, value->words[1]);
	sw_set_u64(slot + SW_ROUTE_SLOT_VALUE + 16, value->words[2]);
	sw_set_u64(slot + SW_ROUTE_SLOT_VALUE + 24, value->words[3]);
}

/*
 * Stores the answer of a resolver. Returns 0 when it was stored, in a new slot or in that of the
 * key, or
 *
 *     -ECANCELED  The answer was not stored. Either the key or all entries were invalidated since
 *                 the ticket was written, or a resolver that began later has stored its answer.
 *                 The answer is still good for the packet of this lookup.
 *     -EBUSY      The answer was not stored, because other programs held the set for too long.
 *     -ELOOP      The kernel ended the program's loops.
 *     -EOPNOTSUPP a failure, and the cache was made without `negative_ttl`
 *     -ENOSPC     the cache has no slots
 *     -EINVAL     there is no such cache
 *
 * The ticket is that of the sw_route_get that missed, and the age of the answer counts from its
 * `now`. `flags` is 0, or SW_ROUTE_NEGATIVE when the resolver has no route. Then the value is
 * ignored.
 */
SW_GLOBAL long sw_route_put(__u32 number, const struct sw_route_key *key SW_NONNULL,
			    const struct sw_route_value *value SW_NONNULL,
			    const struct sw_route_ticket *ticket SW_NONNULL, __u32 flags)
{
	sw_at window = sw_window(number, SW_KIND_ROUTE), set, slot, counters;
	__u64 negative = flags & SW_ROUTE_NEGATIVE, hash = ticket->hash, stamp, index, generation, sequence, later;
	__u32 tag = sw_route_tag(hash), ways, evicted = 0, full = 0, invalidated = 0;
	enum sw_route_done done;
	int way;

	sw_use_arena();
	if (!window)
		return -EINVAL;
	counters = sw_route_counters(window);
	if (negative) {
		sw_route_count(counters, SW_ROUTE_COUNT_ERROR, 1);
		if (sw_u64(window + SW_ROUTE_NEGATIVE_TTL) == SW_ROUTE_NEVER)
			return -EOPNOTSUPP;
	}
	if (!sw_u64(window + SW_ROUTE_SETS))
		return -ENOSPC;
	stamp = ticket->now << 1 | negative;
	index = sw_route_index(window, hash);
	set = sw_route_set(window, index);
	ways = (__u32)sw_u64(window + SW_ROUTE_WAYS) + (index < sw_u64(window + SW_ROUTE_WIDER));
	sequence = sw_route_lock(set);
	if (sequence & 1) {
		sw_route_count(counters, SW_ROUTE_COUNT_BUSY, 1);
		return -EBUSY;
	}
	/*
	 * If the generation changes after this load, the set has the old one, and lookups do not
	 * find the entry.
	 */
	generation = ticket->generation;
	if (generation != sw_acquire_u64(window + SW_ROUTE_GENERATION) ||
	    ticket->disturbances != sw_u64(set + SW_ROUTE_SET_DISTURBANCES)) {
		done = SW_ROUTE_OVERTAKEN;
		goto unlock;
	}
	invalidated = sw_route_restart(set, generation);
	way = sw_route_way(set, tag, key);
	if (way >= 0) {
		slot = sw_route_slot(set, (__u32)way);
		later = (sw_u64(slot + SW_ROUTE_SLOT_STAMP) & ~1ull) - (stamp & ~1ull);
		done = later && later >> 1 < sw_u64(window + SW_ROUTE_FRESH) ? SW_ROUTE_OVERTAKEN : SW_ROUTE_REFRESHED;
		if (done == SW_ROUTE_REFRESHED)
			sw_route_rewrite(slot, stamp, value);
	} else if (way == -ENOENT) {
		way = (int)sw_route_vacant(set);
		if ((__u32)way >= ways) {
			way = (int)sw_route_victim(set, ways);
			evicted = 1;
			full = !sw_route_expired(window, sw_u64(sw_route_slot(set, (__u32)way)), ticket->now);
		}
		slot = sw_route_slot(set, (__u32)way);
		sw_set_u64(slot + SW_ROUTE_SLOT_KEY, key->words[0]);
		sw_set_u64(slot + SW_ROUTE_SLOT_KEY + 8, key->words[1]);
		sw_set_u64(slot + SW_ROUTE_SLOT_KEY + 16, key->words[2]);
		sw_route_rewrite(slot, stamp, value);
		sw_set_u8(set + SW_ROUTE_SET_TAGS + (__u32)way, (__u8)tag);
		done = SW_ROUTE_INSERTED;
	} else {
		done = SW_ROUTE_UNKNOWN;
	}
unlock:
	sw_route_unlock(set, sequence);
	if (invalidated)
		sw_route_count(counters, SW_ROUTE_COUNT_INVALIDATED, invalidated);
	switch (done) {
	case SW_ROUTE_OVERTAKEN:
		sw_route_count(counters, SW_ROUTE_COUNT_OVERTAKEN, 1);
		return -ECANCELED;
	case SW_ROUTE_UNKNOWN:
		sw_route_count(counters, SW_ROUTE_COUNT_BUSY, 1);
		return -ELOOP;
	case SW_ROUTE_REFRESHED:
		sw_route_mark(set, (__u32)way);
		sw_route_count(counters, SW_ROUTE_COUNT_REFRESH, 1);
		return 0;
	default:
		if (evicted)
			sw_route_count(counters, SW_ROUTE_COUNT_EVICT, 1);
		if (full)
			sw_route_count(counters, SW_ROUTE_COUNT_FULL, 1);
		sw_route_count(counters, SW_ROUTE_COUNT_INSERT, 1);
		return 0;
	}
}

/*
 * Invalidates all entries, and all answers that are being resolved, by one addition. Returns 0 or
 * -EINVAL.
 */
SW_GLOBAL long sw_route_invalidate_all(__u32 number)
{
	sw_at window = sw_window(number, SW_KIND_ROUTE);

	sw_use_arena();
	if (!window)
		return -EINVAL;
	sw_add_u64(window + SW_ROUTE_GENERATION, 1);
	return 0;
}

/*
 * Removes a key. Returns 1 if it was there, 0 if not, or -EINVAL. An answer for the key that is
 * being resolved will not be stored. When the set cannot be locked, this invalidates all entries
 * and returns 1, because an invalidation must not fail.
 *
 *     sw_route_invalidate(FLOWS, &key);       // a neighbour has moved
 */
SW_GLOBAL long sw_route_invalidate(__u32 number, const struct sw_route_key *key SW_NONNULL)
{
	sw_at window = sw_window(number, SW_KIND_ROUTE), set, counters;
	__u64 hash, sequence, generation;
	int way;

	sw_use_arena();
	if (!window)
		return -EINVAL;
	if (!sw_u64(window + SW_ROUTE_SETS))
		return 0;
	hash = sw_route_hash(window, key);
	set = sw_route_set(window, sw_route_index(window, hash));
	sequence = sw_route_lock(set);
	if (sequence & 1)
		goto all;
	sw_set_u64(set + SW_ROUTE_SET_DISTURBANCES, sw_u64(set + SW_ROUTE_SET_DISTURBANCES) + 1);
	generation = sw_u64(set + SW_ROUTE_SET_GENERATION);
	way = sw_route_way(set, sw_route_tag(hash), key);
	if (way >= 0) {
		sw_set_u8(set + SW_ROUTE_SET_TAGS + (__u32)way, 0);
		sw_and_u64(set + SW_ROUTE_SET_MARKS, ~(1ull << (way & 15)));
	}
	sw_route_unlock(set, sequence);
	if (way == -ELOOP)
		goto all;
	if (way < 0)
		return 0;
	counters = sw_route_counters(window);
	sw_route_count(counters, SW_ROUTE_COUNT_INVALIDATED, 1);
	return generation == sw_acquire_u64(window + SW_ROUTE_GENERATION);
all:
	sw_add_u64(window + SW_ROUTE_GENERATION, 1);
	return 1;
}

/*
 * Sweeps one set. Returns the number of removed entries. A set that is locked is left for the next
 * sweep.
 */
SW_GLOBAL long sw_route_sweep_set(__u32 number, __u32 index, __u64 now)
{
	sw_at window = sw_window(number, SW_KIND_ROUTE), set, counters;
	__u32 way, swept = 0, invalidated;
	__u64 sequence, gone = 0;

	sw_use_arena();
	if (!window)
		return -EINVAL;
	if (index >= sw_u64(window + SW_ROUTE_SETS))
		return 0;
	set = sw_route_set(window, index);
	if (!(sw_u64(set + SW_ROUTE_SET_TAGS) | sw_u64(set + SW_ROUTE_SET_TAGS + 8)))
		return 0;
	sequence = sw_route_lock(set);
	if (sequence & 1)
		return 0;
	invalidated = sw_route_restart(set, sw_acquire_u64(window + SW_ROUTE_GENERATION));
	for (way = sw_zero(); way < SW_ROUTE_SLOTS && sw_can_loop; way++) {
		if (!sw_u8(set + SW_ROUTE_SET_TAGS + way))
			continue;
		if (!sw_route_expired(window, sw_u64(sw_route_slot(set, way)), now))
			continue;
		sw_set_u8(set + SW_ROUTE_SET_TAGS + way, 0);
		gone |= 1ull << (way & 15);
		swept++;
	}
	if (gone)
		sw_and_u64(set + SW_ROUTE_SET_MARKS, ~gone);
	sw_route_unlock(set, sequence);
	counters = sw_route_counters(window);
	if (invalidated)
		sw_route_count(counters, SW_ROUTE_COUNT_INVALIDATED, invalidated);
	sw_route_count(counters, SW_ROUTE_COUNT_SWEPT, swept);
	return invalidated + swept;
}

/*
 * Removes entries that are older than `keep` or older than an invalidation of all, in about
 * `budget` slots. The next call continues from there. `now` may be an earlier time. Returns the
 * number of removed entries, -EINVAL, or -ELOOP when the kernel ended the loop before the budget
 * was used. A set takes some tens of nanoseconds, so programs on the path of packets should sweep
 * only a few sets at a time.
 *
 *     sw_route_sweep(FLOWS, bpf_ktime_get_ns(), 64);
 */
SW_GLOBAL long sw_route_sweep(__u32 number, __u64 now, __u32 budget)
{
	sw_at window = sw_window(number, SW_KIND_ROUTE);
	__u64 sets, some, start, i;
	long removed = 0, one;

	sw_use_arena();
	if (!window)
		return -EINVAL;
	sets = (__u32)sw_u64(window + SW_ROUTE_SETS);
	some = ((__u64)budget + SW_ROUTE_SLOTS - 1) / SW_ROUTE_SLOTS;
	if (some > sets)
		some = sets;
	if (!some)
		return 0;
	start = sw_fetch_add_u64(window + SW_ROUTE_CURSOR, some);
	for (i = sw_zero(); i < some && sw_can_loop; i++) {
		one = sw_route_sweep_set(number, (__u32)((start + i) % sets), now);
		if (one > 0)
			removed += one;
	}
	return i < some ? -ELOOP : removed;
}

#endif
