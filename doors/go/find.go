package sapwood

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
	// What was read: the first words, of which most paths have no more, and the others.
	first [32]seen
	count int
	more  []seen
	// The offsets of the branches on the path, which the search for a prefix needs.
	offsets []int
	// The cell of the leaf or cluster to which the key's path leads, or 0.
	end uint32
}

func (l *lookup) saw(at int, bits, word uint32) {
	if l.count < len(l.first) {
		l.first[l.count] = seen{at, bits, word}
		l.count++
	} else {
		l.more = append(l.more, seen{at, bits, word})
	}
}

// descend follows a key's path to its end.
func (l *lookup) descend(n *nodes, key []byte) *trouble {
	l.count, l.more, l.offsets, l.end = 0, l.more[:0], l.offsets[:0], 0
	l.root = n.root()
	cell, least := l.root, 0
	for cell != 0 && isBranch(cell) {
		at, header, t := n.branchHeader(cell, least)
		if t != nil {
			return t
		}
		l.saw(at, ^uint32(headLocks), header)
		offset := branchOffset(header)
		if offset > len(key) {
			return nil
		}
		if l.offsets != nil {
			l.offsets = append(l.offsets, offset)
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
	labels, child := branchLabels(header), 0
	for first := 0; first < labels; first += 4 {
		word := n.u32(at + branchLabelsAt + first)
		for i := range min(labels-first, 4) {
			if byte(word>>(8*i)) <= c {
				child++
			}
		}
	}
	return child
}

// cluster reads the cluster at the path's end, and records its header for a second look.
func (l *lookup) cluster(n *nodes) (cluster, *trouble) {
	c, t := n.cluster(l.end)
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
	if t := l.descend(n, key); t != nil || l.end == 0 {
		return entry{}, false, t
	}
	if l.end&cellKind == cellLeaf {
		leaf, t := n.leaf(l.end)
		return leaf, t == nil && n.hasKey(&leaf, key), t
	}
	c, t := l.cluster(n)
	if t != nil {
		return entry{}, false, t
	}
	wanted, leaves := tagOf(key), c.leaves()
	for first := 0; first < leaves; first += 4 {
		tags := n.u32(c.tagsAt() + first)
		for i := range min(leaves-first, 4) {
			if byte(tags>>(8*i)) != wanted {
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

// lookAgain reads all words again. A writer may be changing the bytes that look damaged.
func (l *lookup) lookAgain(n *nodes) *trouble {
	if n.root() != l.root {
		return changed
	}
	for _, words := range [...][]seen{l.first[:l.count], l.more} {
		for i := range words {
			if s := &words[i]; n.u32(s.at)&s.bits != s.word {
				return changed
			}
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
	l.offsets = make([]int, 0, len(l.first))
	e, found, t := l.longestAtEnd(n, query)
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
	offsets := l.offsets
	l.offsets = nil
	for i := len(offsets) - 1; i >= 0; i-- {
		value, found, t := l.get(n, []byte{}, query[:offsets[i]])
		if t != nil || found {
			return offsets[i], value, found, t
		}
	}
	return 0, nil, false, nil
}

// longestAtEnd is the entry at the end of a key's path whose key is the key's longest prefix.
func (l *lookup) longestAtEnd(n *nodes, query []byte) (entry, bool, *trouble) {
	if t := l.descend(n, query); t != nil || l.end == 0 {
		return entry{}, false, t
	}
	isPrefix := func(e *entry) bool {
		return e.keyLen() <= len(query) && n.hasKey(e, query[:e.keyLen()])
	}
	if l.end&cellKind == cellLeaf {
		leaf, t := n.leaf(l.end)
		return leaf, t == nil && isPrefix(&leaf), t
	}
	c, t := l.cluster(n)
	if t != nil {
		return entry{}, false, t
	}
	var longest entry
	found := false
	for slot := range c.leaves() {
		e, live, t := l.slot(n, &c, slot)
		if t != nil {
			return e, false, t
		}
		if live && (!found || longest.keyLen() < e.keyLen()) && isPrefix(&e) {
			longest, found = e, true
		}
	}
	return longest, found, nil
}
