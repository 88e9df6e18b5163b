package sapwood

import (
	"fmt"
	"strings"
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
type Arena struct{ guarded }

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
	a := &Arena{guarded{memory: memory}}
	if memory.len() < pageBytes {
		return nil, fmt.Errorf("%w: %d bytes", ErrNotAnArena, memory.len())
	}
	return a, a.check()
}

func (a *Arena) check() (err error) {
	m, err := a.enter()
	if err != nil {
		return err
	}
	defer func() { err = left(a, m, recover(), err) }()
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
func (a *Arena) Close() error { return a.close() }

// Windows returns the windows of the arena, in order of their numbers.
//
// Errors: ErrClosed; ErrDamaged when an entry of the list breaks the format.
func (a *Arena) Windows() (all []Window, err error) {
	m, err := a.enter()
	if err != nil {
		return nil, err
	}
	defer func() { err = left(a, m, recover(), err) }()
	for number := range windowsMax {
		w, err := windowOf(m.words, number)
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
			m := &Map{window: w}
			m.names.at, m.names.title = &arenaWindow{a, w}, titleOf(w.Name)
			_, err := m.ValueBytes()
			if err != nil {
				return nil, err
			}
			return m, nil
		}
		there = append(there, fmt.Sprintf("%q (%v)", w.Name, w.Kind))
	}
	if len(there) == 0 {
		return nil, fmt.Errorf("%s: %w: the arena has no windows", titleOf(name), ErrNoWindow)
	}
	return nil, fmt.Errorf("%s: %w: the arena has %s", titleOf(name), ErrNoWindow, strings.Join(there, ", "))
}

// Map is a map over byte strings in an arena. Each operation finds the map anew, because a process
// that takes an arena over moves its maps.
type Map struct {
	names
	window Window
}

// Window is the map's window at the time when the map was found.
func (m *Map) Window() Window { return m.window }

// arenaWindow is a window of an arena, as the home of a map.
type arenaWindow struct {
	*Arena
	window Window
}

// nodes finds the nodes of the map's window.
func (a *arenaWindow) nodes(v visit, seen *layout) (nodes, *layout, error) {
	w, err := windowOf(v.words, a.window.Number)
	if err != nil {
		return nodes{}, nil, err
	}
	if w.Kind != a.window.Kind {
		return nodes{}, nil, fmt.Errorf("%s: %w: it was closed", titleOf(a.window.Name), ErrNoWindow)
	}
	n, found, t := nodesOf(v.window(w.At, w.Len), w.Kind == KindKernelQp, seen)
	if t != nil {
		return nodes{}, nil, t.of(titleOf(a.window.Name))
	}
	return n, found, nil
}

func titleOf(name string) string { return fmt.Sprintf("map %q", name) }
