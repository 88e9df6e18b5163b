/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Keys that programs make of bytes of a packet, of memory or of a dynptr, and of strings. Their
 * lengths are known at run time only.
 *
 *     struct sw_key key;
 *     sw_at room = sw_window(ROOMS, SW_KIND_WORDS) + cpu * SW_KEY_ROOM_BYTES;
 *     long error = sw_key_packet(&key, room, ctx, offset, length);
 *
 *     if (!error) found = sw_qp_lookup(PATHS, &key);
 *
 * A key of up to SW_KEY_SHORT_MAX bytes is copied into the struct. It needs no room, so `room` may
 * be 0 where all keys are short. A longer key is copied into the room: SW_KEY_ROOM_BYTES of the
 * arena (Words::create) at a multiple of 8, which must have no other user while the key is in use.
 * One room for each processor is enough for programs that are not preempted, and do not interrupt
 * each other: those of XDP, tc and tracepoints. Programs of cgroups and of uprobes may be preempted
 * by another one on the same processor: they keep to short keys, on the stack. So do sleepable
 * programs, with a constant 0 as the room: the loader refuses those that copy long keys.
 *
 * Bytes that lie in the arena already need no copy: see sw_key_long.
 *
 * A struct sw_key takes 256 of the 512 bytes that the stacks of a program and of the functions
 * which it calls have together. A lookup, an insertion or a removal has room beside it: see "The
 * budget of the stack" in docs/bpf.md. A program that the verifier refuses for its stack keeps the
 * key in the value of a BPF_MAP_TYPE_PERCPU_ARRAY.
 *
 * All functions here return 0 or an error: -E2BIG when the key has more than SW_KEY_MAX bytes;
 * -EINVAL when it is long and there is no room; -ELOOP; or the kernel's error for the bytes, such
 * as -EFAULT for memory and -EINVAL for a shorter packet. After an error, the key has no bytes.
 */
#ifndef SAPWOOD_KEY_BPF_H
#define SAPWOOD_KEY_BPF_H

#if defined(__bpf__) && !defined(__VMLINUX_H__)
#include <linux/bpf.h>
#endif
#include "qp.bpf.h"

/* The number of bytes that are copied to a room at a time. */
#define SW_KEY_PART (SW_KEY_WORDS * 8 - 32)

_Static_assert(SW_KEY_ROOM_BYTES >= SW_KEY_MAX + SW_KEY_PART + 8, "the last part fits a room, and a word more");

/* Copies the bytes of a short key, which is a part of a long one, to a place of the arena. */
SW_GLOBAL int sw_key_put_part(__u64 to, const struct sw_key *part SW_NONNULL)
{
	const __u8 *from;
	__u32 i;

	sw_use_arena();
	for (i = sw_zero(); i < SW_KEY_PART && sw_can_loop; i += 32) {
		sw_hide(i);
		i &= 0xe0;
		if (i >= SW_KEY_PART)
			break;
		from = part->bytes + i;
		sw_set_u64(to, sw_key_word_at(from));
		sw_set_u64(to + 8, sw_key_word_at(from + 8));
		sw_set_u64(to + 16, sw_key_word_at(from + 16));
		sw_set_u64(to + 24, sw_key_word_at(from + 24));
		to += 32;
	}
	return 0;
}

/* Makes a key without bytes, and returns the error. */
SW_INLINE long sw_key_none(struct sw_key *key, long error)
{
	__builtin_memset(key, 0, sizeof(*key));
	return error;
}

/*
 * Returns a number through the room's last word, which no key uses. The verifier does not know the
 * word that it reads there. So it checks one round of a loop, and not each round with a known
 * number.
 */
SW_INLINE __u32 sw_key_forget(sw_at room, __u32 number)
{
	sw_set_u32(room + SW_KEY_ROOM_BYTES - 8, number);
	return sw_u32(room + SW_KEY_ROOM_BYTES - 8);
}

/*
 * Defines a function that makes a key of `length` bytes of a source, from `offset` on. `load(to,
 * bytes, source, offset)` copies 1 to 254 bytes, and returns 0 or an error.
 */
