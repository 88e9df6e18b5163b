package sapwood

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"net/netip"
	"sync"
	"sync/atomic"
)

// Action is what happens to a question.
type Action uint8

// The actions of rules. docs/lists.md says how formats have them.
const (
	// ActionNXDomain: the name does not exist.
	ActionNXDomain Action = iota
	// ActionNoData: the name has no records of this type.
	ActionNoData
	// ActionRefused: the answer is REFUSED.
	ActionRefused
	// ActionDrop: there is no answer.
	ActionDrop
	// ActionTruncate: the answer is truncated, so that the client asks by TCP.
	ActionTruncate
	// ActionPass: the question is answered as without lists.
	ActionPass
	// ActionNull: the answer is 0.0.0.0 or ::.
	ActionNull
	// ActionAddresses: the answer has the addresses of the verdict. Other types have no records.
	ActionAddresses
	// ActionName: the name is another name for the target of the verdict.
	ActionName
	// ActionRecords: the answer has those records of the verdict that have the question's type.
	ActionRecords
)

var actionWords = [...]string{
	"nxdomain", "nodata", "refused", "drop", "truncate", "pass", "null", "addresses", "name", "records",
}

// String is the word of the program for an action.
func (a Action) String() string {
	if int(a) < len(actionWords) {
		return actionWords[a]
	}
	return fmt.Sprintf("action %d", uint8(a))
}

// Rank is the rank of a rule among those of all lists, the first one first.
type Rank uint8

// The ranks of rules.
const (
	// RankRewriting is that of $dnsrewrite.
	RankRewriting Rank = iota
	// RankImportantException is that of an exception with $important.
	RankImportantException
	// RankImportant is that of a rule with $important.
	RankImportant
	// RankException is that of an exception, and of a list of exceptions.
	RankException
	// RankOrdinary is that of any other rule.
	RankOrdinary
)

// Record is a record of an answer.
type Record struct {
	Type uint16
	// The time to live, in seconds.
	TTL uint32
	// The data in wire form, without compressed names.
	Data []byte
}

// Verdict is the rule that answers a question, if one applies.
type Verdict struct {
	// Found says whether a rule applies. Without one, the action is ActionPass.
	Found  bool
	Action Action
	Rank   Rank
	// List is the number of the rule's list, from 0, and ListName is its name: the path of its file.
	List     int
	ListName string
	// Below says that the rule is for the names below its name alone.
	Below bool
	// Labels is the number of labels of the rule's name, which is that of the question, or one above.
	Labels int
	// Others is how many other rules apply.
	Others int
	// Addresses are those of ActionAddresses.
	Addresses []netip.Addr
	// Target is the other name of ActionName, without a trailing dot. The question's name is in the
	// place of an asterisk.
	Target string
	// Records are those of ActionRecords, of all types.
	Records []Record
	// The question's name.
	name string
}

// Rule is the text of the rule's name: with "*." in front if it is for the names below alone; empty
// if no rule applies.
func (v *Verdict) Rule() string {
	key, err := DNSKey(v.name)
	if err != nil || !v.Found {
		return ""
	}
	end := 0
	for range v.Labels {
		end += bytes.IndexByte(key[end:], keyStop) + 1
	}
	name, err := DNSName(key[:end])
	switch {
	case err != nil:
		return ""
	case v.Below && name == ".":
		return "*"
	case v.Below:
		return "*." + name
	}
	return name
}

// Lists is a map of the rules of block lists and response policies, which the program makes: a file
// of "sapwood lists build", or the directory of "sapwood lists serve". Its methods may be called by
// many goroutines at the same time.
type Lists struct {
	names *Names
	// What the map said of its lists when it was read last.
	known atomic.Pointer[knownLists]
	rooms sync.Pool
}

// knownLists is what the entry of a map about its lists says.
type knownLists struct {
	said  []byte
	names []string
	// The tier of each list.
	tiers []int
}

// listsKey is the key of the entry about the lists. No domain name has it.
var listsKey = []byte("\x00lists")

const (
	listsVersion = 1
	// The number of the format of response policy zones, and how many formats there are.
	listsZone    = 4
	listsFormats = 6
	// What stands before the name of a list: its format, flags, five numbers, the name's length.
	listsHead = 2 + 5*8 + 4
)

// errNotRules is the error of a map that has no rules.
func (l *Lists) notRules(what string) error {
	return fmt.Errorf("%s: %w: not a map of \"sapwood lists\": %s", l.names.title, ErrLayout, what)
}

