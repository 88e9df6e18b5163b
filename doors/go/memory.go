package sapwood

import (
	"encoding/binary"
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
func (w words) u32(at int) uint32 { return atomic.LoadUint32(&w.w32[at/4]) }

// u64 is the word at this byte, a multiple of 8 below the length.
func (w words) u64(at int) uint64 { return atomic.LoadUint64(&w.w64[at/8]) }

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

// equal says whether the bytes from a place on, which lie inside the window, are these.
func (w words) equal(from int, b []byte) bool {
	for len(b) > 0 {
		word, skip := w.u64(from&^7), from&7
		if skip == 0 && len(b) >= 8 {
			if binary.LittleEndian.Uint64(b) != word {
				return false
			}
			from, b = from+8, b[8:]
			continue
		}
		word >>= 8 * skip
		piece := min(8-skip, len(b))
		for i, c := range b[:piece] {
			if byte(word>>(8*i)) != c {
				return false
			}
		}
		from, b = from+piece, b[piece:]
	}
	return true
}
