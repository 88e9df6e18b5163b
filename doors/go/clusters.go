package sapwood

import "encoding/binary"

// cluster is a cluster whose header was read. It lies inside the window.
type cluster struct {
	at     int
	header uint32
	// Of an inline cluster, which is large enough for its slots.
	inline bool
	extent extent
}

// block is the bytes of a cluster.
func (c *cluster) block() int {
	if c.inline {
		return c.extent.block()
	}
	return clusterBlock(c.capacity())
}

func (c *cluster) leaves() int   { return clusterLeaves(c.header) }
func (c *cluster) capacity() int { return clusterCapacity(c.header) }

func (c *cluster) tagsAt() int {
	if c.inline {
		return c.at + inlineTagsAt
	}
	return c.at + clusterTagsAt
}

// slotsAt is where the words are that say where the entries are, and their bytes.
func (c *cluster) slotsAt() (int, int) {
	if c.inline {
		return c.tagsAt() + c.capacity(), 1
	}
	return c.tagsAt() + c.capacity(), 4
}

// bordersAt is where the borders are: the distances. The bytes follow.
func (c *cluster) bordersAt() int {
	slots, size := c.slotsAt()
	return slots + size*c.capacity() + c.extent.prefix()
}

// isStill says whether a cluster has the header words that were read.
func (n *nodes) clusterIsStill(c *cluster) bool {
	return n.u32(c.at)&^headFresh == c.header && (!c.inline || n.u32(c.at+4) == uint32(c.extent))
}

// cluster reads the cluster of a cell, of either kind.
func (n *nodes) cluster(cell uint32) (cluster, *trouble) {
	at := byteOf(cell)
	c := cluster{at: at, inline: n.inline && cell&cellKind == cellInline}
	if cell&cellKind != cellCluster && !c.inline || !n.inside(at, clusterBlock(4)) {
		return c, damaged("a cluster outside the window", at)
	}
	c.header = n.u32(at) &^ headFresh
	fewest, most := 2, clusterSlotsMax
	if c.inline {
		fewest, most = 1, inlineSlotsMax
	}
	if !clusterIsSound(c.header, fewest, most) {
		return c, damaged("no cluster has such a header", at)
	}
	if c.inline {
		c.extent = extent(n.u32(at + 4))
		heap := n.entries.heapAt(c.capacity(), c.extent.prefix())
		if block := c.extent.block(); block < inlineBlock(heap) || block > inlineBlockMax {
			return c, damaged("a cluster of a size that does not fit its slots", at)
		}
	}
	if !n.inside(at, c.block()) {
		return c, damaged("a cluster that ends outside the window", at)
	}
	return c, nil
}

// place is the word that says where the entry in a slot is, and where the word is.
type place struct {
	at   int
	word uint32
}

// slot reads the entry in a slot of a cluster; false when the slot is dead, which the last one
// never is.
func (n *nodes) slot(c *cluster, slot int) (entry, bool, place, *trouble) {
	slots, size := c.slotsAt()
	p := place{at: (slots + size*slot) &^ 3}
	p.word = n.u32(p.at)
	if !c.inline {
		if p.word == 0 && n.deadSlots && slot+1 < c.leaves() {
			return entry{}, false, p, nil
		}
		e, t := n.leaf(p.word)
		return e, t == nil, p, t
	}
	e, cell, outside, t := n.held(c, slot)
	if t == nil && outside {
		e, t = n.leaf(cell)
	}
	return e, t == nil, p, t
}

// held reads what lies in an inline cluster for the entry in a slot: the entry, or the cell of a
// leaf of its own.
func (n *nodes) held(c *cluster, slot int) (e entry, cell uint32, outside bool, t *trouble) {
	const ends = "an entry that ends outside its cluster"
	capacity := c.capacity()
	slots := c.at + inlineTagsAt + capacity
	end := c.at + c.extent.block()
	at := c.at + int(n.byte(slots+slot))*n.entries.step
	tail := at + n.entries.head + 1
	if tail > end {
		return e, 0, false, damaged(ends, c.at)
	}
	length := int(n.byte(tail - 1))
	if length == inlineOutside {
		if at+n.entries.outside() > end {
			return e, 0, false, damaged(ends, c.at)
		}
		return e, uint32(n.bytesTo8(at+n.entries.cellAt(), 4)), true, nil
	}
	if length > inlineTailMax {
		return e, 0, false, damaged("a tail of a length that no entry has", c.at)
	}
	e.at, e.rest, e.value = at, piece{tail, length}, piece{at, n.valueBytes}
	// The prefix of all keys lies behind the bytes that say where the entries are.
	e.prefix = piece{slots + capacity, c.extent.prefix()}
	behind := 0
	if n.strings {
		if tail+length >= end {
			return e, 0, false, damaged(ends, c.at)
		}
		// The length of such a value has one byte.
		size := int(n.byte(tail + length))
		if size >= valueU16 {
			return e, 0, false, damaged("a value of a length that only a leaf has", c.at)
		}
		behind = 1 + size
		e.value = piece{tail + length + 1, size}
	}
	if at+n.entries.entry(length, behind) > end {
		return e, 0, false, damaged(ends, c.at)
	}
	return e, 0, false, nil
}

