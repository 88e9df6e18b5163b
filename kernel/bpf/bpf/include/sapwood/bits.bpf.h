/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Longest-prefix match over bit strings, for example an address behind a network number, or an
 * address and a port. A process writes the table (BitFibMap), or programs do: then it is a
 * ProgramMap with a trie, into which sw_qp_insert puts keys of sw_bits_key.
 *
 *     struct sw_key *key = bpf_map_lookup_elem(&keys, &zero);  // a per-processor array, zeros
 *     __u32 bits;
 *     sw_bits_key(key, &tenant_and_address, 56);
 *     long found = sw_bits_lookup(TABLE, key, &bits);  // the place of the value, and the length
 *
 * The key must lie in a map or in the packet, because the stack has no room for the 256 bytes of a
 * key beside a search.
 *
 * For addresses alone, the tables of lpm.bpf.h are faster.
 *
 * Four bits make a byte of a key, and up to three remaining bits make another byte. A byte is the
 * number, from 1 to 30, of a node of the binary tree of depth 4, counted in preorder. So the order
 * of keys is that of prefixes: each prefix comes right before those that it covers. A byte of a
 * query has alternatives: the nodes above it, with which shorter prefixes end. docs/lpm.md has a
 * drawing.
 */
#ifndef SAPWOOD_BITS_BPF_H
#define SAPWOOD_BITS_BPF_H

#include "qp_prefix.bpf.h"

/* The longest bit string that programs look up. */
#define SW_BITS_MAX (SW_KEY_SHORT_MAX * 4)
/* The number of branches that a search remembers. It descends again for those above. */
#define SW_BITS_TRAIL 16

/* The node of the first 1 to 4 bits of four. */
SW_INLINE __u32 sw_bits_code(__u32 four, __u32 bits)
{
	__u32 code = four & 8 ? 16 : 1;

	if (bits > 1)
		code += four & 4 ? 8 : 1;
	if (bits > 2)
		code += four & 2 ? 4 : 1;
	if (bits > 3)
		code += four & 1 ? 2 : 1;
	return code;
}

/*
 * The nodes above a node at depths 1 to 3, one byte each, and the node's own depth in the fourth
 * byte.
 */
SW_INLINE __u32 sw_bits_above(__u32 code)
{
	__u32 first = code >= 16 ? 16 : 1, second, third, rest = code - first;

	if (!rest)
		return 1u << 24;
	second = first + (rest >= 8 ? 8 : 1);
	rest = code - second;
	if (!rest)
		return first | 2u << 24;
	third = second + (rest >= 4 ? 4 : 1);
	if (code == third)
		return first | second << 8 | 3u << 24;
	return first | second << 8 | third << 16 | 4u << 24;
}

/*
 * The nodes of the first `bits` bits at `from`, 32 at most, one byte each; all eight nodes of four
 * bits at once. The node of four bits n is 4 + 2 n less the number of bits that are set.
 */
SW_INLINE __u64 sw_bits_codes(const __u8 *from, __s32 bits)
{
	__u64 fours = 0, set, codes;
	__u32 whole;

	if (bits <= 0)
		return 0;
	fours = from[0];
	if (bits > 8)
		fours |= (__u64)from[1] << 16;
	if (bits > 16)
		fours |= (__u64)from[2] << 32;
	if (bits > 24)
		fours |= (__u64)from[3] << 48;
	fours = (fours >> 4 & 0x000f000f000f000full) | (fours & 0x000f000f000f000full) << 8;
	set = fours - (fours >> 1 & 0x5555555555555555ull);
	set = (set & 0x3333333333333333ull) + (set >> 2 & 0x3333333333333333ull);
	codes = 4 * SW_ONES + 2 * fours - set;
	if (bits >= 32)
		return codes;
	whole = (__u32)bits / 4;
	codes &= (1ull << whole * 8) - 1;
	if (bits & 3)
		codes |= (__u64)sw_bits_code(fours >> whole * 8 & 15, bits & 3) << whole * 8;
	return codes;
}

/*
 * Makes the key of the first `count` bits of some bytes, SW_BITS_MAX at most. The key must be all
 * zeros before. All bytes that these bits need must be there.
 */
