package sapwood

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
)

// subject is an arena in memory of this process, with a map that tests damage and restore.
type subject struct {
	arena  *Arena
	window Window
	// The bytes of the window up to the last one that is not 0.
	used int
	keys [][]byte
}

func subjectOf(t testing.TB, image []byte, questions []question) *subject {
	t.Helper()
	arena, err := arenaOfImage(image)
	if err != nil {
		t.Fatal(err)
	}
	windows, err := arena.Windows()
	if err != nil {
		t.Fatal(err)
	}
	s := &subject{arena: arena}
	for _, w := range windows {
		if w.Number == int(questions[0].numbers[0]) {
			s.window = w
		}
	}
	for at := 0; at < s.window.Len; at += 8 {
		if arena.memory.u64(s.window.At+at) != 0 {
			s.used = at + 8
		}
	}
	for i := 0; i < len(questions); i += len(questions)/12 + 1 {
		s.keys = append(s.keys, questions[i].key)
	}
	return s
}

// subjects are the kept vectors, and the images of kernel/bpf where there are some.
func subjects(t testing.TB) []*subject {
	image, questions := vectorsOf(t, kept)
	all := []*subject{subjectOf(t, image, questions)}
	if os.Getenv("SAPWOOD_IMAGES") == "" {
		return all
	}
	for name, files := range images(t) {
		image, err := os.ReadFile(files[0])
		if err != nil {
			t.Fatal(name, err)
		}
		_, questions := vectorsOf(t, files[1])
		all = append(all, subjectOf(t, image, questions))
	}
	return all
}

// changeBytes is the bytes of the description of a change.
const changeBytes = 12

// damage changes words of the window as a description says, and returns what undoes it.
func (s *subject) damage(description []byte) (undo func()) {
	memory := s.arena.memory.words
	type old struct {
		at   int
		word uint64
	}
	var before []old
	set := func(at int, word uint64) {
		at += s.window.At
		before = append(before, old{at, memory.u64(at)})
		memory.w64[at/8] = word
	}
	words := s.used / 8
	for ; len(description) >= changeBytes; description = description[changeBytes:] {
		kind := description[0]
		from := int(binary.LittleEndian.Uint32(description[1:])) % words * 8
		to := int(binary.LittleEndian.Uint32(description[5:])) % words * 8
		shift := description[9] % 64
		word := memory.u64(s.window.At + from)
		switch kind % 6 {
		case 0: // a byte
			shift &^= 7
			set(from, word&^(0xff<<shift)|uint64(description[10])<<shift)
		case 1: // a bit
			set(from, word^1<<shift)
		case 2: // a word of another place
			set(from, memory.u64(s.window.At+to))
		case 3: // a cell that leads elsewhere
			shift &= 32
			cell := uint64(to/2) | uint64(description[10]&cellKind)
			set(from, word&^(0xffffffff<<shift)|cell<<shift)
		case 4: // what the header page says
			roots := [...]int{layoutHashAt, valueBytesAt, hasIndexAt, rootAt, tableAt}
			set(roots[int(description[10])%len(roots)], uint64(to/2)|uint64(description[11]&cellKind))
		case 5: // the entry in the list of windows
			at := windowsAt + s.window.Number*windowBytes + int(description[10])%3*8 - s.window.At
			set(at, uint64(to)<<(description[11]%16))
		}
	}
	return func() {
		for i := len(before) - 1; i >= 0; i-- {
			memory.w64[before[i].at/8] = before[i].word
		}
	}
}

