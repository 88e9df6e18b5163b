/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The trie of a map that programs write; a part of qp_write.bpf.h. Branches and clusters:
 * docs/qp.md.
 *
 * In a node that readers can reach, only cells, the lock, and the number of leaves of a cluster
 * change. To add a leaf or a child, or to remove a child, a writer makes a new node and puts it
 * into the place of the old one with one store. A leaf leaves its cluster without memory: its slot
 * dies, which means that the cell becomes 0; and the last slot, which never is dead, is cut off,
 * with the dead ones before it. What was cut off keeps its bytes for readers that saw more leaves.
 * A dead slot goes when the cluster is full, or has few others, or when a key belongs in the slot.
 *
 * A writer descends without a lock. It notes each cell on the path, and plans the change. Then it
 * locks the branch whose cell changes (or the root), and before it the branch that the change
 * replaces, if any. When the noted cells are still there, and the cluster has the leaf that was
 * compared with the key and as many leaves, the plan is still right: all keys below a branch agree
 * up to its offset in every state. Else the writer begins anew (-EAGAIN).
 */
#ifndef SAPWOOD_QP_WRITE_TRIE_BPF_H
#define SAPWOOD_QP_WRITE_TRIE_BPF_H

/* The most leaves of a joined cluster; and of a cluster that a removal joins with a neighbour. */
#define SW_KQP_JOINED_MAX (SW_QP_FILL_MAX * 3 / 4)
#define SW_KQP_LONELY_MAX (SW_QP_FILL_MAX / 4)

/* The change that a new key needs: sw_kqp_plan chooses it, sw_kqp_attach makes it. */
enum sw_kqp_step {
	SW_KQP_FIRST_LEAF, /* makes the leaf the root */
	SW_KQP_TWO_LEAVES, /* makes a cluster of two leaves */
	SW_KQP_MORE_LEAVES, /* adds a leaf to a cluster */
	SW_KQP_MORE_CHILDREN, /* adds a child to a branch */
	SW_KQP_TWO_CHILDREN, /* makes a branch of two children */
	SW_KQP_REVIVE, /* puts the leaf into a dead slot */
	SW_KQP_SPLIT, /* splits a full cluster; then the key is searched for again */
	SW_KQP_SQUEEZE, /* drops the dead slots of a cluster; then the key is searched for again */
};

/*
 * An entry of the path: the place of a cell in the window, the cell that was there, and the offset
 * of the cell's branch.
 */
SW_INLINE sw_at sw_kqp_path(sw_at lane, __u32 depth)
{
	return lane + SW_KQP_LANE_SCRATCH + SW_KQP_PATH + (__u64)(depth & (SW_KQP_PATH_MAX - 1)) * 16;
}
SW_INLINE sw_at sw_kqp_path_slot(sw_at lane, __u32 depth)
{
	return sw_kqp_window(lane) + sw_u32(sw_kqp_path(lane, depth));
}
SW_INLINE __u32 sw_kqp_path_cell(sw_at lane, __u32 depth)
{
	return sw_u32_of(sw_kqp_path(lane, depth), 4);
}
SW_INLINE __u32 sw_kqp_path_offset(sw_at lane, __u32 depth)
{
	return sw_u32_of(sw_kqp_path(lane, depth), 8);
}
SW_INLINE void sw_kqp_note(sw_at lane, __u32 depth, __u64 slot, __u32 cell)
{
	sw_set_u64(sw_kqp_path(lane, depth), (__u64)cell << 32 | slot);
}

/*
 * Descends the branches for a key, to a leaf or a cluster, or to the first branch whose offset is
 * not less than `until`: the cell of that node; -ENOENT when the trie is empty; or -EUCLEAN,
 * -ELOOP. The path has the cells on the way, and SW_KQP_DEPTH is the number of branches above the
 * node. When the node is a branch, the path has the key's child of it, too.
 */
SW_GLOBAL long sw_kqp_descend(__u64 lane, const struct sw_key *key SW_NONNULL, __u32 until)
{
	__u64 slot = SW_QP_ROOT, child;
	sw_at window = sw_kqp_window(lane);
	__u32 cell, header, offset, length = sw_key_length(key), depth;
	sw_at node;

	for (depth = sw_zero(); depth < SW_KQP_DEPTH_MAX && sw_can_loop; depth++) {
		cell = sw_u32(window + slot);
		sw_kqp_note(lane, depth, slot, cell);
		if (!sw_kqp_inside(lane, cell >> 2))
			return slot == SW_QP_ROOT && !cell ? -ENOENT : -EUCLEAN;
		if (cell & SW_QP_KIND) {
			sw_kqp_set(lane, SW_KQP_DEPTH, depth);
			return cell;
		}
		node = sw_qp_node(window, cell);
		header = sw_u32(node);
		offset = sw_qp_offset(header);
		sw_set_u32(sw_kqp_path(lane, depth) + 8, offset);
		child = 0;
		if (offset < length)
			child = sw_qp_child(node, header, sw_key_byte(key, offset));
		slot = node - window + sw_qp_cells_at(header) + child * 4;
		if (offset >= until) {
			sw_kqp_note(lane, depth + 1, slot, sw_u32(window + slot));
			sw_kqp_set(lane, SW_KQP_DEPTH, depth);
			return cell;
		}
	}
	return -ELOOP;
}

/*
 * Finds the leaf to compare with the key, from a cell that sw_kqp_descend returned: the cell of the
 * leaf; -EAGAIN when another writer removes leaves meanwhile; or -EUCLEAN. No leaf of the trie has
 * a longer common prefix with the key. SW_KQP_POS is the slot of a leaf that lies in a cluster, and
 * SW_KQP_HEADER the cluster's header.
 */
SW_GLOBAL long sw_kqp_pick(__u64 lane, const struct sw_key *key SW_NONNULL, __u32 cell)
{
	sw_at node = sw_qp_node(sw_kqp_window(lane), cell);
	__u32 header, slot;
	__u64 beside;

	sw_kqp_set(lane, SW_KQP_DEAD, 0);
	if (cell & SW_QP_CLUSTER) {
		header = sw_u32(node);
		if ((cell & SW_QP_LEAF) || !sw_kqp_is_cluster(header))
			return -EUCLEAN;
		slot = sw_qp_blind(sw_qp_borders(cell, node, header), header, key);
		cell = sw_u32(node + sw_qp_cluster_cells_at(header) + slot * 4);
		if (!cell) {
			sw_kqp_set(lane, SW_KQP_DEAD, slot + 1);
			beside = sw_qp_beside_dead(node, slot);
			slot = (__u32)beside;
			cell = (__u32)(beside >> 32);
			if (!cell)
				return -EAGAIN;
		}
		sw_kqp_set(lane, SW_KQP_POS, slot);
		sw_kqp_set(lane, SW_KQP_HEADER, header);
	}
	if ((cell & SW_QP_KIND) != SW_QP_LEAF || !sw_kqp_inside(lane, cell >> 2))
		return -EUCLEAN;
	return cell;
}

