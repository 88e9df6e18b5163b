package sapwood

import (
	"encoding/binary"
	"fmt"
	"math"
	"sync/atomic"
)

// The checked reader of a published range map (core/checked/src/maple, docs/maple.md).

// tree is a range map in a window, whose header was read and is sound.
type tree struct {
	words
	valueBytes int
	// Bytes of a slot, and whether slots refer to values, which have blocks of their own.
	slot  int
	apart bool
}

func treeOf(w words) (tree, *trouble) {
	if w.len() < headerPage {
		return tree{}, damaged("no room for a header page", w.len())
	}
	size := w.u64(mapleValueBytesAt)
	if size >= uint64(w.len()) {
		return tree{}, damaged("values of a size that no map has", mapleValueBytesAt)
	}
	known, hash := false, w.u64(layoutHashAt)
	for _, align := range aligns {
		known = known || addedToHash(mapleNamed, size, uint64(align), mapleFormat) == hash
	}
	if !known {
		return tree{}, &trouble{err: ErrLayout, why: "no range map that this package knows has its layout hash"}
	}
	slot, apart := w.u64(mapleSlotAt), w.u64(mapleApartAt)
	switch {
	case apart == 0 && slot == size && slot <= 8:
		return tree{w, int(size), int(slot), false}, nil
	case apart == 1 && slot == 4:
		return tree{w, int(size), 4, true}, nil
	}
	return tree{}, damaged("slots that no map has", mapleSlotAt)
}

// treeCell is a cell on a path, as it was read.
type treeCell struct {
	at   int
	cell uint32
}

// treePath is the cells that lead from the root word to a leaf.
type treePath struct {
	root  uint64
	cells [mapleLevels]treeCell
	depth int
}

// isStill says whether the path is still that of the map.
func (p *treePath) isStill(t *tree) bool {
	if t.u64(mapleRootAt) != p.root {
		return false
	}
	for _, c := range p.cells[:p.depth] {
		if t.u32(c.at) != c.cell {
			return false
		}
	}
	return true
}

// after appends the value of the first range that ends at or after an index.
func (t *tree) after(to []byte, index uint64) (with []byte, span Span, found bool, wrong *trouble) {
	var path treePath
	with, span, found, wrong = t.search(to, index, &path)
	if !path.isStill(t) {
		return to, Span{}, false, changed
	}
	return with, span, found, wrong
}

func (t *tree) search(to []byte, index uint64, path *treePath) ([]byte, Span, bool, *trouble) {
	path.root = t.u64(mapleRootAt)
	if path.root == 0 {
		return to, Span{}, false, nil
	}
	height := int(path.root >> 32)
	if height > mapleLevels {
		return to, Span{}, false, damaged("a tree has more levels than there can be", mapleRootAt)
	}
	bounds, from, node := Span{0, math.MaxUint64}, mapleRootAt, uint32(path.root)
	for {
		at := int(node) * unitBytes
		if !t.inside(at, mapleLine) {
			return to, Span{}, false, damaged("a reference leads out of the memory", from)
		}
		if path.depth == height {
			return t.leaf(to, at, index, bounds)
		}
		cell, below, wrong := t.inner(at, index, bounds)
		if wrong != nil {
			return to, Span{}, false, wrong
		}
		node, from, bounds = t.u32(cell), cell, below
		path.cells[path.depth] = treeCell{cell, node}
		path.depth++
	}
}

// The most pivots of an inner node.
const treePivots = 128

// inner finds the place of the cell of the child whose bounds hold an index, and these bounds.
func (t *tree) inner(at int, index uint64, bounds Span) (cell int, below Span, wrong *trouble) {
	word := t.u64(at)
	n, filled, lines := int(word&0xff), int(word>>8&0xff), int(word>>24&0xff)
	switch {
	case word>>16&0xff != 0 || word>>33 != 0:
		return 0, below, damaged("an inner node has a head that there is not", at)
	case n < 2 || filled < n-1 || filled > treePivots || filled%4 != 0:
		return 0, below, damaged("an inner node has a wrong number of children", at)
	}
	size := (mapleInnerHead + 8*filled + 6*n + mapleLine - 1) &^ (mapleLine - 1)
	if lines*mapleLine != size || !t.inside(at, size) {
		return 0, below, damaged("an inner node does not have the bytes of its children", at)
	}
	pivot := func(i int) uint64 { return t.u64(at + mapleInnerHead + 8*i) }
	first, behind := 0, n-1
	for first < behind {
		middle := (first + behind) / 2
		if pivot(middle) < index {
			first = middle + 1
		} else {
			behind = middle
		}
	}
	below = bounds
	if first > 0 {
		below.First = pivot(first-1) + 1
	}
	if first < n-1 {
		below.Last = pivot(first)
	}
	if below.First < bounds.First || below.Last > bounds.Last || index < below.First || index > below.Last {
		return 0, below, damaged("an inner node's pivots are not within its bounds", at)
	}
	return at + mapleInnerHead + 8*filled + 4*first, below, nil
}

