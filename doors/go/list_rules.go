package sapwood

import "bytes"

// rule is a rule as its bytes have it.
type rule struct {
	action, scope, rank uint8
	list                int
	hasTypes, others    bool
	// How many types, names and parts of the action there are, and their bytes.
	types, except, parts   int
	typed, excepted, bytes []byte
	// The length of its name's key.
	key int
}

// The scopes of rules.
const (
	scopeExact uint8 = iota
	scopeBelow
	scopeBoth
)

// applies says whether a rule at or above a name is for a question.
func (r *rule) applies(key []byte, rtype uint16) bool {
	isItself := r.key == len(key)
	if r.scope == scopeExact && !isItself || r.scope == scopeBelow && isItself {
		return false
	}
	if r.hasTypes {
		has := false
		rest := ruleBytes{rest: r.typed}
		for range r.types {
			has = rest.number() == uint64(rtype) || has
		}
		if has == r.others {
			return false
		}
	}
	rest := ruleBytes{rest: r.excepted}
	for range r.except {
		if bytes.HasPrefix(key, rest.bytes()) {
			return false
		}
	}
	return true
}

// precedes says whether a rule wins over another one that applies, too. Rules of one name that
// nothing tells apart are in their order in the value.
func (r *rule) precedes(other *rule, tiers []int) bool {
	flag := func(is bool) int {
		if is {
			return 0
		}
		return 1
	}
	for _, row := range [...][2]int{
		{int(r.rank), int(other.rank)},
		{tiers[r.list], tiers[other.list]},
		{other.key, r.key},
		{r.list, other.list},
		{int(r.scope), int(other.scope)},
		{flag(r.hasTypes), flag(other.hasTypes)},
		{flag(r.except > 0), flag(other.except > 0)},
	} {
		if row[0] != row[1] {
			return row[0] < row[1]
		}
	}
	return false
}

// ruleBytes reads a value. After what is no rule, it is bad, and all that follows is nothing.
type ruleBytes struct {
	rest []byte
	bad  bool
}

func (b *ruleBytes) fail() { b.rest, b.bad = nil, true }

func (b *ruleBytes) byte() byte {
	if len(b.rest) == 0 {
		b.fail()
		return 0
	}
	c := b.rest[0]
	b.rest = b.rest[1:]
	return c
}

// number reads seven bits a byte, the lowest first.
func (b *ruleBytes) number() (number uint64) {
	for shift := 0; shift < 35; shift += 7 {
		c := b.byte()
		number |= uint64(c&127) << shift
		if c&128 == 0 {
			return number
		}
	}
	b.fail()
	return 0
}

func (b *ruleBytes) small(most uint64) uint64 {
	number := b.number()
	if number > most {
		b.fail()
		return 0
	}
	return number
}

// count reads how many things follow.
func (b *ruleBytes) count() int {
	number := b.number()
	if number > uint64(len(b.rest)) {
		b.fail()
		return 0
	}
	return int(number)
}

func (b *ruleBytes) bytes() []byte {
	count := b.count()
	taken := b.rest[:count]
	b.rest = b.rest[count:]
	return taken
}

// rule reads a rule.
func (b *ruleBytes) rule() (r rule) {
	first := b.byte()
	r.action, r.scope, r.rank = first&15, first>>4&3, uint8(RankOrdinary)
	if r.scope > scopeBoth || r.action > uint8(ActionRecords) {
		b.fail()
		return r
	}
	if first&(1<<7) != 0 {
		r.list = int(b.small(1<<16 - 1))
	}
	if first&(1<<6) != 0 {
		c := b.byte()
		if r.rank = c & 7; r.rank > uint8(RankOrdinary) {
			b.fail()
			return r
		}
		if c&(1<<3) != 0 {
			r.hasTypes, r.others, r.types = true, c&(1<<4) != 0, b.count()
			r.typed = b.rest
			for range r.types {
				b.small(1<<16 - 1)
			}
		}
		if c&(1<<5) != 0 {
			r.except = b.count()
			r.excepted = b.rest
			for range r.except {
				b.bytes()
			}
		}
	}
	r.bytes = b.rest
	switch Action(r.action) {
	case ActionAddresses:
		r.parts = b.count()
		r.bytes = b.rest
		for range r.parts {
			if size := len(b.bytes()); size != 4 && size != 16 {
				b.fail()
			}
		}
	case ActionName:
		b.bytes()
	case ActionRecords:
		r.parts = b.count()
		r.bytes = b.rest
		for range r.parts {
			b.small(1<<16 - 1)
			b.small(1<<32 - 1)
			b.bytes()
		}
	}
	return r
}
