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
 * That is for a name without compression, as questions have it. The name at any byte of a message
 * may be compressed. sw_dns_read_packet makes a whole name of it, which sw_dns_key takes:
 *
 *     long end = sw_dns_read_packet(&name, ctx, message, message_bytes, 12);
 *     if (end > 0) bytes = sw_dns_key(&key, &name, SW_DNS_WIRE_MAX, room);
 *
 * Bytes 0 and 1 within a label are written as 1, 1 and 1, 2, so a key may be longer than its name:
 * SW_DNS_KEY_MAX bytes at most. A key of more than SW_KEY_SHORT_MAX bytes is a long key. It takes a
 * room of SW_DNS_ROOM_BYTES in the arena, which must have no other user while the key is in use.
 * Without a room the key is cut off. Then a lookup that finds nothing has not looked for all
 * parents of the name: a program that lets such a name pass has a hole (name.key_bytes tells).
 */
#ifndef SAPWOOD_DNS_BPF_H
#define SAPWOOD_DNS_BPF_H

#include "key.bpf.h"
#include "qp_prefix.bpf.h"

/* The longest name in wire form, with the root's byte, and the longest label. */
#define SW_DNS_WIRE_MAX 255
#define SW_DNS_LABEL_MAX 63
/* The greatest number of compression pointers that are followed: as many as a name has labels. */
#define SW_DNS_POINTERS_MAX 127

_Static_assert(SW_DNS_ROOM_BYTES >= SW_DNS_KEY_MAX, "the key of any name fits a room");

