/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The memory of Sapwood's maps, for C: in a BPF program the memory is an arena, and in user space
 * any mapping of the same bytes.
 *
 * A place in the memory is a number, sw_at: bytes from its beginning. sw_u64(at) and the like read
 * a word there, sw_set_u64(at, value) and the like write it. In a BPF program no such access
 * faults: pages without memory read as zeros, and stores to them are lost. A load that touches such
 * a page reads zeros as a whole.
 *
 * In BPF, the loader puts the owner's arena in the place of the map `sw_arena` that is declared
 * here. In user space, set the address of the memory and its bytes first:
 *
 *     sw_base = mapped;
 *     sw_limit = bytes;
 *
 * Then no access leaves the memory: a load from outside gives zeros, and a store to outside is
 * lost, as in a BPF program. Each thread has its own two variables.
 */
#ifndef SAPWOOD_ARENA_BPF_H
#define SAPWOOD_ARENA_BPF_H

#ifndef __VMLINUX_H__
#include <linux/types.h>
#include <asm/errno.h>
#endif

#include "layout.h"

_Static_assert(SW_VERSION == 8, "arena.bpf.h is written for this version of the arena");
_Static_assert((SW_WINDOWS_MAX & (SW_WINDOWS_MAX - 1)) == 0, "numbers of windows are masked");
_Static_assert((SW_MAP_EXTRA & 0xffffffff) == 0, "a place is a pointer of a program");

/*
 * Bytes from the beginning of the arena; 0 is the place of the arena's header. The upper 16 bits do
 * not belong to the place: those of an entry of a map may have more (qp_entry.bpf.h), and loads and
 * stores ignore them.
 */
typedef __u64 sw_at;

#define SW_AT_BITS 48
#define SW_AT_MASK ((1ull << SW_AT_BITS) - 1)

#ifdef __bpf__

#ifndef __BPF_FEATURE_ADDR_SPACE_CAST
#error "arenas need clang 19 or newer, and -mcpu=v4"
#elif __BPF_CPU_VERSION__ < 4
#error "arenas need -mcpu=v4"
#endif

#ifndef SEC
#define SEC(name) __attribute__((section(name), used))
#endif
#ifndef __uint
#define __uint(name, val) int(*name)[val]
#endif

/*
 * The loader replaces this map by the owner's arena. A program that names the map may use it. The
 * arena has its own address (map_extra). It is not named here, because libbpf before 1.5, and the
 * bpftool made of it, do not read a number of 64 bits.
 */
struct {
	__uint(type, 33); /* BPF_MAP_TYPE_ARENA */
	__uint(map_flags, 1u << 10); /* BPF_F_MMAPABLE */
	__uint(max_entries, SW_VERSION); /* the loader compares it, and sets the pages */
} sw_arena SEC(".maps");

#define SW_ARENA __attribute__((address_space(1)))
#define SW_PTR(type, at) ((volatile type SW_ARENA *)(unsigned long)(at))
#define SW_BEHIND(type, at, bytes)                                             \
	((volatile type SW_ARENA *)((char SW_ARENA *)(unsigned long)(at) + (bytes)))

/* A global function: the verifier checks it once, however often it is called. */
#define SW_GLOBAL __attribute__((weak, noinline))
#define SW_INLINE static inline __attribute__((always_inline, unused))
/* A pointer that is never null, to a whole object of its type. */
#define SW_NONNULL __attribute__((btf_decl_tag("arg:nonnull")))

/* Names the arena's map. Every program that uses the arena must call this once. */
SW_INLINE void sw_use_arena(void)
{
	asm volatile("" ::"r"(&sw_arena));
}

/*
 * Whether a loop may run once more. The kernel ends loops that run for too long (a quarter of a
 * second). A function whose loop the kernel ended returns -ELOOP, never "not found".
 */
#define sw_can_loop                                                            \
	({                                                                     \
		__label__ sw_stop, sw_go;                                      \
		int sw_may = 1;                                                \
		asm volatile goto("may_goto %l[sw_stop]" ::::sw_stop);         \
		goto sw_go;                                                    \
	sw_stop:                                                               \
		sw_may = 0;                                                    \
	sw_go:;                                                                \
		sw_may;                                                        \
	})

/* Hides the value of x from the compiler, which then keeps each bounds check beside its access. */
#define sw_hide(x) asm volatile("" : "+r"(x))

