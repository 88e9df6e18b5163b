package blocker

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"net/netip"
	"slices"
	"strings"

	"github.com/miekg/dns"

	sapwood "sapwood/doors/go"
)

// The entry that says what the lists of a map of rules are. docs/lists.md has the bytes of its
// value and of the rules.
const listsKey = "\x00lists"

// What a rule does.
const (
	nxdomain byte = iota
	nodata
	refused
	drop
	truncate
	pass
	null
	addresses
	name
	records
)

// Which names a rule is for: its own alone, those below it alone, or both.
const (
	exact byte = iota
	below
)

// The classes of rules: the first one, of rewritings, and the usual one.
const (
	rewriting byte = 0
	ordinary  byte = 4
)

// How long an answer of a rule may be remembered, in seconds.
const ttl = 60

var errRules = errors.New("a value is not that of a list's rules")

// rule is a rule of a list that applies to a question.
type rule struct {
	action, scope, class byte
	list                 uint64
	// The labels of its name.
	labels int
	// Whether it has types, and names that it is not for.
	typed, excepts bool
	// What its action has: addresses, a key, records.
	rest []byte
}

// values reads a value.
type values struct {
	left []byte
	bad  bool
}

func (v *values) byte() (b byte) {
	if len(v.left) == 0 {
		v.bad = true
		return 0
	}
	b, v.left = v.left[0], v.left[1:]
	return b
}

func (v *values) number() (number uint64) {
	for shift := 0; shift < 35; shift += 7 {
		b := v.byte()
		number |= uint64(b&127) << shift
		if b < 128 {
			return number
		}
	}
	v.bad = true
	return 0
}

func (v *values) count() int {
	if n := v.number(); n <= uint64(len(v.left)) {
		return int(n)
	}
	v.bad = true
	return 0
}

func (v *values) bytes() (some []byte) {
	n := v.count()
	some, v.left = v.left[:n], v.left[n:]
	return some
}

// next reads a rule, and says whether its types and names let it apply.
func (v *values) next(key []byte, qtype uint16) (r rule, applies bool) {
	first := v.byte()
	r = rule{action: first & 15, scope: first >> 4 & 3, class: ordinary}
	applies = true
	if first&128 != 0 {
		r.list = v.number()
	}
	if first&64 != 0 {
		conditions := v.byte()
		r.class = conditions & 7
		if r.typed = conditions&8 != 0; r.typed {
			has := false
			for n := v.count(); n > 0; n-- {
				has = v.number() == uint64(qtype) || has
			}
			applies = has != (conditions&16 != 0)
		}
		if r.excepts = conditions&32 != 0; r.excepts {
			for n := v.count(); n > 0; n-- {
				applies = !bytes.HasPrefix(key, v.bytes()) && applies
			}
		}
	}
	before := v.left
	switch r.action {
	case addresses:
		for n := v.count(); n > 0; n-- {
			v.bytes()
		}
	case name:
		v.bytes()
	case records:
		for n := v.count(); n > 0; n-- {
			v.number()
			v.number()
			v.bytes()
		}
	}
	r.rest = before[:len(before)-len(v.left)]
	v.bad = v.bad || r.action > records || r.scope > 2 || r.class > ordinary
	return r, applies
}

// tiersOf returns the tier of each list: each response policy zone is one, and so are the other
// lists between two of them.
func tiersOf(about []byte) (tiers []int, err error) {
	const head, zone = 46, 4
	if len(about) == 0 || about[0] != 1 {
		return nil, errRules
	}
	tier, wasZone := 0, false
	for about = about[1:]; len(about) > 0; {
		if len(about) < head {
			return nil, errRules
		}
		isZone := about[0] == zone
		if len(tiers) > 0 && (isZone || wasZone) {
			tier++
		}
		tiers, wasZone = append(tiers, tier), isZone
		title := uint64(binary.LittleEndian.Uint32(about[head-4:]))
		if about = about[head:]; title > uint64(len(about)) {
			return nil, errRules
		}
		about = about[title:]
	}
	return tiers, nil
}

