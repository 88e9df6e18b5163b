package sapwood

import "math/bits"

// nodes reads the nodes of a window, for one operation. What is read is checked before it is used:
// a reference is followed only to bytes inside the window.
type nodes struct {
	words
	// Bytes of a value, which lies before the key; 0 when values are byte strings.
	valueBytes int
	// Whether values are byte strings, which lie behind the key.
	strings bool
	// Whether there may be inline clusters, and the layout of their entries.
	inline  bool
	entries entries
	// Whether slots of clusters of cells may be dead.
	deadSlots bool
	// Whether programs write the map.
	programs bool
	// Of a saved map: its root cell and the number of its entries, which the header page of other
	// maps has.
	saved     bool
	savedRoot uint32
	savedLen  int
}

// nodesOf finds the nodes in a window. The header page of a map that programs write has the bytes
// of a value alone. Layouts that were seen before are in the cache.
func nodesOf(w words, programs bool, seen *layout) (nodes, *layout, *trouble) {
	if w.len() < headerPage {
		return nodes{}, nil, damaged("no room for a header page", w.len())
	}
	size := w.u64(valueBytesAt)
	strings := size == byteStrings && !programs
	if size%8 != 0 && !strings || size >= uint64(w.len()) {
		return nodes{}, nil, damaged("values of a size that no map has", valueBytesAt)
	}
	n := nodes{words: w, valueBytes: int(size), strings: strings}
	if strings {
		n.valueBytes = 0
	}
	if programs {
		// The hash lies where programs write, too.
		n.deadSlots, n.programs = true, true
		return n, nil, nil
	}
	hash := w.u64(layoutHashAt)
	if seen == nil || seen.hash != hash || seen.valueBytes != size {
		found, known := layoutOf(size, hash, strings)
		if !known {
			return n, nil, &trouble{err: ErrLayout, why: "no map that this package knows has its layout hash"}
		}
		seen = &found
	}
	align := seen.align
	if strings {
		align = 1
	}
	n.inline = seen.format == formatInline
	n.entries = entriesOf(n.valueBytes, align)
	n.deadSlots = seen.format == formatShared
	return n, seen, nil
}

func (n *nodes) root() uint32 {
	if n.saved {
		return n.savedRoot
	}
	return uint32(n.u64(rootAt))
}

// statedLen is the number of entries that a store or a saved map states; false of other maps.
func (n *nodes) statedLen() (int, bool) {
	if n.saved {
		return n.savedLen, true
	}
	stated := int(n.u64(rootAt) >> 32)
	return stated, stated > 0 && !n.programs
}

// hasOnlyIndex says whether the map has an index and no trie.
func (n *nodes) hasOnlyIndex() bool { return !n.saved && n.u64(hasIndexAt) == onlyIndex }

// branch is a branch whose header and labels were read and are consistent.
type branch struct {
	at     int
	header uint32
	// The labels, one bit each.
	labels [4]uint64
}

func (b *branch) offset() int   { return branchOffset(b.header) }
func (b *branch) children() int { return branchLabels(b.header) + 1 }

// child is the child that a key belongs to: the number of labels that are not greater than its
// byte.
func (b *branch) child(key []byte) int {
	if b.offset() >= len(key) {
		return 0
	}
	c := key[b.offset()]
	count := bits.OnesCount64(b.labels[c/64] & (^uint64(0) >> (63 - c%64)))
	for _, word := range b.labels[:c/64] {
		count += bits.OnesCount64(word)
	}
	return count
}

// add adds a label, and says whether it is greater than all labels before it.
func (b *branch) add(label byte) bool {
	word, bit := label/64, uint64(1)<<(label%64)
	ascends := b.labels[word] < bit
	for _, later := range b.labels[word+1:] {
		ascends = ascends && later == 0
	}
	b.labels[word] |= bit
	return ascends
}

// branchHeader finds the place and the header of a cell's branch, which lies inside the window. Its
// offset must be at least least.
func (n *nodes) branchHeader(cell uint32, least int) (int, uint32, *trouble) {
	at := byteOf(cell)
	if !isBranch(cell) || !n.inside(at, 16) {
		return at, 0, damaged("a branch outside the window", at)
	}
	header := n.u32(at) &^ headLocks
	if !branchIsSound(header, least) {
		return at, 0, damaged("no branch has such a header here", at)
	}
	if !n.inside(at, branchBlock(header)) {
		return at, 0, damaged("a branch that ends outside the window", at)
	}
	return at, header, nil
}

// branch reads the branch of a cell, whose offset must be at least least.
func (n *nodes) branch(cell uint32, least int) (branch, *trouble) {
	at, header, t := n.branchHeader(cell, least)
	b := branch{at: at, header: header}
	if t != nil {
		return b, t
	}
	labels := branchLabels(header)
	if header&headBig == 0 {
		for i := 0; i < labels; i += 4 {
			word := n.u32(at + branchLabelsAt + i)
			for j := range min(labels-i, 4) {
				if !b.add(byte(word >> (8 * j))) {
					return b, damaged("labels that do not ascend", at)
				}
			}
		}
		return b, nil
	}
	before := 0
	for first := 0; first < 256; first += 4 {
		word := n.u32(at + branchMapAt + first)
		for j := range 4 {
			child := childOfMap(header, byte(word>>(8*j)))
			switch child {
			case before + 1:
				b.add(byte(first + j))
			case before:
			default:
				return b, damaged("a map of bytes that skips children", at)
			}
			before = child
		}
	}
	if before != labels {
		return b, damaged("a map of bytes that has not all children", at)
	}
	return b, nil
}

