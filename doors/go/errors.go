package sapwood

import (
	"errors"
	"fmt"
)

// The errors of this package, for errors.Is. What the functions return says more.
var (
	// ErrClosed says that the arena, the file or the live map was closed.
	ErrClosed = errors.New("closed")
	// ErrNotAnArena says that the pinned object is no arena of Sapwood.
	ErrNotAnArena = errors.New("not an arena of Sapwood")
	// ErrNotSaved says that the file is no saved file of Sapwood, and the directory no live map.
	ErrNotSaved = errors.New("neither a saved file of Sapwood nor a live map")
	// ErrVersion says that the arena, the file or the live map has a version that this package does
	// not know.
	ErrVersion = errors.New("another version")
	// ErrKind says that the file or the live map is another structure than the one that was asked
	// for.
	ErrKind = errors.New("another structure")
	// ErrNotYet says that the directory has no live map yet, or no more.
	ErrNotYet = errors.New("there is no live map yet")
	// ErrRemoved says that the live map was removed, and that there is no other one in its place.
	ErrRemoved = errors.New("the live map was removed")
	// ErrName says that a text is not a domain name.
	ErrName = errors.New("not a domain name")
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
	ErrUnsupported = errors.New("this system has none: arenas and live maps are those of Linux, and all " +
		"memory is that of little-endian processors")
)

// trouble is why an attempt to read failed. Nil is none.
type trouble struct {
	err error
	// Of ErrDamaged and ErrLayout: what is wrong.
	why string
	// Of ErrDamaged: the byte of the window.
	at int
	// Whether the error says all by itself.
	whole bool
}

var (
	changed = &trouble{err: ErrBusy}
	noOrder = &trouble{err: ErrNoOrder}
)

func damaged(why string, at int) *trouble {
	return &trouble{err: ErrDamaged, why: why, at: at}
}

// of returns the error of an operation on the map with this title.
func (t *trouble) of(title string) error {
	switch {
	case t.whole:
		return t.err
	case t.err == ErrDamaged:
		return fmt.Errorf("%s: %w at byte %d: %s", title, t.err, t.at, t.why)
	case t.err == ErrLayout:
		return fmt.Errorf("%s: %w: %s", title, t.err, t.why)
	}
	return fmt.Errorf("%s: %w", title, t.err)
}
