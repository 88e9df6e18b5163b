/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Range maps that Rust writes (UserRanges, in windows of the arena): the entry that holds an index,
 * and the lowest gap of a size.
 *
 *     struct sw_range range;
 *     if (!sw_ranges_get(PORTS, port, &range)) policy = range.value;
 *     if (!sw_ranges_find_gap(PORTS, 16, 1024, 65535, &start)) ...;   // 16 free ports
 *
 * Results: 0, or -ENOENT; -EINVAL when there is no such window; -EUCLEAN when the bytes break the
 * format of a map; -ELOOP when the kernel ended a loop. Layout: docs/maple.md.
 *
 * Each node is checked as far as it is used: its head, its length, the places of its arrays, the
 * bounds of the child and of the entry. A program must only read values, and keep no place beyond
 * the end of its run. An entry that is removed stays until the programs that were running at its
 * removal have ended. Sleepable programs need an arena that allows them
 * (BpfArena::allow_sleepable).
 */
#ifndef SAPWOOD_MAPLE_BPF_H
#define SAPWOOD_MAPLE_BPF_H

#include "arena.bpf.h"

_Static_assert(SW_RANGES_INNER_PIVOTS == 8 && SW_RANGES_LEAF_ENDS == 16,
	       "maple.bpf.h is written for indices of 64 bits");

/* The pivots of the inner nodes of most maps, filled up with ones. Searches in these are quicker. */
#define SW_RANGES_USUAL 36

/* An entry of a map. */
struct sw_range {
	__u64 start; /* its first index */
	__u64 end;   /* its last index */
	__u64 value; /* a value of 1, 2, 4 or 8 bytes; otherwise 0 */
	sw_at at;    /* where the bytes of the value are */
};

/* A map: its window, the bytes of the window, and the root word. */
struct sw_ranges_map {
	sw_at window;
	__u64 bytes, root, slot;
};

/* A node, and the first and the last index that lie in it. */
struct sw_ranges_node {
	sw_at at;
	sw_at end; /* of the window */
	__u64 first, last;
};

/* What the head of an inner node says. */
struct sw_ranges_inner {
	__u32 n;     /* number of children */
	__u32 cells; /* the offset of the children */
};

/* What the head of a leaf says, and its base. */
struct sw_ranges_leaf {
	__u32 n; /* number of entries */
	__u32 width, shift, starts, values;
	__u64 base;
};

/* A number of `1 << width` bytes. */
SW_INLINE __u64 sw_ranges_number(sw_at at, __u32 bytes, __u32 width)
{
	if (width == 1)
		return sw_u16_of(at, bytes);
	if (width == 2)
		return sw_u32_of(at, bytes);
	return sw_u64_of(at, bytes);
}

/*
 * 1 if number `i` of a list is less than `x`, else 0; 0 also where `left` or fewer numbers lie
 * before it. There is no branch, because the processor could not predict it. `x` and the numbers
 * are below 2^63; `cut` is the number of bits that each number loses first.
 */
SW_INLINE __u64 sw_ranges_less(sw_at list, __u32 i, __u64 left, __u32 width, __u32 cut, __u64 x)
{
	__u64 less = ((sw_ranges_number(list, i << width, width) >> cut) - x) & (i - left);

	sw_hide(less);
	return less >> 63;
}

/* How many of `left` ascending numbers are less than `x`, in units of `stride`; 3 at most. */
SW_INLINE __u64 sw_ranges_count(sw_at list, __u32 stride, __u64 left, __u32 width, __u32 cut, __u64 x)
{
	return sw_ranges_less(list, stride - 1, left, width, cut, x) +
	       sw_ranges_less(list, 2 * stride - 1, left, width, cut, x) +
	       sw_ranges_less(list, 3 * stride - 1, left, width, cut, x);
}

/*
 * How many of `n` ascending numbers of `1 << width` bytes, 255 at most, are less than `x`. What it
 * reads behind them does not count.
 */
SW_INLINE __u32 sw_ranges_rank(sw_at list, __u32 n, __u32 width, __u64 x)
{
	/* Numbers of 64 bits are compared without their lowest bit. */
	__u32 cut = width == 3;
	__u64 y = x >> cut, rank = 0, part;

	if (width != 3 && y >> 32)
		y = 1ull << 32;
	if (n > 63)
		rank = sw_ranges_count(list, 64, n, width, cut, y) * 64;
	part = sw_ranges_count(list + (rank << width), 16, n - rank, width, cut, y);
	rank += part * 16;
	part = sw_ranges_count(list + (rank << width), 4, n - rank, width, cut, y);
	rank += part * 4;
	part = sw_ranges_count(list + (rank << width), 1, n - rank, width, cut, y);
	rank += part;
	/* One number may differ in the lowest bit alone. */
	if (cut && rank < n && sw_u64(list + rank * 8) < x)
		rank++;
	return rank;
}

