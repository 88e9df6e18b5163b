package sapwood

import "math/bits"

// seen is a word that was read: its place, the bits that count, and the word.
type seen struct {
	at         int
	bits, word uint32
}

// lookup is one descent by the trie, whose words are read again before its answer counts. It checks
// what it needs so that it reads nothing outside the window: of a branch the header, and not the
// order of all labels. It compares the whole key, so it finds no wrong entry.
type lookup struct {
	root uint32
	// Room for what was read, and how many words were. Nobody writes a saved map, of which nothing
	// is recorded.
	seen  []seen
	count int
	saved bool
	// The cell of the leaf or cluster to which the key's path leads, or 0.
	end uint32
}

// seenRoom has room for the words of a lookup, of which most paths have no more. Who looks up has
// it, since a saved map needs none.
type seenRoom [64]seen

func (l *lookup) saw(at int, bits, word uint32) {
	if l.saved {
		return
	}
	if l.count == len(l.seen) {
		l.grow()
	}
	l.seen[l.count] = seen{at, bits, word}
	l.count++
}

// grow makes more room. It is no append, by which the caller's room would be on the heap.
func (l *lookup) grow() {
	more := make([]seen, 2*len(l.seen)+len(seenRoom{}))
	copy(more, l.seen)
	l.seen = more
}

// step is a branch on a path: the number of its unit, and its header.
type step struct{ unit, header uint32 }

func (s step) at() int { return int(s.unit) * unitBytes }

// trail is the branches on a key's path whose offsets are inside the key or at its end.
type trail struct {
	first [32]step
	count int
	more  []step
}

func (t *trail) add(at int, header uint32) {
	s := step{uint32(at / unitBytes), header}
	if t.count < len(t.first) {
		t.first[t.count] = s
	} else {
		t.more = append(t.more, s)
	}
	t.count++
}

func (t *trail) step(i int) step {
	if i < len(t.first) {
		return t.first[i]
	}
	return t.more[i-len(t.first)]
}

// descend follows a key's path to its end, and leaves a trail if there is one. If whole, it goes on
// where the key has ended, to the end of a path whose keys share most with the key.
func (l *lookup) descend(n *nodes, key []byte, trail *trail, whole bool) *trouble {
	l.count, l.end, l.saved = 0, 0, n.saved
	if trail != nil {
		trail.count, trail.more = 0, trail.more[:0]
	}
	l.root = n.root()
	cell, least := l.root, 0
	for cell != 0 && isBranch(cell) {
		at, header, t := n.branchHeader(cell, least)
		if t != nil {
			return t
		}
		l.saw(at, ^uint32(headLocks), header)
		offset := branchOffset(header)
		if offset > len(key) && !whole {
			return nil
		}
		if trail != nil && offset <= len(key) {
			trail.add(at, header)
		}
		child := 0
		if offset < len(key) {
			child = n.childOf(at, header, key[offset])
		}
		if child > branchLabels(header) {
			return damaged("a map of bytes that has other children", at)
		}
		place := at + branchCells(header) + 4*child
		cell = n.u32(place)
		l.saw(place, ^uint32(0), cell)
		if cell == 0 {
			return damaged("a branch with an empty cell", at)
		}
		least = offset + 1
	}
	l.end = cell
	return nil
}

// childOf is the child of a byte in a branch that lies inside the window.
func (n *nodes) childOf(at int, header uint32, c byte) int {
	if header&headBig != 0 {
		return childOfMap(header, n.byte(at+branchMapAt+int(c)))
	}
	// Four labels at once, in lanes of 16 bits: the bit above a byte stays where the label is not
	// greater.
	const lanes, bit = 0x00ff00ff00ff00ff, 0x0100010001000100
	labels, child := branchLabels(header), 0
	most := (uint64(c) | 1<<8) * (bit >> 8)
	for first := 0; first < labels; first += 4 {
		four := uint64(n.u32(at + branchLabelsAt + first))
		four = (four | four<<16) & 0x0000ffff0000ffff
		four = (four | four<<8) & lanes
		hits := (most - four) & bit
		if left := labels - first; left < 4 {
			hits &= 1<<(16*left) - 1
		}
		child += int(hits >> 8 * (bit >> 8) >> 48)
	}
	return child
}

// cluster reads a cluster, and records its header for a second look.
func (l *lookup) cluster(n *nodes, end uint32) (cluster, *trouble) {
	c, t := n.cluster(end)
	if t == nil {
		l.saw(c.at, ^uint32(headFresh), c.header)
		if c.inline {
			l.saw(c.at+4, ^uint32(0), uint32(c.extent))
		}
	}
	return c, t
}

// slot reads the entry in a slot, unless it is dead, and records the word that says where it is.
func (l *lookup) slot(n *nodes, c *cluster, slot int) (entry, bool, *trouble) {
	e, live, place, t := n.slot(c, slot)
	l.saw(place.at, ^uint32(0), place.word)
	return e, live, t
}

// find finds the entry of a key.
func (l *lookup) find(n *nodes, key []byte) (entry, bool, *trouble) {
	if t := l.descend(n, key, nil, false); t != nil || l.end == 0 {
		return entry{}, false, t
	}
	return l.findIn(n, l.end, key)
}

