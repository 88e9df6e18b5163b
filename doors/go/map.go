package sapwood

import (
	"encoding/binary"
	"fmt"
	"sync/atomic"
)

// names is a map over byte strings, wherever it lies. Map and Names have its methods.
type names struct {
	// A *savedNames, a *live or an *arenaWindow.
	at    home
	title string
	seen  atomic.Pointer[layout]
	// Whether memory is used again between two visits, so that no path stands.
	moves bool
}

// changes says whether the map is changed while it is read.
func (m *names) changes() bool {
	_, saved := m.at.(*savedNames)
	return !saved
}

// nodes finds the nodes of the map, in room unless they are there already. The homes are named, so
// that room need not be on the heap.
func (m *names) nodes(v visit, room *nodes) (n *nodes, err error) {
	var found *layout
	seen := m.seen.Load()
	switch at := m.at.(type) {
	case *savedNames:
		return &at.trie, nil
	case *live:
		*room, found, err = at.nodes(v, seen)
	case *arenaWindow:
		*room, found, err = at.nodes(v, seen)
	}
	if err == nil && found != seen {
		m.seen.Store(found)
	}
	return room, err
}

// undisturbed repeats an attempt to read until no change disturbs it.
func (m *names) undisturbed(attempt func(n *nodes) *trouble) error {
	return attempted(m.at, m.title, func(v visit) *trouble {
		var room nodes
		n, err := m.nodes(v, &room)
		if err != nil {
			return &trouble{err: err, whole: true}
		}
		return attempt(n)
	})
}

// ValueBytes returns the bytes of each value, or -1 when values are byte strings.
//
// Errors: as Get.
func (m *names) ValueBytes() (int, error) {
	size := 0
	err := m.undisturbed(func(n *nodes) *trouble {
		size = n.valueBytes
		if n.strings {
			size = -1
		}
		return nil
	})
	return size, err
}

// HasOrder says whether the map has an order. Without one (a UserPointMap, or a ProgramMap with an
// index alone), From, Prefix and the other ordered methods fail with ErrNoOrder.
//
// Errors: as Get.
func (m *names) HasOrder() (bool, error) {
	ordered := false
	err := m.undisturbed(func(n *nodes) *trouble {
		ordered = !n.hasOnlyIndex()
		return nil
	})
	return ordered, err
}

// Get returns a copy of a key's value, and whether the key is there. It costs one descent, which is
// read twice, and one allocation for the copy.
//
// Errors: ErrDamaged; ErrBusy when changes disturbed every attempt; ErrNoWindow when the map was
// closed; ErrLayout when it was made anew with other values; ErrClosed.
func (m *names) Get(key []byte) (value []byte, found bool, err error) {
	value, found, err = m.Append(nil, key)
	if found && value == nil {
		value = []byte{}
	}
	return value, found, err
}

// Append appends a key's value to a slice, and says whether the key is there. It allocates nothing
// where the slice has room.
//
// Errors: as Get.
func (m *names) Append(to, key []byte) (with []byte, found bool, err error) {
	if len(key) > keyMax {
		return to, false, nil
	}
	v, err := m.at.enter()
	if err != nil {
		return to, false, err
	}
	with = to
	defer func() { err = left(m.at, v, recover(), err) }()
	// This is undisturbed, without a function that makes its variables escape to the heap.
	var l lookup
	if m.changes() {
		var room seenRoom
		l.seen = room[:]
	}
	var room nodes
	for count := (attempts{}); ; {
		n, err := m.nodes(v, &room)
		var t *trouble
		var got []byte
		var there bool
		if err != nil {
			t = &trouble{err: err, whole: true}
		} else if n.hasOnlyIndex() {
			x := indexOf(n)
			got, there, t = x.get(to, key)
		} else {
			got, there, t = l.get(n, to, key)
		}
		v, t = m.at.renew(v, t)
		switch {
		case t == nil && there:
			return got, true, nil
		case t == nil:
			return to, false, nil
		case count.areOver(t):
			return to, false, t.of(m.title)
		}
	}
}