/* 1 if pivot `i` is less than an index, without their lowest bits, of which `half` has none. */
SW_INLINE __u64 sw_ranges_under(sw_at pivots, __u32 i, __u64 half)
{
	__u64 less = (sw_u64_of(pivots, i * 8) >> 1) - half;

	sw_hide(less);
	return less >> 63;
}

/*
 * As sw_ranges_rank, for the pivots of a usual node. They need no masks, because those that fill up
 * the node are not less than any index: two rounds of five comparisons.
 */
SW_INLINE __u32 sw_ranges_rank_usual(sw_at pivots, __u64 index)
{
	__u64 half = index >> 1, rank;
	sw_at part;

	rank = 6 * (sw_ranges_under(pivots, 5, half) + sw_ranges_under(pivots, 11, half) +
		    sw_ranges_under(pivots, 17, half) + sw_ranges_under(pivots, 23, half) +
		    sw_ranges_under(pivots, 29, half));
	part = pivots + rank * 8;
	rank += sw_ranges_under(part, 0, half) + sw_ranges_under(part, 1, half) + sw_ranges_under(part, 2, half) +
		sw_ranges_under(part, 3, half) + sw_ranges_under(part, 4, half);
	/* One pivot may differ in the lowest bit alone. */
	if (sw_u64(pivots + rank * 8) < index)
		rank++;
	return rank;
}

/* Opens a map. Returns whether it has a root, or an error. */
SW_INLINE long sw_ranges_open(__u32 number, struct sw_ranges_map *map)
{
	sw_at entry = SW_WINDOWS_AT + (__u64)(number & (SW_WINDOWS_MAX - 1)) * SW_WINDOW_BYTES;

	map->window = sw_window(number, SW_KIND_RANGES);
	if (!map->window)
		return -EINVAL;
	map->bytes = sw_u64(entry + SW_WINDOW_LEN);
	map->root = sw_acquire_u64(map->window + SW_RANGES_ROOT);
	map->slot = sw_u64_of(map->window, SW_RANGES_SLOT);
	if (map->root >> SW_RANGES_HEIGHT_AT > SW_RANGES_LEVELS || map->slot > 8)
		return -EUCLEAN;
	return map->root != 0;
}

/* The root of a map. */
SW_INLINE void sw_ranges_top(const struct sw_ranges_map *map, struct sw_ranges_node *node)
{
	node->at = sw_ref(map->window, map->root);
	node->end = map->window + map->bytes;
	node->first = 0;
	node->last = ~0ull;
}

/*
 * Whether a node of this many bytes, which its head says in lines, lies in the window. Its first
 * line does.
 */
SW_INLINE int sw_ranges_whole(const struct sw_ranges_node *node, __u64 head, __u32 bytes)
{
	__u32 whole = (bytes + SW_RANGES_LINE - 1) & ~(SW_RANGES_LINE - 1);

	return (head >> SW_RANGES_LINES_AT & 0xff) * SW_RANGES_LINE == whole && node->at + whole <= node->end;
}

/* Reads and checks the head of an inner node. */
SW_INLINE int sw_ranges_inner(const struct sw_ranges_node *node, struct sw_ranges_inner *inner)
{
	__u32 n, filled, cells;
	__u64 head;

	if (node->at + SW_RANGES_LINE > node->end)
		return -EUCLEAN;
	head = sw_u64(node->at);
	n = head & 0xff;
	filled = head >> SW_RANGES_INNER_FILLED_AT & 0xff;
	cells = SW_RANGES_INNER_PIVOTS + filled * 8;
	if (head & SW_RANGES_INNER_ZEROS || n < 2 || filled < n - 1 || filled > SW_RANGES_INNER_PIVOTS_MAX ||
	    filled & 3 || !sw_ranges_whole(node, head, cells + n * 6))
		return -EUCLEAN;
	inner->n = n;
	inner->cells = cells;
	return 0;
}

