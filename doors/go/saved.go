package sapwood

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"runtime/debug"
)

// savedFile is a saved file, mapped for reading.
type savedFile struct {
	guarded
	size int
	hash uint64
	root [3]uint64
}

// isLittleEndian says whether words have the byte order of the formats.
var isLittleEndian = binary.NativeEndian.Uint16([]byte{1, 0}) == 1

// openSaved opens a saved file, whatever it holds, and checks its header and its checksums.
func openSaved(path string) (f *savedFile, err error) {
	if !isLittleEndian {
		return nil, fmt.Errorf("%s: %w", path, ErrUnsupported)
	}
	// This check comes before opening, because opening a pipe would wait for its writer.
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s: %w: not a regular file", path, ErrNotSaved)
	}
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	if info, err = file.Stat(); err != nil {
		return nil, err
	}
	size := info.Size()
	if size < headerPage {
		var magic [8]byte
		if n, _ := file.Read(magic[:]); n == 8 && binary.LittleEndian.Uint64(magic[:]) == headerMagic {
			return nil, fmt.Errorf("%s: %w: cut off: %d bytes", path, ErrDamaged, size)
		}
		return nil, fmt.Errorf("%s: %w: %d bytes", path, ErrNotSaved, size)
	}
	if size > arenaMax*unitBytes {
		return nil, fmt.Errorf("%s: %w: %d bytes are more than references reach", path, ErrNotSaved, size)
	}
	memory, err := mapFile(file, int(size))
	if err != nil {
		return nil, err
	}
	f = &savedFile{guarded: guarded{memory: memory}, size: int(size)}
	if err := f.check(); err != nil {
		_ = f.close()
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return f, nil
}

// check checks the header page, and the checksums of it and of what is behind it.
func (f *savedFile) check() (err error) {
	v := visit{panics: debug.SetPanicOnFault(true)}
	f.lock.RLock()
	defer func() { err = left(f, v, recover(), err) }()
	b := f.memory.bytes
	word := func(at int) uint64 { return binary.LittleEndian.Uint64(b[at:]) }
	half := func(at int) uint32 { return binary.LittleEndian.Uint32(b[at:]) }
	if magic := word(0); magic != headerMagic {
		return fmt.Errorf("%w: it begins with %#018x", ErrNotSaved, magic)
	}
	if version := half(headerVersionAt); version != headerVersion {
		return fmt.Errorf("%w: it is %d, and this package knows %d", ErrVersion, version, headerVersion)
	}
	switch state := half(headerStateAt); state {
	case headerSealed:
	case headerLive:
		return fmt.Errorf("%w: it was not sealed: its writer is still at work, or died", ErrNotSaved)
	default:
		return fmt.Errorf("%w: the state is %#010x", ErrDamaged, state)
	}
	if stated := word(headerLengthAt); stated != uint64(len(b)) {
		return fmt.Errorf("%w: %d bytes, but the header says %d", ErrDamaged, len(b), stated)
	}
	var page [headerPage - 8]byte
	copy(page[copy(page[:], b[:headerSumAt]):], b[headerSumAt+8:headerPage])
	if xxh3(page[:]) != word(headerSumAt) {
		return fmt.Errorf("%w: the checksum of the header differs", ErrDamaged)
	}
	if xxh3(b[headerPage:]) != word(headerBodySumAt) {
		return fmt.Errorf("%w: the checksum of the contents differs", ErrDamaged)
	}
	f.hash = word(layoutHashAt)
	for i := range f.root {
		f.root[i] = word(headerRootsAt + 8*i)
	}
	return nil
}

// refused closes the file, and returns the error for a file that holds something else.
func (f *savedFile) refused(path, wanted string) error {
	_ = f.close()
	what := ""
	switch _, _, names := valuesOf(f.hash, namesLayout, formatInline); {
	case names:
		what = "a map of names"
	case f.hash == routesHash || f.hash == routesHashOld:
		what = "a table of routes"
	default:
		if _, _, ranges := valuesOf(f.hash, rangesLayout, rangesFormat); ranges {
			what = "a map of ranges"
			break
		}
		return fmt.Errorf("%s: %w: no file that this package knows has its layout hash, %#018x",
			path, ErrLayout, f.hash)
	}
	return fmt.Errorf("%s: %w: %s, not %s", path, ErrKind, what, wanted)
}

