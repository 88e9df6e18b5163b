package sapwood

import (
	"math/bits"
	"net/netip"
	"slices"
)

// The checked reader of a published table of prefixes (core/checked/src/lpm, docs/lpm.md).

// address is the bits of an address from the top, those of IPv4 with zeros behind them.
type address struct{ high, low uint64 }

func addressOf(a netip.Addr) (all address, width int) {
	if a.Is4() {
		b := a.As4()
		high := uint64(b[0])<<56 | uint64(b[1])<<48 | uint64(b[2])<<40 | uint64(b[3])<<32
		return address{high: high}, 32
	}
	b := a.As16()
	for i := range 8 {
		all.high, all.low = all.high<<8|uint64(b[i]), all.low<<8|uint64(b[8+i])
	}
	return all, 128
}

// addr is the address of this width.
func (a address) addr(width int) netip.Addr {
	var b [16]byte
	for i := range 8 {
		b[i], b[8+i] = byte(a.high>>(56-8*i)), byte(a.low>>(56-8*i))
	}
	if width == 32 {
		return netip.AddrFrom4([4]byte(b[:4]))
	}
	return netip.AddrFrom16(b)
}

// from is the 64 bits behind the first ones.
func (a address) from(depth int) uint64 {
	switch {
	case depth == 0:
		return a.high
	case depth < 64:
		return a.high<<depth | a.low>>(64-depth)
	case depth < 128:
		return a.low << (depth - 64)
	}
	return 0
}

// six is the six bits behind the first ones.
func (a address) six(depth int) int { return int(a.from(depth) >> (64 - lpmStride)) }

// or is the address with some of its bits set: those of a number, from a place on.
func (a address) or(word uint64, depth int) address {
	switch {
	case depth < 64:
		a.high |= word >> depth
		if depth > 0 {
			a.low |= word << (64 - depth)
		}
	case depth < 128:
		a.low |= word >> (depth - 64)
	}
	return a
}

// first is the first bits alone.
func (a address) first(n int) address {
	switch {
	case n >= 128:
	case n >= 64:
		a.low &^= ^uint64(0) >> (n - 64)
	default:
		a.high &^= ^uint64(0) >> n
		a.low = 0
	}
	return a
}

// prefixSet is a set of prefixes inside a stride: bit 1 << length | bits.
type prefixSet [2]uint64

func (s prefixSet) has(heap int) bool { return s[heap>>6]>>(heap&63)&1 != 0 }

// rank is the number of prefixes before one. The lowest bit is no prefix's.
func (s prefixSet) rank(heap int) int {
	low := s[0] &^ 1
	if heap < 64 {
		return bits.OnesCount64(low & (1<<heap - 1))
	}
	return bits.OnesCount64(low) + bits.OnesCount64(s[1]&(1<<(heap&63)-1))
}

func (s prefixSet) len() int { return bits.OnesCount64(s[0]&^1) + bits.OnesCount64(s[1]) }

// fib is a published table of one family, whose header was read and is sound.
type fib struct {
	words
	valueBytes int
	// Bits of an address, and those that the root resolves.
	width, bits int
	// The place of the root words.
	root int
}

// fibOf finds the table of addresses of a width in a window.
func fibOf(w words, width int) (fib, *trouble) {
	if w.len() < headerPage {
		return fib{}, damaged("no room for a header page", w.len())
	}
	size := w.u64(lpmValueBytesAt)
	if size%4 != 0 || size >= uint64(w.len()) {
		return fib{}, damaged("values of a size that no table has", lpmValueBytesAt)
	}
	if w.u64(lpmWidthAt) != uint64(width) {
		return fib{}, damaged("addresses that no table has here", lpmWidthAt)
	}
	known, hash := false, w.u64(layoutHashAt)
	for _, align := range aligns {
		known = known || addedToHash(lpmNamed, uint64(width), size, uint64(align), lpmFormat) == hash
	}
	if !known {
		return fib{}, &trouble{err: ErrLayout, why: "no table that this package knows has its layout hash"}
	}
	word := w.u64(lpmRootAt)
	f := fib{w, int(size), width, int(word >> 32), int(uint32(word)) * unitBytes}
	known = f.bits == 6 || f.bits == 12 || f.bits == 18 || f.bits == 24
	if !known || !w.inside(f.root, unitBytes<<f.bits) {
		return fib{}, damaged("a root that does not lie inside the window", lpmRootAt)
	}
	return f, nil
}