/* Reads and checks the head of a leaf, whose slots have this many bytes. */
SW_INLINE int sw_ranges_leaf(const struct sw_ranges_node *node, __u64 slot, struct sw_ranges_leaf *leaf)
{
	__u32 n, width, shift, starts, values, bytes, end, least;
	__u64 head;

	if (node->at + SW_RANGES_LINE > node->end)
		return -EUCLEAN;
	head = sw_u64(node->at);
	n = head & 0xff;
	width = head >> SW_RANGES_LEAF_WIDTH_AT & 0xff;
	shift = head >> SW_RANGES_LEAF_SHIFT_AT & 0xff;
	starts = head >> SW_RANGES_LEAF_STARTS_AT & 0xffff;
	values = head >> SW_RANGES_LEAF_VALUES_AT;
	if (!n || width - 1 > 2 || shift > 63)
		return -EUCLEAN;
	bytes = n << (width & 3);
	end = values + n * (__u32)slot;
	least = SW_RANGES_LEAF_ENDS + SW_RANGES_LEAF_READ + width * SW_RANGES_LEAF_READ_WIDTH;
	if (starts != SW_RANGES_LEAF_ENDS + bytes || values != ((starts + bytes + 7) & ~7u) ||
	    !sw_ranges_whole(node, head, end > least ? end : least))
		return -EUCLEAN;
	leaf->n = n;
	leaf->width = width;
	leaf->shift = shift;
	leaf->starts = starts;
	leaf->values = values;
	leaf->base = sw_u64_of(node->at, SW_RANGES_LEAF_BASE);
	return 0;
}

/* The child of an inner node whose bounds hold an index. */
SW_INLINE __u32 sw_ranges_child(const struct sw_ranges_node *node, const struct sw_ranges_inner *inner, __u64 index)
{
	if (inner->cells == SW_RANGES_INNER_PIVOTS + SW_RANGES_USUAL * 8)
		return sw_ranges_rank_usual(node->at + SW_RANGES_INNER_PIVOTS, index);
	return sw_ranges_rank(node->at + SW_RANGES_INNER_PIVOTS, inner->n - 1, 3, index);
}

/* Goes down from an inner node to a child, whose bounds must lie within the node's. */
SW_INLINE int sw_ranges_down(const struct sw_ranges_map *map, struct sw_ranges_node *node,
			     const struct sw_ranges_inner *inner, __u32 i)
{
	sw_at pivot = node->at + SW_RANGES_INNER_PIVOTS + (__u64)i * 8;
	__u64 first = node->first, last = node->last, below;

	if (i >= inner->n)
		return -EUCLEAN;
	if (i) {
		below = sw_u64(pivot - 8);
		if (below < first || below >= last)
			return -EUCLEAN;
		first = below + 1;
	}
	if (i + 1 < inner->n) {
		last = sw_u64(pivot);
		if (last < first || last >= node->last)
			return -EUCLEAN;
	}
	node->first = first;
	node->last = last;
	node->at = sw_ref(map->window, sw_acquire_u32(node->at + inner->cells + (__u64)i * 4));
	return 0;
}

/* The first index of entry `i` of a leaf. */
SW_INLINE __u64 sw_ranges_start(sw_at at, const struct sw_ranges_leaf *leaf, __u32 i)
{
	__u32 width = leaf->width & 3;

	return leaf->base + (sw_ranges_number(at + leaf->starts + ((__u64)i << width), 0, width) << (leaf->shift & 63));
}

/* The last index of entry `i` of a leaf. */
SW_INLINE __u64 sw_ranges_end(sw_at at, const struct sw_ranges_leaf *leaf, __u32 i)
{
	__u32 width = leaf->width & 3, shift = leaf->shift & 63;
	__u64 end = sw_ranges_number(at + SW_RANGES_LEAF_ENDS + ((__u64)i << width), 0, width);

	return leaf->base + (end << shift | ((1ull << shift) - 1));
}

/* The number of a leaf's entries that end before an index. */
SW_INLINE __u32 sw_ranges_before(sw_at at, const struct sw_ranges_leaf *leaf, __u64 index)
{
	__u64 unit = (index - leaf->base) >> (leaf->shift & 63);

	if (index < leaf->base)
		return 0;
	if (leaf->width == 1)
		return sw_ranges_rank(at + SW_RANGES_LEAF_ENDS, leaf->n, 1, unit);
	if (leaf->width == 2)
		return sw_ranges_rank(at + SW_RANGES_LEAF_ENDS, leaf->n, 2, unit);
	return sw_ranges_rank(at + SW_RANGES_LEAF_ENDS, leaf->n, 3, unit);
}