// cell is the cell of a branch's child.
func (n *nodes) cell(b *branch, child int) uint32 {
	return n.u32(b.at + branchCells(b.header) + 4*child)
}

// isStill says whether a branch still has the header that was read.
func (n *nodes) isStill(b *branch) bool { return n.u32(b.at)&^headLocks == b.header }

// piece is some bytes of a window.
type piece struct{ at, len int }

// entry is an entry that lies inside the window: a leaf, or an entry in an inline cluster.
type entry struct {
	at int
	// What a cluster's keys share, which a leaf has not, and the rest of the key.
	prefix, rest piece
	value        piece
}

func (e *entry) keyLen() int { return e.prefix.len + e.rest.len }

// leaf reads the leaf of a cell.
func (n *nodes) leaf(cell uint32) (entry, *trouble) {
	at := byteOf(cell)
	if cell&cellKind != cellLeaf || !n.inside(at, n.valueBytes&^7+8) {
		return entry{}, damaged("a leaf outside the window", at)
	}
	// Values of saved maps may end inside a word, which has the length's first byte then.
	length := at + n.valueBytes
	word := n.u64(length&^7) >> (8 * (length & 7))
	keyAt, keyLen := length+1, int(word&0xff)
	if keyLen == keyLong {
		if !n.inside(keyAt, 2) {
			return entry{}, damaged("a leaf that ends outside the window", at)
		}
		keyAt, keyLen = keyAt+2, int(n.byte(keyAt))|int(n.byte(keyAt+1))<<8
		if keyLen < keyLong {
			return entry{}, damaged("a length that is written as if it were longer", at)
		}
	}
	behind := 0
	if n.strings {
		behind = 1
	}
	end := keyAt + keyLen
	if !n.inside(at, end-at+behind) {
		return entry{}, damaged("a leaf that ends outside the window", at)
	}
	leaf := entry{at: at, prefix: piece{keyAt, 0}, rest: piece{keyAt, keyLen}, value: piece{at, n.valueBytes}}
	if !n.strings {
		return leaf, nil
	}
	var t *trouble
	leaf.value, t = n.stringAt(end, at)
	return leaf, t
}

// stringAt finds a byte string behind the key of a leaf. The first byte of its length lies inside
// the window.
func (n *nodes) stringAt(at, leaf int) (piece, *trouble) {
	const outside = "a value that ends outside the window"
	length, shortest := 1, 0
	switch n.byte(at) {
	case valueU16:
		length, shortest = 3, valueU16
	case valueU32:
		length, shortest = 5, 1<<16
	}
	if !n.inside(at, length) {
		return piece{}, damaged(outside, leaf)
	}
	size := int(n.byte(at))
	if length > 1 {
		size = 0
		for i := length - 1; i > 0; i-- {
			size = size<<8 | int(n.byte(at+i))
		}
	}
	if size < shortest {
		return piece{}, damaged("a value's length that is written as if it were longer", leaf)
	}
	if !n.inside(at, length+size) {
		return piece{}, damaged(outside, leaf)
	}
	return piece{at + length, size}, nil
}

// key copies the key of an entry.
func (n *nodes) key(e *entry) []byte {
	key := make([]byte, 0, e.keyLen())
	key = n.append(key, e.prefix.at, e.prefix.len)
	return n.append(key, e.rest.at, e.rest.len)
}

// hasKey says whether an entry has this key.
func (n *nodes) hasKey(e *entry, key []byte) bool {
	return e.keyLen() == len(key) && n.equal(e.rest.at, key[e.prefix.len:]) &&
		n.equal(e.prefix.at, key[:e.prefix.len])
}

// common is the length of the longest common prefix of an entry's key and another key.
func (n *nodes) common(e *entry, key []byte) int {
	at := n.commonFrom(e.prefix, key)
	if at < e.prefix.len {
		return at
	}
	return at + n.commonFrom(e.rest, key[at:])
}

// commonFrom is the length of the longest common prefix of bytes inside the window and others.
func (n *nodes) commonFrom(p piece, b []byte) int {
	return n.words.common(p.at, b[:min(p.len, len(b))])
}

// keyByte is a byte of an entry's key.
func (n *nodes) keyByte(e *entry, i int) byte {
	if i < e.prefix.len {
		return n.byte(e.prefix.at + i)
	}
	return n.byte(e.rest.at + i - e.prefix.len)
}

// value copies the value of an entry.
func (n *nodes) value(e *entry) []byte { return n.copy(e.value.at, e.value.len) }

// mismatch is the length of the longest common prefix of two keys; false when they are equal.
func mismatch(a, b []byte) (int, bool) {
	i := 0
	for i < len(a) && i < len(b) && a[i] == b[i] {
		i++
	}
	return i, i < len(a) || i < len(b)
}
