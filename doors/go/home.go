package sapwood

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"sync"
)

// home is where a map lies: an arena, a saved file, or the directory of a live map.
type home interface {
	// enter begins a visit. The memory stays mapped until leave.
	enter() (visit, error)
	// leave ends a visit.
	leave(v visit)
	// renew is called after each attempt to read, with what it met. It says whether what was read
	// may be used, and gives the visit for the next attempt.
	renew(v visit, t *trouble) (visit, *trouble)
}

// visit is the memory of a map for one operation.
type visit struct {
	// All of an arena or a file, or the first part of a live map.
	words
	panics bool
	// Of a live map: the other parts, the reader that was taken, and what it has announced.
	parts  *liveParts
	reader *liveReader
	seen   uint64
	// Why no further attempt can read.
	failed *trouble
}

// left ends a visit, in a deferred function, with what was recovered there. Memory that the kernel
// could not provide becomes an error.
func left(h home, v visit, panicked any, err error) error {
	debug.SetPanicOnFault(v.panics)
	h.leave(v)
	if panicked == nil {
		return err
	}
	fault, ok := panicked.(interface {
		runtime.Error
		Addr() uintptr
	})
	if !ok {
		panic(panicked)
	}
	return fmt.Errorf("%w: no memory at address %#x", ErrDamaged, fault.Addr())
}

// guarded is memory that is mapped until it is closed.
type guarded struct {
	// Held for reading by operations, and for writing by Close.
	lock   sync.RWMutex
	memory *mapping
}

func (g *guarded) enter() (visit, error) {
	g.lock.RLock()
	if g.memory == nil {
		g.lock.RUnlock()
		return visit{}, ErrClosed
	}
	return visit{words: g.memory.words, panics: debug.SetPanicOnFault(true)}, nil
}

func (g *guarded) leave(visit) { g.lock.RUnlock() }

func (g *guarded) renew(v visit, t *trouble) (visit, *trouble) { return v, t }

// close unmaps the memory. It waits for the operations that run. A second call does nothing.
func (g *guarded) close() error {
	g.lock.Lock()
	defer g.lock.Unlock()
	memory := g.memory
	if memory == nil {
		return nil
	}
	g.memory = nil
	return memory.unmap()
}

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
	return a.all == tries || a.damaged == triesDamaged || t.whole
}

// attempted repeats an attempt to read until no change disturbs it.
func attempted(h home, title string, attempt func(v visit) *trouble) (err error) {
	v, err := h.enter()
	if err != nil {
		return err
	}
	defer func() { err = left(h, v, recover(), err) }()
	for count := (attempts{}); ; {
		var t *trouble
		if v, t = h.renew(v, attempt(v)); t == nil {
			return nil
		}
		if count.areOver(t) {
			return t.of(title)
		}
	}
}