/* Reads the value of an entry by its slot: the value's place, and its number if it is one. */
SW_INLINE int sw_ranges_value(const struct sw_ranges_map *map, sw_at at, struct sw_range *range)
{
	__u64 bytes = sw_u64_of(map->window, SW_RANGES_VALUE_BYTES), apart = sw_u64_of(map->window, SW_RANGES_APART);

	if (apart) {
		if (apart != 1 || map->slot != 4 || bytes >= map->bytes)
			return -EUCLEAN;
		at = sw_ref(map->window, sw_u32(at));
		if (at + ((bytes + 7) & ~7ull) > map->window + map->bytes)
			return -EUCLEAN;
	} else if (bytes != map->slot) {
		return -EUCLEAN;
	}
	range->at = at;
	switch (bytes) {
	case 8:
		range->value = sw_u64(at);
		break;
	case 4:
		range->value = sw_u32(at);
		break;
	case 2:
		range->value = sw_u16(at);
		break;
	case 1:
		range->value = sw_u8(at);
		break;
	default:
		range->value = 0;
	}
	return 0;
}

/*
 * The entry that holds an index: 0, or -ENOENT.
 *
 *     struct sw_range range;
 *     if (!sw_ranges_get(PORTS, 8080, &range)) ...;   // range.start, range.end, range.value
 */
SW_GLOBAL long sw_ranges_get(__u32 number, __u64 index, struct sw_range *range SW_NONNULL)
{
	struct sw_ranges_inner inner = {};
	struct sw_ranges_node node;
	struct sw_ranges_leaf leaf = {};
	struct sw_ranges_map map;
	__u32 level, i;
	long there;

	sw_use_arena();
	there = sw_ranges_open(number, &map);
	if (there <= 0)
		return there ? there : -ENOENT;
	sw_ranges_top(&map, &node);
	for (level = map.root >> SW_RANGES_HEIGHT_AT; level && sw_can_loop; level--) {
		if (sw_ranges_inner(&node, &inner) ||
		    sw_ranges_down(&map, &node, &inner, sw_ranges_child(&node, &inner, index)) ||
		    index < node.first || index > node.last)
			return -EUCLEAN;
	}
	if (level)
		return -ELOOP;
	if (sw_ranges_leaf(&node, map.slot, &leaf))
		return -EUCLEAN;
	i = sw_ranges_before(node.at, &leaf, index);
	/* Only the last leaf has indices behind its last entry. */
	if (i >= leaf.n)
		return node.last == ~0ull ? -ENOENT : -EUCLEAN;
	range->start = sw_ranges_start(node.at, &leaf, i);
	range->end = sw_ranges_end(node.at, &leaf, i);
	if (range->start > range->end || range->end < index || range->start < node.first || range->end > node.last)
		return -EUCLEAN;
	if (range->start > index)
		return -ENOENT;
	return sw_ranges_value(&map, node.at + leaf.values + i * map.slot, range);
}

/* The code of a gap's size. A larger size has the same code or a larger one. */
SW_GLOBAL int sw_ranges_code(__u64 size)
{
	__u64 above = size >> SW_RANGES_GAP_BITS, rest;
	__u32 exponent = 0, step;

	/* The number of bits that do not fit. */
	for (step = 32; step; step >>= 1) {
		if (above >> step) {
			above >>= step;
			exponent += step;
		}
	}
	exponent += above;
	rest = size & ((1ull << exponent) - 1);
	return (exponent << (SW_RANGES_GAP_BITS - 1)) + (__u32)(size >> exponent) + (rest != 0);
}

/* What a search for a gap wants: `size` indices, at least 1, from `from` to `to`. */
struct sw_ranges_search {
	__u64 size, from, to;
	__u64 code; /* of the size */
};

/*
 * Searches a leaf, in which or before which `from` lies: 0 and the first index of the gap in
 * `from`, or -ENOENT.
 */
SW_GLOBAL long sw_ranges_gap_in(__u64 slot, const struct sw_ranges_node *node SW_NONNULL,
				struct sw_ranges_search *search SW_NONNULL)
{
	__u64 from = search->from, to = search->to, least = search->size - 1;
	__u64 first, last, next = node->first;
	struct sw_ranges_leaf leaf = {};
	__u32 i;