// leaf appends the value of the first entry that ends at or after an index. None is behind the last
// entry of the last leaf.
func (t *tree) leaf(to []byte, at int, index uint64, bounds Span) ([]byte, Span, bool, *trouble) {
	word := t.u64(at)
	n, width, shift, lines := int(word&0xff), int(word>>8&0xff), int(word>>16&0xff), int(word>>24&0xff)
	starts, values := int(word>>32&0xffff), int(word>>48)
	switch {
	case n == 0:
		return to, Span{}, false, damaged("a leaf has no entries", at)
	case width < 1 || width > 3 || shift > 63:
		return to, Span{}, false, damaged("a leaf has an encoding that there is not", at)
	}
	borders := n << width
	if starts != mapleLeafHead+borders || values != (starts+borders+7)&^7 {
		return to, Span{}, false, damaged("a leaf's arrays are not where they should be", at)
	}
	least := [...]int{0, mapleLeafRead1, mapleLeafRead2, mapleLeafRead3}
	size := max(values+n*t.slot, mapleLeafHead+least[width])
	if size = (size + mapleLine - 1) &^ (mapleLine - 1); lines*mapleLine != size || !t.inside(at, size) {
		return to, Span{}, false, damaged("a leaf does not have the bytes of its entries", at)
	}
	base := t.u64(at + 8)
	border := func(array, i int) uint64 {
		place := at + array + i<<width
		word := t.u64(place&^7) >> (8 * (place & 7))
		return word & (^uint64(0) >> (64 - 8<<width))
	}
	// An entry ends with the last index of its last unit.
	last := func(i int) uint64 { return base + (border(mapleLeafHead, i)<<shift | (1<<shift - 1)) }
	first, behind := 0, n
	for first < behind {
		middle := (first + behind) / 2
		if last(middle) < index {
			first = middle + 1
		} else {
			behind = middle
		}
	}
	if first == n {
		if bounds.Last != math.MaxUint64 {
			return to, Span{}, false, damaged("a leaf does not end at its bound", at)
		}
		return to, Span{}, false, nil
	}
	span := Span{base + border(starts, first)<<shift, last(first)}
	sound := span.First <= span.Last && index <= span.Last && bounds.First <= span.First && span.Last <= bounds.Last
	if !sound || first > 0 && last(first-1) >= span.First {
		return to, Span{}, false, damaged("a leaf's entries are not in order", at)
	}
	place := at + values + first*t.slot
	if t.apart {
		place = int(t.u32(place)) * unitBytes
		if !t.inside(place, max((t.valueBytes+7)&^7, unitBytes)) {
			return to, Span{}, false, damaged("a value lies out of the memory", at)
		}
	}
	return t.append(to, place, t.valueBytes), span, true, nil
}

// liveSpans is a live map of ranges, whose values may stand for texts.
type liveSpans struct {
	*live
	texts *liveTexts
	size  atomic.Int64
}

func openLiveRanges(path string) (*Ranges, error) {
	l, err := openLive(path, liveRanges)
	if err != nil {
		return nil, err
	}
	s := &liveSpans{live: l}
	err = attempted(l, path, func(v visit) *trouble {
		t, wrong := treeOf(v.words)
		s.size.Store(int64(t.valueBytes))
		return wrong
	})
	if err == nil && s.size.Load() == 4 {
		s.texts, err = openTexts(l)
	}
	if err != nil {
		_ = l.close()
		return nil, err
	}
	return &Ranges{s, path}, nil
}

func (s *liveSpans) close() error {
	err := s.live.close()
	if more := s.texts.close(); err == nil {
		err = more
	}
	return err
}

func (s *liveSpans) valueBytes() int {
	if s.texts != nil {
		return -1
	}
	return int(s.size.Load())
}

func (s *liveSpans) len() (int, error) {
	count := uint64(0)
	err := attempted(s.live, s.path, func(v visit) *trouble {
		t, wrong := treeOf(v.words)
		if wrong == nil {
			count = t.u64(mapleLenAt)
		}
		return wrong
	})
	return int(count), err
}

func (s *liveSpans) after(to []byte, index uint64) ([]byte, Span, bool, error) {
	if s.texts == nil {
		with, span, found, _, err := s.value(to, index)
		return with, span, found, err
	}
	for range textTries {
		var room [8]byte
		value, span, found, place, err := s.value(room[:0], index)
		if err != nil || !found {
			return to, Span{}, false, err
		}
		text, known, err := s.texts.text(binary.LittleEndian.Uint32(value), place)
		if err != nil {
			return to, Span{}, false, err
		}
		if known {
			return append(to, text...), span, true, nil
		}
	}
	return to, Span{}, false, fmt.Errorf("%s: %w", s.path, ErrBusy)
}

// value appends the value of the first range that ends at or after an index, and says at which
// place the map is.
func (s *liveSpans) value(to []byte, index uint64) (with []byte, span Span, found bool, place uint64,
	err error) {
	v, err := s.enter()
	if err != nil {
		return to, Span{}, false, 0, err
	}
	defer func() { err = left(s.live, v, recover(), err) }()
	for count := (attempts{}); ; {
		with, span, found, place := to, Span{}, false, s.placeOf(v.parts.state)
		t, wrong := treeOf(v.words)
		if wrong == nil {
			with, span, found, wrong = t.after(to, index)
		}
		if v, wrong = s.renew(v, wrong); wrong == nil {
			return with, span, found, place, nil
		}
		if count.areOver(wrong) {
			return to, Span{}, false, 0, wrong.of(s.path)
		}
	}
}
