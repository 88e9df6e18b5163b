package sapwood

// chainMax is the maximum length of a chain of tables.
const chainMax = 16

// index is the hash index of a map, for one operation. What was read is checked again, from the
// table that the header names.
type index struct {
	*nodes
	secrets secrets
}

func indexOf(n *nodes) index {
	x := index{nodes: n}
	for i := range x.secrets {
		x.secrets[i] = n.u64(secretsAt + 8*i)
	}
	return x
}

// table is a table whose header and directory lie inside the window.
type table struct {
	at                  int
	homes, total, shift uint32
}

// home is the home of a hash: the number of its bucket.
func (t *table) home(hash uint64) uint32 { return uint32(hash >> 32 * uint64(t.homes) >> 32) }

// lastHash is the greatest hash whose home is a bucket.
func (t *table) lastHash(home uint32) uint64 {
	homes := uint64(t.homes)
	last := (uint64(home)<<32 + 1<<32 + homes - 1) / homes
	return last<<32 - 1
}

// bucketsOf is the number of buckets in a chunk.
func (t *table) bucketsOf(chunk uint32) int {
	return min(int(t.total)-int(chunk)<<t.shift, 1<<t.shift)
}

// table reads the table at a reference.
func (x *index) table(reference uint32) (table, *trouble) {
	at := int(reference) * unitBytes
	if !x.inside(at, tableHead) {
		return table{}, damaged("a table outside the window", at)
	}
	t := table{at, x.u32(at + tableHomesAt), x.u32(at + tableTotalAt), x.u32(at + tableShiftAt)}
	// A table that is still growing does not lie in the window as a whole yet.
	sound := t.homes > 0 && t.total >= t.homes && t.total-t.homes < bucketWindow && t.shift <= 20 &&
		int(t.total) <= x.len()/bucketBytes*4
	if !sound || !x.inside(at, (tableHead+4*(int((t.total-1)>>t.shift)+1)+7)&^7) {
		return t, damaged("no table has such a header", at)
	}
	return t, nil
}

// start is the reference of the table where lookups begin.
func (x *index) start() uint32 { return uint32(x.u64(tableAt)) }

// chain calls do with a table and those after it, until it is done.
func (x *index) chain(start uint32, do func(t *table) (done bool, trouble *trouble)) *trouble {
	for count := 0; start != 0 && start != tableNothing; count++ {
		if count == chainMax {
			return damaged("tables without an end", int(start)*unitBytes)
		}
		t, wrong := x.table(start)
		if wrong != nil {
			return wrong
		}
		if done, wrong := do(&t); wrong != nil || done {
			return wrong
		}
		start = x.u32(t.at + tableNextAt)
	}
	return nil
}

// bucket is a bucket, as its words were read.
type bucket struct {
	at        int
	low, high uint64
}

// tag is the tag of a slot, or 0 if it is empty.
func (b *bucket) tag(slot int) byte {
	if slot < 8 {
		return byte(b.low >> (8 * slot))
	}
	return byte(b.high >> (8 * (slot - 8)))
}

func (b *bucket) isMoved() bool { return b.high&bucketMoved != 0 }

// reach is the greatest distance of the keys that lie behind.
func (b *bucket) reach() uint32 { return uint32(b.high>>bucketReach) & bucketReachMax }

// out is the number of keys that lie behind.
func (b *bucket) out() uint32 { return uint32(b.high>>bucketOut) & bucketOutMax }

// mayBeBehind says whether a key with this tag may lie behind.
func (b *bucket) mayBeBehind(tag byte) bool { return b.high>>(bucketFilter+tag%8)&1 != 0 }

func (x *index) read(at int) bucket { return bucket{at, x.u64(at), x.u64(at + 8)} }

// bucket reads a bucket; false when its chunk is not there.
func (x *index) bucket(t *table, number uint32) (bucket, bool, *trouble) {
	if number >= t.total {
		return bucket{}, false, damaged("keys behind the last bucket", t.at)
	}
	chunk := number >> t.shift
	word := t.at + tableHead + 4*int(chunk)
	entry := x.u32(word)
	// The lowest bits have the distance of the block's beginning.
	at := int(entry&^7) * unitBytes
	switch {
	case entry == 0:
		return bucket{}, false, nil
	case !x.inside(at, x.chunkBytes(t, chunk)):
		return bucket{}, false, damaged("a chunk outside the window", word)
	}
	return x.read(at + int(number&(1<<t.shift-1))*bucketBytes), true, nil
}

func (x *index) chunkBytes(t *table, chunk uint32) int { return t.bucketsOf(chunk) * bucketBytes }

// first reads the bucket of a home; false when it was moved.
func (x *index) first(t *table, home uint32) (bucket, bool, *trouble) {
	b, there, wrong := x.bucket(t, home)
	return b, there && !b.isMoved(), wrong
}

