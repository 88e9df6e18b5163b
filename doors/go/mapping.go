package sapwood

import "unsafe"

// mapping is memory of an arena or a file in this process.
type mapping struct {
	words
	// Of a file: its bytes. The last of the words may reach behind them.
	bytes []byte
	// Ends the mapping, if it needs an end.
	end func() error
}

// unmap ends the mapping. Nobody may read its words any more.
func (m *mapping) unmap() error {
	if m.end == nil {
		return nil
	}
	return m.end()
}

// wordsOf is memory that begins at a multiple of 8, as words. Behind its last byte, there is memory
// up to a multiple of 8.
func wordsOf(memory []byte) words {
	if len(memory) == 0 {
		return words{}
	}
	base := unsafe.Pointer(unsafe.SliceData(memory))
	return words{
		w64: unsafe.Slice((*uint64)(base), (len(memory)+7)/8),
		w32: unsafe.Slice((*uint32)(base), (len(memory)+7)/8*2),
	}
}

// room is memory of this process that begins at a multiple of 8.
func room(size int) []byte {
	words := make([]uint64, (size+7)/8+1)
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(words))), size)
}