/*
 * The same by the tag of the key: the leaf of a cluster that may have this key; 0 when no leaf has
 * its tag. It is quicker than sw_kqp_pick, which goes border by border, but of an absent key it
 * says nothing. The caller makes the tag, because that takes a function.
 */
SW_GLOBAL long sw_kqp_pick_tagged(__u64 lane, __u32 cell, __u32 tag)
{
	sw_at node = sw_qp_node(sw_kqp_window(lane), cell);
	__u32 header, slot;
	__u64 hits;

	if ((cell & SW_QP_KIND) != SW_QP_CLUSTER)
		return 0;
	header = sw_u32(node);
	if (!sw_kqp_is_cluster(header))
		return 0;
	hits = sw_qp_tagged(node, cell, header, tag);
	slot = sw_qp_tagged_slot(hits & -hits);
	if (!hits || slot >= sw_qp_cluster_leaves(header))
		return 0;
	cell = sw_u32(node + sw_qp_cluster_cells_at(header) + slot * 4);
	if ((cell & SW_QP_KIND) != SW_QP_LEAF || !sw_kqp_inside(lane, cell >> 2))
		return 0;
	sw_kqp_set(lane, SW_KQP_DEAD, 0);
	sw_kqp_set(lane, SW_KQP_POS, slot);
	sw_kqp_set(lane, SW_KQP_HEADER, header);
	return cell;
}

/*
 * Compares a key with that of a leaf: the offset at which they part; SW_KQP_SAME; or -ELOOP.
 * Records in the scratch which of the two comes first, and the label between them.
 */
SW_GLOBAL long sw_kqp_mismatch(__u64 lane, const struct sw_key *key SW_NONNULL, __u32 cell)
{
	sw_at window = sw_kqp_window(lane), text = sw_qp_node(window, cell) + sw_kqp_value_bytes(window);
	__u32 theirs = sw_qp_length(text), length = sw_key_length(key), i, left, shorter, at, words;
	__u32 label = 0, mine;
	__u64 differ = 0;

	/* One byte before the key: the words of a `struct sw_key` begin with the length. */
	text = sw_qp_bytes(text) - 1;
	shorter = theirs < length ? theirs : length;
	at = shorter;
	if (sw_key_is_long(key)) {
		at = sw_agree(text + 1, key->long_at, shorter);
	} else {
		words = (shorter & 0xff) / 8 + 1;
		sw_each_word(i, left, words) {
			differ = sw_u64(text + i * 8) ^ sw_key_word(key, i);
			/* The length is no part of the key. */
			if (!i)
				differ &= ~0xffull;
			if (differ) {
				differ = (((differ & SW_LOWS) + SW_LOWS) | differ) & SW_HIGHS;
				at = i * 8 + sw_first_byte(differ) - 1;
				break;
			}
		}
		if (!differ && left)
			return -ELOOP;
	}
	if (at >= shorter) {
		at = shorter;
		if (theirs == length)
			return SW_KQP_SAME;
	}
	/* The byte of each key there, plus one; 0 at its end. The label is the greater byte. */
	mine = at < length ? sw_key_byte(key, at) + 1 : 0;
	theirs = at < theirs ? sw_u8(text + 1 + at) + 1u : 0;
	sw_kqp_set(lane, SW_KQP_BEFORE, mine < theirs);
	if (mine && theirs)
		label = (mine < theirs ? theirs : mine) - 1;
	sw_kqp_set(lane, SW_KQP_LABEL, label);
	return at;
}

/*
 * Finds the offset at which a key parts from all keys of the trie: the offset; SW_KQP_SAME;
 * SW_KQP_EMPTY; or an error.
 */
SW_GLOBAL long sw_kqp_seek(__u64 lane, const struct sw_key *key SW_NONNULL)
{
	long cell = sw_kqp_descend(lane, key, SW_KQP_NEVER), found;

	if (cell == -ENOENT) {
		sw_kqp_set(lane, SW_KQP_DEPTH, 0);
		return SW_KQP_EMPTY;
	}
	if (cell < 0)
		return cell;
	found = sw_kqp_pick_tagged(lane, (__u32)cell, sw_qp_key_tag(key));
	if (found > 0) {
		sw_kqp_set(lane, SW_KQP_CELL, found);
		found = sw_kqp_mismatch(lane, key, (__u32)found);
		if (found == SW_KQP_SAME)
			return found;
	}
	cell = sw_kqp_pick(lane, key, (__u32)cell);
	if (cell < 0)
		return cell;
	sw_kqp_set(lane, SW_KQP_CELL, cell);
	return sw_kqp_mismatch(lane, key, (__u32)cell);
}

/*
 * Locks the branch that has the cell at this level of the path, or the root's cell at level 0; and
 * before it, with `both`, the branch of that cell. 0; -EAGAIN when the cells that the path noted
 * are no longer there; -EBUSY. After an error some locks may be held.
 */
SW_GLOBAL long sw_kqp_hold_path(__u64 lane, __u32 level, __u32 both)
{
	sw_at window = sw_kqp_window(lane), above = window + SW_KQP_ROOT_LOCK;
	__u32 cell = sw_kqp_path_cell(lane, level);
	long error = 0;

	if (both)
		error = sw_kqp_hold(lane, SW_KQP_LOWER, sw_qp_node(window, cell));
	if (error)
		return error;
	if (level)
		above = sw_qp_node(window, sw_kqp_path_cell(lane, level - 1));
	error = sw_kqp_hold(lane, SW_KQP_UPPER, above);
	if (error)
		return error;
	if (sw_u32(sw_kqp_path_slot(lane, level)) != cell)
		return -EAGAIN;
	if (both && sw_u32(sw_kqp_path_slot(lane, level + 1)) != sw_kqp_path_cell(lane, level + 1))
		return -EAGAIN;
	return 0;
}

/* The place of the cell of the leaf that sw_kqp_descend and sw_kqp_pick found. */
SW_INLINE sw_at sw_kqp_leaf_slot(sw_at lane)
{
	__u32 depth = sw_kqp_noted(lane, SW_KQP_DEPTH), cell = sw_kqp_path_cell(lane, depth);
	sw_at node;

	if (cell & SW_QP_LEAF)
		return sw_kqp_path_slot(lane, depth);
	node = sw_qp_node(sw_kqp_window(lane), cell);
	node += sw_qp_cluster_cells_at(sw_u32(node));
	return node + (sw_kqp_get(lane, SW_KQP_POS) & 0x1f) * 4;
}

/*
 * Whether the cluster at the end of the path has the leaf that sw_kqp_pick found, and as many
 * leaves. Other writers remove leaves in place. For use under the lock. A leaf that is the child of
 * a branch is its noted cell.
 */
