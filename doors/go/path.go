package sapwood

import "bytes"

// frame is a branch on a path, and the child that the path takes.
type frame struct {
	cell   uint32
	branch branch
	index  int
}

// path is a path in a trie, which ends at an entry or is empty. A key finds it, a walk moves it to
// the next entry, and it can be checked again.
type path struct {
	root   uint32
	frames []frame
	// The root, or the cell to which the last branch leads: that of a cluster or of a leaf.
	end uint32
	// The cluster of end, if it is one, and words of it that were read: the one that says where the
	// entry is, and those of dead slots on the way to it.
	cluster    cluster
	hasCluster bool
	slots      []place
	// The borders of its entries, and the slot of the entry.
	borders borders
	slot    int
	within  bool
	// The slot of the entry before, if it is in the same cluster.
	before int
	// The entry, unless the path is empty.
	entry    entry
	hasEntry bool
	// The first frame that does not lead to the entry before as well, or -1. If it is behind the last
	// one, the entry before is in the same cluster.
	turned int
	// The number of branches and clusters that were read.
	steps uint64
}

// least is the least offset of what is below the path's last branch, and more.
func (p *path) least(more int) int {
	if len(p.frames) == 0 {
		return 0
	}
	return p.frames[len(p.frames)-1].branch.offset() + more
}

func (p *path) leaveCluster() {
	p.hasCluster, p.within = false, false
	p.slots = p.slots[:0]
}

// down descends from a cell to one that is not a branch's, by the children that pick returns.
func (p *path) down(n *nodes, cell uint32, pick func(*branch) int) *trouble {
	p.leaveCluster()
	for {
		// This is kept also when the cell is damaged, because a change may be the cause.
		p.end, p.hasEntry = cell, false
		if !isBranch(cell) {
			return nil
		}
		b, t := n.branch(cell, p.least(1))
		if t != nil {
			return t
		}
		p.steps++
		index := pick(&b)
		p.frames = append(p.frames, frame{cell, b, index})
		cell = n.cell(&b, index)
	}
}

// enter enters what is at the path's end: a leaf, or a cluster, whose borders it reads.
func (p *path) enter(n *nodes) (isCluster bool, t *trouble) {
	if p.end&cellKind == cellLeaf {
		p.entry, t = n.leaf(p.end)
		p.hasEntry = t == nil
		return false, t
	}
	if p.cluster, t = n.cluster(p.end); t != nil {
		return true, t
	}
	p.hasCluster = true
	p.steps++
	p.borders, t = n.borders(&p.cluster, p.least(0))
	return true, t
}

// turn moves to the first slot of the cluster that is not dead, from one on by steps of 1 or -1 to
// before another one. The path stays where it is if there is none.
func (p *path) turn(n *nodes, from, to, step int) (bool, *trouble) {
	for slot := from; slot != to; slot += step {
		e, live, seen, t := n.slot(&p.cluster, slot)
		p.slots = append(p.slots, seen)
		if t != nil {
			return false, t
		}
		if live {
			p.entry, p.hasEntry, p.slot, p.within = e, true, slot, true
			return true, nil
		}
	}
	return false, nil
}

// turnUp moves to the first entry of the cluster from a slot on. The last slot is never dead.
func (p *path) turnUp(n *nodes, slot int) *trouble {
	p.slots = p.slots[:0]
	p.hasEntry = false
	_, t := p.turn(n, slot, p.borders.leaves, 1)
	return t
}

// turnDown moves to the last entry of the cluster before a slot, if there is one.
func (p *path) turnDown(n *nodes, slot int) (bool, *trouble) {
	p.slots = p.slots[:0]
	return p.turn(n, slot-1, -1, -1)
}

// turnTo moves to the entry of the cluster that shares the longest prefix with a key, or with the
// keys of its slot if that is dead.
func (p *path) turnTo(n *nodes, key []byte) *trouble {
	slot := p.borders.search(key)
	if t := p.turnUp(n, slot); t != nil || !p.within || p.slot <= slot {
		return t
	}
	e, behind := p.entry, p.slot
	left, t := p.turn(n, slot-1, -1, -1)
	if t != nil {
		return t
	}
	if !left || !p.borders.isNearer(p.slot, slot, behind) {
		p.entry, p.slot = e, behind
	}
	return nil
}

// downFirst moves to the first entry below a cell.
func (p *path) downFirst(n *nodes, cell uint32) *trouble {
	if t := p.down(n, cell, func(*branch) int { return 0 }); t != nil {
		return t
	}
	if isCluster, t := p.enter(n); t != nil || !isCluster {
		return t
	}
	return p.turnUp(n, 0)
}

