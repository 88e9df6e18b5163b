/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Keys of domain names, equal to those of sapwood::key::dns_name: labels in reverse order, ASCII
 * letters in lower case, and a zero byte behind each label. "www.Example.org" is
 * "org\0example\0www\0". So the parents of a name are the prefixes of its key that are names:
 *
 *     struct sw_dns_name name;                      // one for each CPU: too large for a stack
 *     // copy at most 255 bytes of the packet to name.wire
 *     long bytes = sw_dns_key(&key, &name, copied, room);
 *     if (bytes > 0) found = sw_qp_ancestor(BLOCKED, &key);
 *
 * Bytes 0 and 1 within a label are written as 1, 1 and 1, 2, so a key may be longer than its name.
 * A key of more than SW_KEY_SHORT_MAX bytes is a long key. It takes a room of SW_DNS_ROOM_BYTES in
 * the arena, which must have no other user while the key is in use.
 */
#ifndef SAPWOOD_DNS_BPF_H
#define SAPWOOD_DNS_BPF_H

#include "qp_prefix.bpf.h"

/* The longest name in wire form, with the root's byte, and the longest label. */
#define SW_DNS_WIRE_MAX 255
#define SW_DNS_LABEL_MAX 63

/* A name, and the state of the function that makes its key. */
struct sw_dns_name {
	/* The name as it is in the packet. */
	__u8 wire[SW_DNS_WIRE_MAX + 1];
	/* The bytes of each label in the key, without its end. */
	__u8 labels[128];
	/* The bytes of the key. */
	__u32 key_bytes;
	/*
	 * The place of the next byte in the key, and that of its label. They are in memory, where
	 * the verifier does not track their values.
	 */
	volatile __u32 at, begin;
};

SW_INLINE __u32 sw_dns_lower(__u32 byte)
{
	return byte + (byte - 'A' < 26u ? 32 : 0);
}

/*
 * Writes a byte to the room, if there is one. Otherwise writes it to the key, if a short key can
 * hold it.
 */
SW_INLINE void sw_dns_put(struct sw_key *key, struct sw_dns_name *name, sw_at room, __u32 byte)
{
	__u32 place = name->at + 1;

	name->at = place;
	if (room && place <= SW_DNS_ROOM_BYTES) {
		sw_set_u8(room + place - 1, byte);
		/* Without this, the compiler joins both stores, which the verifier refuses. */
		sw_hide(byte);
		return;
	}
	if (place > SW_KEY_SHORT_MAX)
		return;
	sw_hide(place);
	((__u8 *)key)[place & (SW_KEY_WORDS * 8 - 1)] = (__u8)byte;
}

/*
 * Makes the key of the name that begins at name->wire[0]. `bytes` bytes are available,
 * SW_DNS_WIRE_MAX at most.
 *
 * Returns the bytes of the name with its root's (positive). Errors: -ENODATA when the bytes end
 * before the name, -ENAMETOOLONG when the name does not end within SW_DNS_WIRE_MAX bytes, -EINVAL
 * for an unknown kind of label, -EMLINK for a compressed name, -ELOOP.
 *
 * Without a room, a key of more than SW_KEY_SHORT_MAX bytes is cut off there, and name->key_bytes
 * has the length of the whole key. The cut key has the same prefixes of up to SW_KEY_SHORT_MAX
 * bytes that are names, so the lookup of a parent finds them.
 */
SW_GLOBAL long sw_dns_key(struct sw_key *key SW_NONNULL, struct sw_dns_name *name SW_NONNULL, __u32 bytes,
			  __u64 room)
{
	__u32 i, left, byte, more;
	/*
	 * Each variable has its own zero, because the verifier would apply what it learns of one to
	 * all.
	 */
	__u32 takes = sw_zero(), rest = sw_zero(), label = sw_zero(), total = sw_zero();
	long used = 0;

	/* If the verifier knew the number, it would check every round of the loop. */
	bytes = (bytes < SW_DNS_WIRE_MAX ? bytes : SW_DNS_WIRE_MAX) + sw_zero();
	/* Counts the bytes of each label. */
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
	/* Copies each label to its place. The first label ends at the key's end. */
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
			/* Ends the label. A short key is still all zeros here. */
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
 * The closest enclosing name of a domain name in a map, which may be the name itself. Returns the
 * place of its value, or an error as sw_qp_longest_prefix. All keys of the map must be keys of
 * domain names. Zero bytes occur only at the ends of labels, so a key that is a prefix of another
 * ends at the end of a label.
 *
 *     // of "a.b.example.org": itself, "b.example.org", "example.org", "org" or the root
 *     found = sw_qp_ancestor(BLOCKED, &key);
 */
SW_INLINE long sw_qp_ancestor(__u32 map, const struct sw_key *key)
{
	return sw_qp_longest_prefix(map, key);
}

#endif