// leastLen is the length of the key in a slot of an inline cluster, or that of the prefix of all
// keys where a leaf has the key, or where the cluster is damaged.
func (n *nodes) leastLen(c *cluster, slot int) int {
	place := n.byte(c.at + inlineTagsAt + c.capacity() + slot)
	tail := c.at + int(place)*n.entries.step + n.entries.head
	length := c.extent.prefix()
	if tail < c.at+c.extent.block() {
		if more := int(n.byte(tail)); more <= inlineTailMax {
			length += more
		}
	}
	return length
}

// borders is where the entries of a cluster part, for each slot from the one before.
type borders struct {
	base, leaves     int
	distances, bytes [clusterSlotsMax]byte
}

// borders reads the borders of a cluster's entries. No offset may be less than least.
func (n *nodes) borders(c *cluster, least int) (borders, *trouble) {
	b := borders{base: clusterBase(c.header), leaves: c.leaves()}
	at := c.bordersAt()
	n.fill(&b.distances, at, b.leaves)
	n.fill(&b.bytes, at+c.capacity(), b.leaves)
	if b.base >= least {
		return b, nil
	}
	for slot := 1; slot < b.leaves; slot++ {
		if b.offset(slot) < least {
			return b, damaged("entries that part before the branch above them", c.at)
		}
	}
	return b, nil
}

// fill copies bytes that lie inside the window, eight at once where the window has so many. What is
// behind them in the copy is any bytes.
func (n *nodes) fill(to *[clusterSlotsMax]byte, at, size int) {
	if at+clusterSlotsMax+8 > n.len() {
		n.append(to[:0], at, size)
		return
	}
	for i := 0; i < size && i < clusterSlotsMax; i += 8 {
		binary.LittleEndian.PutUint64(to[i:], n.bytes8(at+i))
	}
}

// offset is where the entry in a slot parts from the one before.
func (b *borders) offset(slot int) int { return b.base + int(b.distances[slot]) }

// search finds the slot of an entry that shares the longest prefix with a key. If the key is there,
// it is its slot.
func (b *borders) search(key []byte) int {
	const none = int(^uint(0) >> 1)
	found, least := 0, none
	for slot := 1; slot < b.leaves; slot++ {
		offset := b.offset(slot)
		if offset >= least {
			continue
		}
		if offset < len(key) && key[offset] >= b.bytes[slot] {
			found, least = slot, none
		} else {
			least = offset
		}
	}
	return found
}

// place is the first slot whose keys are greater than a key that is not there, or the number of
// slots. The key parts at a byte from the entry that search found, and is less than that entry's
// key if less.
func (b *borders) place(found, at int, less bool) int {
	slot := found
	if less {
		for slot > 0 && b.offset(slot) > at {
			slot--
		}
		return slot
	}
	for slot++; slot < b.leaves && b.offset(slot) > at; slot++ {
	}
	return slot
}

// between is the border between two slots that have only dead ones between them: the first of the
// least.
func (b *borders) between(left, right int) int {
	least := left + 1
	for slot := left + 2; slot <= right; slot++ {
		if b.offset(slot) < b.offset(least) {
			least = slot
		}
	}
	return least
}

// isNearer says whether the keys of a slot share more bytes with those of a slot before it than
// with those of one behind it.
func (b *borders) isNearer(before, slot, behind int) bool {
	return b.offset(b.between(before, slot)) > b.offset(b.between(slot, behind))
}

// part says whether two keys part as the border between their slots says. Slots between them are
// dead.
func (b *borders) part(left, right int, leftKey, rightKey []byte) bool {
	border := b.between(left, right)
	offset, label := b.offset(border), b.bytes[border]
	switch {
	case offset >= len(leftKey):
		if label != 0 {
			return false
		}
	case offset >= len(rightKey) || leftKey[offset] >= label || label > rightKey[offset]:
		return false
	}
	at, differ := mismatch(leftKey, rightKey)
	return differ && at == offset
}