#define sw_bits_key(key, from, count)                                          \
	do {                                                                   \
		const __u8 *sw_from = (const __u8 *)(from);                    \
		__u64 sw_codes, sw_before = ((count) + 3) / 4;                 \
		__u32 sw_i;                                                    \
                                                                               \
		_Static_assert((count) <= SW_BITS_MAX, "a key has 254 bytes at most"); \
		for (sw_i = 0; sw_i <= ((count) + 3) / 32; sw_i++) {           \
			sw_codes = sw_bits_codes(sw_from + sw_i * 4, (count) - (__s32)sw_i * 32); \
			(key)->words[sw_i] = sw_codes << 8 | sw_before;        \
			sw_before = sw_codes >> 56;                            \
		}                                                              \
	} while (0)

/* The number of bits of a key with this many bytes and this last byte. */
SW_INLINE __u32 sw_bits_count(__u32 bytes, __u32 last)
{
	return bytes ? 4 * (bytes - 1) + (sw_bits_above(last & 31) >> 24) : 0;
}

/*
 * Cuts a key to its first bits. Returns 0, or -EINVAL when it has fewer. A loop finds the shorter
 * prefixes:
 *
 *     for (; found > 0 && bits; found = sw_bits_lookup(TABLE, &key, &bits)) {
 *             ...
 *             sw_bits_cut(&key, bits - 1);
 *     }
 */
SW_GLOBAL long sw_bits_cut(struct sw_key *key SW_NONNULL, __u32 bits)
{
	__u32 length = (bits + 3) / 4, last = ((bits - 1) & 3) + 1, i, left, above, keep;
	__u64 word;

	if (bits > SW_BITS_MAX || length > key->length)
		return -EINVAL;
	if (bits) {
		i = length;
		sw_hide(i);
		i &= SW_KEY_WORDS * 8 - 1;
		above = sw_bits_above(((__u8 *)key)[i] & 31);
		if (above >> 24 < last)
			return -EINVAL;
		if (above >> 24 > last)
			((__u8 *)key)[i] = (__u8)(above >> (last - 1) * 8);
	}
	/* Writes zeros behind the remaining bytes. */
	keep = length + 1;
	key->length = length;
	sw_each_word(i, left, SW_KEY_WORDS) {
		word = sw_key_word(key, i);
		if (keep < 8)
			word &= (1ull << keep * 8) - 1;
		keep = keep > 8 ? keep - 8 : 0;
		sw_hide(i);
		key->words[i & (SW_KEY_WORDS - 1)] = word;
	}
	return left ? -ELOOP : 0;
}

/*
 * Whether an entry's key is the first `agree` bytes of the query and, if `last` is not 0, this byte
 * behind them. The key is compared, because a writer may just have replaced the entry.
 */
SW_GLOBAL int sw_bits_is(sw_at window, sw_at entry, const struct sw_key *key SW_NONNULL, __u32 bytes,
			 __u32 last)
{
	struct sw_qp_text text = sw_qp_text(window, entry);

	sw_use_arena();
	if (sw_qp_text_length(text) != bytes + (last ? 1 : 0) || sw_qp_agree(window, entry, key) < bytes)
		return 0;
	return !last || sw_qp_text_byte(text, bytes) == last;
}

/* The alternatives of a byte of the query, in the form of sw_bits_above. */
SW_INLINE __u32 sw_bits_others(const struct sw_key *key, __u32 at)
{
	if (at >= key->length)
		return 0;
	return sw_bits_above(sw_key_byte(key, at) & 31) & 0xffffff;
}

/*
 * The number of the alternative that is equal to a byte: 1 to 3, the one with the most bits, or 0.
 */
SW_INLINE __u32 sw_bits_which(__u32 others, __u32 byte)
{
	if (!byte)
		return 0;
	if (byte == (others >> 16 & 255))
		return 3;
	if (byte == (others >> 8 & 255))
		return 2;
	return byte == (others & 255);
}

/*
 * Whether an entry matches the query, which agrees with it in this many bytes: its key is these
 * bytes, or these and an alternative of the next one.
 */