// readLists reads the entry about the lists.
func readLists(said []byte) *knownLists {
	if len(said) == 0 || said[0] != listsVersion {
		return nil
	}
	k := &knownLists{said: bytes.Clone(said)}
	tier, before := 0, false
	for rest := said[1:]; len(rest) > 0; {
		if len(rest) < listsHead || rest[0] >= listsFormats {
			return nil
		}
		size := uint64(binary.LittleEndian.Uint32(rest[listsHead-4:]))
		isZone := rest[0] == listsZone
		rest = rest[listsHead:]
		if size > uint64(len(rest)) {
			return nil
		}
		if len(k.names) > 0 && (before || isZone) {
			tier++
		}
		before = isZone
		k.names, k.tiers = append(k.names, string(rest[:size])), append(k.tiers, tier)
		rest = rest[size:]
	}
	return k
}

// OpenLists opens a map of rules: a saved file, or the directory of a live map, which is read as
// its server changes it. Each question is answered by one version of the map.
//
// Errors: as OpenNames; ErrLayout when it is another map.
func OpenLists(path string) (*Lists, error) {
	names, err := OpenNames(path)
	if err != nil {
		return nil, err
	}
	l := &Lists{names: names}
	l.rooms.New = func() any {
		room := new(listsRoom)
		room.look.seen = room.seen[:]
		return room
	}
	if size, err := names.ValueBytes(); err != nil || size != -1 {
		_ = names.Close()
		if err == nil {
			err = l.notRules("its values are no byte strings")
		}
		return nil, err
	}
	if _, err := l.Ask(".", 1); err != nil {
		_ = names.Close()
		return nil, err
	}
	return l, nil
}

// Close ends the use of the file or the live map. Later questions return ErrClosed.
func (l *Lists) Close() error { return l.names.Close() }

// Names are the names of the lists, by their numbers, as of the last question.
func (l *Lists) Names() []string {
	return append([]string{}, l.known.Load().names...)
}

// Ask returns the rule that answers a question for a name, of a type. It allocates nothing, unless
// the rule has addresses, records or another name.
//
// A question that cannot be answered is an error, and never a verdict without a rule: who takes an
// error for "not listed" lets names pass that somebody has made for that.
//
// It costs a descent, one for each name above that may have rules, and one for the entry about the
// lists.
//
// Errors: ErrName when it is not a domain name, or when it is too long for the place of the
// asterisk in a rule's target; ErrLayout when the map has no rules; as Names.Get.
func (l *Lists) Ask(name string, rtype uint16) (verdict Verdict, err error) {
	room := l.rooms.Get().(*listsRoom)
	defer l.rooms.Put(room)
	room.key, err = AppendDNSKey(room.key[:0], name)
	if err != nil {
		return Verdict{}, err
	}
	if err := l.read(room); err != nil {
		return Verdict{}, err
	}
	known := l.known.Load()
	if known == nil || !bytes.Equal(known.said, room.said) {
		if known = readLists(room.said); known == nil {
			return Verdict{}, l.notRules("the entry about its lists is another one")
		}
		l.known.Store(known)
	}
	return l.decide(room, known, name, rtype)
}

// listsRoom is the memory of a question.
type listsRoom struct {
	look  lookup
	seen  seenRoom
	nodes nodes
	path  trail
	key   []byte
	said  []byte
	// The values of the name and of those above it, and where each lies.
	values []byte
	above  []ruledName
}

// ruledName is a name at or above that of a question: the length of its key, and its value.
type ruledName struct{ key, begin, end int }

// read reads the values of all names at and above that of a question, and the entry about the
// lists, all of one version.
func (l *Lists) read(room *listsRoom) (err error) {
	m := &l.names.names
	v, err := m.at.enter()
	if err != nil {
		return err
	}
	defer func() { err = left(m.at, v, recover(), err) }()
	for count := (attempts{}); ; {
		n, err := m.nodes(v, &room.nodes)
		t := noOrder
		if err != nil {
			t = &trouble{err: err, whole: true}
		} else if !n.hasOnlyIndex() {
			t = room.readAll(n)
		}
		if v, t = m.at.renew(v, t); t == nil {
			return nil
		}
		if count.areOver(t) {
			return t.of(m.title)
		}
	}
}

func (r *listsRoom) readAll(n *nodes) *trouble {
	said, found, t := r.look.get(n, r.said[:0], listsKey)
	if t != nil {
		return t
	}
	if !found {
		said = said[:0]
	}
	r.said = said
	root := r.look.root
	if t := r.readAbove(n); t != nil {
		return t
	}
	if r.look.root != root || n.root() != root {
		return changed
	}
	return nil
}

