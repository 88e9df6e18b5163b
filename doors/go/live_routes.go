package sapwood

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"sync/atomic"
)

// liveTable is a live table of routes, whose values may stand for texts or for groups.
type liveTable struct {
	*live
	texts *liveTexts
	// The layout of the groups, which was seen before.
	groups atomic.Pointer[layout]
}

func openLiveRoutes(path string) (*Routes, error) {
	l, err := openLive(path, liveFib, liveFib4, liveFib6, liveRoutes)
	if err != nil {
		return nil, err
	}
	t := &liveTable{live: l}
	size := 0
	err = attempted(l, path, func(v visit) *trouble {
		for _, width := range [...]int{32, 128} {
			f, there, t := v.fib(width)
			if t != nil {
				return t
			}
			if there {
				size = f.valueBytes
			}
		}
		return nil
	})
	if err == nil && size == 4 && l.now.kind != liveRoutes {
		t.texts, err = openTexts(l)
	}
	if err != nil {
		_ = l.close()
		return nil, err
	}
	return &Routes{t, path}, nil
}

// fib finds the table of a family; false when the map has none.
func (v visit) fib(width int) (f fib, there bool, t *trouble) {
	part := 0
	switch v.parts.of.kind {
	case liveFib4:
		there = width == 32
	case liveFib6:
		there = width == 128
	default:
		there, part = true, width/128
	}
	if there {
		f, t = fibOf(v.parts.words[part], width)
	}
	return f, there, t
}

func (l *liveTable) close() error {
	err := l.live.close()
	if more := l.texts.close(); err == nil {
		err = more
	}
	return err
}

// The attempts to find a number and its text. A text that has gone was used by no entry for
// seconds, so the next attempt finds another number.
const textTries = 100

// group appends the bytes of the group whose number is a value. A number has its group until a
// grace period after the last prefix has left it, and so for the whole visit.
func (l *liveTable) group(to []byte, v visit, value []byte) ([]byte, *trouble) {
	seen := l.groups.Load()
	n, found, t := nodesOf(v.parts.words[2], false, seen)
	if t != nil {
		return to, t
	}
	if found != seen {
		l.groups.Store(found)
	}
	number := binary.LittleEndian.Uint32(value)
	var key [4]byte
	binary.BigEndian.PutUint32(key[:], number)
	there := false
	if n.hasOnlyIndex() {
		x := indexOf(&n)
		to, there, t = x.get(to, key[:])
	} else {
		var look lookup
		to, there, t = look.get(&n, to, key[:])
	}
	if t == nil && !there {
		t = damaged("a group that is missing", tableAt)
	}
	return to, t
}

// The words of a group before its hashes (core/route/src/packed.rs): the mark of the format,
// members, the bytes of a next hop, the kind of a null route and one, how a member is chosen, the
// position of the only member with a weight. Behind the next hops are buckets, which tell nothing
// of members.
const (
	groupHead = 24
	groupMark = 0x32475753
)

// groupOf is the group in these bytes, or its only member, or the null route.
func groupOf(b []byte) (Hop, bool) {
	if len(b) < groupHead {
		return Hop{}, false
	}
	word := func(at int) uint64 { return uint64(binary.LittleEndian.Uint32(b[at:])) }
	members, size, null := word(4), word(8), word(12)
	if word(0) != groupMark || members > uint64(len(b))/12 ||
		uint64(len(b)) < groupHead+members*(8+4+size) {
		return Hop{}, false
	}
	if kind := HopBlackhole + HopKind(null-1); null != 0 {
		return Hop{Kind: kind}, null <= 4 && members == 0
	}
	weights, hops := b[groupHead+8*members:], b[groupHead+12*members:]
	group := Hop{Kind: HopGroup, Members: make([]Member, members)}
	for i := range group.Members {
		hop := hopOf(hops[uint64(i)*size:][:size])
		group.Members[i] = Member{hop, binary.LittleEndian.Uint32(weights[4*i:])}
	}
	if members == 1 && group.Members[0].Weight > 0 {
		return group.Members[0].Hop, true
	}
	return group, true
}

// hop is what a value says; false when its text has gone, so that the prefix has to be looked up
// again.
func (l *liveTable) hop(value []byte, kind, place uint64) (Hop, bool, error) {
	if kind == liveRoutes {
		hop, known := groupOf(value)
		if !known {
			return Hop{}, false, fmt.Errorf("%s: %w: no group has such bytes", l.path, ErrDamaged)
		}
		return hop, true, nil
	}
	if l.texts == nil {
		return hopOf(value), true, nil
	}
	text, found, err := l.texts.text(binary.LittleEndian.Uint32(value), place)
	return Hop{Kind: HopName, Text: text}, found, err
}

