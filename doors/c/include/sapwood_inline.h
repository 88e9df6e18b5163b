/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Lookups that the compiler inlines into the caller: the address of a packet in a table of
 * prefixes. They read the table's memory themselves, by the layout that docs/lpm.md describes.
 *
 *	struct sapwood_fib_view view;
 *	sapwood_fib_view_ipv4(fib, reader, &view);
 *	for (i = 0; i < count; i++)
 *		if (sapwood_fib_view_lookup4(&view, addrs[i], &hop) == 0)
 *			forward(packets[i], hop);
 *	sapwood_reader_quiescent(reader);       (the view ends here; make another)
 *
 * Answers are those of sapwood_fib_lookup4 and sapwood_fib_lookup6. The layout belongs to the
 * version of the library's names (SAPWOOD_0.1), by which the dynamic linker refuses others.
 *
 * A compiler without GCC's builtins calls the library instead, as does everybody whose reader is a
 * checked one. With SAPWOOD_NO_INLINE defined, every compiler does so.
 */
#ifndef SAPWOOD_INLINE_H
#define SAPWOOD_INLINE_H

#include <errno.h>

#include "sapwood.h"

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__) && !defined(SAPWOOD_NO_INLINE)

/* The bits of nodes and cells: core/format/src/lpm.rs. */
#define SAPWOOD_LPM_REF 134217727u
#define SAPWOOD_LPM_CHILD 2147483648u
#define SAPWOOD_LPM_STRIDE 6u
#define SAPWOOD_LPM_WORD_VALUE 32u
#define SAPWOOD_LPM_NODE_BASE 8u
#define SAPWOOD_LPM_NODE_SLOTS 16u
#define SAPWOOD_LPM_LONE_VALUE 20u

/* The number of bits that are set. */
static inline unsigned int sapwood_count_bits(const sapwood_fib_view *view, uint64_t word)
{
#if defined(__x86_64__) && !defined(__POPCNT__)
	if (view->counts_bits) {
		uint64_t count;

		__asm__("popcnt %1, %0" : "=r"(count) : "r"(word) : "cc");
		return (unsigned int)count;
	}
#else
	(void)view;
#endif
	return (unsigned int)__builtin_popcountll(word);
}

/* A word of a node. Nodes do not change while a view may be used. */
static inline uint32_t sapwood_fib_cell(const unsigned char *at)
{
	return *(const uint32_t *)(const void *)at;
}

/*
 * The reference of the value of the longest prefix of an address, whose bits begin at the top of
 * `high`; 0 when there is none.
 */
static inline uint32_t sapwood_fib_view_find(const sapwood_fib_view *view, uint64_t high, uint64_t low)
{
	const unsigned char *memory = (const unsigned char *)view->memory, *node;
	unsigned int bits = view->root_bits;
	uint64_t word = __atomic_load_n(&view->root[high >> (64 - bits)], __ATOMIC_ACQUIRE), runs;
	uint32_t best = (uint32_t)(word >> SAPWOOD_LPM_WORD_VALUE), base, cell;
	uint32_t next = (uint32_t)word & SAPWOOD_LPM_REF;

	while (next) {
		high = high << bits | low >> (64 - bits);
		low <<= bits;
		bits = SAPWOOD_LPM_STRIDE;
		node = memory + (size_t)next * 8;
		runs = *(const uint64_t *)(const void *)node;
		base = sapwood_fib_cell(node + SAPWOOD_LPM_NODE_BASE);
		best = base ? base : best;
		if (!(runs & 1)) {
			/*
			 * A lone prefix: its bits, a 1, then zeros. The bits before the 1 are equal
			 * when all that differs lies below twice the 1.
			 */
			if ((runs ^ high) < (runs & (0 - runs)) << 1)
				best = sapwood_fib_cell(node + SAPWOOD_LPM_LONE_VALUE);
			break;
		}
		/* The first run has number 0. */
		runs <<= 63 - (high >> (64 - SAPWOOD_LPM_STRIDE));
		cell = sapwood_fib_cell(node + SAPWOOD_LPM_NODE_SLOTS - 4 +
					(size_t)sapwood_count_bits(view, runs) * 4);
		if (!(cell & SAPWOOD_LPM_CHILD)) {
			best = cell ? cell : best;
			break;
		}
		next = cell & SAPWOOD_LPM_REF;
	}
	return best;
}

/* Stores the value at a reference. -ENOENT: it is 0. */
static inline int sapwood_fib_view_value(const sapwood_fib_view *view, uint32_t found, uint64_t *value)
{
	const unsigned char *memory = (const unsigned char *)view->memory;

	if (!found)
		return -ENOENT;
	*value = *(const uint64_t *)(const void *)(memory + (size_t)found * 8);
	return 0;
}

#define SAPWOOD_FIB_VIEW_IS_CALL(view) (!(view)->root)
#else
#define SAPWOOD_FIB_VIEW_IS_CALL(view) 1
#define sapwood_fib_view_find(view, high, low) 0
#define sapwood_fib_view_value(view, found, value) 0
#endif

/* The value for an IPv4 address in the host's order. -ENOENT: no prefix has it. O(bits). */
static inline int sapwood_fib_view_lookup4(const sapwood_fib_view *view, uint32_t addr, uint64_t *value)
{
	if (SAPWOOD_FIB_VIEW_IS_CALL(view))
		return sapwood_fib_lookup4(view->fib, view->reader, addr, value);
	return sapwood_fib_view_value(view, sapwood_fib_view_find(view, (uint64_t)addr << 32, 0), value);
}

/* The value for an IPv6 address of 16 bytes in network order. -ENOENT as above. */
static inline int sapwood_fib_view_lookup6(const sapwood_fib_view *view, const uint8_t *addr, uint64_t *value)
{
	uint64_t half[2] = { 0, 0 };
	unsigned int i;

	if (SAPWOOD_FIB_VIEW_IS_CALL(view))
		return sapwood_fib_lookup6(view->fib, view->reader, addr, value);
	for (i = 0; i < 16; i++)
		half[i / 8] = half[i / 8] << 8 | addr[i];
	return sapwood_fib_view_value(view, sapwood_fib_view_find(view, half[0], half[1]), value);
}

#ifdef __cplusplus
}
#endif

#endif
