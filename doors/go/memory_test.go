package sapwood

import (
	"bytes"
	"math/rand/v2"
	"testing"
)

// mappingOf is memory of this process with these bytes, and zeros behind them up to a size.
func mappingOf(image []byte, size int) *mapping {
	memory := room(max(size, len(image)))
	copy(memory, image)
	return &mapping{words: wordsOf(memory[:size])}
}

// mappingOfBytes is memory that begins at a page, as words.
func mappingOfBytes(memory []byte) *mapping { return &mapping{words: wordsOf(memory)} }

// Bytes at all places and of all lengths compare as slices do.
func TestBytesCompareAsSlices(t *testing.T) {
	random := rand.New(rand.NewPCG(4, 8))
	image := make([]byte, 64)
	for i := range image {
		image[i] = byte(random.Uint32())
	}
	w := mappingOf(image, len(image))
	for from := range len(image) {
		for n := range len(image) - from + 1 {
			other := bytes.Clone(image[from : from+n])
			if !w.equal(from, other) || w.common(from, other) != n {
				t.Fatal(from, n, w.equal(from, other), w.common(from, other))
			}
			if !bytes.Equal(w.copy(from, n), other) {
				t.Fatal(from, n, w.copy(from, n))
			}
			if n < 8 && wordOfBytes(other)<<(8*(8-n)) != w.bytesTo8(from, n)<<(8*(8-n)) {
				t.Fatal(from, n, wordOfBytes(other), w.bytesTo8(from, n))
			}
			for at := range other {
				other[at] ^= 1 << random.IntN(8)
				if w.equal(from, other) || w.common(from, other) != at {
					t.Fatal(from, n, at, w.equal(from, other), w.common(from, other))
				}
				other[at] = image[from+at]
			}
		}
	}
}

// The child of a byte is the number of labels that are not greater, whatever is behind the labels.
func TestChildrenAreCounted(t *testing.T) {
	random := rand.New(rand.NewPCG(15, 16))
	image := make([]byte, headerPage+64)
	n := nodes{}
	for range 2000 {
		labels := 1 + random.IntN(branchSmallMax)
		for i := range branchSmallMax {
			image[headerPage+branchLabelsAt+i] = byte(random.Uint32())
		}
		n.words = mappingOf(image, len(image)).words
		c, wanted := byte(random.Uint32()), 0
		for _, label := range image[headerPage+branchLabelsAt:][:labels] {
			if label <= c {
				wanted++
			}
		}
		header := uint32(labels-1) << headCountAt
		if got := n.childOf(headerPage, header, c); got != wanted {
			t.Fatalf("%d of %d labels are not greater than %d, not %d", wanted, labels, c, got)
		}
	}
}