	sw_use_arena();
	if (sw_ranges_leaf(node, slot, &leaf))
		return -EUCLEAN;
	for (i = sw_zero(); i < leaf.n; i++) {
		if (!sw_can_loop)
			return -ELOOP;
		first = sw_ranges_start(node->at, &leaf, i);
		last = sw_ranges_end(node->at, &leaf, i);
		if (first > last || first < next || last > node->last)
			return -EUCLEAN;
		if (next < from)
			next = from;
		if (next > to)
			return -ENOENT;
		if (first > next && (first - 1 < to ? first - 1 : to) - next >= least)
			goto found;
		if (last == ~0ull)
			return i + 1 == leaf.n ? -ENOENT : -EUCLEAN;
		next = last + 1;
	}
	/* Only the last leaf has indices behind its last entry. */
	if (node->last != ~0ull)
		return next - 1 == node->last ? -ENOENT : -EUCLEAN;
	if (next < from)
		next = from;
	if (next > to || to - next < least)
		return -ENOENT;
found:
	search->from = next;
	return 0;
}

/*
 * Goes down from an inner node to the first child that may have the gap, and moves `from` there.
 * Returns whether there is one, or an error; -ENOENT when the window ends before.
 */
SW_GLOBAL long sw_ranges_gap_down(const struct sw_ranges_map *map SW_NONNULL, struct sw_ranges_node *node SW_NONNULL,
				  struct sw_ranges_search *search SW_NONNULL)
{
	struct sw_ranges_inner inner = {};
	__u32 i;

	sw_use_arena();
	if (sw_ranges_inner(node, &inner))
		return -EUCLEAN;
	for (i = sw_ranges_child(node, &inner, search->from); i < inner.n; i++) {
		if (!sw_can_loop)
			return -ELOOP;
		if (sw_u16(node->at + inner.cells + inner.n * 4 + (__u64)i * 2) >= search->code)
			break;
	}
	if (i >= inner.n)
		return 0;
	if (sw_ranges_down(map, node, &inner, i) || search->from > node->last)
		return -EUCLEAN;
	if (search->from < node->first)
		search->from = node->first;
	if (search->from > search->to || search->to - search->from < search->size - 1)
		return -ENOENT;
	return 1;
}

/*
 * The lowest `size` indices from `from` to `to` that no entry has: 0 and the first of them in
 * `start`, or -ENOENT.
 *
 *     __u64 start;
 *     if (!sw_ranges_find_gap(PORTS, 16, 1024, 65535, &start)) ...;   // start to start + 15
 */
SW_GLOBAL long sw_ranges_find_gap(__u32 number, __u64 size, __u64 from, __u64 to, __u64 *start SW_NONNULL)
{
	struct sw_ranges_search search = { size, from, to, 0 };
	struct sw_ranges_node node, up;
	struct sw_ranges_map map;
	__u64 looks;
	__u32 level;
	long there;

	sw_use_arena();
	there = sw_ranges_open(number, &map);
	if (there < 0)
		return there;
	if (!size || from > to || to - from < size - 1)
		return -ENOENT;
	if (!there) {
		*start = from;
		return 0;
	}
	search.code = sw_ranges_code(size);
	/*
	 * When the search has looked into a node in vain, it goes on behind the node: below the same
	 * parent, or down from the root again. Each node is seen in vain once, so a sound map is
	 * searched in fewer looks than this.
	 */
	looks = (map.bytes / SW_RANGES_LINE + 1) * (SW_RANGES_LEVELS + 1);
	sw_ranges_top(&map, &node);
	up = node;
	level = map.root >> SW_RANGES_HEIGHT_AT;
	for (; looks; looks--) {
		if (!sw_can_loop)
			return -ELOOP;
		if (level) {
			/* A node that is left for a child is kept: the last one is the leaf's parent. */
			up = node;
			there = sw_ranges_gap_down(&map, &node, &search);
			if (there < 0)
				return there;
			if (there) {
				level--;
				continue;
			}
		} else {
			there = sw_ranges_gap_in(map.slot, &node, &search);
			if (!there)
				*start = search.from;
			if (there != -ENOENT)
				return there;
		}
		if (node.last >= to || to - node.last < size)
			return -ENOENT;
		search.from = node.last + 1;
		if (!level && search.from <= up.last) {
			node = up;
			level = 1;
		} else {
			sw_ranges_top(&map, &node);
			level = map.root >> SW_RANGES_HEIGHT_AT;
		}
	}
	return -ELOOP;
}

#endif
