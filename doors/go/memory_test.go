package sapwood

import (
	"encoding/binary"
	"unsafe"
)

// mappingOf is memory of this process with these bytes, and zeros behind them up to a size.
func mappingOf(image []byte, size int) *mapping {
	m := &mapping{words: words{w64: make([]uint64, (size+7)/8)}}
	for i := range m.w64 {
		var word [8]byte
		copy(word[:], image[min(8*i, len(image)):])
		m.w64[i] = binary.LittleEndian.Uint64(word[:])
	}
	if len(m.w64) > 0 {
		m.w32 = unsafe.Slice((*uint32)(unsafe.Pointer(&m.w64[0])), 2*len(m.w64))
	}
	return m
}

// mappingOfBytes is memory that begins at a page, as words.
func mappingOfBytes(memory []byte) *mapping {
	base := unsafe.Pointer(&memory[0])
	return &mapping{words: words{
		w64: unsafe.Slice((*uint64)(base), len(memory)/8),
		w32: unsafe.Slice((*uint32)(base), len(memory)/4),
	}}
}
