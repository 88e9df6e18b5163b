package sapwood

// Closest is what a map of domain names has around a name.
type Closest struct {
	// Exact says whether the name itself has an entry, which is Ancestor then.
	Exact bool
	// Exists says whether the name exists: it has an entry, or an entry lies below it.
	Exists bool
	// Labels is the number of labels of the name.
	Labels int
	// Encloser is the number of labels of the closest encloser: the longest name at or above the
	// name that exists.
	Encloser int
	// Ancestor is the entry of the longest name at or above the name that has one.
	Ancestor Owner
	// Wildcard is the entry of the wildcard below the closest encloser, which stands for the name.
	// A name that exists has none.
	Wildcard Owner
}

// Owner is a part of an answer: an entry of a map of domain names.
type Owner struct {
	// Found says whether there is such an entry.
	Found bool
	// Labels is the number of labels of its name. The asterisk of a wildcard is one.
	Labels int
	// Value is its value, as its writer stored it.
	Value []byte
}

// Longest is the entry that decides about a name in a list where an entry is about its name and all
// names below: that of the name itself, or else the wildcard, or else that of the longest name
// above.
func (c *Closest) Longest() Owner {
	if !c.Exact && c.Wildcard.Found {
		return c.Wildcard
	}
	return c.Ancestor
}

// Closest returns what a map whose keys are those of domain names (DNSKey) has around a name: its
// own entry, the wildcard that stands for it, and the longest name above. All is of one moment in a
// store; in a map that changes in place, each part was there at some time during the call.
//
// It costs one descent, and one more for the wildcard and for each name above that may have an
// entry.
//
// Errors: as Get; ErrName when it is not a domain name; ErrNoOrder.
func (m *names) Closest(name string) (Closest, error) {
	_, found, err := m.AppendClosest(nil, name)
	return found, err
}

// AppendClosest returns the same as Closest. The values lie in the slice, to which it appends them.
// It allocates nothing where the slice has room.
//
// Errors: as Closest.
func (m *names) AppendClosest(to []byte, name string) (with []byte, found Closest, err error) {
	var room [DNSKeyMax + 2]byte
	key, err := AppendDNSKey(room[:0], name)
	if err != nil {
		return to, Closest{}, err
	}
	v, err := m.at.enter()
	if err != nil {
		return to, Closest{}, err
	}
	defer func() { err = left(m.at, v, recover(), err) }()
	// As in Append.
	var l lookup
	if m.changes() {
		var room seenRoom
		l.seen = room[:]
	}
	var window nodes
	for count := (attempts{}); ; {
		n, err := m.nodes(v, &window)
		t := noOrder
		if err != nil {
			t = &trouble{err: err, whole: true}
		} else if !n.hasOnlyIndex() {
			with, found, t = l.closest(n, to, key)
		}
		if v, t = m.at.renew(v, t); t == nil {
			return with, found, nil
		}
		if count.areOver(t) {
			return to, Closest{}, t.of(m.title)
		}
	}
}

// closest is the answer for the key of a name, behind which its slice has room for two bytes.
func (l *lookup) closest(n *nodes, to, name []byte) ([]byte, Closest, *trouble) {
	begin := len(to)
	var path trail
	t := l.descend(n, name, &path, true)
	root := l.root
	var ancestor entry
	agree, length := -1, -1
	if t == nil && l.end != 0 {
		// An entry at the path's end shares most with the name.
		goesOn := func(shared int) bool { return shared > length }
		agree, t = l.near(n, name, goesOn, func(e entry, shared int) {
			is := shared == e.keyLen() && shared > length && isDNSName(name, shared)
			if is && n.hasKey(&e, name[:shared]) {
				ancestor, length = e, shared
			}
		})
	}
	if t == nil && length >= 0 {
		to = n.append(to, ancestor.value.at, ancestor.value.len)
	}
	if again := l.lookAgain(n); again != nil {
		return nil, Closest{}, again
	}
	if t != nil {
		return nil, Closest{}, t
	}
	// All keys below a branch agree up to its offset, as for the longest prefix.
	for i := path.count - 1; i >= 0 && length < 0; i-- {
		offset := branchOffset(path.step(i).header)
		if offset > agree || !isDNSName(name, offset) {
			continue
		}
		with, found, t := l.get(n, to, name[:offset])
		if t != nil {
			return nil, Closest{}, t
		}
		if found {
			to, length = with, offset
		}
	}
	middle := len(to)
	encloser := max(agree, 0)
	for !isDNSName(name, encloser) {
		encloser--
	}
	c := Closest{
		Exact:    length == len(name),
		Exists:   agree == len(name),
		Labels:   dnsLabels(name),
		Encloser: dnsLabels(name[:encloser]),
	}
	if !c.Exists {
		// The bytes behind the encloser are put back.
		wildcard := name[:encloser+2]
		a, b := wildcard[encloser], wildcard[encloser+1]
		wildcard[encloser], wildcard[encloser+1] = '*', keyStop
		with, found, t := l.get(n, to, wildcard)
		wildcard[encloser], wildcard[encloser+1] = a, b
		if t != nil {
			return nil, Closest{}, t
		}
		if found {
			to = with
			c.Wildcard = Owner{true, c.Encloser + 1, to[middle:]}
		}
	}
	if length >= 0 {
		c.Ancestor = Owner{true, dnsLabels(name[:length]), to[begin:middle:middle]}
	}
	if n.root() != root {
		return nil, Closest{}, changed
	}
	return to, c, nil
}