// ask asks everything. It returns the number of errors, which are those that are documented.
func (s *subject) ask(t testing.TB, entriesMax int) int {
	t.Helper()
	count := 0
	check := func(err error) {
		t.Helper()
		if err == nil {
			return
		}
		count++
		for _, known := range []error{ErrDamaged, ErrBusy, ErrNoOrder, ErrLayout, ErrNoWindow} {
			if errors.Is(err, known) {
				return
			}
		}
		t.Fatal(err)
	}
	m, err := s.arena.Map(s.window.Name)
	check(err)
	if err != nil {
		return count
	}
	_, err = m.ValueBytes()
	check(err)
	_, _, _, err = m.First()
	check(err)
	_, _, _, err = m.Last()
	check(err)
	for _, key := range s.keys {
		_, _, err = m.Get(key)
		check(err)
		next, _, found, err := m.Next(key)
		check(err)
		if found && bytes.Compare(next, key) <= 0 {
			t.Fatalf("%x behind %x", next, key)
		}
		previous, _, found, err := m.Previous(key)
		check(err)
		if found && bytes.Compare(previous, key) >= 0 {
			t.Fatalf("%x before %x", previous, key)
		}
		prefix, _, found, err := m.LongestPrefix(key)
		check(err)
		if found && !bytes.HasPrefix(key, prefix) {
			t.Fatalf("%x is no prefix of %x", prefix, key)
		}
	}
	walks := []*Walk{m.All(), m.From(s.keys[len(s.keys)/2]), m.Prefix(s.keys[0][:min(len(s.keys[0]), 1)])}
	for i, walk := range walks {
		var before []byte
		given := 0
		ordered, err := m.HasOrder()
		check(err)
		for key := range walk.All() {
			if ordered && given > 0 && bytes.Compare(before, key) >= 0 {
				t.Fatalf("walk %d: %x comes behind %x", i, key, before)
			}
			before = key
			if given++; given == entriesMax {
				break
			}
		}
		check(walk.Err())
	}
	return count
}

func rounds(t testing.TB, usual int) int {
	text := os.Getenv("SAPWOOD_OPS")
	if text == "" {
		return usual
	}
	rounds, err := strconv.Atoi(text)
	if err != nil {
		t.Fatal("SAPWOOD_OPS", err)
	}
	return rounds
}

// Damaged maps give errors or answers, and every operation ends.
func TestDamage(t *testing.T) {
	for i, s := range subjects(t) {
		calm := s.ask(t, 1<<30)
		random := rand.New(rand.NewPCG(uint64(i), 36))
		met := false
		for round := range rounds(t, 60) {
			description := make([]byte, changeBytes*(1+random.IntN(200)))
			for j := range description {
				description[j] = byte(random.Uint32())
			}
			undo := s.damage(description)
			met = s.ask(t, 20_000) != calm || met
			undo()
			if round == 0 && s.ask(t, 1<<30) != calm {
				t.Fatal("the damage was not undone")
			}
		}
		if !met {
			t.Fatalf("no damage of %q was seen", s.window.Name)
		}
	}
}

// Random bytes in the window.
func TestRandomBytes(t *testing.T) {
	for i, s := range subjects(t) {
		random := rand.New(rand.NewPCG(uint64(i), 37))
		memory := s.arena.memory.words
		for range rounds(t, 60) / 10 {
			for at := headerPage; at < s.used; at += 8 {
				memory.w64[(s.window.At+at)/8] = random.Uint64() & random.Uint64()
			}
			s.ask(t, 20_000)
		}
	}
}

// go test -fuzz FuzzDamage; with SAPWOOD_IMAGES also maps of all kinds.
func FuzzDamage(f *testing.F) {
	all := subjects(f)
	random := rand.New(rand.NewPCG(1, 38))
	for i := range 4 * len(all) {
		description := make([]byte, changeBytes*(1+i%20))
		for j := range description {
			description[j] = byte(random.Uint32())
		}
		f.Add(byte(i), description)
	}
	f.Fuzz(func(t *testing.T, which byte, description []byte) {
		s := all[int(which)%len(all)]
		undo := s.damage(description)
		defer undo()
		s.ask(t, 500)
	})
}

// fixture is the map of the kept vectors, for damage that a test makes by hand.
func fixture(t *testing.T) (*subject, *Map, func(at int, word uint64)) {
	t.Helper()
	image, questions := vectorsOf(t, kept)
	s := subjectOf(t, image, questions)
	m, err := s.arena.Map("small")
	if err != nil {
		t.Fatal(err)
	}
	return s, m, func(at int, word uint64) { s.arena.memory.w64[at/8] = word }
}

func wants(t *testing.T, err, wanted error) {
	t.Helper()
	if !errors.Is(err, wanted) {
		t.Fatalf("%v, not %v", err, wanted)
	}
}

