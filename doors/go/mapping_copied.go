//go:build !unix

package sapwood

import (
	"io"
	"os"
)

// mapFile reads a file of this many bytes.
func mapFile(file *os.File, size int) (*mapping, error) {
	memory := room(size)
	if _, err := io.ReadFull(file, memory); err != nil {
		return nil, &os.PathError{Op: "read", Path: file.Name(), Err: err}
	}
	return &mapping{words: wordsOf(memory), bytes: memory}, nil
}
