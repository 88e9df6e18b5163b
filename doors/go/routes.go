package sapwood

import (
	"fmt"
	"iter"
	"net/netip"
	"os"
)

// Routes is a saved table of routes of both families, or a live one. Its methods may be called by
// many goroutines at the same time.
type Routes struct {
	table routeTable
	title string
}

// routeTable is the memory of a table of routes.
type routeTable interface {
	close() error
	// covering is the longest prefix that covers the first bits of an address.
	covering(address netip.Addr, length int) (Hop, int, bool, error)
	// walk begins a walk. Its function gives the next prefix; false at the end.
	walk() func() (netip.Prefix, Hop, bool, error)
	len() (int, error)
}

// OpenRoutes opens a table of routes: a saved file, which the program (routes build), Rust, C and
// Python write, or the directory of a live table, which they serve. As for OpenNames, a file's
// header and checksums are checked, and its list of next hops is read.
//
// Errors: as OpenNames.
func OpenRoutes(path string) (*Routes, error) {
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		return openLiveRoutes(path)
	}
	file, err := openSaved(path)
	if err != nil {
		return nil, err
	}
	if file.hash != routesHash && file.hash != routesHashOld {
		return nil, file.refused(path, "a table of routes")
	}
	trie, err := file.trie(4, 4, false, file.hash == routesHash)
	if err != nil {
		_ = file.close()
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	s := &savedRoutes{file: file, trie: trie}
	s.entries.at, s.entries.title = &savedNames{file, trie}, path
	if err := s.readList(); err != nil {
		_ = file.close()
		return nil, err
	}
	return &Routes{s, path}, nil
}

// Close ends the use of the file or the live table. It waits for the operations that run. Later
// ones return ErrClosed. A second call does nothing.
func (r *Routes) Close() error { return r.table.close() }

// Lookup returns the longest prefix of an address, and what it leads to; false when there is none.
// It allocates nothing. An IPv4 address that is mapped to IPv6 is an IPv6 address: see
// netip.Addr.Unmap. Zones do not count.
//
// It costs one descent. Errors: ErrDamaged; ErrClosed; of a live table also ErrBusy and ErrRemoved.
func (r *Routes) Lookup(address netip.Addr) (Hop, netip.Prefix, bool, error) {
	return r.prefix(address, address.BitLen())
}

// Covering returns the longest prefix that covers a prefix, which may be the prefix itself, and
// what it leads to.
//
// As Lookup.
func (r *Routes) Covering(net netip.Prefix) (Hop, netip.Prefix, bool, error) {
	return r.prefix(net.Addr(), net.Bits())
}

// Get returns what exactly this prefix leads to.
//
// As Lookup.
func (r *Routes) Get(net netip.Prefix) (Hop, bool, error) {
	hop, found, there, err := r.Covering(net)
	if err != nil || !there || found.Bits() != net.Bits() {
		return Hop{}, false, err
	}
	return hop, true, nil
}

func (r *Routes) prefix(address netip.Addr, length int) (Hop, netip.Prefix, bool, error) {
	if !address.IsValid() || length < 0 {
		return Hop{}, netip.Prefix{}, false, nil
	}
	address = address.WithZone("")
	hop, found, there, err := r.table.covering(address, length)
	if err != nil || !there {
		return Hop{}, netip.Prefix{}, false, err
	}
	return hop, netip.PrefixFrom(address, found).Masked(), true, nil
}

// Len returns the number of prefixes that the table states.
//
// Errors: as Lookup.
func (r *Routes) Len() (int, error) { return r.table.len() }

// All begins a walk over all prefixes, IPv4 first, each family in the order of addresses.
func (r *Routes) All() *RouteWalk { return &RouteWalk{next: r.table.walk()} }

// Verify walks over all prefixes, and checks what each leads to. Of a saved table, it also checks
// that a lookup finds each prefix, and that there are as many as the file states.
//
// Errors: ErrDamaged; those of Lookup.
func (r *Routes) Verify() error {
	_, saved := r.table.(*savedRoutes)
	count := 0
	walk := r.All()
	for net, hop := range walk.All() {
		count++
		if !saved {
			continue
		}
		found, there, err := r.Get(net)
		if err != nil {
			return err
		}
		if !there || found.Kind != hop.Kind || found.Number != hop.Number || found.Text != hop.Text {
			return fmt.Errorf("%s: %w: a lookup does not find %v", r.title, ErrDamaged, net)
		}
	}
	if walk.err != nil || !saved {
		return walk.err
	}
	stated, err := r.Len()
	if err == nil && stated != count {
		err = fmt.Errorf("%s: %w: %d prefixes, and it states %d", r.title, ErrDamaged, count, stated)
	}
	return err
}

