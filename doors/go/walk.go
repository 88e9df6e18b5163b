package sapwood

import (
	"bytes"
	"fmt"
	"iter"
	"slices"
)

// Walk is a walk over entries of a map. Range over All, then ask Err whether the walk came to its
// end.
//
//	walk := blocked.Prefix([]byte("example."))
//	for key, value := range walk.All() {
//		fmt.Printf("%s %x\n", key, value)
//	}
//	if err := walk.Err(); err != nil {
//		return err
//	}
//
// The map may be changed during the walk. No lock is held while the loop's body runs, so it may
// take any time, and may use the map and close the arena.
type Walk struct {
	m *names
	// Of an ordered walk: the path to the last entry and the nodes that it refers to, if it stands.
	path   path
	nodes  nodes
	stands bool
	// The least key to return; it was returned already when strict.
	from   []byte
	strict bool
	prefix []byte
	// Whether any order will do, and whether the walk is by the index.
	any, byIndex, begun bool
	// Of a walk by the index: what was read, the next hash prefix, whether there are more, and the
	// secrets by which it is ordered.
	ready   []copied
	hash    uint32
	more    bool
	secrets secrets

	// The entries that were given, and bytes of theirs that were read.
	given, read int
	over        bool
	err         error
}

// readings is how often a walk may read as many bytes as the window has.
const readings = 64

func (m *names) walk(from, prefix []byte, any bool) *Walk {
	w := &Walk{m: m, from: bytes.Clone(from), prefix: bytes.Clone(prefix), any: any, more: true}
	w.path.turned = -1
	return w
}

// All begins a walk over all entries, in order of their keys if the map has an order.
func (m *names) All() *Walk { return m.walk(nil, nil, true) }

// From begins a walk over the entries whose keys are not less than a key, in order of keys. Without
// an order (HasOrder) the walk's error is ErrNoOrder.
func (m *names) From(key []byte) *Walk { return m.walk(key, nil, false) }

// Prefix begins a walk over the entries whose keys begin with a prefix, in order of keys. Without
// an order (HasOrder) the walk's error is ErrNoOrder.
func (m *names) Prefix(prefix []byte) *Walk { return m.walk(prefix, prefix, false) }

// Err is the error that ended the walk, or nil. Errors are those of Get, and ErrNoOrder.
func (w *Walk) Err() error { return w.err }

// All ranges over the keys and values that are left, as copies. It ends after an error. A loop that
// is left may be gone on with by another one.
func (w *Walk) All() iter.Seq2[[]byte, []byte] {
	return func(yield func(key, value []byte) bool) {
		for {
			key, value, found := w.Next()
			if !found || !yield(key, value) {
				return
			}
		}
	}
}

// Next returns copies of the next key and value; false at the end, and after an error.
func (w *Walk) Next() (key, value []byte, found bool) {
	if w.over {
		return nil, nil, false
	}
	var entry copied
	if w.err = w.begin(); w.err == nil {
		switch {
		case w.byIndex:
			entry, found, w.err = w.nextByIndex()
		case w.m.moves:
			entry, found, w.err = w.nextOfVisit()
		default:
			entry, found, w.err = w.nextInOrder()
		}
	}
	if w.err != nil || !found {
		w.over, w.nodes, w.ready = true, nodes{}, nil
		return nil, nil, false
	}
	w.given++
	return entry.key, entry.value, true
}

// begin chooses between order and index.
func (w *Walk) begin() error {
	if w.begun || !w.any {
		return nil
	}
	ordered, err := w.m.HasOrder()
	w.begun, w.byIndex = err == nil, !ordered
	return err
}

func (w *Walk) nextInOrder() (copied, bool, error) {
	var entry copied
	found, stood := false, w.stands
	w.stands = false
	if stood {
		// An old path may lead nowhere, so only a walk from the root can tell damage.
		var err error
		if entry, found, stood, err = w.goOn(); err != nil {
			return copied{}, false, err
		}
	}
	if !stood {
		err := w.m.undisturbed(func(n *nodes) (t *trouble) {
			if n.hasOnlyIndex() {
				return noOrder
			}
			entry, found, t = w.path.next(n, w.from, w.strict, false)
			w.nodes = *n
			return t
		})
		if err != nil {
			return copied{}, false, err
		}
	}
	w.read += len(entry.key) + len(entry.value)
	if w.isTooLong(w.nodes.len()) {
		return copied{}, false, changed.of(w.m.title)
	}
	if !found || !bytes.HasPrefix(entry.key, w.prefix) {
		return copied{}, false, nil
	}
	w.from = append(w.from[:0], entry.key...)
	w.strict, w.stands = true, true
	return entry, true, nil
}