// slotOf is the slot of the root that an address belongs to.
func (f *fib) slotOf(a address) int { return int(a.high >> (64 - f.bits)) }

// rootWord is the word of a slot of the root.
func (f *fib) rootWord(slot int) uint64 { return f.u64(f.root + unitBytes*slot) }

// parts are the node below a root word, the length of the value's prefix, and the value or 0.
func (f *fib) parts(slot int, word uint64) (child uint32, length int, value uint32, t *trouble) {
	child, mark := uint32(word)&lpmRef, int(uint32(word)>>lpmWordMark)
	value = uint32(word >> lpmWordValue)
	if value > lpmRef || (mark == 0) != (value == 0) || mark > f.bits+1 {
		return 0, 0, 0, damaged("no root word has such bits", f.root+unitBytes*slot)
	}
	return child, mark - 1, value, nil
}

// block is the place of a block of some bytes at least.
func (f *fib) block(reference uint32, n int, why string) (int, *trouble) {
	at := int(reference) * unitBytes
	if reference > lpmRef || !f.inside(at, n) {
		return at, damaged(why, at)
	}
	return at, nil
}

// fibNode is a node, or a lone prefix in the place of one, that lies inside the window.
type fibNode struct {
	at int
	// Of a lone prefix: its bits, their number and its value.
	lone   bool
	word   uint64
	length int
	value  uint32
	// Of a node: its runs, the prefixes that end inside it, and the place of their values.
	runs   uint64
	set    prefixSet
	values int
}

// The most prefixes that end inside a node.
const fibCountMax = 126

func fibTail(at, runs int) int { return at + (lpmNodeSlots+4*runs+7)&^7 }

// node reads the node at a reference, behind some bits of addresses.
func (f *fib) node(reference uint32, depth int) (fibNode, *trouble) {
	at, t := f.block(reference, lpmLoneBytes, "a node outside the window")
	if t != nil {
		return fibNode{}, t
	}
	left := f.width - depth
	if left <= 0 {
		return fibNode{}, damaged("a node below the last bit", at)
	}
	runs := f.u64(at + lpmNodeRuns)
	count := int(f.u32(at+lpmNodeCount) &^ lpmFresh)
	if runs&1 == 0 {
		length := max(63-bits.TrailingZeros64(runs), 0)
		value := f.u32(at + lpmLoneValue)
		sound := lpmStride < length && length <= min(left, lpmLoneMax) && count == 1 && 1 <= value && value <= lpmRef
		if !sound {
			return fibNode{}, damaged("no lone prefix has such words here", at)
		}
		return fibNode{at: at, lone: true, word: runs, length: length, value: value}, nil
	}
	cells := bits.OnesCount64(runs)
	size := fibTail(0, cells)
	if count > 0 {
		size += lpmSet + 4*count
	}
	if count > fibCountMax || !f.inside(at, size) {
		return fibNode{}, damaged("a node that ends outside the window", at)
	}
	tail := fibTail(at, cells)
	n := fibNode{at: at, runs: runs, values: tail + lpmSet}
	if count > 0 {
		n.set = prefixSet{f.u64(tail), f.u64(tail + 8)}
	}
	tooLong := false
	switch {
	case left >= lpmStride:
	case left == 5:
		tooLong = n.set[1] != 0
	default:
		tooLong = n.set[1] != 0 || n.set[0]>>(2<<left) != 0
	}
	if n.set[0]&3 != 0 || n.set.len() != count || tooLong {
		return fibNode{}, damaged("no node has such a set of prefixes here", at)
	}
	return n, nil
}

// matches says whether a lone prefix matches the bits of an address from the node on.
func (n *fibNode) matches(rest uint64) bool { return n.word^rest < (n.word&-n.word)<<1 }

// valueAt is the value of a prefix of a set, as a reference.
func (f *fib) valueAt(values int, set prefixSet, heap int) (uint32, *trouble) {
	at := values + 4*set.rank(heap)
	value := f.u32(at)
	if value == 0 || value > lpmRef {
		return 0, damaged("a prefix without a value", at)
	}
	return value, nil
}

// below is the node below a slot of a node, or 0.
func (f *fib) below(n *fibNode, slot int) (uint32, *trouble) {
	run := bits.OnesCount64(n.runs<<(lpmSlots-1-slot)) - 1
	cell := f.u32(n.at + lpmNodeSlots + 4*run)
	if cell&lpmChild == 0 {
		return 0, nil
	}
	if child := cell &^ uint32(lpmChild); 0 < child && child <= lpmRef {
		return child, nil
	}
	return 0, damaged("a cell that refers to no node", n.at)
}

