package sapwood

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync/atomic"
)

// liveReader is a reader's file: how calls take part in grace periods. One call at a time has it.
type liveReader struct {
	busy atomic.Bool
	page *mapping
	path string
	// The file, where the mapping does not hold its lock.
	lock *os.File
}

// announce stores a period before any later read, or that the reader is offline.
func (r *liveReader) announce(period uint64) {
	if r.page != nil {
		atomic.StoreUint64(&r.page.w64[readerSeenAt], period)
	}
}

func (r *liveReader) close() {
	if r.page == nil {
		return
	}
	r.announce(0)
	_ = os.Remove(r.path)
	_ = r.page.unmap()
	if r.lock != nil {
		_ = r.lock.Close()
	}
}

// register makes a reader's file, which is offline.
func (m *liveMap) register(l *live) (*liveReader, error) {
	name := fmt.Sprintf("%d-%016x", os.Getpid(), rand.Uint64())
	begun, last := filepath.Join(l.path, "readers", "."+name), filepath.Join(l.path, "readers", readerPrefix+name)
	r, err := registerAt(begun, last, m.parts)
	if errors.Is(err, fs.ErrNotExist) {
		// The map has been removed meanwhile.
		return nil, fmt.Errorf("%s: %w", l.path, ErrNotYet)
	}
	return r, err
}

// take takes a reader that no call has.
func (m *liveMap) take(l *live) (*liveReader, error) {
	all := *m.readers.Load()
	for _, r := range all {
		if !r.busy.Load() && r.busy.CompareAndSwap(false, true) {
			return r, nil
		}
	}
	r := &liveReader{}
	if m.registered {
		var err error
		if r, err = m.register(l); err != nil {
			return nil, err
		}
	}
	r.busy.Store(true)
	m.making.Lock()
	defer m.making.Unlock()
	more := append(append([]*liveReader{}, *m.readers.Load()...), r)
	m.readers.Store(&more)
	return r, nil
}

// say notes in a reader's file how many bytes of each part are mapped.
func (r *liveReader) say(parts *liveParts) {
	if r.page == nil || parts == nil {
		return
	}
	for part, mapped := range parts.mappings {
		atomic.StoreUint64(&r.page.w64[readerMappedAt+part], uint64(len(mapped.bytes)))
	}
}