// Sum returns the sum of the words of a key's value, modulo 2^64: in a map that counts for each
// processor (sw_qp_count), the count of all. It costs a Get.
//
// Errors: as Get; ErrLayout when values have no whole words.
func (m *Map) Sum(key []byte) (sum uint64, found bool, err error) {
	size, err := m.ValueBytes()
	if err != nil {
		return 0, false, err
	}
	if size < 0 || size%8 != 0 {
		return 0, false, fmt.Errorf("%w: the values of %s have no whole words", ErrLayout, m.window.Name)
	}
	value, found, err := m.Get(key)
	for ; len(value) >= 8; value = value[8:] {
		sum += binary.LittleEndian.Uint64(value)
	}
	return sum, found, err
}

// Has says whether a key is there.
//
// Errors: as Get.
func (m *names) Has(key []byte) (bool, error) {
	_, found, err := m.Append(nil, key)
	return found, err
}

// LongestPrefix returns the entry whose key is the longest prefix of a key; the key itself counts.
//
// Errors: as Get; ErrNoOrder.
func (m *names) LongestPrefix(key []byte) (prefix, value []byte, found bool, err error) {
	var l lookup
	length := 0
	err = m.undisturbed(func(n *nodes) (t *trouble) {
		if n.hasOnlyIndex() {
			return noOrder
		}
		length, value, found, t = l.longestPrefix(n, key)
		return t
	})
	if err != nil || !found {
		return nil, nil, false, err
	}
	return append([]byte{}, key[:length]...), value, true, nil
}

// beside returns the entry that a path finds from the root on.
func (m *names) beside(find func(p *path, n *nodes) (copied, bool, *trouble)) ([]byte, []byte, bool, error) {
	p := path{turned: -1}
	var entry copied
	found := false
	err := m.undisturbed(func(n *nodes) (t *trouble) {
		if n.hasOnlyIndex() {
			return noOrder
		}
		entry, found, t = find(&p, n)
		return t
	})
	if err != nil || !found {
		return nil, nil, false, err
	}
	return entry.key, entry.value, true, nil
}

// First returns the entry with the least key.
//
// Errors: as Get; ErrNoOrder.
func (m *names) First() (key, value []byte, found bool, err error) {
	return m.beside(func(p *path, n *nodes) (copied, bool, *trouble) {
		return p.next(n, nil, false, false)
	})
}

// Last returns the entry with the greatest key.
//
// Errors: as Get; ErrNoOrder.
func (m *names) Last() (key, value []byte, found bool, err error) {
	return m.beside(func(p *path, n *nodes) (copied, bool, *trouble) {
		return p.previous(n, nil, true)
	})
}

// Next returns the entry with the least key that is greater than a key, which need not be there.
//
// Errors: as Get; ErrNoOrder.
func (m *names) Next(key []byte) (next, value []byte, found bool, err error) {
	return m.beside(func(p *path, n *nodes) (copied, bool, *trouble) {
		return p.next(n, key, true, false)
	})
}

// Previous returns the entry with the greatest key that is less than a key, which need not be
// there.
//
// Errors: as Get; ErrNoOrder.
func (m *names) Previous(key []byte) (previous, value []byte, found bool, err error) {
	return m.beside(func(p *path, n *nodes) (copied, bool, *trouble) {
		return p.previous(n, key, false)
	})
}

// Len returns the number of entries: of a store and of a saved map, the number that it states; of
// other maps, by a walk over all entries.
//
// Errors: as Get.
func (m *names) Len() (int, error) {
	stated, states := 0, false
	err := m.undisturbed(func(n *nodes) *trouble {
		stated, states = n.statedLen()
		return nil
	})
	if err != nil || states {
		return stated, err
	}
	count := 0
	walk := m.All()
	for range walk.All() {
		count++
	}
	return count, walk.Err()
}