#define SW_KEY_MAKER(name, type, load)                                         \
	SW_INLINE long name(struct sw_key *key, sw_at room, type source, __u32 offset, __u32 length) \
	{                                                                      \
		__u32 at, part;                                                \
		long error = 0;                                                \
                                                                               \
		__builtin_memset(key, 0, sizeof(*key));                        \
		if (!length)                                                   \
			return 0;                                              \
		if (length <= SW_KEY_SHORT_MAX) {                              \
			part = length - 1;                                     \
			sw_hide(part);                                         \
			part &= 255;                                           \
			if (part < SW_KEY_SHORT_MAX)                           \
				error = load(key->bytes, part + 1, source, offset); \
			if (error)                                             \
				return sw_key_none(key, error);                \
			key->length = (__u8)length;                            \
			return 0;                                              \
		}                                                              \
		if (length > SW_KEY_MAX)                                       \
			return -E2BIG;                                         \
		if (!room || room & 7)                                         \
			return -EINVAL;                                        \
		for (at = sw_zero(); at < length && sw_can_loop; at += SW_KEY_PART) { \
			at = sw_key_forget(room, at) & 0x1fff;                 \
			part = length - at < SW_KEY_PART ? length - at : SW_KEY_PART; \
			part = sw_key_forget(room, part - 1) & 255;            \
			if (part >= SW_KEY_PART)                               \
				return sw_key_none(key, -EINVAL);              \
			error = load(key->bytes, part + 1, source, offset + at); \
			if (error)                                             \
				return sw_key_none(key, error);                \
			sw_key_put_part(room + at, key);                       \
		}                                                              \
		if (at < length)                                               \
			return sw_key_none(key, -ELOOP);                       \
		sw_key_long(key, room, length);                                \
		return 0;                                                      \
	}

#ifdef __bpf__

static long (*const sw_help_xdp_load_bytes)(struct xdp_md *ctx, __u32 offset, void *to, __u32 bytes) = (void *)189;
static long (*const sw_help_skb_load_bytes)(const void *ctx, __u32 offset, void *to, __u32 bytes) = (void *)26;
static long (*const sw_help_dynptr_read)(void *to, __u32 bytes, const struct bpf_dynptr *from, __u32 offset,
					 __u64 flags) = (void *)201;
static long (*const sw_help_probe_read_kernel)(void *to, __u32 bytes, const void *from) = (void *)113;
static long (*const sw_help_probe_read_user)(void *to, __u32 bytes, const void *from) = (void *)112;
static long (*const sw_help_probe_read_kernel_str)(void *to, __u32 bytes, const void *from) = (void *)115;
static long (*const sw_help_probe_read_user_str)(void *to, __u32 bytes, const void *from) = (void *)114;

#define sw_key_load_xdp(to, bytes, ctx, offset) sw_help_xdp_load_bytes(ctx, offset, to, bytes)
#define sw_key_load_skb(to, bytes, ctx, offset) sw_help_skb_load_bytes(ctx, offset, to, bytes)
#define sw_key_load_dynptr(to, bytes, ptr, offset) sw_help_dynptr_read(to, bytes, ptr, offset, 0)
#define sw_key_load_kernel(to, bytes, from, offset) \
	sw_help_probe_read_kernel(to, bytes, (const char *)(from) + (offset))
#define sw_key_load_user(to, bytes, from, offset) \
	sw_help_probe_read_user(to, bytes, (const char *)(from) + (offset))

SW_KEY_MAKER(sw_key_xdp, struct xdp_md *, sw_key_load_xdp)
SW_KEY_MAKER(sw_key_skb, struct __sk_buff *, sw_key_load_skb)

/*
 * Makes a key of bytes of a packet, in a program of either type. The bytes may lie in several
 * fragments:
 *
 *     error = sw_key_packet(&key, room, ctx, offset, length);
 */