/* Without it, loads and stores would be atomic operations that other processors do not need. */
#if !defined(__TARGET_ARCH_x86) && !defined(__TARGET_ARCH_arm64) &&                                  \
	!defined(__TARGET_ARCH_riscv) && !defined(__TARGET_ARCH_s390) &&                             \
	!defined(__TARGET_ARCH_powerpc) && !defined(__TARGET_ARCH_loongarch) &&                      \
	!defined(__TARGET_ARCH_arm) && !defined(__TARGET_ARCH_mips) &&                               \
	!defined(__TARGET_ARCH_sparc) && !defined(__TARGET_ARCH_arc)
#error "name the processor that the program runs on: -D__TARGET_ARCH_x86, -D__TARGET_ARCH_arm64, ..."
#endif

#else /* user space */

#define SW_PTR(type, at) ((volatile type *)sw_inside(at, sizeof(type)))
#define SW_BEHIND(type, at, bytes) SW_PTR(type, (at) + (bytes))
#define SW_GLOBAL static inline __attribute__((unused))
#define SW_INLINE static inline __attribute__((unused))
#define SW_NONNULL
#define sw_can_loop 1
#define sw_hide(x) ((void)0)

/* The address of the memory, and its bytes. */
static __thread unsigned char *sw_base __attribute__((unused));
static __thread __u64 sw_limit __attribute__((unused));
/* The word that is read and written instead of words outside the memory. */
static __thread __u64 sw_nowhere __attribute__((unused));

/* The address of this many bytes (8 at most) at a place; that of a zero if any is outside. */
SW_INLINE void *sw_inside(sw_at at, __u64 bytes)
{
	at &= SW_AT_MASK;
	if (bytes <= sw_limit && at <= sw_limit - bytes)
		return sw_base + at;
	sw_nowhere = 0;
	return &sw_nowhere;
}

SW_INLINE void sw_use_arena(void)
{
}

#endif

/*
 * Loads. Writers store the references that readers follow with release. A plain load is enough
 * where the next loads depend on it; where they do not, sw_acquire_* are acquire loads. BPF has no
 * acquire load before clang 20: on machines that need one, sw_acquire_* are atomic additions of
 * zero.
 */
#if defined(__SANITIZE_THREAD__)
/* The thread sanitizer is told of what the dependence of loads orders. */
#define SW_LOAD(pointer) __atomic_load_n(pointer, __ATOMIC_ACQUIRE)
#define SW_STORE(pointer, value) __atomic_store_n(pointer, value, __ATOMIC_RELAXED)
#else
#define SW_LOAD(pointer) (*(pointer))
#define SW_STORE(pointer, value) ((void)(*(pointer) = (value)))
#endif

SW_INLINE __u64 sw_u64(sw_at at)
{
	return SW_LOAD(SW_PTR(__u64, at));
}
SW_INLINE __u32 sw_u32(sw_at at)
{
	return SW_LOAD(SW_PTR(__u32, at));
}
SW_INLINE __u16 sw_u16(sw_at at)
{
	return SW_LOAD(SW_PTR(__u16, at));
}
SW_INLINE __u8 sw_u8(sw_at at)
{
	return SW_LOAD(SW_PTR(__u8, at));
}

/* The same, a constant number of bytes behind a place: `at + bytes` takes two instructions more. */
SW_INLINE __u64 sw_u64_of(sw_at at, __u32 bytes)
{
	return SW_LOAD(SW_BEHIND(__u64, at, bytes));
}
SW_INLINE __u32 sw_u32_of(sw_at at, __u32 bytes)
{
	return SW_LOAD(SW_BEHIND(__u32, at, bytes));
}
SW_INLINE __u16 sw_u16_of(sw_at at, __u32 bytes)
{
	return SW_LOAD(SW_BEHIND(__u16, at, bytes));
}
SW_INLINE __u8 sw_u8_of(sw_at at, __u32 bytes)
{
	return SW_LOAD(SW_BEHIND(__u8, at, bytes));
}

