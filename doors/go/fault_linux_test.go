package sapwood

import (
	"strings"
	"syscall"
	"testing"
)

// A page that the kernel does not give is an error, and the arena can be used and closed after it.
func TestPagesThatAreNotThere(t *testing.T) {
	image, _ := vectorsOf(t, kept)
	const flags = syscall.MAP_PRIVATE | syscall.MAP_ANON
	memory, err := syscall.Mmap(-1, 0, 1<<20, syscall.PROT_READ|syscall.PROT_WRITE, flags)
	if err != nil {
		t.Fatal(err)
	}
	copy(memory, image)
	arena, err := arenaOf(mappingOfBytes(memory))
	if err != nil {
		t.Fatal(err)
	}
	m, err := arena.Map("small")
	if err != nil {
		t.Fatal(err)
	}
	nodes := m.Window().At + headerPage
	if err := syscall.Mprotect(memory[nodes:], syscall.PROT_NONE); err != nil {
		t.Fatal(err)
	}
	isFault := func(err error) {
		t.Helper()
		wants(t, err, ErrDamaged)
		if !strings.Contains(err.Error(), "no memory at address 0x") {
			t.Fatal(err)
		}
	}
	_, _, err = m.Get([]byte("w"))
	isFault(err)
	_, _, _, err = m.Last()
	isFault(err)
	walk := m.All()
	for range walk.All() {
		t.Fatal("an entry")
	}
	isFault(walk.Err())
	if err := syscall.Mprotect(memory, syscall.PROT_READ); err != nil {
		t.Fatal(err)
	}
	if value, found, err := m.Get([]byte("w")); err != nil || !found || numberOf(t, value) != 200 {
		t.Fatal(value, found, err)
	}
	if err := arena.Close(); err != nil {
		t.Fatal(err)
	}
}