// shelf is a block of root prefixes that lies inside the window.
type shelf struct {
	at, depth int
	set       prefixSet
	kids      uint64
}

// shelf reads the block of root prefixes at a reference, behind some bits of addresses.
func (f *fib) shelf(word uint64, depth int) (shelf, *trouble) {
	at, t := f.block(uint32(min(word, 1<<32-1)), lpmShelfValues, "root prefixes outside the window")
	if t != nil {
		return shelf{}, t
	}
	s := shelf{at, depth, prefixSet{f.u64(at), f.u64(at + 8)}, f.u64(at + lpmShelfKids)}
	if s.set[0]&2 != 0 && depth > 0 || s.kids != 0 && depth+lpmStride >= f.bits {
		return shelf{}, damaged("no block of root prefixes has such bits here", at)
	}
	size := (lpmShelfValues + 4*(s.set.len()+bits.OnesCount64(s.kids)) + 7) &^ 7
	if !f.inside(at, size) {
		return shelf{}, damaged("root prefixes that end outside the window", at)
	}
	return s, nil
}

// kid is the word of the block below a slot, or 0.
func (f *fib) kid(s *shelf, slot int) uint64 {
	if s.kids>>slot&1 == 0 {
		return 0
	}
	before := bits.OnesCount64(s.kids & (1<<slot - 1))
	return uint64(f.u32(s.at + lpmShelfValues + 4*(s.set.len()+before)))
}

// appendValue appends the bytes of a value.
func (f *fib) appendValue(to []byte, reference uint32) ([]byte, *trouble) {
	// Behind the value comes a number, which only the writer uses.
	at, t := f.block(reference, f.valueBytes+4, "a value outside the window")
	if t != nil {
		return to, t
	}
	return f.append(to, at, f.valueBytes), nil
}

// covering appends the value of the longest prefix that covers the first bits of an address, and
// says how long it is; -1 when there is none. What a root word reaches does not change until it is
// freed, which is after the word has changed.
func (f *fib) covering(to []byte, a address, most int) ([]byte, int, *trouble) {
	slot, blocks := f.slotOf(a), f.u64(lpmShelfAt)
	word := f.rootWord(slot)
	with, length, t := f.longest(to, a, most, slot, word, blocks)
	if f.rootWord(slot) != word || most < f.width && f.u64(lpmShelfAt) != blocks {
		return to, -1, changed
	}
	return with, length, t
}

func (f *fib) longest(to []byte, a address, most, slot int, word, blocks uint64) ([]byte, int, *trouble) {
	node, length, value, t := f.parts(slot, word)
	if t != nil {
		return to, -1, t
	}
	if most < f.width {
		// The word has the longest prefix that the root resolves, which may be too long.
		if length, value, t = f.above(a, most, blocks); t != nil {
			return to, -1, t
		}
	}
	for depth := f.bits; node != 0 && depth < most; depth += lpmStride {
		n, t := f.node(node, depth)
		if t != nil {
			return to, -1, t
		}
		if n.lone {
			if depth+n.length <= most && n.matches(a.from(depth)) {
				length, value = depth+n.length, n.value
			}
			break
		}
		// The prefix of the whole stride, then shorter ones.
		here := a.six(depth)
		heap := lpmSlots | here
		if left := most - depth; left < lpmStride {
			heap >>= lpmStride - left
		}
		for heap > 1 && !n.set.has(heap) {
			heap >>= 1
		}
		if heap > 1 {
			length = depth + bits.Len(uint(heap)) - 1
			if value, t = f.valueAt(n.values, n.set, heap); t != nil {
				return to, -1, t
			}
		}
		if node, t = f.below(&n, here); t != nil {
			return to, -1, t
		}
	}
	if value == 0 {
		return to, -1, nil
	}
	to, t = f.appendValue(to, value)
	return to, length, t
}