// slotOf is a slot in use, as it was read.
type slotOf struct {
	bucket, number int
	tag            byte
	cell           uint32
}

func (x *index) slotOf(b *bucket, number int) slotOf {
	return slotOf{b.at, number, b.tag(number), x.u32(b.at + bucketCellsAt + 4*number)}
}

// isStill says whether a slot still has the words that were read.
func (x *index) slotIsStill(s *slotOf) bool {
	b := x.read(s.bucket)
	return x.slotOf(&b, s.number) == *s
}

// get appends the value of a key.
func (x *index) get(to, key []byte) ([]byte, bool, *trouble) {
	start, hash := x.start(), x.secrets.hash(key)
	tag := max(byte(hash), 1)
	var (
		leaf     entry
		found    bool
		last     table
		home     uint32
		at       slotOf
		hasHome  bool
		hasSlot  bool
		lookedAt = func(t *table) (bool, *trouble) {
			h := t.home(hash)
			first, there, wrong := x.first(t, h)
			if wrong != nil || !there {
				return false, wrong
			}
			last, home, hasHome = *t, h, true
			behind := uint32(0)
			if first.mayBeBehind(tag) {
				behind = first.reach()
			}
			for number := h; number <= h+behind; number++ {
				b := first
				if number > h {
					if b, there, wrong = x.bucket(t, number); wrong != nil || !there {
						return true, orChanged(wrong)
					}
				}
				for slot := range bucketSlots {
					if b.tag(slot) != tag {
						continue
					}
					at, hasSlot = x.slotOf(&b, slot), true
					if leaf, wrong = x.leaf(at.cell); wrong != nil {
						return true, wrong
					}
					if x.hasKey(&leaf, key) {
						found = true
						return true, nil
					}
				}
			}
			hasSlot = false
			return true, nil
		}
	)
	wrong := x.chain(start, lookedAt)
	if wrong == nil && found {
		to = x.append(to, leaf.value.at, leaf.value.len)
	}
	// A writer may be changing the bytes that look damaged.
	same := x.start() == start
	if same && hasHome {
		_, there, wrong := x.first(&last, home)
		same = there && wrong == nil
	}
	if !same || hasSlot && !x.slotIsStill(&at) {
		return nil, false, changed
	}
	return to, found, wrong
}

func orChanged(t *trouble) *trouble {
	if t == nil {
		return changed
	}
	return t
}

// copied is an entry, copied.
type copied struct{ key, value []byte }

// some copies the entries of the next hash prefixes, from one on, and says from which to go on,
// unless these were the last. It takes the bytes of keys and values that it reads from a budget, so
// that a damaged index, whose slots share leaves, does not keep it busy for ever.
func (x *index) some(from uint32, budget *int) (entries []copied, next uint32, more bool, wrong *trouble) {
	start := x.start()
	var slots []slotOf
	low, high := uint64(from)<<32, ^uint64(0)
	wrong = x.chain(start, func(t *table) (bool, *trouble) {
		home := t.home(low)
		high = min(high, t.lastHash(home))
		first, there, wrong := x.first(t, home)
		if wrong != nil || !there {
			return false, wrong
		}
		behind := uint32(0)
		if first.out() > 0 {
			behind = first.reach()
		}
		for number := home; number <= home+behind; number++ {
			b, there, wrong := x.bucket(t, number)
			if wrong != nil || !there {
				return true, orChanged(wrong)
			}
			for slot := range bucketSlots {
				tag := b.tag(slot)
				if tag == 0 || number > home && !first.mayBeBehind(tag) {
					continue
				}
				s := x.slotOf(&b, slot)
				slots = append(slots, s)
				leaf, wrong := x.leaf(s.cell)
				if wrong != nil {
					return true, wrong
				}
				if *budget -= leaf.keyLen() + 8; *budget < 0 {
					return true, damaged("an index whose keys take more room than there is", t.at)
				}
				key := x.key(&leaf)
				hash := x.secrets.hash(key)
				if t.home(hash) == home && low <= hash && hash <= high {
					if *budget -= leaf.value.len; *budget < 0 {
						return true, damaged("an index whose values take more room than there is", t.at)
					}
					entries = append(entries, copied{key, x.value(&leaf)})
				}
			}
		}
		if _, there, wrong := x.first(t, home); wrong != nil || !there {
			return true, orChanged(wrong)
		}
		next = uint32(high>>32) + 1
		more = next != 0
		return true, nil
	})
	if x.start() != start {
		return nil, 0, false, changed
	}
	for i := range slots {
		if !x.slotIsStill(&slots[i]) {
			return nil, 0, false, changed
		}
	}
	return entries, next, more, wrong
}