/* A name, and the state of the functions that read it and make its key. */
struct sw_dns_name {
	/*
	 * The name as it is in the packet, or without compression; and bytes for the verifier, as
	 * it does not know that a label which begins in the name ends there.
	 */
	__u8 wire[SW_DNS_WIRE_MAX + 1 + SW_DNS_LABEL_MAX + 1];
	/* The bytes of each label in the key, without its end. */
	__u8 labels[128];
	/* The bytes of the key. */
	__u32 key_bytes;
	/*
	 * The place of the next byte in the key, and that of its label. They are in memory, where
	 * the verifier does not track their values.
	 */
	volatile __u32 at, begin;
	/*
	 * The state of the reading of a message, in memory for the same reason: the place of the
	 * next label in the message, that of the bytes to be loaded and their place in `wire`, the
	 * place behind the name, the number of pointers so far, and whether one is being loaded.
	 */
	volatile __u32 from, load, to, end, pointers, in_pointer;
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
 * Cuts off the first label of a name that sw_dns_key has read, and makes the key of the rest: that
 * of the name above. Returns as sw_dns_key; -ENOENT for the root, which has no name above.
 */
SW_GLOBAL long sw_dns_parent(struct sw_key *key SW_NONNULL, struct sw_dns_name *name SW_NONNULL, __u64 room)
{
	__u32 cut = name->wire[0], at;

	if (!cut)
		return -ENOENT;
	if (cut > SW_DNS_LABEL_MAX)
		return -EINVAL;
	cut += 1;
	sw_for (at, SW_DNS_WIRE_MAX + 1) {
		sw_hide(at);
		at &= 255;
		name->wire[at] = name->wire[at + (cut & 127)];
	}
	return sw_dns_key(key, name, SW_DNS_WIRE_MAX, room);
}

/*
 * One step of the reading of a name, whose last bytes were loaded. Returns the number of bytes to
 * be loaded next, up to 64, from name->load of the message to name->to of the name; 0 at the end of
 * the name; or an error.
 */
SW_GLOBAL long sw_dns_step(struct sw_dns_name *name SW_NONNULL, __u32 bytes)
{
	__u32 place = name->at & 255, from = name->from, kind, target;

	sw_hide(place);
	kind = name->wire[place & 255];
	if (name->in_pointer) {
		name->in_pointer = 0;
		target = (kind & 63) << 8 | name->wire[(place & 255) + 1];
		/* It leads to a place before all that was read so far, so that there is no circle. */
		if (target >= name->begin || name->pointers >= SW_DNS_POINTERS_MAX)
			return -EMLINK;
		name->pointers += 1;
		if (!name->end)
			name->end = from + 2;
		name->begin = target;
		name->from = target;
		name->load = target;
		name->to = place;
		return 1;
	}
	name->load = from + 1;
	name->to = place + 1;
	if (!kind) {
		if (!name->end)
			name->end = from + 1;
		return 0;
	}
	if (kind >= 192) {
		name->in_pointer = 1;
		return from + 1 < bytes ? 1 : -ENODATA;
	}
	if (kind > SW_DNS_LABEL_MAX)
		return -EINVAL;
	/* The label, and the first byte of what follows. */
	if (from + 1 + kind >= bytes)
		return -ENODATA;
	if (place + kind + 2 > SW_DNS_WIRE_MAX)
		return -ENAMETOOLONG;
	name->at = place + 1 + kind;
	name->from = from + 1 + kind;
	return kind + 1;
}

/*
 * Defines a function that reads the name at byte `at` of a DNS message into name->wire, without
 * compression. The message begins at byte `message` of the source, with its header, and has `bytes`
 * bytes. `load(to, bytes, source, offset)` is as in key.bpf.h.
 *
 * It returns the place in the message of the first byte behind the name (positive). Errors:
 * -ENODATA when the message ends before the name, -ENAMETOOLONG when the name has more than
 * SW_DNS_WIRE_MAX bytes, -EINVAL for an unknown kind of label, -EMLINK for a compression pointer
 * that does not lead back before everything that was read of the name, or one of more than
 * SW_DNS_POINTERS_MAX; -ELOOP.
 */
#define SW_DNS_READER(reader, type, load_bytes)                                \
	SW_INLINE long reader(struct sw_dns_name *name, type source, __u32 message, __u32 bytes, __u32 at) \
	{                                                                      \
		long more = at < bytes ? 1 : -ENODATA;                         \
		__u32 left, to;                                                \
                                                                               \
		name->at = name->to = name->end = 0;                           \
		name->pointers = name->in_pointer = 0;                         \
		name->begin = name->from = name->load = at;                    \
		/* One round for each label, two for each pointer, and one for the root. */ \
		for (left = 384 + sw_zero(); left && more > 0 && sw_can_loop; left--) { \
			more -= 1;                                             \
			sw_hide(more);                                         \
			more &= 63;                                            \
			to = name->to;                                         \
			sw_hide(to);                                           \
			to &= 255;                                             \
			if (load_bytes(name->wire + to, (__u32)more + 1, source, message + name->load)) \
				return -ENODATA;                               \
			more = sw_dns_step(name, bytes);                       \
		}                                                              \
		if (more > 0)                                                  \
			return -ELOOP;                                         \
		return more ? more : (long)name->end;                          \
	}

#ifdef __bpf__

SW_DNS_READER(sw_dns_read_xdp, struct xdp_md *, sw_key_load_xdp)
SW_DNS_READER(sw_dns_read_skb, struct __sk_buff *, sw_key_load_skb)

/*
 * Reads a name of a message in a packet, in a program of either type:
 *
 *     // the first question of a query over UDP
 *     long end = sw_dns_read_packet(&name, ctx, udp + 8, udp_bytes - 8, 12);
 */
#define sw_dns_read_packet(name, ctx, message, bytes, at)                      \
	_Generic((ctx), struct xdp_md *: sw_dns_read_xdp, struct __sk_buff *: sw_dns_read_skb)( \
		name, ctx, message, bytes, at)

/* The same for a message in a dynptr. */
SW_DNS_READER(sw_dns_read_dynptr, const struct bpf_dynptr *, sw_key_load_dynptr)

#else

/* The same for a message in memory. */
SW_DNS_READER(sw_dns_read_memory, const void *, sw_key_load_memory)

#endif

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