SW_INLINE int sw_bits_match(sw_at window, sw_at entry, const struct sw_key *key, __u32 agree)
{
	struct sw_qp_text text = sw_qp_text(window, entry);
	__u32 length = sw_qp_text_length(text);

	return length <= agree ||
	       (length == agree + 1 &&
		sw_bits_which(sw_bits_others(key, agree), sw_qp_text_byte(text, agree)));
}

/*
 * The only entry in a cluster whose key may be this many bytes of the query and this byte behind
 * them. It is found by the blind search of sw_qp_blind.
 */
SW_GLOBAL long sw_bits_other_in(sw_at window, __u32 cell, const struct sw_key *key SW_NONNULL,
				__u32 offset, __u32 other)
{
	sw_at node = sw_qp_node(window, cell), borders, bytes;
	__u32 header = sw_u32(node), leaves = sw_qp_cluster_leaves(header), base = sw_qp_cluster_base(header);
	__u32 pos = sw_zero(), lim = pos + 256, i, at, border, byte;

	sw_use_arena();
	borders = sw_qp_borders(cell, node, header);
	bytes = borders + sw_qp_cluster_capacity(header);
	for (i = sw_zero() + 1; i < leaves && sw_can_loop; i++) {
		border = sw_u8(borders + i);
		if (border >= lim)
			continue;
		at = base + border;
		byte = at < offset ? sw_key_byte(key, at) : other;
		if (at <= offset && byte >= sw_u8(bytes + i)) {
			pos = i;
			lim = 256;
		} else {
			lim = border;
		}
	}
	return (long)sw_qp_entry(window, cell, node, header, pos & 31);
}

/* The longest match that parts from the query at a branch on the query's path, or 0. */
SW_GLOBAL long sw_bits_at_branch(sw_at window, sw_at node, const struct sw_key *key SW_NONNULL)
{
	__u32 header = sw_u32(node), offset = sw_qp_offset(header), others, other, cell, i;
	sw_at entry;

	sw_use_arena();
	others = sw_bits_others(key, offset);
	for (i = sw_zero(); i < 3 && sw_can_loop; i++) {
		other = others >> 16 & 255;
		others <<= 8;
		if (!other)
			continue;
		cell = sw_qp_child_cell(node, header, other);
		/* An alternative ends its key, so it is never below a branch. */
		if (!(cell & SW_QP_KIND))
			continue;
		entry = sw_qp_node(window, cell);
		if (cell & SW_QP_CLUSTER)
			entry = sw_bits_other_in(window, cell, key, offset, other);
		/* In a dead slot, there is none. */
		if (entry != window && sw_bits_is(window, entry, key, offset, other))
			return (long)entry;
	}
	entry = sw_qp_end(window, sw_u32(node + sw_qp_cells_at(header)), offset);
	return entry && sw_bits_is(window, entry, key, offset, 0) ? (long)entry : 0;
}

/*
 * The longest match among the entries of a cluster, from entry `pos` backwards; 0 if there is none.
 * The query agrees with entry `pos` in this many bytes.
 */
SW_GLOBAL long sw_bits_in_cluster(sw_at window, __u32 cell, const struct sw_key *key SW_NONNULL, __u32 pos,
				  __u32 agree)
{
	sw_at node = sw_qp_node(window, cell), borders, entry;
	__u32 header = sw_u32(node), base = sw_qp_cluster_base(header), border;

	sw_use_arena();
	borders = sw_qp_borders(cell, node, header);
	for (pos &= 31; sw_can_loop; pos = (pos - 1) & 31) {
		entry = sw_qp_entry(window, cell, node, header, pos);
		/* The slot may be dead. */
		if (entry != window && sw_bits_match(window, entry, key, agree))
			return (long)entry;
		/*
		 * An entry that shares more bytes with this one than the query does is no better
		 * match.
		 */
		for (; pos && base + sw_u8(borders + pos) > agree && sw_can_loop; pos = (pos - 1) & 31)
			;
		if (!pos)
			return 0;
		border = base + sw_u8(borders + pos);
		agree = border < agree ? border : agree;
	}
	return -ELOOP;
}