func TestLoopsEnd(t *testing.T) {
	s, m, _ := fixture(t)
	// The root is a branch. Its cells lead back to itself.
	root := s.window.At + rootAt
	memory := s.arena.memory.words
	cell := uint32(memory.u64(root))
	if !isBranch(cell) {
		t.Fatal("the root is no branch")
	}
	at := s.window.At + byteOf(cell)
	cells := at + branchCells(memory.u32(at)&^headLocks)
	for i := range branchLabels(memory.u32(at)) + 1 {
		memory.w32[(cells+4*i)/4] = cell
	}
	_, _, err := m.Get([]byte("w"))
	wants(t, err, ErrDamaged)
	_, _, _, err = m.First()
	wants(t, err, ErrDamaged)
	walk := m.All()
	for range walk.All() {
		t.Fatal("an entry")
	}
	wants(t, walk.Err(), ErrDamaged)

	// An index whose table is followed by itself.
	s, m, set := fixture(t)
	table := 40 << 10
	set(s.window.At+hasIndexAt, onlyIndex)
	set(s.window.At+tableAt, uint64(table/unitBytes))
	set(s.window.At+table, 1<<32|1)
	set(s.window.At+table+8, uint64(table/unitBytes)<<32)
	_, _, err = m.Get([]byte("w"))
	wants(t, err, ErrDamaged)
	walk = m.All()
	for range walk.All() {
		t.Fatal("an entry")
	}
	wants(t, walk.Err(), ErrDamaged)
	_, _, _, err = m.First()
	wants(t, err, ErrNoOrder)
}

func TestHeaders(t *testing.T) {
	image, _ := vectorsOf(t, kept)
	changed := func(at int, word uint64) error {
		other := append([]byte(nil), image...)
		binary.LittleEndian.PutUint64(other[at:], word)
		_, err := arenaOf(mappingOf(other, 1<<20))
		return err
	}
	wants(t, changed(0, 1), ErrNotAnArena)
	wants(t, changed(versionAt, arenaVersion+1), ErrVersion)
	wants(t, changed(bytesAt, 4096), ErrNotAnArena)
	_, err := arenaOf(mappingOf(nil, 0))
	wants(t, err, ErrNotAnArena)

	s, m, set := fixture(t)
	_, err = s.arena.Map("other")
	wants(t, err, ErrNoWindow)
	if want := `map "other": there is no such map: the arena has "small" (qp)`; err.Error() != want {
		t.Fatalf("%q, not %q", err, want)
	}
	entry := windowsAt
	for _, place := range []uint64{0, 4097, 1 << 40, 1<<64 - 4096} {
		set(entry+windowAt, place)
		_, _, err = m.Get(nil)
		wants(t, err, ErrDamaged)
		_, err = s.arena.Windows()
		wants(t, err, ErrDamaged)
	}
	_, m, set = fixture(t)
	set(entry, 99)
	_, _, err = m.Get(nil)
	wants(t, err, ErrDamaged)
	set(entry, uint64(KindNone))
	_, _, err = m.Get(nil)
	wants(t, err, ErrNoWindow)
	s, m, set = fixture(t)
	set(entry+windowName, 0xff)
	_, err = s.arena.Windows()
	wants(t, err, ErrDamaged)
	set(s.window.At+layoutHashAt, 5)
	_, _, err = m.Get(nil)
	wants(t, err, ErrLayout)
	set(s.window.At+valueBytesAt, 12)
	_, _, err = m.Get(nil)
	wants(t, err, ErrDamaged)
}

func TestClose(t *testing.T) {
	s, m, _ := fixture(t)
	walk := m.All()
	count := 0
	for range walk.All() {
		if count++; count == 3 {
			if err := s.arena.Close(); err != nil {
				t.Fatal(err)
			}
		}
	}
	if count != 3 {
		t.Fatalf("%d entries", count)
	}
	wants(t, walk.Err(), ErrClosed)
	_, _, err := m.Get(nil)
	wants(t, err, ErrClosed)
	_, err = s.arena.Windows()
	wants(t, err, ErrClosed)
	if err := s.arena.Close(); err != nil {
		t.Fatal(err)
	}
}

// A lookup that appends allocates nothing.
func TestAppendAllocatesNothing(t *testing.T) {
	_, m, _ := fixture(t)
	room := make([]byte, 0, 64)
	key := []byte{0x77, 0x19}
	allocations := testing.AllocsPerRun(100, func() {
		with, found, err := m.Append(room, key)
		if err != nil || !found || numberOf(t, with) != 6 {
			t.Fatal(with, found, err)
		}
	})
	if allocations != 0 {
		t.Fatalf("%v allocations", allocations)
	}
}

func BenchmarkGet(b *testing.B) {
	image, questions := vectorsOf(b, kept)
	s := subjectOf(b, image, questions)
	m, err := s.arena.Map("small")
	if err != nil {
		b.Fatal(err)
	}
	room, key := make([]byte, 0, 64), []byte{0x77, 0x19}
	for range b.N {
		if _, found, err := m.Append(room, key); !found || err != nil {
			b.Fatal(found, err)
		}
	}
}