// RouteWalk is a walk over prefixes. Range over All, then ask Err whether the walk came to its end.
// It belongs to one goroutine at a time.
type RouteWalk struct {
	next func() (netip.Prefix, Hop, bool, error)
	err  error
	over bool
}

// All ranges over the prefixes that are left, and what they lead to. It ends after an error. A loop
// that is left may be gone on with by another one.
func (w *RouteWalk) All() iter.Seq2[netip.Prefix, Hop] {
	return func(yield func(netip.Prefix, Hop) bool) {
		for !w.over {
			net, hop, found, err := w.next()
			if err != nil || !found {
				w.err, w.over = err, true
				return
			}
			if !yield(net, hop) {
				return
			}
		}
	}
}

// Err is the error that ended the walk, or nil.
func (w *RouteWalk) Err() error { return w.err }

// savedRoutes is a saved table of routes: a trie of prefixes, whose values are words, and the list
// of what words refer to.
type savedRoutes struct {
	file    *savedFile
	trie    nodes
	entries names
	list    hopList
}

func (s *savedRoutes) close() error { return s.file.close() }

func (s *savedRoutes) len() (int, error) { return s.trie.savedLen - len(s.list.hops), nil }

// readList reads the list, whose entries are the last keys.
func (s *savedRoutes) readList() error {
	walk := s.entries.Prefix([]byte{listKey})
	for key := range walk.All() {
		at := len(s.list.hops)
		sound := len(key) >= listKeyBytes
		if sound {
			number := uint32(key[1])<<24 | uint32(key[2])<<16 | uint32(key[3])<<8 | uint32(key[4])
			sound = number == uint32(at) && s.list.add(key[listKeyBytes:])
		}
		if !sound {
			return fmt.Errorf("%s: %w: entry %d of the list is none", s.entries.title, ErrDamaged, at)
		}
	}
	return walk.Err()
}

// hop is what a prefix's word says.
func (s *savedRoutes) hop(word uint32) (Hop, *trouble) {
	hop, known := s.list.hop(word)
	if !known {
		return Hop{}, damaged("a prefix that leads to what the file does not have", headerPage)
	}
	return hop, nil
}

func (s *savedRoutes) covering(address netip.Addr, length int) (hop Hop, bits int, found bool, err error) {
	v, err := s.file.enter()
	if err != nil {
		return Hop{}, 0, false, err
	}
	defer func() { err = left(s.file, v, recover(), err) }()
	var room [prefixKeyMax]byte
	var l lookup
	bits, word, t := l.longestBits(&s.trie, prefixKey(room[:0], address, length))
	if t == nil && bits < 0 {
		return Hop{}, 0, false, nil
	}
	if t == nil && bits < familyBits {
		t = damaged("a prefix without a family", headerPage)
	}
	if t == nil {
		hop, t = s.hop(word)
	}
	if t != nil {
		return Hop{}, 0, false, t.of(s.entries.title)
	}
	return hop, bits - familyBits, true, nil
}

func (s *savedRoutes) walk() func() (netip.Prefix, Hop, bool, error) {
	entries := s.entries.From(nil)
	return func() (netip.Prefix, Hop, bool, error) {
		key, value, found := entries.Next()
		if !found || len(key) > 0 && key[0] == listKey {
			return netip.Prefix{}, Hop{}, false, entries.Err()
		}
		net, known := prefixOf(key)
		if !known {
			return netip.Prefix{}, Hop{}, false, fmt.Errorf("%s: %w: %x is not the key of a prefix",
				s.entries.title, ErrDamaged, key)
		}
		hop, t := s.hop(uint32(hopOf(value).Number))
		if t != nil {
			return netip.Prefix{}, Hop{}, false, t.of(s.entries.title)
		}
		return net, hop, true, nil
	}
}