/* A path: its last branches, their number, and the cell at its end. */
struct sw_bits_way {
	__u32 trail[SW_BITS_TRAIL];
	__u32 depth;
	__u32 cell;
	/*
	 * The number of bytes in which the query agrees with the entry there, and in a cluster the
	 * number of that entry.
	 */
	__u32 agree;
	__u32 pos;
};

/* Descends to the end of a key's path, or past this many branches. */
SW_GLOBAL long sw_bits_down(sw_at window, __u32 root, const struct sw_key *key SW_NONNULL,
			    struct sw_bits_way *way SW_NONNULL, __u32 most)
{
	__u32 cell = root, header, offset, length = key->length, depth, least = sw_zero(), i;
	sw_at node;

	sw_use_arena();
	for (depth = sw_zero(); depth < most && sw_can_loop; depth++) {
		if (!cell)
			return -EUCLEAN;
		if (cell & SW_QP_KIND)
			break;
		node = sw_qp_node(window, cell);
		header = sw_u32(node);
		offset = sw_qp_offset(header);
		if (sw_less(offset, least))
			return -EUCLEAN;
		least = offset + 1;
		i = depth;
		sw_hide(i);
		way->trail[i & (SW_BITS_TRAIL - 1)] = cell;
		if (offset < length)
			cell = sw_qp_child_cell(node, header, sw_key_byte(key, offset));
		else
			cell = sw_u32(node + sw_qp_cells_at(header));
	}
	if (depth < most && !(cell & SW_QP_KIND))
		return -ELOOP;
	way->depth = depth;
	way->cell = cell;
	return 0;
}

/*
 * The match at the end of a path, if that is a leaf, or 0. Finds the number of bytes in which the
 * query agrees with the entry there.
 */
SW_GLOBAL long sw_bits_end(sw_at window, const struct sw_key *key SW_NONNULL, struct sw_bits_way *way SW_NONNULL)
{
	__u32 cell = way->cell, pos, agree;
	sw_at entry;

	sw_use_arena();
	entry = sw_qp_nearest(window, cell, key, &pos);
	agree = sw_qp_agree(window, entry, key);
	way->agree = agree;
	way->pos = pos;
	if (cell & SW_QP_CLUSTER)
		return 0;
	return sw_bits_match(window, entry, key, agree) ? (long)entry : 0;
}

/* Ascends a path as far as its branches are remembered. Returns the longest match, or 0. */
SW_INLINE long sw_bits_up(sw_at window, const struct sw_key *key SW_NONNULL, struct sw_bits_way *way SW_NONNULL)
{
	__u32 depth = way->depth, agree = way->agree, i, left;
	sw_at node;
	long found;

	for (left = sw_zero() + SW_BITS_TRAIL; depth && left && sw_can_loop; left--) {
		depth--;
		i = depth;
		sw_hide(i);
		node = sw_qp_node(window, way->trail[i & (SW_BITS_TRAIL - 1)]);
		if (sw_qp_offset(sw_u32(node)) > agree)
			continue;
		found = sw_bits_at_branch(window, node, key);
		if (found)
			return found;
	}
	way->depth = depth;
	return depth && left ? -ELOOP : 0;
}

/*
 * Whether a query parts from what all keys have in common: then nothing covers it, and no branch
 * below the root need be read. All keys agree up to the root's offset. The first of them, which
 * stays in the processor's cache, has these bytes. A key may end at that offset with an alternative
 * of the query's byte, so the last of these bytes decides nothing.
 */
SW_GLOBAL int sw_bits_parts(sw_at window, __u32 root, const struct sw_key *key SW_NONNULL)
{
	__u32 cell = root, offset = sw_zero(), depth;
	sw_at node = window;

	sw_use_arena();
	for (depth = sw_zero(); !(cell & SW_QP_KIND) && depth < SW_QP_DEPTH_MAX && sw_can_loop; depth++) {
		node = sw_qp_node(window, cell);
		if (!depth)
			offset = sw_qp_offset(sw_u32(node));
		cell = sw_u32(node + sw_qp_cells_at(sw_u32(node)));
		if (offset < 2 || !cell)
			return 0;
	}
	if (!(cell & SW_QP_KIND) || !offset)
		return 0;
	node = sw_qp_node(window, cell);
	if (cell & SW_QP_CLUSTER)
		node = sw_qp_entry(window, cell, node, sw_u32(node), 0);
	/* The slot may be dead. */
	return node != window && sw_qp_agree(window, node, key) < offset - 1;
}

