package sapwood

import (
	"encoding/binary"
	"math/bits"
	"sync/atomic"
)

// words is memory that others may write while it is read: all of an arena, or a window of it. Both
// slices are over the same bytes. Each word is loaded atomically, so later loads are at least as
// new.
type words struct {
	w64 []uint64
	w32 []uint32
}

func (w words) len() int { return 8 * len(w.w64) }

// u32 is the word at this byte, a multiple of 4 below the length.
func (w words) u32(at int) uint32 { return atomic.LoadUint32(&w.w32[uint(at)/4]) }

// u64 is the word at this byte, a multiple of 8 below the length.
func (w words) u64(at int) uint64 { return atomic.LoadUint64(&w.w64[uint(at)/8]) }

// window is the part from one byte on, a multiple of 8. The part lies inside.
func (w words) window(at, n int) words {
	return words{w.w64[at/8 : (at+n)/8], w.w32[at/4 : (at+n)/4]}
}

// inside says whether this many bytes from a place on lie in the window, behind the header page.
func (w words) inside(at, n int) bool {
	return at >= headerPage && n >= 0 && n <= w.len() && at <= w.len()-n
}

// byte is a byte that lies inside the window.
func (w words) byte(at int) byte { return byte(w.u32(at&^3) >> (8 * (at & 3))) }

// append copies bytes that lie inside the window behind others.
func (w words) append(to []byte, from, n int) []byte {
	for n > 0 {
		word, skip := w.u64(from&^7), from&7
		if skip == 0 && n >= 8 {
			to = binary.LittleEndian.AppendUint64(to, word)
			from, n = from+8, n-8
			continue
		}
		word >>= 8 * skip
		piece := min(8-skip, n)
		for i := range piece {
			to = append(to, byte(word>>(8*i)))
		}
		from, n = from+piece, n-piece
	}
	return to
}

// copy copies bytes that lie inside the window. The copy is never nil.
func (w words) copy(from, n int) []byte { return w.append(make([]byte, 0, n), from, n) }

// bytes8 is the eight bytes from a place on, which lie inside the window, as a word.
func (w words) bytes8(from int) uint64 {
	low, skip := w.u64(from&^7), from&7
	if skip == 0 {
		return low
	}
	return low>>(8*skip) | w.u64(from&^7+8)<<(64-8*skip)
}

// bytesTo8 is up to seven bytes from a place on, which lie inside the window, as a word with any
// bytes behind them.
func (w words) bytesTo8(from, n int) uint64 {
	word, skip := w.u64(from&^7)>>(8*(from&7)), from&7
	if skip+n > 8 {
		word |= w.u64(from&^7+8) << (64 - 8*skip)
	}
	return word
}

// wordOfBytes is up to seven bytes as a word, with zeros behind them.
func wordOfBytes(b []byte) uint64 {
	n := len(b)
	switch {
	case n >= 4:
		return uint64(binary.LittleEndian.Uint32(b)) |
			uint64(binary.LittleEndian.Uint32(b[n-4:]))<<(8*(n-4))
	case n >= 2:
		return uint64(binary.LittleEndian.Uint16(b)) |
			uint64(binary.LittleEndian.Uint16(b[n-2:]))<<(8*(n-2))
	case n == 1:
		return uint64(b[0])
	}
	return 0
}

// equal says whether the bytes from a place on, which lie inside the window, are these.
func (w words) equal(from int, b []byte) bool {
	for ; len(b) >= 8; from, b = from+8, b[8:] {
		if w.bytes8(from) != binary.LittleEndian.Uint64(b) {
			return false
		}
	}
	n := len(b)
	return n == 0 || (w.bytesTo8(from, n)^wordOfBytes(b))<<(64-8*n) == 0
}

// common is the length of the longest common prefix of bytes from a place on, which lie inside the
// window, and others.
func (w words) common(from int, b []byte) int {
	whole := len(b)
	for ; len(b) >= 8; from, b = from+8, b[8:] {
		if differ := w.bytes8(from) ^ binary.LittleEndian.Uint64(b); differ != 0 {
			return whole - len(b) + bits.TrailingZeros64(differ)/8
		}
	}
	if n := len(b); n > 0 {
		if differ := (w.bytesTo8(from, n) ^ wordOfBytes(b)) << (64 - 8*n); differ != 0 {
			return whole - n + (bits.TrailingZeros64(differ)-(64-8*n))/8
		}
	}
	return whole
}