SW_GLOBAL int sw_kqp_stands(__u64 lane)
{
	__u32 cell = sw_kqp_path_cell(lane, sw_kqp_noted(lane, SW_KQP_DEPTH)), header, dead;
	sw_at node = sw_qp_node(sw_kqp_window(lane), cell), cells;
	__u64 pos = sw_kqp_get(lane, SW_KQP_POS);

	if (!(cell & SW_QP_CLUSTER))
		return 1;
	header = sw_u32(node);
	if (header != sw_kqp_noted(lane, SW_KQP_HEADER))
		return 0;
	cells = node + sw_qp_cluster_cells_at(header);
	cell = sw_kqp_noted(lane, SW_KQP_CELL);
	dead = sw_kqp_noted(lane, SW_KQP_DEAD);
	if (dead)
		return !sw_u32(cells + ((dead - 1) & 0x1f) * 4) &&
		       sw_qp_beside_dead(node, dead - 1) == ((__u64)cell << 32 | pos);
	return sw_u32(cells + (pos & 0x1f) * 4) == cell;
}

/* The slot of a new key in a cluster. The key parts at `part` from the leaf that was found. */
SW_GLOBAL int sw_kqp_place(__u64 lane, __u64 node, __u32 part)
{
	__u32 header = sw_u32(node), leaves = sw_qp_cluster_leaves(header), slot;
	__u32 base = sw_qp_cluster_base(header);
	sw_at borders = node + sw_qp_cluster_borders_at(header);

	slot = sw_kqp_noted(lane, SW_KQP_POS);
	if (sw_kqp_get(lane, SW_KQP_BEFORE)) {
		while (slot && base + sw_u8(borders + slot) > part && sw_can_loop)
			slot--;
		return slot;
	}
	slot++;
	while (slot < leaves && base + sw_u8(borders + slot) > part && sw_can_loop)
		slot++;
	return slot;
}

/* The tag of a new leaf. */
SW_GLOBAL int sw_kqp_new_tag(const struct sw_key *key SW_NONNULL)
{
	return (int)sw_qp_key_tag(key);
}

/* Whether the dead slot of the cluster at the end of the path has this tag. */
SW_INLINE int sw_kqp_is_tag(sw_at lane, __u32 tag)
{
	__u32 cell = sw_kqp_path_cell(lane, sw_kqp_noted(lane, SW_KQP_DEPTH));
	sw_at tags = sw_qp_node(sw_kqp_window(lane), cell) + SW_QP_TAGS_AT;

	return sw_u8(tags + (sw_kqp_get(lane, SW_KQP_AT) & 0x1f)) == (tag & 0xff);
}

/*
 * Plans a new child of the branch at this depth of the path. The key parts from the others at the
 * branch's offset. The units of the new branch, or -EUCLEAN.
 */
SW_INLINE long sw_kqp_plan_child(sw_at lane, __u32 depth)
{
	sw_at node = sw_qp_node(sw_kqp_window(lane), sw_kqp_path_cell(lane, depth));
	__u32 labels = sw_qp_labels(sw_u32(node));

	sw_kqp_set(lane, SW_KQP_LEVEL, depth);
	sw_kqp_set(lane, SW_KQP_STEP, SW_KQP_MORE_CHILDREN);
	sw_kqp_set(lane, SW_KQP_AT, sw_kqp_child(node, sw_kqp_path_slot(lane, depth + 1)));
	return labels < 256 ? (long)sw_kqp_branch_units(labels + 1) : -EUCLEAN;
}

/*
 * The depth of the topmost branch above the leaf whose offset is not less than `part`, or an error.
 * Such a branch must exist. If the path no longer has it, the function descends for the key again.
 */
SW_INLINE long sw_kqp_above(sw_at lane, const struct sw_key *key, __u32 part, __u32 depth)
{
	__u32 left = SW_KQP_PATH_MAX - 4;
	long found;

	for (depth--; depth && left && sw_can_loop; depth--) {
		if (sw_kqp_path_offset(lane, depth - 1) < part)
			return depth;
		left--;
	}
	if (!depth)
		return 0;
	if (left)
		return -ELOOP;
	found = sw_kqp_descend(lane, key, part);
	if (found < 0 || found & SW_QP_KIND)
		return found < 0 ? found : -EUCLEAN;
	return sw_kqp_noted(lane, SW_KQP_DEPTH);
}

/*
 * Whether a key may lie in this dead slot of a cluster. The keys of the slot agree up to the
 * greater one of its two borders, with each other and with the key at that border. If the new key
 * parts from the others there, and has the tag, which sw_kqp_add compares, all that is known of the
 * slot's keys holds for it.
 */
SW_INLINE int sw_kqp_revives(sw_at node, __u32 header, __u32 dead, const struct sw_key *key, __u32 part)
{
	sw_at borders = node + sw_qp_cluster_borders_at(header) + dead;
	__u32 before = dead ? sw_u8(borders) : 0, behind = sw_u8_of(borders, 1), ends;
	__u32 deepest = sw_qp_cluster_base(header) + (before > behind ? before : behind);

	/* The byte of a border is 0 if the key before it ends there, and only then. */
	ends = behind >= before && !sw_u8_of(borders + sw_qp_cluster_capacity(header), 1);
	return part == deepest && ends == (sw_key_length(key) == deepest);
}

/* sw_kqp_plan for a key that belongs to the leaf or cluster at the end of the path. */
SW_INLINE long sw_kqp_plan_leaf(sw_at lane, const struct sw_key *key, __u32 part, __u32 depth)
{
	__u32 cell = sw_kqp_path_cell(lane, depth), header, leaves, dead;
	sw_at node;

	sw_kqp_set(lane, SW_KQP_LEVEL, depth);
	if (cell & SW_QP_LEAF) {
		sw_kqp_set(lane, SW_KQP_STEP, SW_KQP_TWO_LEAVES);
		return sw_kqp_cluster_units(2);
	}
	node = sw_qp_node(sw_kqp_window(lane), cell);
	header = sw_kqp_noted(lane, SW_KQP_HEADER);
	leaves = sw_qp_cluster_leaves(header);
	dead = sw_kqp_noted(lane, SW_KQP_DEAD);
	if (dead) {
		sw_kqp_set(lane, SW_KQP_AT, dead - 1);
		sw_kqp_set(lane, SW_KQP_STEP, SW_KQP_SQUEEZE);
		if (sw_kqp_revives(node, header, (dead - 1) & 0x1f, key, part))
			sw_kqp_set(lane, SW_KQP_STEP, SW_KQP_REVIVE);
		return 0;
	}
	if (leaves < SW_QP_FILL_MAX && sw_kqp_base_with(node, header, part) >= 0) {
		sw_kqp_set(lane, SW_KQP_STEP, SW_KQP_MORE_LEAVES);
		sw_kqp_set(lane, SW_KQP_AT, sw_kqp_place(lane, node, part));
		return sw_kqp_cluster_units(leaves + 1);
	}
	if (leaves < SW_QP_FILL_MAX && part < (__u32)sw_kqp_borders(node, 1, leaves)) {
		/* The key parts too far before all borders: all leaves are on one side of it. */
		if (depth && sw_kqp_path_offset(lane, depth - 1) == part)
			return sw_kqp_plan_child(lane, depth - 1);
		sw_kqp_set(lane, SW_KQP_STEP, SW_KQP_TWO_CHILDREN);
		return 2;
	}
	/* Without the dead slots, there may be room. */
	sw_kqp_set(lane, SW_KQP_STEP, sw_kqp_alive(node) < leaves ? SW_KQP_SQUEEZE : SW_KQP_SPLIT);
	return 0;
}