// verdict returns the rule that wins, of those of the name and of all names above it; nil if none
// applies. docs/lists.md has the order.
func verdict(above []sapwood.Owner, tiers []int, query string, qtype uint16) (*rule, error) {
	key, err := sapwood.DNSKey(query)
	if err != nil {
		return nil, err
	}
	labels := dns.CountLabel(dns.Fqdn(query))
	var all []rule
	for _, owner := range above {
		v := values{left: owner.Value}
		for len(v.left) > 0 && !v.bad {
			r, applies := v.next(key, qtype)
			r.labels = owner.Labels
			isOwn := owner.Labels == labels
			if applies && (r.scope != exact || isOwn) && (r.scope != below || !isOwn) {
				all = append(all, r)
			}
			if r.list >= uint64(len(tiers)) {
				return nil, errRules
			}
		}
		if v.bad {
			return nil, errRules
		}
	}
	isRewriting := func(r rule) bool { return r.class == rewriting }
	isExcepted := func(r rule) bool { return isRewriting(r) && r.action == pass }
	if slices.ContainsFunc(all, isExcepted) {
		all = slices.DeleteFunc(all, isRewriting)
	}
	if len(all) == 0 {
		return nil, nil
	}
	number := func(is bool) int {
		if is {
			return 1
		}
		return 0
	}
	best := slices.MinFunc(all, func(a, b rule) int {
		return cmp.Or(
			cmp.Compare(a.class, b.class), cmp.Compare(tiers[a.list], tiers[b.list]),
			cmp.Compare(b.labels, a.labels), cmp.Compare(a.list, b.list),
			cmp.Compare(a.scope, b.scope), number(b.typed)-number(a.typed),
			number(b.excepts)-number(a.excepts))
	})
	return &best, nil
}

// answer returns what the rule answers.
func (r *rule) answer(query *dns.Msg) *dns.Msg {
	m := new(dns.Msg)
	m.SetReply(query)
	m.RecursionAvailable = true
	question := query.Question[0]
	add := func(rtype uint16, ttl uint32, data []byte) {
		if rtype != question.Qtype && rtype != dns.TypeCNAME {
			return
		}
		wire := make([]byte, 0, 300+len(data))
		wire = append(wire, 0)
		wire = binary.BigEndian.AppendUint16(wire, rtype)
		wire = binary.BigEndian.AppendUint16(wire, dns.ClassINET)
		wire = binary.BigEndian.AppendUint32(wire, ttl)
		wire = binary.BigEndian.AppendUint16(wire, uint16(len(data)))
		if record, _, err := dns.UnpackRR(append(wire, data...), 0); err == nil {
			record.Header().Name = question.Name
			m.Answer = append(m.Answer, record)
		}
	}
	address := func(octets []byte) {
		if a, ok := netip.AddrFromSlice(octets); ok && a.Is4() {
			add(dns.TypeA, ttl, octets)
		} else if ok {
			add(dns.TypeAAAA, ttl, octets)
		}
	}
	v := values{left: r.rest}
	switch r.action {
	case nxdomain:
		m.Rcode = dns.RcodeNameError
	case refused:
		m.Rcode = dns.RcodeRefused
	case truncate:
		m.Truncated = true
	case null:
		address(make([]byte, 4))
		address(make([]byte, 16))
	case addresses:
		for n := v.count(); n > 0; n-- {
			address(v.bytes())
		}
	case name:
		// The client asks for the other name by itself.
		if target, err := sapwood.DNSName(v.bytes()); err == nil {
			if rest, isPattern := strings.CutPrefix(target, "*."); isPattern {
				target = dns.Fqdn(question.Name) + rest
			}
			header := dns.RR_Header{Name: question.Name, Rrtype: dns.TypeCNAME, Class: dns.ClassINET, Ttl: ttl}
			m.Answer = append(m.Answer, &dns.CNAME{Hdr: header, Target: dns.Fqdn(target)})
		}
	case records:
		for n := v.count(); n > 0; n-- {
			rtype, ttl := uint16(v.number()), uint32(v.number())
			add(rtype, ttl, v.bytes())
		}
	}
	return m
}