#define sw_key_packet(key, room, ctx, offset, length)                          \
	_Generic((ctx), struct xdp_md *: sw_key_xdp, struct __sk_buff *: sw_key_skb)(key, room, ctx, offset, length)

/* Makes a key of bytes of a dynptr: error = sw_key_dynptr(&key, room, &ptr, 0, bpf_dynptr_size(&ptr)); */
SW_KEY_MAKER(sw_key_dynptr, const struct bpf_dynptr *, sw_key_load_dynptr)

/*
 * Makes a key of bytes of the kernel's memory, for example of a map's value or the program's stack,
 * or of the memory of the current process. `offset` is added to the address.
 *
 *     error = sw_key_memory(&key, room, value->name, 0, value->length);
 *
 * Programs that call these functions need the right to read the kernel's memory (CAP_PERFMON), and
 * a licence that is compatible with the GPL.
 */
SW_KEY_MAKER(sw_key_memory, const void *, sw_key_load_kernel)
SW_KEY_MAKER(sw_key_user, const void *, sw_key_load_user)

/*
 * Defines a function that makes a key of a string, without its final zero. `read(to, bytes, from)`
 * copies `bytes` bytes, and `read_string` copies up to the zero.
 */
#define SW_KEY_STRING(name, read_string, read)                                 \
	SW_INLINE long name(struct sw_key *key, sw_at room, const void *from)  \
	{                                                                      \
		const char *text = from;                                       \
		__u8 last = 1;                                                 \
		__u32 at;                                                      \
		long bytes;                                                    \
                                                                               \
		__builtin_memset(key, 0, sizeof(*key));                        \
		bytes = read_string(key->bytes, SW_KEY_SHORT_MAX + 1, text);   \
		if (bytes < 0)                                                 \
			return sw_key_none(key, bytes);                        \
		/* Its zero is among them, or it was cut off, or ends just there. */ \
		if (bytes > SW_KEY_SHORT_MAX)                                  \
			read(&last, 1, text + SW_KEY_SHORT_MAX);               \
		if (bytes <= SW_KEY_SHORT_MAX || !last) {                      \
			key->length = bytes ? (__u8)(bytes - 1) : 0;           \
			return 0;                                              \
		}                                                              \
		if (!room || room & 7)                                         \
			return sw_key_none(key, -EINVAL);                      \
		for (at = sw_zero(); at <= SW_KEY_MAX && sw_can_loop; at += SW_KEY_PART - 1) { \
			at = sw_key_forget(room, at) & 0x1fff;                 \
			bytes = read_string(key->bytes, SW_KEY_PART, text + at); \
			if (bytes < 0)                                         \
				return sw_key_none(key, bytes);                \
			sw_key_put_part(room + at, key);                       \
			if (bytes < SW_KEY_PART)                               \
				break;                                         \
		}                                                              \
		if (bytes == SW_KEY_PART)                                      \
			return sw_key_none(key, at > SW_KEY_MAX ? -E2BIG : -ELOOP); \
		/* Without its zero. */                                        \
		at += bytes ? (__u32)bytes - 1 : 0;                            \
		if (at > SW_KEY_MAX)                                           \
			return sw_key_none(key, -E2BIG);                       \
		sw_key_long(key, room, at);                                    \
		return 0;                                                      \
	}

/*
 * Makes a key of a string in the kernel's memory, or in that of the current process:
 *
 *     error = sw_key_string(&key, room, filename);
 */
SW_KEY_STRING(sw_key_string, sw_help_probe_read_kernel_str, sw_help_probe_read_kernel)
SW_KEY_STRING(sw_key_user_string, sw_help_probe_read_user_str, sw_help_probe_read_user)

#else

SW_INLINE long sw_key_load_memory(void *to, __u32 bytes, const void *from, __u32 offset)
{
	__builtin_memcpy(to, (const char *)from + offset, bytes);
	return 0;
}

/* Makes a key of bytes of memory: error = sw_key_memory(&key, room, name, 0, length); */
SW_KEY_MAKER(sw_key_memory, const void *, sw_key_load_memory)

#endif

#endif