/*
 * Plans the change for a new key. Records in the scratch the step, the level of the cell that the
 * step changes, and the place in the node of that cell. The units of the node that the step makes,
 * 0 if none; or an error.
 */
SW_INLINE long sw_kqp_plan_at(sw_at lane, const struct sw_key *key, __u32 part)
{
	__u32 depth = sw_kqp_noted(lane, SW_KQP_DEPTH);
	long above;

	if (part == SW_KQP_EMPTY) {
		sw_kqp_set(lane, SW_KQP_LEVEL, 0);
		sw_kqp_set(lane, SW_KQP_STEP, SW_KQP_FIRST_LEAF);
		return 0;
	}
	if (!depth || sw_kqp_path_offset(lane, depth - 1) <= part)
		return sw_kqp_plan_leaf(lane, key, part, depth);
	/* The key parts from the others above the leaf's branch. */
	above = sw_kqp_above(lane, key, part, depth);
	if (above < 0)
		return above;
	if (sw_kqp_path_offset(lane, (__u32)above) == part)
		return sw_kqp_plan_child(lane, (__u32)above);
	sw_kqp_set(lane, SW_KQP_LEVEL, above);
	sw_kqp_set(lane, SW_KQP_STEP, SW_KQP_TWO_CHILDREN);
	return 2;
}

/* The same, and notes the units: 0, or an error. Makes sure that the change can retire a node. */
SW_GLOBAL long sw_kqp_plan(__u64 lane, const struct sw_key *key SW_NONNULL, __u32 part)
{
	long units;

	sw_kqp_set(lane, SW_KQP_PART, part);
	units = sw_kqp_plan_at(lane, key, part);
	if (units < 0)
		return units;
	sw_kqp_set(lane, SW_KQP_UNITS, units);
	return sw_kqp_room(lane, 1);
}

/* Retires a branch or a cluster. */
SW_GLOBAL int sw_kqp_retire_node(__u64 lane, __u32 cell)
{
	__u32 header = sw_u32(sw_qp_node(sw_kqp_window(lane), cell)), units;

	if (cell & SW_QP_CLUSTER)
		units = sw_kqp_slots_units(sw_qp_cluster_capacity(header));
	else
		units = sw_kqp_block_units(sw_kqp_branch_units(sw_qp_labels(header)));
	sw_kqp_retire(lane, cell >> 2, units);
	return 0;
}

/* Adds to the number of clusters and to their units; both may be negative. */
SW_INLINE void sw_kqp_count_cluster(sw_at lane, __u32 more, __u32 units)
{
	sw_kqp_count(lane, SW_KQP_LANE_CLUSTERS, more);
	sw_kqp_count(lane, SW_KQP_LANE_CLUSTER_UNITS, units);
}

/*
 * Counts a branch whose units change from `old` to `new`. 0 units: the branch is new, or removed.
 */
SW_INLINE void sw_kqp_count_branch(sw_at lane, __u32 old, __u32 new)
{
	sw_kqp_count(lane, SW_KQP_LANE_BRANCHES, !old - !new);
	sw_kqp_count(lane, SW_KQP_LANE_BRANCH_UNITS,
		     sw_kqp_block_units(new) - sw_kqp_block_units(old));
}

/* Packs the cells of a new leaf and of its neighbour, in the order of their keys. */
SW_INLINE __u64 sw_kqp_beside(sw_at lane, __u32 leaf, __u32 other)
{
	if (sw_kqp_get(lane, SW_KQP_BEFORE))
		return sw_kqp_cells(leaf, other);
	return sw_kqp_cells(other, leaf);
}

/* The node whose cell the change replaces, and the block of the new one. */
SW_INLINE sw_at sw_kqp_replaced(sw_at lane)
{
	return sw_qp_node(sw_kqp_window(lane), sw_u32(sw_kqp_get(lane, SW_KQP_SLOT)));
}
SW_INLINE sw_at sw_kqp_made(sw_at lane)
{
	return sw_ref(sw_kqp_window(lane), sw_kqp_noted(lane, SW_KQP_NODE));
}

/* Puts a new leaf into a cluster. */
SW_GLOBAL int sw_kqp_more_leaves(__u64 lane, __u32 leaf, __u32 tag)
{
	__u32 at = sw_kqp_noted(lane, SW_KQP_AT), border, leaves, had, base, before;
	sw_at old = sw_kqp_replaced(lane), to = sw_kqp_made(lane), slot;

	leaves = sw_qp_cluster_leaves(sw_u32(old)) + 1;
	/* The new border is between the new leaf and the leaf that its key was compared with. */
	border = at + sw_kqp_noted(lane, SW_KQP_BEFORE);
	sw_kqp_weave(old, old, to, sw_kqp_weaving(leaves, sw_kqp_slots(leaves), at, border), 1);
	/* Values are read again where they are needed: the stack is short. */
	sw_hide(lane);
	old = sw_kqp_replaced(lane);
	before = sw_qp_cluster_base(sw_u32(old));
	base = (__u32)sw_kqp_base_with(old, sw_u32(old), sw_kqp_noted(lane, SW_KQP_PART));
	sw_hide(lane);
	to = sw_kqp_made(lane);
	if (base | before) {
		sw_kqp_set_base(to, base);
		sw_kqp_shift(to, 1, sw_qp_cluster_leaves(sw_u32(to)), before, base);
	}
	sw_hide(lane);
	to = sw_kqp_made(lane);
	at = sw_kqp_noted(lane, SW_KQP_AT);
	sw_kqp_put_leaf(to, at, leaf, tag);
	border = at + sw_kqp_noted(lane, SW_KQP_BEFORE);
	sw_kqp_put_border(to, border, sw_kqp_noted(lane, SW_KQP_PART) - base, sw_kqp_noted(lane, SW_KQP_LABEL));
	leaves = sw_qp_cluster_leaves(sw_u32(to));
	had = sw_qp_cluster_capacity(sw_u32(sw_kqp_replaced(lane)));
	sw_kqp_count_cluster(lane, 0, sw_kqp_cluster_units(leaves) - sw_kqp_slots_units(had));
	slot = sw_kqp_get(lane, SW_KQP_SLOT);
	had = sw_u32(slot);
	sw_publish_u32(slot, sw_kqp_noted(lane, SW_KQP_NODE) << 2 | SW_QP_CLUSTER);
	sw_kqp_retire_node(lane, had);
	return 0;
}