// downLast moves to the last entry below a cell.
func (p *path) downLast(n *nodes, cell uint32) *trouble {
	if t := p.down(n, cell, func(b *branch) int { return b.children() - 1 }); t != nil {
		return t
	}
	if isCluster, t := p.enter(n); t != nil || !isCluster {
		return t
	}
	return p.turnUp(n, p.borders.leaves-1)
}

func (p *path) empty() {
	p.leaveCluster()
	p.hasEntry = false
	p.turned = -1
}

// begin empties the path, and says whether the trie has entries.
func (p *path) begin(n *nodes) bool {
	p.frames = p.frames[:0]
	p.empty()
	p.root = n.root()
	return p.root != 0
}

// parting is where a key that is not there parts from the keys of the trie.
type parting struct {
	// The first byte in which it differs from the entry to which its path leads.
	at int
	// Whether it is less than that entry's key.
	less bool
	// The highest cell on the path, if there is one, below which all keys share the bytes before and
	// that byte.
	below    uint32
	hasBelow bool
}

// approach moves from the root to an entry that shares the longest prefix with a key, and says
// where the key parts from it; false when the entry has the key. The frames below the parting are
// gone then.
func (p *path) approach(n *nodes, key []byte) (parting, bool, *trouble) {
	// Off the key's path, any entry below shows where the key would leave the path.
	if t := p.down(n, p.root, func(b *branch) int { return b.child(key) }); t != nil {
		return parting{}, false, t
	}
	isCluster, t := p.enter(n)
	if t == nil && isCluster {
		t = p.turnTo(n, key)
	}
	if t != nil {
		return parting{}, false, t
	}
	var found []byte
	if p.hasEntry {
		found = n.key(&p.entry)
	}
	// All later steps depend on this path.
	if t := p.lookAgain(n, true); t != nil {
		return parting{}, false, t
	}
	at, differ := mismatch(key, found)
	if !differ {
		return parting{}, false, nil
	}
	apart := parting{at: at, less: bytes.Compare(key[at:], found[at:]) < 0}
	for i := len(p.frames) - 1; i >= 0 && p.frames[i].branch.offset() > at; i-- {
		apart.below, apart.hasBelow = p.frames[i].cell, true
		p.frames = p.frames[:i]
	}
	return apart, true, nil
}

// seek moves to the least entry whose key is not less than a key, or is greater when strict.
func (p *path) seek(n *nodes, key []byte, strict bool) *trouble {
	if !p.begin(n) {
		return nil
	}
	apart, differ, t := p.approach(n, key)
	switch {
	case t != nil:
		return t
	case !differ:
		if strict {
			return p.stepApart(n)
		}
		return nil
	case apart.hasBelow && apart.less:
		// All keys below this cell share the bytes in which the key differs.
		return p.downFirst(n, apart.below)
	case apart.hasBelow:
		p.leaveCluster()
		return p.stepApart(n)
	case p.hasCluster && p.within:
		if place := p.borders.place(p.slot, apart.at, apart.less); place < p.borders.leaves {
			return p.turnUp(n, place)
		}
		p.leaveCluster()
		return p.stepApart(n)
	case apart.less:
		return nil
	}
	return p.stepApart(n)
}

// seekBack moves to the greatest entry whose key is less than a key, or to the last one.
func (p *path) seekBack(n *nodes, key []byte, last bool) *trouble {
	if !p.begin(n) {
		return nil
	}
	if last {
		return p.downLast(n, p.root)
	}
	apart, differ, t := p.approach(n, key)
	switch {
	case t != nil:
		return t
	case !differ:
		return p.stepBack(n)
	case apart.hasBelow && !apart.less:
		return p.downLast(n, apart.below)
	case apart.hasBelow:
		p.leaveCluster()
		return p.stepBack(n)
	case p.hasCluster && p.within:
		turned, t := p.turnDown(n, p.borders.place(p.slot, apart.at, apart.less))
		if t != nil || turned {
			return t
		}
		p.leaveCluster()
		return p.stepBack(n)
	case apart.less:
		return p.stepBack(n)
	}
	return nil
}

// stepBack moves to the entry before.
func (p *path) stepBack(n *nodes) *trouble {
	if p.hasCluster && p.within {
		if turned, t := p.turnDown(n, p.slot); t != nil || turned {
			return t
		}
	}
	for i := len(p.frames) - 1; i >= 0; i-- {
		if top := &p.frames[i]; top.index > 0 {
			top.index--
			return p.downLast(n, n.cell(&top.branch, top.index))
		}
		p.frames = p.frames[:i]
	}
	p.leaveCluster()
	p.hasEntry = false
	return nil
}

// step moves to the next entry.
func (p *path) step(n *nodes) *trouble {
	if p.hasCluster && p.within && p.slot+1 < p.borders.leaves {
		p.turned, p.before = len(p.frames), p.slot
		return p.turnUp(n, p.slot+1)
	}
	for i := len(p.frames) - 1; i >= 0; i-- {
		if top := &p.frames[i]; top.index+1 < top.branch.children() {
			top.index++
			p.turned = i
			return p.downFirst(n, n.cell(&top.branch, top.index))
		}
		p.frames = p.frames[:i]
	}
	p.empty()
	return nil
}