// findIn finds the entry of a key in a leaf or a cluster.
func (l *lookup) findIn(n *nodes, end uint32, key []byte) (entry, bool, *trouble) {
	if end&cellKind == cellLeaf {
		leaf, t := n.leaf(end)
		return leaf, t == nil && n.hasKey(&leaf, key), t
	}
	c, t := l.cluster(n, end)
	if t != nil {
		return entry{}, false, t
	}
	wanted, leaves := tagOf(key), c.leaves()
	for first := 0; first < leaves; first += 4 {
		tags := n.u32(c.tagsAt() + first)
		// The top bit of a byte is set where the tag is wanted, and perhaps in one above such a byte.
		differ := tags ^ uint32(wanted)*0x01010101
		for hits := (differ - 0x01010101) &^ differ & 0x80808080; hits != 0; hits &= hits - 1 {
			i := bits.TrailingZeros32(hits) / 8
			if byte(tags>>(8*i)) != wanted || first+i >= leaves {
				continue
			}
			e, live, t := l.slot(n, &c, first+i)
			if t != nil {
				return e, false, t
			}
			if live && n.hasKey(&e, key) {
				return e, true, nil
			}
		}
	}
	return entry{}, false, nil
}

// each calls do with the entries at the path's end.
func (l *lookup) each(n *nodes, do func(e entry)) *trouble {
	if l.end&cellKind == cellLeaf {
		leaf, t := n.leaf(l.end)
		if t == nil {
			do(leaf)
		}
		return t
	}
	c, t := l.cluster(n, l.end)
	if t != nil {
		return t
	}
	for slot := range c.leaves() {
		e, live, t := l.slot(n, &c, slot)
		if t != nil {
			return t
		}
		if live {
			do(e)
		}
	}
	return nil
}

// near calls do with entries at the path's end that may be prefixes of a key, or differ from one in
// their last byte, and with the number of bytes that they share with the key, as long as goesOn
// says so of this number; the one that shares most comes first, in an inline cluster. It returns
// the most bytes that an entry shares with the key. Where the borders of a cluster are damaged, the
// numbers are wrong.
func (l *lookup) near(n *nodes, key []byte, goesOn func(shared int) bool,
	do func(e entry, shared int)) (int, *trouble) {
	most := -1
	if l.end&cellKind != cellInline || !n.inline {
		t := l.each(n, func(e entry) {
			shared := n.common(&e, key)
			most = max(most, shared)
			do(e, shared)
		})
		return most, t
	}
	c, t := l.cluster(n, l.end)
	if t != nil {
		return -1, t
	}
	b, t := n.borders(&c, 0)
	if t != nil {
		return -1, t
	}
	// Prefixes of the key sort before it.
	shared := 0
	for slot := b.search(key); slot >= 0; slot-- {
		if most >= 0 {
			shared = min(shared, b.offset(slot+1))
			if !goesOn(shared) {
				break
			}
			// Most entries are too long, which costs less to see than to read them.
			if n.leastLen(&c, slot) > shared+1 {
				continue
			}
		}
		e, _, t := l.slot(n, &c, slot)
		if t != nil {
			return -1, t
		}
		if most < 0 {
			most = n.common(&e, key)
			shared = most
		}
		do(e, shared)
	}
	return most, nil
}

// lookAgain reads all words again. A writer may be changing the bytes that look damaged.
func (l *lookup) lookAgain(n *nodes) *trouble {
	if n.root() != l.root {
		return changed
	}
	for i := range l.seen[:l.count] {
		if s := &l.seen[i]; n.u32(s.at)&s.bits != s.word {
			return changed
		}
	}
	return nil
}

// get appends the value of a key, if the words of the path are unchanged after the read.
func (l *lookup) get(n *nodes, to, key []byte) ([]byte, bool, *trouble) {
	e, found, t := l.find(n, key)
	if t == nil && found {
		to = n.append(to, e.value.at, e.value.len)
	}
	if again := l.lookAgain(n); again != nil {
		return nil, false, again
	}
	return to, found, t
}

// longestPrefix is the length of the longest prefix of a key that is a key of the trie, and its
// value, as for get.
func (l *lookup) longestPrefix(n *nodes, query []byte) (int, []byte, bool, *trouble) {
	var path trail
	e, found, t := l.longestAtEnd(n, query, &path)
	var value []byte
	if found {
		value = n.value(&e)
	}
	if again := l.lookAgain(n); again != nil {
		return 0, nil, false, again
	}
	if t != nil || found {
		return e.keyLen(), value, found, t
	}
	// All keys below a branch agree up to its offset. So a prefix that is not at the path's end is as
	// long as the offset of a branch on the path.
	for i := path.count - 1; i >= 0; i-- {
		offset := branchOffset(path.step(i).header)
		value, found, t := l.get(n, []byte{}, query[:offset])
		if t != nil || found {
			return offset, value, found, t
		}
	}
	return 0, nil, false, nil
}

// longestAtEnd is the entry at the end of a key's path whose key is the key's longest prefix.
func (l *lookup) longestAtEnd(n *nodes, query []byte, path *trail) (longest entry, found bool, t *trouble) {
	if t := l.descend(n, query, path, false); t != nil || l.end == 0 {
		return entry{}, false, t
	}
	t = l.each(n, func(e entry) {
		longer := !found || longest.keyLen() < e.keyLen()
		if longer && e.keyLen() <= len(query) && n.hasKey(&e, query[:e.keyLen()]) {
			longest, found = e, true
		}
	})
	return longest, t == nil && found, t
}