func (l *liveTable) covering(address netip.Addr, length int) (Hop, int, bool, error) {
	a, width := addressOf(address)
	for range textTries {
		var room [8]byte
		value, found, kind, place, err := l.value(room[:0], a, width, length)
		if err != nil || found < 0 {
			return Hop{}, 0, false, err
		}
		if hop, known, err := l.hop(value, kind, place); known || err != nil {
			return hop, found, err == nil, err
		}
	}
	return Hop{}, 0, false, fmt.Errorf("%s: %w", l.path, ErrBusy)
}

// value appends the value of the longest prefix that covers the first bits of an address, or its
// group, and says how long the prefix is (-1 when there is none), of which kind the map is, and its
// place.
func (l *liveTable) value(to []byte, a address, width, most int) (with []byte, length int,
	kind, place uint64, err error) {
	v, err := l.enter()
	if err != nil {
		return to, -1, 0, 0, err
	}
	defer func() { err = left(l.live, v, recover(), err) }()
	for count := (attempts{}); ; {
		with, length, kind, place := to, -1, v.parts.of.kind, l.placeOf(v.parts.state)
		f, there, t := v.fib(width)
		if t == nil && there {
			with, length, t = f.covering(to, a, most)
		}
		if t == nil && length >= 0 && kind == liveRoutes {
			with, t = l.group(nil, v, with[len(to):])
		}
		if v, t = l.renew(v, t); t == nil {
			return with, length, kind, place, nil
		}
		if count.areOver(t) {
			return to, -1, 0, 0, t.of(l.path)
		}
	}
}

func (l *liveTable) len() (int, error) {
	count := uint64(0)
	err := attempted(l.live, l.path, func(v visit) *trouble {
		count = 0
		for _, width := range [...]int{32, 128} {
			f, there, t := v.fib(width)
			if t != nil {
				return t
			}
			if there {
				count += f.u64(lpmLenAt)
			}
		}
		return nil
	})
	return int(count), err
}

// The most empty slots of the root that a visit of a walk looks at.
const visitSlots = 1 << 14

// liveWalk is a walk over a live table.
type liveWalk struct {
	*liveTable
	// The bits of the family whose slot is next, 0 at the end, and the first 64 bits of its
	// addresses. A new writer may resolve other bits by the root.
	width int
	from  uint64
	// What was read of a slot, and the last prefix that was given.
	ready   []fibEntry
	of      int
	kind    uint64
	place   uint64
	given   fibEntry
	givenOf int
}

// more reads the prefixes of the next slot that has some.
func (w *liveWalk) more(v visit) *trouble {
	w.ready = nil
	for range visitSlots {
		f, there, t := v.fib(w.width)
		if t != nil {
			return t
		}
		over := !there
		if there {
			slot := f.slotOf(address{high: w.from})
			all, t := f.slot(slot)
			if t != nil {
				return t
			}
			// What was given already comes again when the root resolves fewer bits now.
			for len(all) > 0 && w.givenOf == w.width && all[0].compare(w.given) <= 0 {
				all = all[1:]
			}
			w.kind, w.place = v.parts.of.kind, w.placeOf(v.parts.state)
			for i := range all {
				if w.kind != liveRoutes {
					break
				}
				if all[i].value, t = w.group(nil, v, all[i].value); t != nil {
					return t
				}
			}
			w.ready, w.of = all, w.width
			w.from = uint64(slot+1) << (64 - f.bits)
			over = slot+1 == 1<<f.bits
		}
		if over {
			w.from = 0
			w.width = map[int]int{32: 128}[w.width]
		}
		if len(w.ready) > 0 || w.width == 0 {
			return nil
		}
	}
	return nil
}

func (w *liveWalk) next() (netip.Prefix, Hop, bool, error) {
	for attempt := 0; ; {
		for len(w.ready) == 0 {
			if w.width == 0 {
				return netip.Prefix{}, Hop{}, false, nil
			}
			// An attempt that is repeated begins where the first one did.
			width, from := w.width, w.from
			err := attempted(w.live, w.path, func(v visit) *trouble {
				w.width, w.from = width, from
				return w.more(v)
			})
			if err != nil {
				return netip.Prefix{}, Hop{}, false, err
			}
		}
		w.given, w.givenOf = w.ready[0], w.of
		w.ready = w.ready[1:]
		net := netip.PrefixFrom(w.given.a.addr(w.of), w.given.length)
		hop, known, err := w.hop(w.given.value, w.kind, w.place)
		if known || err != nil {
			return net, hop, err == nil, err
		}
		// The text has gone, and so the prefix was changed.
		now, length, found, err := w.covering(net.Addr(), net.Bits())
		if err != nil || found && length == net.Bits() {
			return net, now, err == nil, err
		}
		if attempt++; attempt == textTries {
			return netip.Prefix{}, Hop{}, false, fmt.Errorf("%s: %w", w.path, ErrBusy)
		}
	}
}

func (l *liveTable) walk() func() (netip.Prefix, Hop, bool, error) {
	w := &liveWalk{liveTable: l, width: 32}
	return w.next
}
