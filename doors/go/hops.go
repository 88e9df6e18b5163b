package sapwood

import (
	"encoding/binary"
	"fmt"
	"strings"
	"unicode/utf8"
)

// HopKind is what a prefix leads to.
type HopKind uint8

// The kinds of next hops. Those of null routes have the words of "ip route".
const (
	// HopNumber is a next hop that is a number.
	HopNumber HopKind = iota
	// HopName is a next hop that has a name, which may be empty.
	HopName
	// HopBytes is a next hop that is a plain value of more than 8 bytes.
	HopBytes
	// HopGroup is several next hops with their weights.
	HopGroup
	// HopBlackhole drops packets without a reply.
	HopBlackhole
	// HopUnreachable tells the sender that the destination cannot be reached.
	HopUnreachable
	// HopProhibit tells the sender that the way is forbidden.
	HopProhibit
	// HopThrow goes on with the search in the next table.
	HopThrow
)

var nullHops = [...]string{
	HopBlackhole:   "blackhole",
	HopUnreachable: "unreachable",
	HopProhibit:    "prohibit",
	HopThrow:       "throw",
}

// IsNull says whether packets go nowhere.
func (k HopKind) IsNull() bool { return k >= HopBlackhole && int(k) < len(nullHops) }

// Hop is what a prefix leads to.
type Hop struct {
	// Kind is what it is.
	Kind HopKind
	// Number is that of HopNumber.
	Number uint64
	// Text is the name of HopName, and the bytes of HopBytes.
	Text string
	// Members are those of HopGroup. All lookups share them: they must not be changed.
	Members []Member
}

// Member is a next hop of a group. It is a number, a name or bytes.
type Member struct {
	Hop    Hop
	Weight uint32
}

// String is the text of a next hop as the program prints it: its number, its name, or bytes as
// 0x0a0b; the word of a null route; the members of a group with their weights.
func (h Hop) String() string {
	switch {
	case h.Kind == HopName:
		return h.Text
	case h.Kind == HopBytes:
		return fmt.Sprintf("0x%x", h.Text)
	case h.Kind == HopGroup:
		members := make([]string, len(h.Members))
		for i, member := range h.Members {
			members[i] = fmt.Sprintf("%v weight %d", member.Hop, member.Weight)
		}
		return strings.Join(members, ", ")
	case h.Kind.IsNull():
		return nullHops[h.Kind]
	}
	return fmt.Sprint(h.Number)
}

// hopOf is the next hop that a plain value is.
func hopOf(value []byte) Hop {
	if len(value) > 8 {
		return Hop{Kind: HopBytes, Text: string(value)}
	}
	var word [8]byte
	copy(word[:], value)
	return Hop{Kind: HopNumber, Number: binary.LittleEndian.Uint64(word[:])}
}

// hopList is the list of a saved table, by position. Entries that go on with the members of the
// group before are HopGroup without members.
type hopList struct {
	hops  []Hop
	kinds []byte
}

// add adds the entry behind those that are there, and says whether it is one.
func (l *hopList) add(entry []byte) bool {
	if len(entry) == 0 {
		return false
	}
	kind, content := entry[0], entry[1:]
	hop, more := Hop{}, -1
	switch kind {
	case listName:
		if !utf8.Valid(content) {
			return false
		}
		hop = Hop{Kind: HopName, Text: string(content)}
	case listNumber:
		if len(content) != 8 {
			return false
		}
		hop = hopOf(content)
	case listBytes:
		hop = Hop{Kind: HopBytes, Text: string(content)}
	case listGroup, listMembers:
		if kind == listMembers {
			// The group is the nearest entry before that is none of members.
			for more = len(l.kinds) - 1; more >= 0 && l.kinds[more] == listMembers; more-- {
			}
			if more < 0 || l.kinds[more] != listGroup {
				return false
			}
		}
		members, ok := l.members(content)
		if !ok {
			return false
		}
		hop = Hop{Kind: HopGroup, Members: members}
		if more >= 0 {
			l.hops[more].Members = append(l.hops[more].Members, members...)
			hop.Members = nil
		}
	default:
		return false
	}
	l.hops, l.kinds = append(l.hops, hop), append(l.kinds, kind)
	return true
}

// members reads members of a group, which come before it.
func (l *hopList) members(content []byte) ([]Member, bool) {
	if len(content)%listMemberBytes != 0 {
		return nil, false
	}
	members := make([]Member, 0, len(content)/listMemberBytes)
	for ; len(content) > 0; content = content[listMemberBytes:] {
		weight, word := binary.LittleEndian.Uint32(content), binary.LittleEndian.Uint32(content[4:])
		hop, ok := l.hop(word)
		if !ok || hop.Kind > HopBytes {
			return nil, false
		}
		members = append(members, Member{hop, weight})
	}
	return members, true
}

// hop is the next hop that a prefix's word says.
func (l *hopList) hop(word uint32) (Hop, bool) {
	payload := word & (1<<savedWordKindAt - 1)
	switch word >> savedWordKindAt {
	case savedNumber:
		return Hop{Kind: HopNumber, Number: uint64(payload)}, true
	case savedListed:
		if int(payload) < len(l.hops) && l.kinds[payload] != listMembers {
			return l.hops[payload], true
		}
	case savedNull:
		if kind := HopBlackhole + HopKind(payload); payload < 4 && kind.IsNull() {
			return Hop{Kind: kind}, true
		}
	}
	return Hop{}, false
}
