package sapwood

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// written is a map of the writer, and what it says is in there.
type written struct {
	name    string
	ordered bool
	entries map[string][]byte
}

// keys are the keys of a map in order.
func (w *written) keys() []string {
	keys := make([]string, 0, len(w.entries))
	for key := range w.entries {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return keys
}

// valueOf is the value that the writer gives a key (kernel/bpf/examples/arena_writer.rs).
func (w *written) valueOf(key []byte) []byte {
	number := uint64(len(key)) + 7
	for _, c := range key {
		number = number*31 + uint64(c)
	}
	switch {
	case strings.HasPrefix(w.name, "text"):
		return bytes.Repeat(key, []int{0, 1, 2, 40}[number%4])
	case strings.HasPrefix(w.name, "wide"):
		value := binary.LittleEndian.AppendUint64(nil, number)
		value = binary.LittleEndian.AppendUint64(value, ^number)
		return binary.LittleEndian.AppendUint64(value, uint64(len(key)))
	case w.name == "program-long":
		var value []byte
		for i := range uint64(20) {
			value = binary.LittleEndian.AppendUint64(value, number+i)
		}
		return value
	}
	return binary.LittleEndian.AppendUint64(nil, number)
}

// writer is a process that makes an arena with maps of all kinds.
type writer struct {
	folder string
	input  io.WriteCloser
	maps   []*written
}

// startWriter starts the program that SAPWOOD_ARENA_WRITER names.
func startWriter(t *testing.T) *writer {
	t.Helper()
	program := os.Getenv("SAPWOOD_ARENA_WRITER")
	if program == "" {
		t.Skip("skipped: SAPWOOD_ARENA_WRITER names no program; ci/go.sh builds it")
	}
	w := &writer{folder: fmt.Sprintf("/sys/fs/bpf/sapwood-go-%d-%d", os.Getpid(), time.Now().UnixNano())}
	command := exec.Command(program, w.folder)
	command.Stderr = os.Stderr
	input, err := command.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	w.input = input
	output, err := command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = input.Close()
		if err := command.Wait(); err != nil {
			t.Error("the writer:", err)
		}
		_ = os.RemoveAll(w.folder)
	})
	lines := bufio.NewScanner(output)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		words := strings.Split(lines.Text(), " ")
		switch words[0] {
		case "map":
			w.maps = append(w.maps, &written{words[1], len(words) > 2, map[string][]byte{}})
		case "entry":
			key, err1 := hex.DecodeString(words[1])
			value, err2 := hex.DecodeString(words[2])
			if err1 != nil || err2 != nil {
				t.Fatal(lines.Text(), err1, err2)
			}
			w.maps[len(w.maps)-1].entries[string(key)] = value
		case "ready":
			return w
		}
	}
	t.Fatal("the writer ended early")
	return nil
}

func (w *writer) open(t *testing.T) *Arena {
	t.Helper()
	arena, err := OpenArena(filepath.Join(w.folder, "arena"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := arena.Close(); err != nil {
			t.Error(err)
		}
	})
	return arena
}

// What the Rust side says is in its maps is there, in maps of all kinds, and nothing else.
func TestArena(t *testing.T) {
	w := startWriter(t)
	arena := w.open(t)
	windows, err := arena.Windows()
	if err != nil {
		t.Fatal(err)
	}
	// Maps that programs write have a window of words each, for changes by their process.
	windows = slices.DeleteFunc(windows, func(w Window) bool { return w.Kind == KindWords })
	if len(windows) != len(w.maps) {
		t.Fatal(windows)
	}
	for i, there := range w.maps {
		if windows[i].Name != there.name {
			t.Fatalf("%+v is not %q", windows[i], there.name)
		}
		t.Run(there.name, func(t *testing.T) { compare(t, arena, there) })
	}
	// A second mapping of the same arena finds its address taken.
	_, err = OpenArena(filepath.Join(w.folder, "arena"))
	wants(t, err, ErrAddress)
	_, err = OpenArena(filepath.Join(w.folder, "other"))
	wants(t, err, fs.ErrNotExist)
	_, err = OpenArena(w.folder)
	if err == nil {
		t.Fatal("a folder is an arena")
	}
}