// stepApart moves to the next entry when the key of the entry before is not known.
func (p *path) stepApart(n *nodes) *trouble {
	t := p.step(n)
	p.turned = -1
	return t
}

// next is the entry with the least key that is not less than from, or is greater when strict; false
// when there is none. It is trouble when the path has changed. If stands, the path leads to from.
func (p *path) next(n *nodes, from []byte, strict, stands bool) (copied, bool, *trouble) {
	entry, found, t := p.readNext(n, from, strict, stands)
	if again := p.checked(n, found || t != nil, false); again != nil {
		return copied{}, false, again
	}
	return entry, found, t
}

// previous is the entry with the greatest key less than a key, or the last one; as next.
func (p *path) previous(n *nodes, key []byte, last bool) (copied, bool, *trouble) {
	entry, found, t := p.readPrevious(n, key, last)
	if again := p.checked(n, found || t != nil, true); again != nil {
		return copied{}, false, again
	}
	return entry, found, t
}

// checked checks the path again, or, if it is over, that the map still has the same root.
func (p *path) checked(n *nodes, found, whole bool) *trouble {
	switch {
	case found:
		return p.lookAgain(n, whole)
	case n.root() != p.root:
		return changed
	}
	return nil
}

func (p *path) unfit() *trouble { return damaged("a key that does not fit its place", p.entry.at) }

func (p *path) readPrevious(n *nodes, key []byte, last bool) (copied, bool, *trouble) {
	if t := p.seekBack(n, key, last); t != nil || !p.hasEntry {
		return copied{}, false, t
	}
	found := n.key(&p.entry)
	if !last && bytes.Compare(found, key) >= 0 || !p.leadsTo(found, nil, false) {
		return copied{}, false, p.unfit()
	}
	return copied{found, n.value(&p.entry)}, true, nil
}

func (p *path) readNext(n *nodes, from []byte, strict, stands bool) (copied, bool, *trouble) {
	if t := p.move(n, from, strict, stands); t != nil || !p.hasEntry {
		return copied{}, false, t
	}
	key := n.key(&p.entry)
	order := bytes.Compare(key, from)
	if order < 0 || order == 0 && strict || !p.leadsTo(key, from, strict) {
		return copied{}, false, p.unfit()
	}
	return copied{key, n.value(&p.entry)}, true, nil
}

// move moves to the next entry, from the one before or from the root.
func (p *path) move(n *nodes, from []byte, strict, stands bool) *trouble {
	if stands {
		// The end counts only if a walk from the root confirms it.
		if t := p.step(n); t != nil || p.hasEntry {
			return t
		}
	}
	if len(from) > 0 || strict {
		return p.seek(n, from, strict)
	}
	if !p.begin(n) {
		return nil
	}
	return p.downFirst(n, p.root)
}

// leadsTo says whether this path leads to a key, and, if the key before counts, the key may come
// right after it.
func (p *path) leadsTo(key, before []byte, counts bool) bool {
	turned := max(p.turned, 0)
	// The entries of a cluster may part at the offset of the branch above it.
	for i := min(turned, max(len(p.frames)-1, 0)); i < len(p.frames); i++ {
		if f := &p.frames[i]; f.branch.offset() > len(key) || f.branch.child(key) != f.index {
			return false
		}
	}
	if p.within && p.borders.search(key) != p.slot {
		return false
	}
	if p.turned < 0 || !counts {
		return true
	}
	// The paths of neighbours part exactly where their keys do.
	if turned < len(p.frames) {
		at, differ := mismatch(before, key)
		return differ && at == p.frames[turned].branch.offset()
	}
	return p.within && p.borders.part(p.before, p.slot, before, key)
}

// lookAgain checks the path again. The cluster, and the root or the last branches of a long path,
// must still lead to the same cells.
func (p *path) lookAgain(n *nodes, whole bool) *trouble {
	const deepest = 16
	from := 0
	if !whole {
		from = max(len(p.frames)-deepest, 0)
	}
	same := from > 0 || n.root() == p.root
	for i := from; i < len(p.frames) && same; i++ {
		next := p.end
		if i+1 < len(p.frames) {
			next = p.frames[i+1].cell
		}
		f := &p.frames[i]
		same = n.cell(&f.branch, f.index) == next && n.isStill(&f.branch)
	}
	same = same && (!p.hasCluster || n.clusterIsStill(&p.cluster))
	for i := 0; i < len(p.slots) && same; i++ {
		same = n.u32(p.slots[i].at) == p.slots[i].word
	}
	if !same {
		return changed
	}
	return nil
}