// above is the longest prefix that the root resolves, of those that cover the first bits.
func (f *fib) above(a address, most int, blocks uint64) (length int, value uint32, t *trouble) {
	for depth := 0; blocks != 0 && depth <= most; depth += lpmStride {
		s, t := f.shelf(blocks, depth)
		if t != nil {
			return -1, 0, t
		}
		here := a.six(depth)
		for more := min(depth, 1); more <= lpmStride && depth+more <= most; more++ {
			if heap := 1<<more | here>>(lpmStride-more); s.set.has(heap) {
				length = depth + more
				if value, t = f.valueAt(s.at+lpmShelfValues, s.set, heap); t != nil {
					return -1, 0, t
				}
			}
		}
		blocks = f.kid(&s, here)
	}
	return length, value, nil
}

// fibEntry is a prefix of a table, and its value.
type fibEntry struct {
	a      address
	length int
	value  []byte
}

func (e fibEntry) compare(other fibEntry) int {
	switch {
	case e.a.high != other.a.high:
		return compareWords(e.a.high, other.a.high)
	case e.a.low != other.a.low:
		return compareWords(e.a.low, other.a.low)
	}
	return e.length - other.length
}

func compareWords(a, b uint64) int {
	if a < b {
		return -1
	}
	return 1
}

// slot reads the prefixes that begin in a slot of the root, in order.
func (f *fib) slot(slot int) ([]fibEntry, *trouble) {
	blocks, word := f.u64(lpmShelfAt), f.rootWord(slot)
	if word == 0 {
		// Where a prefix of the root begins, the word has the prefix or a longer one.
		return nil, nil
	}
	c := collecting{f: f, left: f.len() / 16}
	t := c.slot(slot, word, blocks)
	if f.rootWord(slot) != word || f.u64(lpmShelfAt) != blocks {
		return nil, changed
	}
	if t != nil {
		return nil, t
	}
	slices.SortFunc(c.all, fibEntry.compare)
	return c.all, nil
}

// collecting gathers the prefixes of a slot. A node has 16 bytes or more, and a prefix 4, so that a
// damaged table does not keep it busy for ever.
type collecting struct {
	f    *fib
	all  []fibEntry
	left int
}

func (c *collecting) add(a address, length int, reference uint32) *trouble {
	value, t := c.f.appendValue(nil, reference)
	c.all = append(c.all, fibEntry{a, length, value})
	if t == nil && len(c.all) > c.f.len()/4 {
		t = damaged("more prefixes than room", c.f.root)
	}
	return t
}

func (c *collecting) slot(slot int, word, blocks uint64) *trouble {
	f := c.f
	a := address{high: uint64(slot) << (64 - f.bits)}
	node, _, _, t := f.parts(slot, word)
	if t != nil {
		return t
	}
	for depth := 0; blocks != 0; depth += lpmStride {
		s, t := f.shelf(blocks, depth)
		if t != nil {
			return t
		}
		here := a.six(depth)
		for more := min(depth, 1); more <= lpmStride; more++ {
			heap := 1<<more | here>>(lpmStride-more)
			// Only in the slot where the prefix begins.
			if a.first(depth+more) != a || !s.set.has(heap) {
				continue
			}
			value, t := f.valueAt(s.at+lpmShelfValues, s.set, heap)
			if t == nil {
				t = c.add(a, depth+more, value)
			}
			if t != nil {
				return t
			}
		}
		blocks = f.kid(&s, here)
	}
	if node == 0 {
		return nil
	}
	return c.node(node, a, f.bits)
}

func (c *collecting) node(reference uint32, a address, depth int) *trouble {
	f := c.f
	if c.left--; c.left < 0 {
		return damaged("more nodes than room", f.root)
	}
	n, t := f.node(reference, depth)
	if t != nil {
		return t
	}
	if n.lone {
		return c.add(a.or(n.word&(n.word-1), depth), depth+n.length, n.value)
	}
	for heap := 2; heap < 2*lpmSlots; heap++ {
		if !n.set.has(heap) {
			continue
		}
		length := bits.Len(uint(heap)) - 1
		value, t := f.valueAt(n.values, n.set, heap)
		if t == nil {
			t = c.add(a.or(uint64(heap)<<(64-length), depth), depth+length, value)
		}
		if t != nil {
			return t
		}
	}
	for slot := range lpmSlots {
		// Only slots of their own have nodes.
		if n.runs>>slot&1 == 0 || slot+1 < lpmSlots && n.runs>>(slot+1)&1 == 0 {
			continue
		}
		child, t := f.below(&n, slot)
		if t == nil && child != 0 {
			t = c.node(child, a.or(uint64(slot)<<(64-lpmStride), depth), depth+lpmStride)
		}
		if t != nil {
			return t
		}
	}
	return nil
}