// readAbove reads the values of the names at and above that of the question. As in closest, they
// are at the end of its path, or as long as the offset of a branch on the path.
func (r *listsRoom) readAbove(n *nodes) *trouble {
	l, key := &r.look, r.key
	r.values, r.above = r.values[:0], r.above[:0]
	t := l.descend(n, key, &r.path, true)
	root, agree := l.root, -1
	if t == nil && l.end != 0 {
		goesOn := func(int) bool { return true }
		agree, t = l.near(n, key, goesOn, func(e entry, shared int) {
			if shared == e.keyLen() && isDNSName(key, shared) && n.hasKey(&e, key[:shared]) {
				begin := len(r.values)
				r.values = n.append(r.values, e.value.at, e.value.len)
				r.above = append(r.above, ruledName{shared, begin, len(r.values)})
			}
		})
	}
	if again := l.lookAgain(n); again != nil {
		return again
	}
	if t != nil {
		return t
	}
	for i := r.path.count - 1; i >= 0; i-- {
		offset := branchOffset(r.path.step(i).header)
		if offset > agree || !isDNSName(key, offset) || r.has(offset) {
			continue
		}
		begin := len(r.values)
		with, found, t := l.get(n, r.values, key[:offset])
		if t != nil {
			return t
		}
		if found {
			r.values = with
			r.above = append(r.above, ruledName{offset, begin, len(with)})
		}
		if l.root != root {
			return changed
		}
	}
	return nil
}

func (r *listsRoom) has(length int) bool {
	for i := range r.above {
		if r.above[i].key == length {
			return true
		}
	}
	return false
}

// decide finds the rule that wins.
func (l *Lists) decide(room *listsRoom, known *knownLists, name string, rtype uint16) (Verdict, error) {
	// The best rule of all, the best that rewrites nothing, and how many of each apply.
	var best [2]rule
	var counts [2]int
	excepted := false
	for _, above := range room.above {
		rest := ruleBytes{rest: room.values[above.begin:above.end]}
		for len(rest.rest) > 0 {
			next := rest.rule()
			if rest.bad || next.list >= len(known.tiers) {
				return Verdict{}, l.notRules("a value is not that of rules")
			}
			next.key = above.key
			if !next.applies(room.key, rtype) {
				continue
			}
			rewrites := Rank(next.rank) == RankRewriting
			excepted = excepted || rewrites && Action(next.action) == ActionPass
			for i := range best {
				if i == 1 && rewrites {
					break
				}
				if counts[i] == 0 || next.precedes(&best[i], known.tiers) {
					best[i] = next
				}
				counts[i]++
			}
		}
	}
	which := 0
	if excepted {
		which = 1
	}
	if counts[which] == 0 {
		return Verdict{Action: ActionPass, List: -1, name: name}, nil
	}
	r := &best[which]
	v := Verdict{
		Found: true, Action: Action(r.action), Rank: Rank(r.rank), List: r.list,
		ListName: known.names[r.list], Below: r.scope == scopeBelow,
		Labels: dnsLabels(room.key[:r.key]), Others: counts[which] - 1, name: name,
	}
	rest := ruleBytes{rest: r.bytes}
	switch v.Action {
	case ActionAddresses:
		for range r.parts {
			address, _ := netip.AddrFromSlice(rest.bytes())
			v.Addresses = append(v.Addresses, address)
		}
	case ActionName:
		target, err := targetOf(rest.bytes(), room.key)
		if err != nil {
			return Verdict{}, fmt.Errorf("%s: the target of %s: %w", l.names.title, v.Rule(), err)
		}
		v.Target = target
	case ActionRecords:
		for range r.parts {
			record := Record{Type: uint16(rest.number()), TTL: uint32(rest.number())}
			record.Data = bytes.Clone(rest.bytes())
			v.Records = append(v.Records, record)
		}
	}
	return v, nil
}

// targetOf is the text of a target, with the key of the question's name in the place of an
// asterisk.
func targetOf(target, asked []byte) (string, error) {
	above, cut := bytes.CutSuffix(target, []byte{'*', keyStop})
	if !cut || len(above) > 0 && above[len(above)-1] != keyStop {
		return DNSName(target)
	}
	name, err := DNSName(append(bytes.Clone(above), asked...))
	if err != nil {
		return "", err
	}
	// A name that is too long is found when it is read.
	_, err = DNSKey(name)
	return name, err
}