// trie is the trie of a saved file whose values are these.
func (f *savedFile) trie(size, align int, strings, inline bool) (nodes, error) {
	root, entries := f.root[savedRoot], f.root[savedLen]
	if root > 1<<32-1 || entries > uint64(f.size)/unitBytes || (root == 0) != (entries == 0) {
		return nodes{}, fmt.Errorf("%w: the root cell %#x does not fit %d entries", ErrDamaged, root, entries)
	}
	n := nodes{
		words: f.memory.words, valueBytes: size, strings: strings, inline: inline,
		saved: true, savedRoot: uint32(root), savedLen: int(entries),
	}
	n.entries = entriesOf(size, align)
	return n, nil
}

// savedNames is the trie of a saved file, as the home of a map.
type savedNames struct {
	*savedFile
	trie nodes
}

// Names is a saved map over byte strings, or a live one. Its methods may be called by many
// goroutines at the same time.
type Names struct {
	names
	home interface{ close() error }
}

// OpenNames opens a map over byte strings: a saved file, which the program (names build), Rust
// (QpMap::save), C and Python write, or the directory of a live map, which they serve. Values are
// numbers of eight bytes, byte strings, or other values of up to 4,096 bytes.
//
// Of a file it checks the header and the checksum of all bytes, at some gigabytes a second. The
// file must not be changed in place while it is open; saving again replaces it. Every reference is
// checked before it is followed, and Verify checks them all.
//
// A live map is read as its writer changes it: a reader is registered for each call that runs at
// the same time, and the writer waits for it or evicts it. Where this process may not register, no
// answer comes from memory that was used again. A map that is taken over by another writer, or was
// removed and made again, is followed.
//
// Errors: ErrNotSaved, ErrVersion, ErrKind, ErrLayout, ErrDamaged, and those of the system, such as
// fs.ErrNotExist; of a directory also ErrNotYet and ErrUnsupported.
func OpenNames(path string) (*Names, error) {
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		return openLiveNames(path)
	}
	file, err := openSaved(path)
	if err != nil {
		return nil, err
	}
	strings, inline := false, true
	size, align, known := valuesOf(file.hash, namesLayout, formatInline)
	if !known {
		inline = false
		size, align, known = valuesOf(file.hash, namesLayout, formatCells)
	}
	if !known {
		return nil, file.refused(path, "a map of names")
	}
	if size == byteStrings && align == 8 {
		size, align, strings = 0, 1, true
	}
	trie, err := file.trie(int(size), align, strings, inline)
	if err != nil {
		_ = file.close()
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	m := &Names{home: file}
	m.at, m.title = &savedNames{file, trie}, path
	return m, nil
}

// Close ends the use of the file or the live map. It waits for the operations that run. Later ones
// return ErrClosed. A second call does nothing.
func (m *Names) Close() error { return m.home.close() }

// Verify walks over all entries of the map, and checks that they are in order. Of a saved map, it
// also checks that a lookup finds each entry, and that there are as many as the file states.
//
// Errors: ErrDamaged; ErrNoOrder of a map that has only an index; those of Get.
func (m *Names) Verify() error {
	states, stated := false, 0
	err := m.undisturbed(func(n *nodes) *trouble {
		stated, states = n.statedLen()
		return nil
	})
	if err != nil {
		return err
	}
	count := 0
	walk := m.From(nil)
	for key := range walk.All() {
		count++
		if m.moves {
			continue
		}
		found, err := m.Has(key)
		if err != nil {
			return err
		}
		if !found {
			return fmt.Errorf("%s: %w: a lookup does not find %q", m.title, ErrDamaged, key)
		}
	}
	if errors.Is(walk.Err(), ErrBusy) && !m.moves {
		// Nobody changes a saved file, so what disturbs the walk is in it.
		return fmt.Errorf("%s: %w: a walk without an end", m.title, ErrDamaged)
	}
	if walk.Err() == nil && states && count != stated && !m.moves {
		return fmt.Errorf("%s: %w: %d entries, and it states %d", m.title, ErrDamaged, count, stated)
	}
	return walk.Err()
}
