package sapwood

// mappingOf is memory of this process with these bytes, and zeros behind them up to a size.
func mappingOf(image []byte, size int) *mapping {
	memory := room(max(size, len(image)))
	copy(memory, image)
	return &mapping{words: wordsOf(memory[:size])}
}

// mappingOfBytes is memory that begins at a page, as words.
func mappingOfBytes(memory []byte) *mapping { return &mapping{words: wordsOf(memory)} }