/* Makes a cluster of a new leaf and another leaf. */
SW_INLINE void sw_kqp_two_leaves(sw_at lane, __u32 leaf)
{
	sw_kqp_unite(lane, sw_kqp_beside(lane, leaf, sw_u32(sw_kqp_get(lane, SW_KQP_SLOT))));
	sw_kqp_count_cluster(lane, 1, sw_kqp_cluster_units(2));
	sw_publish_u32(sw_kqp_get(lane, SW_KQP_SLOT), sw_kqp_noted(lane, SW_KQP_NODE) << 2 | SW_QP_CLUSTER);
}

/* Adds a new leaf to a branch, as the neighbour of one of its children. */
SW_GLOBAL int sw_kqp_more_children(__u64 lane, __u32 leaf)
{
	sw_at window = sw_kqp_window(lane), slot = sw_kqp_get(lane, SW_KQP_SLOT), old;
	__u32 there = sw_u32(slot), at = sw_kqp_noted(lane, SW_KQP_AT), child, labels;
	__u32 ref = sw_kqp_noted(lane, SW_KQP_NODE);

	old = sw_qp_node(window, there);
	labels = sw_qp_labels(sw_u32(old));
	child = sw_u32(old + sw_qp_cells_at(sw_u32(old)) + at * 4);
	sw_kqp_grow(old, sw_ref(window, ref), at, sw_kqp_noted(lane, SW_KQP_LABEL),
		    sw_kqp_beside(lane, leaf, child));
	sw_kqp_count_branch(lane, sw_kqp_branch_units(labels), sw_kqp_branch_units(labels + 1));
	sw_publish_u32(slot, ref << 2);
	sw_kqp_let(lane, SW_KQP_LOWER, SW_KQP_GONE);
	sw_kqp_retire_node(lane, there);
	return 0;
}

/* Makes a branch of a new leaf and the node that was in its place. */
SW_GLOBAL int sw_kqp_two_children(__u64 lane, __u32 leaf)
{
	sw_at window = sw_kqp_window(lane), slot = sw_kqp_get(lane, SW_KQP_SLOT);
	__u32 ref = sw_kqp_noted(lane, SW_KQP_NODE);

	sw_kqp_pair(sw_ref(window, ref), sw_kqp_noted(lane, SW_KQP_PART),
		    sw_kqp_noted(lane, SW_KQP_LABEL), sw_kqp_beside(lane, leaf, sw_u32(slot)));
	sw_kqp_count_branch(lane, 0, 2);
	sw_publish_u32(slot, ref << 2);
	return 0;
}

/* Puts a new leaf into a dead slot. */
SW_INLINE void sw_kqp_revive(sw_at lane, __u32 leaf)
{
	sw_at node = sw_qp_node(sw_kqp_window(lane), sw_u32(sw_kqp_get(lane, SW_KQP_SLOT)));

	node += sw_qp_cluster_cells_at(sw_u32(node));
	sw_publish_u32(node + (sw_kqp_get(lane, SW_KQP_AT) & 0x1f) * 4, leaf);
}

/*
 * Replaces the cluster at the end of the path by one without its dead slots, under the lock. The
 * path then has the new one. 0, or an error, and then nothing is changed.
 */
SW_GLOBAL long sw_kqp_squeeze(__u64 lane)
{
	__u32 depth = sw_kqp_noted(lane, SW_KQP_DEPTH), alive, ref, had;
	sw_at window = sw_kqp_window(lane), slot = sw_kqp_path_slot(lane, depth), node;
	__u32 cell = sw_u32(slot);
	long error;

	node = sw_qp_node(window, cell);
	had = sw_u32(node);
	alive = sw_kqp_alive(node);
	if (!(cell & SW_QP_CLUSTER) || !sw_kqp_is_cluster(had) || alive < 2)
		return -EUCLEAN;
	error = sw_kqp_take(lane, 0, sw_kqp_cluster_units(alive), 0, 1);
	if (error)
		return error;
	ref = sw_kqp_noted(lane, SW_KQP_NODE);
	sw_kqp_squeeze_to(node, sw_ref(window, ref), sw_kqp_slots(alive));
	had = sw_kqp_slots_units(sw_qp_cluster_capacity(had));
	sw_kqp_count_cluster(lane, 0, sw_kqp_cluster_units(alive) - had);
	ref = ref << 2 | SW_QP_CLUSTER;
	sw_publish_u32(slot, ref);
	sw_kqp_note(lane, depth, slot - window, ref);
	sw_kqp_retire_node(lane, cell);
	return 0;
}

/*
 * Locks what the change that sw_kqp_plan chose needs, and checks that the plan is still right: 0;
 * -EAGAIN when the search must begin anew; or an error. Some locks may be held afterwards.
 */
SW_GLOBAL long sw_kqp_enter(__u64 lane)
{
	__u64 step = sw_kqp_get(lane, SW_KQP_STEP);
	long error = sw_kqp_hold_path(lane, sw_kqp_noted(lane, SW_KQP_LEVEL), step == SW_KQP_MORE_CHILDREN);

	if (error)
		return error;
	if (sw_kqp_get(lane, SW_KQP_LEVEL) == sw_kqp_get(lane, SW_KQP_DEPTH) &&
	    step != SW_KQP_FIRST_LEAF && !sw_kqp_stands(lane))
		return -EAGAIN;
	return 0;
}

/*
 * Locks the path to the leaf that was found and, in a map with an index, the leaf's slot there, for
 * its replacement or, with `removes`, its removal; and makes sure that the change can retire what
 * it has to. 0; -EAGAIN when the search must begin anew; or an error. Some locks may be held
 * afterwards.
 */
SW_GLOBAL long sw_kqp_enter_leaf(__u64 lane, const struct sw_key *key SW_NONNULL, __u32 removes)
{
	__u32 depth = sw_kqp_noted(lane, SW_KQP_DEPTH), both;
	long error;

	/* A removal of a leaf in a cluster changes the cluster, that of another one the branch above. */
	both = removes && depth && !(sw_kqp_path_cell(lane, depth) & SW_QP_CLUSTER);
	error = sw_kqp_hold_path(lane, depth - both, both);
	if (!error && !sw_kqp_stands(lane))
		error = -EAGAIN;
	if (!error)
		error = sw_kqp_room(lane, !removes);
	if (error)
		return error;
	sw_hide(lane);
	error = sw_kqp_index_enter(lane, key);
	if (error)
		return error;
	sw_hide(lane);
	sw_kqp_set(lane, SW_KQP_AT, 0);
	return sw_kqp_inside(lane, sw_u32(sw_kqp_leaf_slot(lane)) >> 2) ? 0 : -EUCLEAN;
}

