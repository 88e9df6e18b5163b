package sapwood

import (
	"errors"
	"fmt"
)

// The errors of this package, for errors.Is. What the functions return says more.
var (
	// ErrClosed says that the arena was closed.
	ErrClosed = errors.New("the arena is closed")
	// ErrNotAnArena says that the pinned object is no arena of Sapwood.
	ErrNotAnArena = errors.New("not an arena of Sapwood")
	// ErrVersion says that the arena has a layout that this package does not know.
	ErrVersion = errors.New("the arena has another version")
	// ErrAddress says that the arena's address is taken in this process, for example by another
	// arena, or by this one, opened twice.
	ErrAddress = errors.New("the arena's address is taken in this process")
	// ErrNoWindow says that the arena has no such map, or that it has none any more.
	ErrNoWindow = errors.New("there is no such map")
	// ErrLayout says that the map has values or a format that this package does not know.
	ErrLayout = errors.New("the map has another layout")
	// ErrDamaged says that the memory breaks the format.
	ErrDamaged = errors.New("damaged")
	// ErrBusy says that the map was changed during each attempt to read it.
	ErrBusy = errors.New("the map was changed during each attempt to read it")
	// ErrNoOrder says that the map has only an index, and so no order.
	ErrNoOrder = errors.New("the map has only an index, and so no order")
	// ErrUnsupported says that this package does not run on this system.
	ErrUnsupported = errors.New("arenas are those of Linux on 64-bit little-endian processors")
)

// trouble is why an attempt to read failed. Nil is none.
type trouble struct {
	err error
	// Of ErrDamaged and ErrLayout: what is wrong.
	why string
	// Of ErrDamaged: the byte of the window.
	at int
}

var (
	changed = &trouble{err: ErrBusy}
	noOrder = &trouble{err: ErrNoOrder}
)

func damaged(why string, at int) *trouble {
	return &trouble{ErrDamaged, why, at}
}

// of returns the error of an operation on the map of this name.
func (t *trouble) of(name string) error {
	switch t.err {
	case ErrDamaged:
		return fmt.Errorf("map %q: %w at byte %d: %s", name, t.err, t.at, t.why)
	case ErrLayout:
		return fmt.Errorf("map %q: %w: %s", name, t.err, t.why)
	}
	return fmt.Errorf("map %q: %w", name, t.err)
}
