package sapwood

import (
	"encoding/binary"
	"math/bits"
	"net/netip"
)

// Bit strings as keys of a trie (core/lpm/src/bits/code.rs). Four bits make a byte, and the one to
// three bits that may be left at the end make one byte more. A byte is the number, from 1 to 30, of
// a node of the binary tree of depth 4 without its root, in the order of a walk that visits each
// node before its children.

// bitsOfByte is the number of bits that a byte of a key stands for, and valueOfByte these bits,
// padded to four. bytesAbove is the bytes for its first bits only, the one with most bits first.
var (
	bitsOfByte  [32]uint8
	valueOfByte [32]uint8
	bytesAbove  [32][3]byte
)

// byteOfBits is the byte for 1 to 4 bits, which are padded to four.
func byteOfBits(count, value uint8) byte {
	return count + 2*value - uint8(bits.OnesCount8(value))
}

func init() {
	for count := uint8(1); count <= 4; count++ {
		for value := uint8(0); value < 16; value += 1 << (4 - count) {
			c := byteOfBits(count, value)
			bitsOfByte[c], valueOfByte[c] = count, value
			for up := uint8(1); up < count; up++ {
				shift := 4 - count + up
				bytesAbove[c][up-1] = byteOfBits(count-up, value>>shift<<shift)
			}
		}
	}
}

// prefixKeyMax is the length of the longest key of a prefix with its family.
const prefixKeyMax = (familyBits + 128) / 4

// prefixKey appends the key of the first bits of an address: those of its family, 4 or 6, and of
// the address.
func prefixKey(to []byte, address netip.Addr, length int) []byte {
	const whole = 4
	if address.Is4() {
		all := address.As4()
		return appendBits(append(to, byteOfBits(whole, 4)), all[:], length)
	}
	all := address.As16()
	return appendBits(append(to, byteOfBits(whole, 6)), all[:], length)
}

func appendBits(to, all []byte, length int) []byte {
	for at := 0; at < length; at += 4 {
		four := all[at/8] >> (4 - at%8) & 15
		count := uint8(min(length-at, 4))
		to = append(to, byteOfBits(count, four&(0xf0>>count)))
	}
	return to
}

// prefixOf is the prefix with this key; false when it is the key of none.
func prefixOf(key []byte) (netip.Prefix, bool) {
	if len(key) < 1 || len(key) > prefixKeyMax {
		return netip.Prefix{}, false
	}
	var all [16]byte
	length := 0
	for i, c := range key {
		if c >= prefixKeysEnd || bitsOfByte[c] == 0 || i+1 < len(key) && bitsOfByte[c] < 4 {
			return netip.Prefix{}, false
		}
		if i > 0 {
			all[(i-1)/2] |= valueOfByte[c] << (4 * (i % 2))
			length += int(bitsOfByte[c])
		}
	}
	switch {
	case key[0] == byteOfBits(4, 4) && length <= 32:
		return netip.PrefixFrom(netip.AddrFrom4([4]byte(all[:4])), length), true
	case key[0] == byteOfBits(4, 6):
		return netip.PrefixFrom(netip.AddrFrom16(all), length), true
	}
	return netip.Prefix{}, false
}

// longestBits finds the entry of the longest prefix of a key: its bits, those of the family
// included, and its value, a word. It changes bytes of the key and puts them back. Nobody writes
// the map.
func (l *lookup) longestBits(n *nodes, key []byte) (length int, word uint32, t *trouble) {
	var path trail
	if t := l.descend(n, key, &path, true); t != nil || l.end == 0 {
		return -1, 0, t
	}
	// Keys that first differ from this one behind the path's last branch are at its end.
	best, found := -1, entry{}
	goesOn := func(shared int) bool { return 4*(shared+1) >= best }
	agree, t := l.near(n, key, goesOn, func(e entry, shared int) {
		size := e.keyLen()
		var last byte
		switch {
		case shared == size && size > 0:
			last = key[size-1]
		case shared+1 == size && shared < len(key):
			if last = n.keyByte(&e, shared); !isAbove(last, key[shared]) {
				return
			}
		default:
			return
		}
		// A damaged cluster may have other entries there.
		if have := 4*(size-1) + int(bitsOfByte[last&31]); have > best && n.common(&e, key) == shared {
			best, found = have, e
		}
	})
	if t != nil {
		return -1, 0, t
	}
	for i := path.count - 1; i >= 0; i-- {
		b := path.step(i)
		offset := branchOffset(b.header)
		if best > 4*offset+3 {
			break
		}
		if offset > agree {
			continue
		}
		if offset < len(key) {
			old := key[offset]
			for _, other := range bytesAbove[old&31] {
				if other == 0 {
					break
				}
				key[offset] = other
				e, there, t := l.childHas(n, b, n.childOf(b.at(), b.header, other), key[:offset+1])
				key[offset] = old
				if t != nil {
					return -1, 0, t
				}
				if have := 4*offset + int(bitsOfByte[other]); there && have > best {
					best, found = have, e
				}
			}
		}
		if best > 4*offset || offset == 0 {
			continue
		}
		e, there, t := l.childHas(n, b, 0, key[:offset])
		if t != nil {
			return -1, 0, t
		}
		if have := 4*(offset-1) + int(bitsOfByte[key[offset-1]&31]); there && have > best {
			best, found = have, e
		}
	}
	if best < 0 {
		return -1, 0, nil
	}
	return best, n.wordOf(&found), nil
}

// childHas finds an entry in a child of a branch that is a leaf or a cluster. The keys that end
// above others have no branch above them alone.
func (l *lookup) childHas(n *nodes, b step, child int, key []byte) (entry, bool, *trouble) {
	if child > branchLabels(b.header) {
		return entry{}, false, damaged("a map of bytes that has other children", b.at())
	}
	cell := n.u32(b.at() + branchCells(b.header) + 4*child)
	if isBranch(cell) {
		return entry{}, false, nil
	}
	return l.findIn(n, cell, key)
}

// isAbove says whether a byte stands for the first bits of another one.
func isAbove(above, c byte) bool {
	all := bytesAbove[c&31]
	return above != 0 && (above == all[0] || above == all[1] || above == all[2])
}

// wordOf is the value of an entry, of four bytes.
func (n *nodes) wordOf(e *entry) uint32 {
	var room [4]byte
	return binary.LittleEndian.Uint32(n.append(room[:0], e.value.at, 4))
}