/*
 * Makes the change that sw_kqp_plan chose, under the locks. Publishes the new leaf with one store,
 * and retires the node that was replaced. The function is inline, because the kernel limits the
 * depth of calls and the sum of their stacks.
 */
SW_INLINE void sw_kqp_attach(sw_at lane, const struct sw_key *key, __u32 leaf)
{
	sw_kqp_set(lane, SW_KQP_SLOT, sw_kqp_path_slot(lane, sw_kqp_noted(lane, SW_KQP_LEVEL)));
	switch (sw_kqp_noted(lane, SW_KQP_STEP)) {
	case SW_KQP_MORE_LEAVES:
		sw_kqp_more_leaves(lane, leaf, sw_kqp_new_tag(key));
		break;
	case SW_KQP_TWO_LEAVES:
		sw_kqp_two_leaves(lane, leaf);
		break;
	case SW_KQP_MORE_CHILDREN:
		sw_kqp_more_children(lane, leaf);
		break;
	case SW_KQP_TWO_CHILDREN:
		sw_kqp_two_children(lane, leaf);
		break;
	case SW_KQP_REVIVE:
		sw_kqp_revive(lane, leaf);
		break;
	default:
		sw_publish_u32(sw_kqp_get(lane, SW_KQP_SLOT), leaf);
	}
}

/*
 * Makes a cell of `leaves` leaves of a cluster, from slot `first` on: that of the one leaf, or that
 * of a new cluster. `block` says which block the new cluster gets.
 */
SW_INLINE __u32 sw_kqp_slice(sw_at lane, sw_at from, __u32 first, __u32 leaves, __u32 block)
{
	__u32 header = sw_u32(from), before = sw_qp_cluster_base(header), base = 0, ref;
	sw_at to;

	if (leaves < 2)
		return sw_u32(from + sw_qp_cluster_cells_at(header) + first * 4);
	ref = sw_kqp_noted(lane, block);
	to = sw_ref(sw_kqp_window(lane), ref);
	sw_kqp_weave(from, from, to, sw_kqp_weaving(leaves, sw_kqp_slots(leaves), 0, 0),
		     -(__s32)first);
	if (before) {
		base = (__u32)sw_kqp_base(sw_kqp_borders(from, first + 1, first + leaves));
		sw_kqp_set_base(to, base);
		sw_kqp_shift(to, 1, leaves, before, base);
	}
	sw_kqp_put_border(to, 0, 0, 0);
	return ref << 2 | SW_QP_CLUSTER;
}

/*
 * Plans the split of the full cluster at the end of the path, locks the branches that it changes,
 * and takes the blocks: 0, or an error. Records in the scratch the slot, the offset and the label
 * of the border, and the step: the branch above gets the label, or a new branch of two children
 * does.
 */
SW_GLOBAL long sw_kqp_split_plan(__u64 lane)
{
	__u32 depth = sw_kqp_noted(lane, SW_KQP_DEPTH), header, leaves, middle, offset, labels = 0;
	sw_at window = sw_kqp_window(lane), node = sw_qp_node(window, sw_kqp_path_cell(lane, depth));
	__u32 units = 2, above;
	long error;

	header = sw_u32(node);
	leaves = sw_qp_cluster_leaves(header);
	middle = sw_kqp_middle(node);
	if (!sw_kqp_is_cluster(header) || middle >= leaves)
		return -EUCLEAN;
	offset = sw_qp_cluster_base(header) + sw_u8(node + sw_qp_cluster_borders_at(header) + middle);
	sw_kqp_set(lane, SW_KQP_AT, middle);
	sw_kqp_set(lane, SW_KQP_PART, offset);
	sw_kqp_set(lane, SW_KQP_LABEL, sw_u8(node + sw_qp_cluster_bytes_at(header) + middle));
	if (depth) {
		above = sw_kqp_path_offset(lane, depth - 1);
		if (above > offset)
			return -EUCLEAN;
		if (above == offset) {
			above = sw_kqp_path_cell(lane, depth - 1);
			labels = sw_qp_labels(sw_u32(sw_qp_node(window, above)));
			units = sw_kqp_branch_units(labels + 1);
			if (labels > 255)
				return -EUCLEAN;
		}
	}
	sw_kqp_set(lane, SW_KQP_STEP, labels ? SW_KQP_MORE_CHILDREN : SW_KQP_TWO_CHILDREN);
	error = sw_kqp_hold_path(lane, labels ? depth - 1 : depth, labels);
	if (error)
		return error;
	/* Another writer may have removed leaves in place. */
	if (sw_u32(node) != header || sw_kqp_alive(node) != leaves)
		return -EAGAIN;
	return sw_kqp_take(lane, sw_kqp_cluster_units(middle),
			   sw_kqp_cluster_units(leaves - middle), units, 1);
}

/* Writes the two parts of the full cluster into their blocks: the two cells, packed. */
SW_GLOBAL __u64 sw_kqp_parts(__u64 lane, __u64 node)
{
	__u32 leaves = sw_qp_cluster_leaves(sw_u32(node)), middle, left;

	middle = sw_kqp_noted(lane, SW_KQP_AT);
	left = sw_kqp_slice(lane, node, 0, middle, SW_KQP_LEAF);
	return sw_kqp_cells(left, sw_kqp_slice(lane, node, middle, leaves - middle, SW_KQP_NODE));
}

/*
 * Splits the full cluster at the end of the path as planned. One cell changes: that of the branch
 * above, or that of the cluster.
 */
SW_GLOBAL int sw_kqp_split_make(__u64 lane)
{
	__u32 depth = sw_kqp_noted(lane, SW_KQP_DEPTH), middle = sw_kqp_noted(lane, SW_KQP_AT);
	sw_at window = sw_kqp_window(lane), slot = sw_kqp_path_slot(lane, depth), above, node, parent;
	__u32 ref = sw_kqp_noted(lane, SW_KQP_MORE), labels, leaves, had, units, gone = 0;
	__u32 cluster = sw_u32(slot);
	__u64 cells;

	node = sw_qp_node(window, cluster);
	leaves = sw_qp_cluster_leaves(sw_u32(node)) - middle;
	had = sw_qp_cluster_capacity(sw_u32(node));
	units = sw_kqp_cluster_units(middle) + sw_kqp_cluster_units(leaves);
	units -= sw_kqp_slots_units(had);
	sw_kqp_count_cluster(lane, (middle > 1) + (leaves > 1) - 1, units);
	cells = sw_kqp_parts(lane, node);
	if (sw_kqp_get(lane, SW_KQP_STEP) == SW_KQP_MORE_CHILDREN) {
		above = sw_kqp_path_slot(lane, depth - 1);
		gone = sw_u32(above);
		parent = sw_qp_node(window, gone);
		labels = sw_qp_labels(sw_u32(parent));
		sw_kqp_grow(parent, sw_ref(window, ref), sw_kqp_child(parent, slot),
			    sw_kqp_noted(lane, SW_KQP_LABEL), cells);
		units = sw_kqp_branch_units(labels + 1);
		sw_kqp_count_branch(lane, sw_kqp_branch_units(labels), units);
		slot = above;
	} else {
		sw_kqp_pair(sw_ref(window, ref), sw_kqp_noted(lane, SW_KQP_PART),
			    sw_kqp_noted(lane, SW_KQP_LABEL), cells);
		sw_kqp_count_branch(lane, 0, 2);
	}
	sw_publish_u32(slot, ref << 2);
	sw_kqp_let(lane, SW_KQP_LOWER, SW_KQP_GONE);
	sw_kqp_retire_node(lane, cluster);
	if (gone)
		sw_kqp_retire_node(lane, gone);
	return 0;
}