#if defined(__bpf__) && defined(__TARGET_ARCH_x86)
#define sw_acquire_u64(at) sw_u64(at)
#define sw_acquire_u32(at) sw_u32(at)
#define sw_acquire_u64_of(at, bytes) sw_u64_of(at, bytes)
#define sw_acquire_u32_of(at, bytes) sw_u32_of(at, bytes)
#define sw_barrier() asm volatile("" ::: "memory")
#elif defined(__bpf__)
#define sw_acquire_u64(at) __sync_fetch_and_add((__u64 SW_ARENA *)(unsigned long)(at), 0)
#define sw_acquire_u32(at) __sync_fetch_and_add((__u32 SW_ARENA *)(unsigned long)(at), 0)
/* An atomic operation on the header's spare word: a full barrier. */
#define sw_barrier() ((void)__sync_fetch_and_add((__u64 SW_ARENA *)(unsigned long)SW_SPARE_AT, 0))
#else
#define sw_acquire_u64(at) __atomic_load_n(SW_PTR(__u64, at), __ATOMIC_ACQUIRE)
#define sw_acquire_u32(at) __atomic_load_n(SW_PTR(__u32, at), __ATOMIC_ACQUIRE)
#if defined(__SANITIZE_THREAD__)
/* The thread sanitizer knows no fences. */
#define sw_barrier() ((void)__atomic_fetch_add(&sw_nowhere, 0, __ATOMIC_SEQ_CST))
#else
#define sw_barrier() __atomic_thread_fence(__ATOMIC_SEQ_CST)
#endif
#endif

SW_INLINE void sw_set_u64(sw_at at, __u64 value)
{
	SW_STORE(SW_PTR(__u64, at), value);
}
SW_INLINE void sw_set_u32(sw_at at, __u32 value)
{
	SW_STORE(SW_PTR(__u32, at), value);
}
SW_INLINE void sw_set_u8(sw_at at, __u8 value)
{
	SW_STORE(SW_PTR(__u8, at), value);
}

/*
 * Stores that publish all earlier stores. The compiler does not reorder volatile accesses, nor does
 * an x86 processor reorder stores.
 */
#if defined(__bpf__) && defined(__TARGET_ARCH_x86)
#define sw_publish_u64(at, value) sw_set_u64(at, value)
#define sw_publish_u32(at, value) sw_set_u32(at, value)
#elif defined(__bpf__)
#define sw_publish_u64(at, value) ((void)__sync_lock_test_and_set((__u64 SW_ARENA *)(unsigned long)(at), value))
#define sw_publish_u32(at, value) ((void)__sync_lock_test_and_set((__u32 SW_ARENA *)(unsigned long)(at), value))
#else
#define sw_publish_u64(at, value) __atomic_store_n(SW_PTR(__u64, at), value, __ATOMIC_RELEASE)
#define sw_publish_u32(at, value) __atomic_store_n(SW_PTR(__u32, at), value, __ATOMIC_RELEASE)
#endif

/* Atomic operations; all are full barriers. They return the old value. */
#ifdef __bpf__
#define sw_cmpxchg_u64(at, old, new) __sync_val_compare_and_swap((__u64 SW_ARENA *)(unsigned long)(at), old, new)
#define sw_cmpxchg_u32(at, old, new) __sync_val_compare_and_swap((__u32 SW_ARENA *)(unsigned long)(at), old, new)
#define sw_xchg_u32(at, new) __sync_lock_test_and_set((__u32 SW_ARENA *)(unsigned long)(at), new)
#define sw_xchg_u64(at, new) __sync_lock_test_and_set((__u64 SW_ARENA *)(unsigned long)(at), new)
#define sw_fetch_add_u32(at, more) __sync_fetch_and_add((__u32 SW_ARENA *)(unsigned long)(at), more)
#define sw_fetch_add_u64(at, more) __sync_fetch_and_add((__u64 SW_ARENA *)(unsigned long)(at), more)
#else
#define sw_cmpxchg_u64(at, old, new) __sync_val_compare_and_swap((__u64 *)sw_inside(at, 8), old, new)
#define sw_cmpxchg_u32(at, old, new) __sync_val_compare_and_swap((__u32 *)sw_inside(at, 4), old, new)
#define sw_xchg_u32(at, new) __atomic_exchange_n((__u32 *)sw_inside(at, 4), new, __ATOMIC_SEQ_CST)
#define sw_xchg_u64(at, new) __atomic_exchange_n((__u64 *)sw_inside(at, 8), new, __ATOMIC_SEQ_CST)
#define sw_fetch_add_u32(at, more) __sync_fetch_and_add((__u32 *)sw_inside(at, 4), more)
#define sw_fetch_add_u64(at, more) __sync_fetch_and_add((__u64 *)sw_inside(at, 8), more)
#endif

