/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Domain names as keys, the same that sapwood::key::dns_name makes: labels in reverse order, ASCII
 * letters in lower case, each label ended by a zero byte. "www.Example.org" is
 * "org\0example\0www\0". So the parents of a name are the prefixes of its key that are names:
 *
 *     struct sw_dns_name name;                      // one for each CPU: it is too large for a program's stack
 *     // copy at most 255 bytes of the packet to name.wire
 *     long bytes = sw_dns_key(&key, &name, copied, room);
 *     if (bytes > 0) found = sw_qp_ancestor(BLOCKED, &key);
 *
 * Bytes 0 and 1 within a label are written as 1, 1 and 1, 2: a key may be longer than its name, and
 * than SW_KEY_SHORT_MAX. Then it is a long key, and takes a room in the arena: SW_DNS_ROOM_BYTES,
 * which nobody else uses as long as the key is used.
 */
#ifndef SAPWOOD_DNS_BPF_H
#define SAPWOOD_DNS_BPF_H

#include "qp_prefix.bpf.h"

/* The longest name in wire form, its root's byte included, and the longest label. */
#define SW_DNS_WIRE_MAX 255
#define SW_DNS_LABEL_MAX 63

/* A name on its way to a key. */
struct sw_dns_name {
	/* As it is in the packet. */
	__u8 wire[SW_DNS_WIRE_MAX + 1];
	/* What each label takes in the key, without its end. */
	__u8 labels[128];
	/* What the key takes. */
	__u32 key_bytes;
	/* Where in the key the next byte goes, and where its label begins. In memory, as the verifier does not look for what it is. */
	volatile __u32 at, begin;
};

SW_INLINE __u32 sw_dns_lower(__u32 byte)
{
	return byte + (byte - 'A' < 26u ? 32 : 0);
}

/* Puts a byte into the room, if there is one; else into the key, if it is not behind what a short key can hold. */
SW_INLINE void sw_dns_put(struct sw_key *key, struct sw_dns_name *name, sw_at room, __u32 byte)
{
	__u32 place = name->at + 1;

	name->at = place;
	if (room && place <= SW_DNS_ROOM_BYTES) {
		sw_set_u8(room + place - 1, byte);
		/* Or the compiler makes one store of both, which the verifier refuses. */
		sw_hide(byte);
		return;
	}
	if (place > SW_KEY_SHORT_MAX)
		return;
	sw_hide(place);
	((__u8 *)key)[place & (SW_KEY_WORDS * 8 - 1)] = (__u8)byte;
}

/*
 * Makes the key of the name that begins at name->wire[0], of which this many bytes (SW_DNS_WIRE_MAX
 * at most) are there.
 *
 * The bytes that the name takes, its root's included (positive); -ENODATA when the bytes end before
 * the name does, -ENAMETOOLONG when there are SW_DNS_WIRE_MAX and it has not ended; -EINVAL for a
 * kind of label that there is not; -EMLINK for a compressed name; -ELOOP.
 *
 * Without a room, a key of more than SW_KEY_SHORT_MAX bytes is cut off there, and name->key_bytes
 * says how long it would be. What is left has the same prefixes of up to SW_KEY_SHORT_MAX bytes that
 * are names: the lookup of a parent finds those.
 */
SW_GLOBAL long sw_dns_key(struct sw_key *key SW_NONNULL, struct sw_dns_name *name SW_NONNULL, __u32 bytes,
			  __u64 room)
{
	__u32 i, left, byte, more;
	/* One zero each: what the verifier learned of one, it would know of all. */
	__u32 takes = sw_zero(), rest = sw_zero(), label = sw_zero(), total = sw_zero();
	long used = 0;

	/* A number that the verifier knows would be counted down before its eyes. */
	bytes = (bytes < SW_DNS_WIRE_MAX ? bytes : SW_DNS_WIRE_MAX) + sw_zero();
	/* How many bytes each label takes. */
	for (i = sw_zero() & 255, left = bytes; left && sw_can_loop; left--, i = (i + 1) & 255) {
		sw_hide(i);
		byte = name->wire[i & 255];
		if (rest) {
			more = 1 + (byte <= 1);
			takes += more;
			if (--rest == 0) {
				sw_hide(label);
				name->labels[label & 127] = (__u8)takes;
				total += takes + 1;
				label++;
			}
		} else if (!byte) {
			used = i + 1;
			break;
		} else if (byte > SW_DNS_LABEL_MAX) {
			return byte >= 192 ? -EMLINK : -EINVAL;
		} else {
			rest = byte;
			takes = sw_zero();
		}
	}
	if (!used) {
		if (left)
			return -ELOOP;
		return bytes < SW_DNS_WIRE_MAX ? -ENODATA : -ENAMETOOLONG;
	}
	name->key_bytes = total;
	for (i = 0; i < SW_KEY_WORDS; i++)
		((volatile __u64 *)key->words)[i] = 0;
	if (total <= SW_KEY_SHORT_MAX)
		room = 0;
	key->length = (__u8)(total < SW_KEY_SHORT_MAX ? total : SW_KEY_SHORT_MAX);
	if (room)
		sw_key_long(key, room, total);
	/* Each label to its place: the first one ends where the key does. */
	name->begin = total;
	label = sw_zero();
	rest = sw_zero();
	for (i = sw_zero() & 255, left = used - 1; left && sw_can_loop; left--, i = (i + 1) & 255) {
		sw_hide(i);
		byte = name->wire[i & 255];
		if (!rest) {
			rest = byte;
			sw_hide(label);
			name->begin -= 1;
			/* The label's end; a short key is all zeros so far. */
			if (room)
				sw_set_u8(room + (name->begin & (SW_DNS_ROOM_BYTES - 1)), 0);
			name->begin -= name->labels[label & 127];
			name->at = name->begin;
			label++;
			continue;
		}
		rest--;
		if (byte <= 1) {
			sw_dns_put(key, name, room, 1);
			byte++;
		}
		sw_dns_put(key, name, room, sw_dns_lower(byte));
	}
	return left ? -ELOOP : used;
}

/*
 * The closest enclosing name of a domain name that is in a map, the name itself included: the place
 * of its value, or as sw_qp_longest_prefix. All keys of the map must be keys of domain names; as
 * each ends in a zero byte that nothing else in them is, a key that is a prefix of another ends
 * where one of its labels does.
 *
 *     found = sw_qp_ancestor(BLOCKED, &key);        // of "a.b.example.org": "b.example.org", "example.org", "org" or the root
 */
SW_INLINE long sw_qp_ancestor(__u32 map, const struct sw_key *key)
{
	return sw_qp_longest_prefix(map, key);
}

#endif