// Arenas of different makers lie at different addresses, which are chosen at random.
func TestTwoArenas(t *testing.T) {
	first := startWriter(t)
	arena := first.open(t)
	for range 3 {
		second := startWriter(t)
		other, err := OpenArena(filepath.Join(second.folder, "arena"))
		if errors.Is(err, ErrAddress) {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		defer other.Close()
		compare(t, arena, first.maps[0])
		compare(t, other, second.maps[1])
		return
	}
	t.Fatal("three arenas at the address of another one")
}

func compare(t *testing.T, arena *Arena, there *written) {
	m, err := arena.Map(there.name)
	if err != nil {
		t.Fatal(err)
	}
	keys := there.keys()
	if ordered, err := m.HasOrder(); err != nil || ordered != there.ordered {
		t.Fatal(ordered, err)
	}
	size, err := m.ValueBytes()
	if strings.HasPrefix(there.name, "text") != (size == -1) || err != nil {
		t.Fatal(size, err)
	}
	if length, err := m.Len(); err != nil || length != len(keys) {
		t.Fatalf("%d entries, not %d, %v", length, len(keys), err)
	}
	for _, key := range keys {
		value, found, err := m.Get([]byte(key))
		if err != nil || !found || !bytes.Equal(value, there.entries[key]) {
			t.Fatalf("%x: %x, %v, %v", key, value, found, err)
		}
		wanted := uint64(0)
		for i := 0; i+8 <= len(value) && size > 0; i += 8 {
			wanted += binary.LittleEndian.Uint64(value[i:])
		}
		sum, found, err := m.Sum([]byte(key))
		switch {
		case size < 0:
			wants(t, err, ErrLayout)
		case err != nil || !found || sum != wanted:
			t.Fatalf("%x: %d, not %d, %v, %v", key, sum, wanted, found, err)
		}
		other := key + "\x00absent"
		if sum, found, err := m.Sum([]byte(other)); size > 0 && (sum != 0 || found || err != nil) {
			t.Fatalf("%x: %d, %v, %v", other, sum, found, err)
		}
		if found, err := m.Has([]byte(other)); found || err != nil {
			t.Fatalf("%x: %v, %v", other, found, err)
		}
	}
	all := gathered(t, m.All(), there)
	if there.ordered {
		same(t, all, keys)
	} else {
		slices.Sort(all)
		same(t, all, keys)
		_, _, _, err := m.First()
		wants(t, err, ErrNoOrder)
		return
	}
	for i := 0; i < len(keys); i += 41 {
		key := keys[i]
		same(t, gathered(t, m.From([]byte(key)), there), keys[i:])
		between := key + "\x00"
		from, _ := slices.BinarySearch(keys, between)
		same(t, gathered(t, m.From([]byte(between)), there), keys[from:])
		prefix := key[:len(key)/2]
		first, _ := slices.BinarySearch(keys, prefix)
		last := first
		for last < len(keys) && strings.HasPrefix(keys[last], prefix) {
			last++
		}
		same(t, gathered(t, m.Prefix([]byte(prefix)), there), keys[first:last])
		next, _, found, err := m.Next([]byte(key))
		if err != nil || found != (i+1 < len(keys)) || found && string(next) != keys[i+1] {
			t.Fatalf("%x behind %x, %v, %v", next, key, found, err)
		}
		previous, _, found, err := m.Previous([]byte(key))
		if err != nil || found != (i > 0) || found && string(previous) != keys[i-1] {
			t.Fatalf("%x before %x, %v, %v", previous, key, found, err)
		}
		longest, value, found, err := m.LongestPrefix([]byte(key + "\x01"))
		if err != nil || !found || string(longest) != key || !bytes.Equal(value, there.entries[key]) {
			t.Fatalf("%x of %x, %v, %v", longest, key, found, err)
		}
	}
}

func same(t *testing.T, got, wanted []string) {
	t.Helper()
	if !slices.Equal(got, wanted) {
		t.Fatalf("%d keys, not %d: %.60q, not %.60q", len(got), len(wanted), got, wanted)
	}
}

// gathered is the keys of a walk, whose values are those of the writer.
func gathered(t *testing.T, walk *Walk, there *written) []string {
	t.Helper()
	var keys []string
	for key, value := range walk.All() {
		if !bytes.Equal(value, there.valueOf(key)) {
			t.Fatalf("the value of %x is %x", key, value)
		}
		keys = append(keys, string(key))
	}
	if walk.Err() != nil {
		t.Fatal(walk.Err())
	}
	return keys
}

// Beside a writer, what stays is found in each lookup and each walk, and each value belongs to its
// key.
func TestBesideAWriter(t *testing.T) {
	w := startWriter(t)
	arena := w.open(t)
	if _, err := io.WriteString(w.input, "change\n"); err != nil {
		t.Fatal(err)
	}
	until := time.Now().Add(3 * time.Second)
	var gets, walks, busy, came, went atomic.Int64
	var group sync.WaitGroup
	for _, there := range w.maps {
		m, err := arena.Map(there.name)
		if err != nil {
			t.Fatal(err)
		}
		var stay []string
		for _, key := range there.keys() {
			if !strings.HasPrefix(key, "goes/") {
				stay = append(stay, key)
			}
		}
		group.Add(1)
		go func() {
			defer group.Done()
			for time.Now().Before(until) && !t.Failed() {
				for _, key := range stay {
					value, found, err := m.Get([]byte(key))
					if errors.Is(err, ErrBusy) {
						busy.Add(1)
						continue
					}
					if err != nil || !found || !bytes.Equal(value, there.entries[key]) {
						t.Errorf("%s: %x: %x, %v, %v", there.name, key, value, found, err)
						return
					}
					gets.Add(1)
				}
				for i := range 300 {
					key := fmt.Appendf(nil, "goes/%d", i*7)
					value, found, err := m.Get(key)
					if err != nil && !errors.Is(err, ErrBusy) || found && !bytes.Equal(value, there.valueOf(key)) {
						t.Errorf("%s: %s: %x, %v", there.name, key, value, err)
						return
					}
					if found {
						came.Add(1)
					} else {
						went.Add(1)
					}
				}
				if !walkIsRight(t, m, there, stay) {
					busy.Add(1)
				}
				walks.Add(1)
			}
		}()
	}
	group.Wait()
	t.Logf("%d lookups, %d walks, %d disturbed; %d met, %d gone", gets.Load(), walks.Load(),
		busy.Load(), came.Load(), went.Load())
	if came.Load() == 0 || went.Load() == 0 || busy.Load() > gets.Load()/100 {
		t.Error("the writer changed nothing, or disturbed too much")
	}
}

// walkIsRight walks a map beside the writer; false when changes ended the walk.
func walkIsRight(t *testing.T, m *Map, there *written, stay []string) bool {
	met := map[string]bool{}
	before, first := []byte(nil), true
	walk := m.All()
	for key, value := range walk.All() {
		if !bytes.Equal(value, there.valueOf(key)) {
			t.Errorf("%s: the value of %x is %x", there.name, key, value)
			return true
		}
		if met[string(key)] || there.ordered && !first && bytes.Compare(before, key) >= 0 {
			t.Errorf("%s: %x comes behind %x", there.name, key, before)
			return true
		}
		met[string(key)], before, first = true, key, false
	}
	if errors.Is(walk.Err(), ErrBusy) {
		return false
	}
	for _, key := range stay {
		if !met[key] {
			t.Errorf("%s: a walk without %x, %v", there.name, key, walk.Err())
			return true
		}
	}
	return true
}