#ifndef sw_acquire_u64_of
#define sw_acquire_u64_of(at, bytes) sw_acquire_u64((at) + (bytes))
#define sw_acquire_u32_of(at, bytes) sw_acquire_u32((at) + (bytes))
#endif

/*
 * The same without the old value: one instruction each. If the order were stronger than relaxed,
 * clang 20 and newer would fetch the old value all the same. The kernel refuses that for bits in
 * the arena.
 */
#ifdef __bpf__
#define sw_add_u64(at, more) ((void)__atomic_fetch_add(SW_PTR(__u64, at), more, __ATOMIC_RELAXED))
#define sw_or_u64(at, bits) ((void)__atomic_fetch_or(SW_PTR(__u64, at), bits, __ATOMIC_RELAXED))
#define sw_and_u64(at, bits) ((void)__atomic_fetch_and(SW_PTR(__u64, at), bits, __ATOMIC_RELAXED))
#else
#define sw_add_u64(at, more) ((void)__sync_fetch_and_add((__u64 *)sw_inside(at, 8), more))
#define sw_or_u64(at, bits) ((void)__sync_fetch_and_or((__u64 *)sw_inside(at, 8), bits))
#define sw_and_u64(at, bits) ((void)__sync_fetch_and_and((__u64 *)sw_inside(at, 8), bits))
#endif

/*
 * A zero that neither the compiler nor the verifier knows. The verifier checks a loop whose counter
 * begins with this zero once, not in each round.
 */
SW_INLINE __u32 sw_zero(void)
{
	return sw_u32(SW_ZERO_AT);
}

/*
 * A loop of n rounds, which count i from 0. It ends earlier if the kernel ends it: then i is less
 * than n behind the loop. Neither the compiler nor the verifier knows i in any round, also behind a
 * branch for `!i`. So the verifier looks at one round only.
 */
#define sw_for(i, n) for ((i) = sw_zero(); (i) < (n) && sw_can_loop; (i) += sw_zero() + 1)

/* The place of a reference: it counts units of 8 bytes from the window's beginning. */
SW_INLINE sw_at sw_ref(sw_at window, __u32 ref)
{
	return window + (__u64)ref * 8;
}

/* The place of a window; 0 if no window has this number, or the window is of another kind. */
SW_INLINE sw_at sw_window(__u32 number, __u32 kind)
{
	sw_at entry = SW_WINDOWS_AT + (__u64)(number & (SW_WINDOWS_MAX - 1)) * SW_WINDOW_BYTES;

	if (sw_u32(entry + SW_WINDOW_KIND) != kind)
		return 0;
	return sw_acquire_u64(entry + SW_WINDOW_AT);
}

/*
 * The place of a window; 0 if no window has this number, or its kind is not in the mask: bit k for
 * kind k.
 */
SW_INLINE sw_at sw_window_in(__u32 number, __u32 kinds)
{
	sw_at entry = SW_WINDOWS_AT + (__u64)(number & (SW_WINDOWS_MAX - 1)) * SW_WINDOW_BYTES;

	if (!(kinds >> (sw_u32(entry + SW_WINDOW_KIND) & 31) & 1))
		return 0;
	return sw_acquire_u64(entry + SW_WINDOW_AT);
}

/* The number of bits that are set in a word. BPF has no instruction for this. */
SW_INLINE __u32 sw_popcount(__u64 x)
{
	x -= (x >> 1) & 0x5555555555555555ull;
	x = (x & 0x3333333333333333ull) + ((x >> 2) & 0x3333333333333333ull);
	x = (x + (x >> 4)) & 0x0f0f0f0f0f0f0f0full;
	return (__u32)((x * 0x0101010101010101ull) >> 56);
}

#define SW_ONES 0x0101010101010101ull
#define SW_HIGHS 0x8080808080808080ull
#define SW_LOWS 0x7f7f7f7f7f7f7f7full

/* Marks the bytes of a word that are 0 by their high bits; exact for every byte. */
SW_INLINE __u64 sw_zero_bytes(__u64 x)
{
	return ~(((x & SW_LOWS) + SW_LOWS) | x | SW_LOWS);
}

/*
 * The number of the lowest byte whose high bit is set. Only high bits of bytes may be set in the
 * word, and at least one must be.
 */
SW_INLINE __u32 sw_first_byte(__u64 hits)
{
	__u64 below = ((hits & -hits) >> 7) - 1;

	return (__u32)(((below & SW_ONES) * SW_ONES) >> 56);
}

#endif
