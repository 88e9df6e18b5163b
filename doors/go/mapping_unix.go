//go:build unix

package sapwood

import (
	"os"
	"syscall"
)

// mapFile maps a file of this many bytes for reading.
func mapFile(file *os.File, size int) (*mapping, error) {
	memory, err := syscall.Mmap(int(file.Fd()), 0, size, syscall.PROT_READ, syscall.MAP_SHARED)
	if err != nil {
		return nil, &os.PathError{Op: "map", Path: file.Name(), Err: err}
	}
	end := func() error { return syscall.Munmap(memory) }
	return &mapping{words: wordsOf(memory), bytes: memory, end: end}, nil
}