// isTooLong says whether the walk is always disturbed. A leaf has at least 8 bytes, so no other
// walk descends more often, or reads much more than there is.
func (w *Walk) isTooLong(size int) bool {
	return w.given > size/8 || w.path.steps > uint64(size)/4+1<<20 || w.read > readings*size
}

// goOn moves the path to the next entry; stands is false when it has changed.
func (w *Walk) goOn() (entry copied, found, stands bool, err error) {
	v, err := w.m.at.enter()
	if err != nil {
		return copied{}, false, false, err
	}
	defer func() { err = left(w.m.at, v, recover(), err) }()
	entry, found, t := w.path.next(&w.nodes, w.from, w.strict, true)
	return entry, found, t == nil, nil
}

// The most entries that a walk over a map that moves reads in one visit, and bytes of them after
// which it reads no more.
const (
	visitEntries = 64
	visitBytes   = 1 << 14
)

// nextOfVisit gives the next of the entries that a visit has read, in order. The path stands only
// during the visit.
func (w *Walk) nextOfVisit() (copied, bool, error) {
	if len(w.ready) == 0 && w.more {
		room := 0
		err := w.m.undisturbed(func(n *nodes) *trouble {
			if n.hasOnlyIndex() {
				return noOrder
			}
			w.ready, w.more = w.ready[:0], true
			from, strict, size := w.from, w.strict, 0
			for i := 0; i < visitEntries && size < visitBytes; i++ {
				entry, found, t := w.path.next(n, from, strict, i > 0)
				if t != nil && i > 0 {
					break
				}
				if t != nil {
					return t
				}
				if !found || !bytes.HasPrefix(entry.key, w.prefix) {
					w.more = false
					break
				}
				w.ready = append(w.ready, entry)
				from, strict = entry.key, true
				size += len(entry.key) + len(entry.value)
			}
			room = n.len()
			return nil
		})
		if err != nil {
			return copied{}, false, err
		}
		for _, entry := range w.ready {
			w.read += len(entry.key) + len(entry.value)
		}
		if w.isTooLong(room) {
			return copied{}, false, changed.of(w.m.title)
		}
		slices.Reverse(w.ready)
	}
	if len(w.ready) == 0 {
		return copied{}, false, nil
	}
	entry := w.ready[len(w.ready)-1]
	w.ready = w.ready[:len(w.ready)-1]
	w.from, w.strict = append(w.from[:0], entry.key...), true
	return entry, true, nil
}

func (w *Walk) nextByIndex() (copied, bool, error) {
	for len(w.ready) == 0 {
		if !w.more {
			return copied{}, false, nil
		}
		size := 0
		err := w.m.undisturbed(func(n *nodes) *trouble {
			x := indexOf(n)
			size = n.len()
			// Most homes of a young map are empty.
			for homes := 0; homes < 256 && len(w.ready) == 0 && w.more; homes++ {
				// The keys of a bucket are read for each home whose keys it may have.
				budget := min(size, readings*size-w.read)
				all := budget
				ready, hash, more, t := x.some(w.hash, &budget)
				w.read += all - budget
				if t != nil {
					return t
				}
				if w.hash > 0 && x.secrets != w.secrets {
					// The map was taken over and built anew, so the walk cannot go on.
					return changed
				}
				w.ready, w.hash, w.more, w.secrets = ready, hash, more, x.secrets
			}
			return nil
		})
		if err != nil {
			return copied{}, false, err
		}
		// A leaf has at least 8 bytes.
		if w.given+len(w.ready) > size/8 {
			return copied{}, false, fmt.Errorf("%s: %w: an index with more entries than room",
				w.m.title, ErrDamaged)
		}
	}
	entry := w.ready[len(w.ready)-1]
	w.ready = w.ready[:len(w.ready)-1]
	return entry, true, nil
}