/*
 * sw_kqp_detach for a leaf in a cluster: one store. The other one of two leaves replaces the
 * cluster. SW_KQP_AT becomes 1 if only a third of the slots is left alive.
 */
SW_GLOBAL long sw_kqp_detach_leaf(__u64 lane)
{
	__u32 depth = sw_kqp_noted(lane, SW_KQP_DEPTH), alive = sw_zero(), last = sw_zero(), i;
	sw_at window = sw_kqp_window(lane), slot = sw_kqp_path_slot(lane, depth), node, cells;
	__u32 cell = sw_u32(slot), at = sw_kqp_noted(lane, SW_KQP_POS), header, leaves;
	__u64 other;

	node = sw_qp_node(window, cell);
	header = sw_u32(node);
	leaves = sw_qp_cluster_leaves(header);
	if (!sw_kqp_is_cluster(header) || at >= leaves)
		return -EUCLEAN;
	cells = node + sw_qp_cluster_cells_at(header);
	sw_for (i, leaves) {
		/* All ones for another leaf that is not dead. */
		other = -(__u64)(1 - sw_less(sw_u32(cells + i * 4), 1));
		other &= -(__u64)(1 - sw_less(at ^ i, 1));
		sw_hide(other);
		alive += other & 1;
		last = (i & other) | (last & ~other);
	}
	if (!alive)
		return -EUCLEAN;
	if (alive == 1) {
		at = sw_u32(cells + last * 4);
		sw_publish_u32(slot, at);
		sw_kqp_note(lane, depth, slot - window, at);
		sw_kqp_count_cluster(lane, -1, -sw_kqp_slots_units(sw_qp_cluster_capacity(header)));
		return cell;
	}
	if (at + 1 == leaves) {
		leaves = last + 1;
		header &= ~(SW_QP_HEAD_COUNT << SW_QP_HEAD_COUNT_AT);
		sw_publish_u32(node, header | leaves << SW_QP_HEAD_COUNT_AT);
	} else {
		sw_publish_u32(cells + at * 4, 0);
	}
	sw_kqp_set(lane, SW_KQP_AT, alive * 3 <= leaves);
	return 0;
}

/* The place of the cell of the branch above the end of the path, and that branch. */
SW_INLINE sw_at sw_kqp_above_slot(sw_at lane)
{
	return sw_kqp_path_slot(lane, sw_kqp_noted(lane, SW_KQP_DEPTH) - 1);
}
SW_INLINE sw_at sw_kqp_parent(sw_at lane)
{
	return sw_qp_node(sw_kqp_window(lane), sw_u32(sw_kqp_above_slot(lane)));
}

/* Writes the branch above the end of the path without this child, and puts it into its place. */
SW_INLINE long sw_kqp_drop_child(sw_at lane, __u32 child)
{
	__u32 depth, ref, cell, units;
	sw_at to, above;

	sw_kqp_shrink(sw_kqp_parent(lane), sw_kqp_made(lane), child);
	sw_hide(lane);
	units = sw_qp_labels(sw_u32(sw_kqp_made(lane)));
	sw_kqp_count_branch(lane, sw_kqp_branch_units(units + 1), sw_kqp_branch_units(units));
	sw_hide(lane);
	depth = sw_kqp_noted(lane, SW_KQP_DEPTH);
	to = sw_kqp_made(lane);
	to += sw_qp_cells_at(sw_u32(to)) + (child ? child - 1 : 0) * 4;
	sw_kqp_note(lane, depth, to - sw_kqp_window(lane), sw_u32(to));
	sw_hide(lane);
	above = sw_kqp_above_slot(lane);
	cell = sw_u32(above);
	ref = sw_kqp_noted(lane, SW_KQP_NODE) << 2;
	sw_kqp_note(lane, depth - 1, above - sw_kqp_window(lane), ref);
	sw_publish_u32(above, ref);
	sw_kqp_let(lane, SW_KQP_LOWER, SW_KQP_GONE);
	return cell;
}

/* sw_kqp_detach for a leaf that is the root or the child of a branch. */
SW_GLOBAL long sw_kqp_detach_child(__u64 lane)
{
	__u32 depth = sw_kqp_noted(lane, SW_KQP_DEPTH), child, labels, ref, cell;
	sw_at slot = sw_kqp_path_slot(lane, depth), parent, above;
	long error;

	if (!depth) {
		sw_publish_u32(slot, 0);
		return 0;
	}
	parent = sw_kqp_parent(lane);
	labels = sw_qp_labels(sw_u32(parent));
	child = sw_kqp_child(parent, slot);
	if (child > labels)
		return -EUCLEAN;
	if (labels == 1) {
		above = sw_kqp_above_slot(lane);
		cell = sw_u32(above);
		ref = sw_u32(parent + sw_qp_cells_at(sw_u32(parent)) + 4 - child * 4);
		sw_publish_u32(above, ref);
		sw_kqp_let(lane, SW_KQP_LOWER, SW_KQP_GONE);
		sw_kqp_note(lane, depth - 1, above - sw_kqp_window(lane), ref);
		sw_kqp_count_branch(lane, 2, 0);
		sw_kqp_set(lane, SW_KQP_DEPTH, depth - 1);
		return cell;
	}
	error = sw_kqp_take(lane, 0, sw_kqp_branch_units(labels - 1), 0, 0);
	sw_hide(lane);
	return error ? error : sw_kqp_drop_child(lane, child);
}

/*
 * Removes the leaf at the end of the path from the trie, under the locks: the cell of the node that
 * the caller must retire, 0 if none; or an error. Then the path leads to the removed leaf's
 * neighbour.
 */
SW_INLINE long sw_kqp_detach(sw_at lane)
{
	__u32 cell = sw_kqp_path_cell(lane, sw_kqp_noted(lane, SW_KQP_DEPTH));

	return cell & SW_QP_CLUSTER ? sw_kqp_detach_leaf(lane) : sw_kqp_detach_child(lane);
}

