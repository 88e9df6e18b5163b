package sapwood

import (
	"fmt"
	"strings"
)

// The limits of domain names.
const (
	dnsLabelMax = 63
	dnsWireMax  = 255
	// DNSKeyMax is the length of the longest key of a domain name.
	DNSKeyMax = 504
	// The bytes that end a component of a key, and that precede a byte which would read as one of
	// them.
	keyStop   = 0
	keyEscape = 1
)

// DNSKey returns the key of a domain name in text form: its labels in reverse order, ASCII letters
// in lower case, each ended by a byte 0. The root is the empty key; a trailing dot makes no
// difference. The escapes \. and \DDD of master files are read. Keys sort in the canonical order of
// DNSSEC, and the names below a zone are those whose keys begin with the zone's key.
//
// These are the keys of maps that the program builds and serves with --dns, of key::dns_name in
// Rust, and of sapwood_key_dns_name in C.
//
// Errors: ErrName, with what is wrong, and at which byte.
func DNSKey(name string) ([]byte, error) {
	return AppendDNSKey(make([]byte, 0, len(name)+1), name)
}

// AppendDNSKey appends the key of a domain name, as DNSKey makes it. It allocates nothing where the
// slice has room: DNSKeyMax bytes are enough for any name.
//
// Errors: ErrName; then the slice is as it was.
func AppendDNSKey(to []byte, name string) ([]byte, error) {
	bad := func(why string, at int) ([]byte, error) {
		return to, fmt.Errorf("%w: %q: %s at byte %d", ErrName, name, why, at)
	}
	// The labels without their lengths, and where each begins.
	var bytes [dnsWireMax]byte
	var begins [dnsWireMax/2 + 1]uint8
	size, labels, begin := 0, 0, 0
	end := func(at int) (why string) {
		switch {
		case size == begin:
			return "empty label"
		case size-begin > dnsLabelMax:
			return "label of more than 63 bytes, which ends"
		}
		begins[labels] = uint8(begin)
		labels++
		begin = size
		return ""
	}
	if name == "." {
		name = ""
	}
	for at := 0; at < len(name); at++ {
		c := name[at]
		switch c {
		case '.':
			if why := end(at); why != "" {
				return bad(why, at)
			}
			continue
		case '\\':
			escaped, used := dnsEscape(name[at+1:])
			if used == 0 {
				return bad("bad escape", at)
			}
			c, at = escaped, at+used
		}
		// The name takes a byte more for each label, and one for the root.
		if size+labels+3 > dnsWireMax {
			return bad("name of more than 255 bytes in wire form", at)
		}
		bytes[size] = c
		size++
	}
	if size > begin {
		if why := end(len(name)); why != "" {
			return bad(why, len(name))
		}
	}
	last := size
	for i := labels - 1; i >= 0; i-- {
		for _, c := range bytes[begins[i]:last] {
			switch {
			case c <= keyEscape:
				to = append(to, keyEscape, c+1)
			case 'A' <= c && c <= 'Z':
				to = append(to, c+'a'-'A')
			default:
				to = append(to, c)
			}
		}
		to = append(to, keyStop)
		last = int(begins[i])
	}
	return to, nil
}

// dnsEscape reads what is behind a backslash: a byte, and how many bytes it takes; 0 if it is none.
func dnsEscape(text string) (c byte, used int) {
	if text == "" {
		return 0, 0
	}
	if text[0] < '0' || text[0] > '9' {
		return text[0], 1
	}
	if len(text) < 3 {
		return 0, 0
	}
	number := 0
	for _, digit := range []byte(text[:3]) {
		if digit < '0' || digit > '9' {
			return 0, 0
		}
		number = number*10 + int(digit-'0')
	}
	if number > 255 {
		return 0, 0
	}
	return byte(number), 3
}

// DNSName returns the domain name of a key that DNSKey made, without a trailing dot. The root is a
// single dot.
//
// Errors: ErrName when the bytes are not the key of a domain name.
func DNSName(key []byte) (string, error) {
	none := fmt.Errorf("%w: %q is not the key of a domain name", ErrName, key)
	if len(key) > DNSKeyMax {
		return "", none
	}
	var labels []string
	wire := 1
	var label strings.Builder
	size := 0
	for i := 0; i < len(key); i++ {
		c := key[i]
		if c == keyStop {
			if size == 0 || size > dnsLabelMax {
				return "", none
			}
			labels = append(labels, label.String())
			wire += 1 + size
			size = 0
			label.Reset()
			continue
		}
		if c == keyEscape {
			i++
			if i == len(key) || key[i] < 1 || key[i] > 2 {
				return "", none
			}
			c = key[i] - 1
		}
		size++
		switch {
		case c == '.' || c == '\\':
			label.Write([]byte{'\\', c})
		case 0x21 <= c && c <= 0x7e:
			label.WriteByte(c)
		default:
			fmt.Fprintf(&label, "\\%03d", c)
		}
	}
	if size > 0 || wire > dnsWireMax {
		return "", none
	}
	if len(labels) == 0 {
		return ".", nil
	}
	var name strings.Builder
	for i := len(labels) - 1; i >= 0; i-- {
		name.WriteString(labels[i])
		if i > 0 {
			name.WriteByte('.')
		}
	}
	return name.String(), nil
}

// isDNSName says whether the prefix of this length of a name's key is the key of the name itself or
// of a name above it.
func isDNSName(key []byte, n int) bool { return n == 0 || n == len(key) || key[n-1] == keyStop }

// dnsLabels is the number of labels of a key.
func dnsLabels(key []byte) int {
	count := 0
	for _, c := range key {
		if c == keyStop {
			count++
		}
	}
	return count
}