/* As sw_bits_lookup, in the version that sw_qp_root returned in this run of the program. */
SW_GLOBAL long sw_bits_lookup_at(__u32 map, __u32 root, const struct sw_key *key SW_NONNULL,
				 __u32 *bits SW_NONNULL)
{
	sw_at window = sw_window_in(map, SW_QP_KINDS);
	struct sw_bits_way way = {};
	struct sw_qp_text text;
	__u32 length, most;
	long found;

	sw_use_arena();
	if (!window)
		return -EINVAL;
	if (!root)
		return sw_qp_no_root(window, -ENOENT);
	if (sw_bits_parts(window, root, key))
		return -ENOENT;
	most = SW_QP_DEPTH_MAX;
	do {
		found = sw_bits_down(window, root, key, &way, most);
		if (!found && most == SW_QP_DEPTH_MAX) {
			found = sw_bits_end(window, key, &way);
			if (way.cell & SW_QP_CLUSTER)
				found = sw_bits_in_cluster(window, way.cell, key, way.pos, way.agree);
		}
		/* The remembered branches come first. For those above, it descends again. */
		if (!found)
			found = sw_bits_up(window, key, &way);
		most = way.depth;
	} while (!found && most && sw_can_loop);
	if (!found)
		return way.depth || !sw_can_loop ? -ELOOP : -ENOENT;
	if (found < 0)
		return found;
	text = sw_qp_text(window, (sw_at)found);
	length = sw_qp_text_length(text);
	*bits = sw_bits_count(length, length ? sw_qp_text_byte(text, length - 1) : 0);
	return found;
}

/*
 * The entry with the longest prefix of a bit string, which may be the string itself. Returns the
 * place of its value, and writes its number of bits. -ENOENT when there is none; -EINVAL, -ELOOP
 * and -EUCLEAN as for sw_qp_lookup; -EOPNOTSUPP in a map that has only an index.
 *
 * The result was in the map and is a prefix. In a map that changes meanwhile, it may not be the
 * longest prefix at any one moment. In a version of a store, it is the longest.
 */
SW_INLINE long sw_bits_lookup(__u32 map, const struct sw_key *key, __u32 *bits)
{
	sw_at window = sw_window_in(map, SW_QP_KINDS);

	if (!window)
		return -EINVAL;
	return sw_bits_lookup_at(map, sw_acquire_u32(window + SW_QP_ROOT), key, bits);
}

/*
 * Whether the prefix of a key covers that of an entry: the entry's has the same bits, or these and
 * more. A walk from a key (sw_qp_walk_from) returns all prefixes that it covers, in order:
 *
 *     found = sw_qp_walk_from(TABLE, cursor, &key);
 *     while (!found && (found = sw_qp_walk_step(cursor)) > 0 && sw_bits_covers(TABLE, &key, found))
 *             ..., found = 0;
 */
SW_GLOBAL long sw_bits_covers(__u32 map, const struct sw_key *key SW_NONNULL, sw_at entry)
{
	sw_at window = sw_window_in(map, SW_QP_KINDS);
	__u32 length = key->length, agree, mine, there;
	struct sw_qp_text text;

	sw_use_arena();
	if (!window)
		return -EINVAL;
	text = sw_qp_text(window, entry);
	agree = sw_qp_agree(window, entry, key);
	if (agree >= length)
		return 1;
	if (agree + 1 != length || sw_qp_text_length(text) < length)
		return 0;
	/* The node of the key's last byte is above that of the entry's byte. */
	mine = sw_key_byte(key, length - 1);
	there = sw_bits_above(sw_qp_text_byte(text, length - 1) & 31);
	return sw_bits_which(there & 0xffffff, mine) != 0;
}

#endif