/* The cells of child SW_KQP_AT of the branch above the end of the path and of the next, packed. */
SW_INLINE __u64 sw_kqp_neighbours(sw_at lane)
{
	sw_at parent = sw_kqp_parent(lane), cells;

	cells = parent + sw_qp_cells_at(sw_u32(parent)) + sw_kqp_get(lane, SW_KQP_AT) * 4;
	return sw_kqp_cells(sw_u32(cells), sw_u32_of(cells, 4));
}

/*
 * Finds a neighbour of the leaf or cluster at the end of the path with which it can be joined, and
 * locks the branch that has both: whether there is one. Both have few leaves, and no other writer
 * has changed them. SW_KQP_AT becomes the number of the left one, and SW_KQP_UNITS that of the
 * leaves of both. Without locks before; some may be held afterwards.
 */
SW_GLOBAL int sw_kqp_join_find(__u64 lane)
{
	__u32 depth = sw_kqp_noted(lane, SW_KQP_DEPTH), header, child, leaves, more;
	sw_at window = sw_kqp_window(lane), slot = sw_kqp_path_slot(lane, depth), parent;

	if (!depth)
		return 0;
	parent = sw_qp_node(window, sw_kqp_path_cell(lane, depth - 1));
	header = sw_u32(parent);
	child = sw_kqp_child(parent, slot);
	leaves = sw_kqp_leaves(window, sw_kqp_path_cell(lane, depth));
	if (leaves > SW_KQP_LONELY_MAX || child > sw_qp_labels(header) || sw_qp_offset(header) > SW_KEY_MAX ||
	    sw_kqp_hold_path(lane, depth - 1, 1))
		return 0;
	if (child) {
		more = leaves + sw_kqp_leaves(window, sw_u32(slot - 4));
		if (more <= SW_KQP_JOINED_MAX) {
			sw_kqp_set(lane, SW_KQP_AT, child - 1);
			sw_kqp_set(lane, SW_KQP_UNITS, more);
			return 1;
		}
	}
	if (child < sw_qp_labels(header)) {
		more = leaves + sw_kqp_leaves(window, sw_u32(slot + 4));
		if (more <= SW_KQP_JOINED_MAX) {
			sw_kqp_set(lane, SW_KQP_AT, child);
			sw_kqp_set(lane, SW_KQP_UNITS, more);
			return 1;
		}
	}
	return 0;
}

/*
 * Takes the memory for the joined cluster, and for the branch without one of the two children, and
 * notes where they part: whether there is memory.
 */
SW_GLOBAL int sw_kqp_join_take(__u64 lane)
{
	__u32 header = sw_u32(sw_kqp_parent(lane)), labels = sw_qp_labels(header), label, left, ends;
	__u64 both = sw_kqp_neighbours(lane);

	sw_kqp_set(lane, SW_KQP_BOTH, both);
	sw_kqp_set(lane, SW_KQP_PART, sw_qp_offset(header));
	if (sw_kqp_base(sw_kqp_united(sw_kqp_window(lane), both, sw_qp_offset(header))) < 0 ||
	    sw_kqp_room(lane, 1))
		return 0;
	if (sw_kqp_take(lane, 0, sw_kqp_cluster_units(sw_kqp_noted(lane, SW_KQP_UNITS)),
			labels > 1 ? sw_kqp_branch_units(labels - 1) : 0, 1))
		return 0;
	sw_hide(lane);
	label = sw_kqp_label(sw_kqp_parent(lane), sw_kqp_noted(lane, SW_KQP_AT));
	/* The label is 0 when the left child is a key that ends at this offset. */
	left = sw_kqp_noted(lane, SW_KQP_BOTH);
	if (left & SW_QP_LEAF) {
		ends = sw_qp_length(sw_qp_node(sw_kqp_window(lane), left) +
				    sw_kqp_value_bytes(sw_kqp_window(lane)));
		if (ends == sw_kqp_noted(lane, SW_KQP_PART))
			label = 0;
	}
	sw_kqp_set(lane, SW_KQP_LABEL, label);
	return 1;
}

/* Retires a cluster that was joined with another node; a leaf lives on. */
SW_INLINE void sw_kqp_joined(sw_at lane, __u32 cell)
{
	__u32 slots;

	if (!(cell & SW_QP_CLUSTER))
		return;
	sw_kqp_retire_node(lane, cell);
	slots = sw_qp_cluster_capacity(sw_u32(sw_qp_node(sw_kqp_window(lane), cell)));
	sw_kqp_count_cluster(lane, -1, -sw_kqp_slots_units(slots));
}

/* Puts the joined cluster, which is written, into the place of the two children. */
SW_GLOBAL int sw_kqp_join_end(__u64 lane)
{
	__u32 labels = sw_qp_labels(sw_u32(sw_kqp_parent(lane))), node, gone, units = 0;
	__u32 child = sw_kqp_noted(lane, SW_KQP_AT);
	sw_at to;

	node = sw_kqp_noted(lane, SW_KQP_NODE) << 2 | SW_QP_CLUSTER;
	if (labels > 1) {
		units = sw_kqp_branch_units(labels - 1);
		to = sw_ref(sw_kqp_window(lane), sw_kqp_noted(lane, SW_KQP_MORE));
		sw_kqp_shrink(sw_kqp_parent(lane), to, child + 1);
		sw_set_u32(to + sw_qp_cells_at(sw_u32(to)) + child * 4, node);
		node = sw_kqp_noted(lane, SW_KQP_MORE) << 2;
	}
	sw_hide(lane);
	sw_kqp_count_branch(lane, sw_kqp_branch_units(labels), units);
	sw_kqp_count_cluster(lane, 1, sw_kqp_cluster_units(sw_kqp_noted(lane, SW_KQP_UNITS)));
	to = sw_kqp_above_slot(lane);
	gone = sw_u32(to);
	sw_publish_u32(to, node);
	sw_kqp_let(lane, SW_KQP_LOWER, SW_KQP_GONE);
	sw_kqp_retire_node(lane, gone);
	sw_hide(lane);
	sw_kqp_joined(lane, sw_kqp_noted(lane, SW_KQP_BOTH));
	sw_hide(lane);
	sw_kqp_joined(lane, (__u32)(sw_kqp_get(lane, SW_KQP_BOTH) >> 32));
	return 0;
}

/*
 * Joins the leaf or cluster at the end of the path with a neighbour, if both have few leaves and
 * there is memory. For use after a removal, without locks; some may be held after it. The function
 * is inline, as sw_kqp_attach is.
 */
SW_INLINE void sw_kqp_join(sw_at lane)
{
	if (!sw_kqp_join_find(lane) || !sw_kqp_join_take(lane))
		return;
	sw_kqp_unite(lane, sw_kqp_get(lane, SW_KQP_BOTH));
	sw_kqp_join_end(lane);
}

#endif
