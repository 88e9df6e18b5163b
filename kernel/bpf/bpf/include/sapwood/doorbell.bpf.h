/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A doorbell for the service of a map that programs write (ProgramMap::spawn_service_at in Rust):
 * while nobody writes, the service sleeps, and a program wakes it when memory runs low.
 *
 *     error = sw_qp_insert(SEEN, &key, now, SW_ANY);
 *     sw_doorbell(SEEN);
 *
 * The doorbell is a ring buffer of the kernel (`sw_doorbell_ring`). Programs of all types may
 * ring, also in interrupts. A ring that the service has not answered yet is not repeated. While
 * memory is not low, a call costs four loads.
 */
#ifndef SAPWOOD_DOORBELL_BPF_H
#define SAPWOOD_DOORBELL_BPF_H

#include "qp_write.bpf.h"

struct {
	__uint(type, 27); /* BPF_MAP_TYPE_RINGBUF */
	__uint(max_entries, 65536); /* bytes: whole pages on all processors */
} sw_doorbell_ring SEC(".maps");

static long (*const sw_doorbell_output)(void *ring, void *data, __u64 bytes, __u64 flags) = (void *)130;
static __u64 (*const sw_doorbell_query)(void *ring, __u64 what) = (void *)134;

/*
 * Whether a map is short of memory for insertions: of the slabs that it had at first, besides those
 * that are kept for removals, an eighth to a quarter is left, or less. 0 if there is no such map.
 */
SW_GLOBAL int sw_qp_is_low(__u32 map)
{
	sw_at window = sw_window_in(map, 1u << SW_KIND_KERNEL_QP), ring;
	__u32 there;

	sw_use_arena();
	if (!window)
		return 0;
	ring = window + SW_KQP_RINGS + SW_KQP_SLABS * SW_KQP_RING_BYTES;
	there = sw_u32(ring + SW_KQP_RING_USER) - sw_u32(ring + SW_KQP_RING_PROGRAMS);
	there -= sw_u32(ring + SW_KQP_RING_KEPT);
	/* A slab takes two slots. The ring has four to eight slots for each slab. */
	return (__s32)there <= 0 || (__u64)there * 16 <= sw_u32(ring + SW_KQP_RING_MASK);
}

/* Wakes the service, unless it was woken and has not looked yet. */
SW_GLOBAL int sw_doorbell_wake(__u32 map)
{
	if (sw_doorbell_query(&sw_doorbell_ring, 0 /* BPF_RB_AVAIL_DATA */))
		return 0;
	return !sw_doorbell_output(&sw_doorbell_ring, &map, sizeof(map), 2 /* BPF_RB_FORCE_WAKEUP */);
}

/* Wakes the service of a map that is low: 1 if it did. Call it behind insertions. */
SW_INLINE int sw_doorbell(__u32 map)
{
	return sw_qp_is_low(map) && sw_doorbell_wake(map);
}

#endif
