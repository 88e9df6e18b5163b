package sapwood

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"
	"sync/atomic"
	"unicode/utf8"
)

// Kind is what a window holds.
type Kind uint32

// String is the kind's name, as `sapwood bpf list` prints it.
func (k Kind) String() string {
	if int(k) < len(kindNames) {
		return kindNames[k]
	}
	return fmt.Sprintf("kind %d", uint32(k))
}

// Window is an entry of an arena's list of windows. A window holds one map.
type Window struct {
	// Number is what programs in the kernel name the window by.
	Number int
	// Kind is what the window holds.
	Kind Kind
	// Name is the name of the map.
	Name string
	// At is where the window begins, in bytes from the arena's beginning.
	At int
	// Len is the window's bytes of address space.
	Len int
}

// Arena is a BPF arena of Sapwood, mapped into this process for reading.
type Arena struct {
	// Held for reading by operations, and for writing by Close.
	lock   sync.RWMutex
	memory *mapping
}

// OpenArena opens the arena that is pinned at a path of a BPF file system, such as
// /sys/fs/bpf/names/arena. It maps the arena for reading, which takes address space and no memory.
// The kernel asks for the right to read and to write the pin, and for no capability.
//
// Errors: ErrNotAnArena, ErrVersion, ErrAddress, ErrUnsupported, and those of the system, such as
// fs.ErrNotExist and fs.ErrPermission.
func OpenArena(path string) (*Arena, error) {
	memory, err := mapPinned(path)
	if err != nil {
		return nil, err
	}
	arena, err := arenaOf(memory)
	if err != nil {
		_ = memory.unmap()
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return arena, nil
}

// arenaOf checks the header page.
func arenaOf(memory *mapping) (*Arena, error) {
	a := &Arena{memory: memory}
	if memory.len() < pageBytes {
		return nil, fmt.Errorf("%w: %d bytes", ErrNotAnArena, memory.len())
	}
	return a, a.check()
}

func (a *Arena) check() (err error) {
	m, panics, err := a.enter()
	if err != nil {
		return err
	}
	defer a.leave(panics, &err)
	if magic := m.u64(0); magic != arenaMagic {
		return fmt.Errorf("%w: an arena that begins with %#018x", ErrNotAnArena, magic)
	}
	if version := m.u32(versionAt); version != arenaVersion {
		return fmt.Errorf("%w: it is %d, and this package knows %d", ErrVersion, version, arenaVersion)
	}
	if stated := m.u64(bytesAt); stated != uint64(m.len()) {
		return fmt.Errorf("%w: an arena of %d bytes that says it has %d", ErrNotAnArena, m.len(), stated)
	}
	return nil
}

// Close unmaps the arena. It waits for the operations that run. Later ones return ErrClosed, those
// of the arena's maps and walks, too. A second call does nothing.
func (a *Arena) Close() error {
	a.lock.Lock()
	defer a.lock.Unlock()
	memory := a.memory
	if memory == nil {
		return nil
	}
	a.memory = nil
	return memory.unmap()
}

// enter is the arena's memory, which stays mapped until leave.
func (a *Arena) enter() (m words, panics bool, err error) {
	a.lock.RLock()
	if a.memory == nil {
		a.lock.RUnlock()
		return words{}, false, ErrClosed
	}
	return a.memory.words, debug.SetPanicOnFault(true), nil
}

// leave ends what enter began. It is deferred. A page that the kernel could not provide, for want
// of memory, becomes an error.
func (a *Arena) leave(panics bool, err *error) {
	debug.SetPanicOnFault(panics)
	a.lock.RUnlock()
	if panicked := recover(); panicked != nil {
		fault, ok := panicked.(interface {
			runtime.Error
			Addr() uintptr
		})
		if !ok {
			panic(panicked)
		}
		*err = fmt.Errorf("%w: no memory at address %#x", ErrDamaged, fault.Addr())
	}
}

// Windows returns the windows of the arena, in order of their numbers.
//
// Errors: ErrClosed; ErrDamaged when an entry of the list breaks the format.
func (a *Arena) Windows() (all []Window, err error) {
	m, panics, err := a.enter()
	if err != nil {
		return nil, err
	}
	defer a.leave(panics, &err)
	for number := range windowsMax {
		w, err := windowOf(m, number)
		if err != nil {
			return nil, err
		}
		if w.Kind == KindNone {
			continue
		}
		name := m.copy(windowsAt+number*windowBytes+windowName, nameMax)
		w.Name, _, _ = strings.Cut(string(name), "\x00")
		if !utf8.ValidString(w.Name) {
			return nil, fmt.Errorf("window %d: %w: its name is no text", number, ErrDamaged)
		}
		all = append(all, w)
	}
	return all, nil
}

// windowOf reads an entry of the list, without its name.
func windowOf(m words, number int) (Window, error) {
	entry := windowsAt + number*windowBytes
	kind := Kind(m.u32(entry + windowKind))
	if int(kind) >= len(kindNames) {
		return Window{}, fmt.Errorf("window %d: %w: kind %d", number, ErrDamaged, uint32(kind))
	}
	if kind == KindNone {
		return Window{}, nil
	}
	at, n, size := m.u64(entry+windowAt), m.u64(entry+windowLen), uint64(m.len())
	whole := at%pageBytes == 0 && n%pageBytes == 0 && at >= pageBytes && n >= pageBytes
	if !whole || n > size || at > size-n {
		return Window{}, fmt.Errorf("window %d: %w: %d bytes at %d", number, ErrDamaged, n, at)
	}
	return Window{Number: number, Kind: kind, At: int(at), Len: int(n)}, nil
}

// Map finds the map over byte strings with this name: of KindQp or KindKernelQp.
//
// Errors: ErrNoWindow, which says what there is; ErrLayout when the values or the format are not
// known; ErrDamaged; ErrClosed.
func (a *Arena) Map(name string) (*Map, error) {
	all, err := a.Windows()
	if err != nil {
		return nil, err
	}
	there := make([]string, 0, len(all))
	for _, w := range all {
		if w.Name == name && (w.Kind == KindQp || w.Kind == KindKernelQp) {
			m := &Map{arena: a, window: w}
			_, err := m.ValueBytes()
			if err != nil {
				return nil, err
			}
			return m, nil
		}
		there = append(there, fmt.Sprintf("%q (%v)", w.Name, w.Kind))
	}
	if len(there) == 0 {
		return nil, fmt.Errorf("map %q: %w: the arena has no windows", name, ErrNoWindow)
	}
	return nil, fmt.Errorf("map %q: %w: the arena has %s", name, ErrNoWindow, strings.Join(there, ", "))
}

// Map is a map over byte strings in an arena. Each operation finds the map anew, because a process
// that takes an arena over moves its maps.
type Map struct {
	arena  *Arena
	window Window
	layout atomic.Pointer[layout]
}

// Window is the map's window at the time when the map was found.
func (m *Map) Window() Window { return m.window }

// The most attempts of an operation that changes disturb, and of one that meets what looks damaged.
const (
	tries        = 64
	triesDamaged = 4
)

// attempts counts the attempts of an operation.
type attempts struct{ all, damaged int }

// areOver says whether the last attempt, which met this trouble, was the last.
func (a *attempts) areOver(t *trouble) bool {
	a.all++
	if t.err != ErrBusy {
		a.damaged++
	}
	return a.all == tries || a.damaged == triesDamaged
}

// nodes finds the nodes of the map's window.
func (m *Map) nodes(arena words) (nodes, error) {
	w, err := windowOf(arena, m.window.Number)
	if err != nil {
		return nodes{}, err
	}
	if w.Kind != m.window.Kind {
		return nodes{}, fmt.Errorf("map %q: %w: it was closed", m.window.Name, ErrNoWindow)
	}
	seen := m.layout.Load()
	n, found, t := nodesOf(arena.window(w.At, w.Len), w.Kind == KindKernelQp, seen)
	if t != nil {
		return nodes{}, t.of(m.window.Name)
	}
	if found != seen {
		m.layout.Store(found)
	}
	return n, nil
}

// undisturbed repeats an attempt to read until no change disturbs it.
func (m *Map) undisturbed(attempt func(n *nodes) *trouble) (err error) {
	arena, panics, err := m.arena.enter()
	if err != nil {
		return err
	}
	defer m.arena.leave(panics, &err)
	for count := (attempts{}); ; {
		n, err := m.nodes(arena)
		if err != nil {
			return err
		}
		t := attempt(&n)
		if t == nil {
			return nil
		}
		if count.areOver(t) {
			return t.of(m.window.Name)
		}
	}
}
