package sapwood

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
)

// live is the directory of a live map (docs/live.md), whose writer is another process.
type live struct {
	path string
	// The kinds of structures that are read.
	kinds []uint64
	// Held for reading by visits, and for writing by what moves to other memory.
	lock   sync.RWMutex
	now    *liveMap
	closed bool
	// Counts the maps that were in the directory.
	maps uint32
}

// liveMap is a map that the directory has, or has had.
type liveMap struct {
	control *mapping
	info    os.FileInfo
	kind    uint64
	parts   *liveParts
	// Whether the writer knows of the readers, which were registered as calls needed them.
	registered bool
	readers    atomic.Pointer[[]*liveReader]
	making     sync.Mutex
}

// liveParts is the memory of a map's parts as it was at some time.
type liveParts struct {
	of *liveMap
	// What control said of the data: their number, and how many times their files have grown.
	state    uint64
	mappings []*mapping
	words    []words
}

func (m *liveMap) word(at int) uint64 { return atomic.LoadUint64(&m.control.w64[at]) }

// state is what control says of the data.
func (m *liveMap) state() uint64 { return m.word(controlDataAt) }

// number is the number of the data in a state; 0 when the map was removed.
func number(state uint64) uint64 { return state & (1<<32 - 1) }

// lost is the period such that the answers of readers that have announced earlier ones may be
// wrong.
func (m *liveMap) lost() uint64 {
	if m.registered {
		return m.word(controlEvictedAt)
	}
	// The writer uses memory again without a look at this process.
	return m.word(controlOverAt)
}

// bytes is the bytes that a part of the data with this number has; false when they are so old that
// a second new writer has written the sizes of its own there.
func (m *liveMap) bytes(number uint64, part int) (uint64, bool) {
	size := m.word(controlBytesAt + int(number%2)*controlParts + part)
	return size, m.word(controlSizedAt) < number+2
}

// openLive opens the live map in a directory, which must be of one of these kinds.
func openLive(path string, kinds ...uint64) (*live, error) {
	if !isLittleEndian {
		return nil, fmt.Errorf("%s: %w", path, ErrUnsupported)
	}
	l := &live{path: path, kinds: kinds}
	m, err := l.open()
	if err != nil {
		return nil, err
	}
	l.now = m
	return l, nil
}

func (l *live) file(name string) string { return filepath.Join(l.path, name) }

// partsOf is the number of parts that a structure has.
func partsOf(kind uint64) int {
	switch kind {
	case liveFib:
		return 2
	case liveRoutes:
		return 3
	}
	return 1
}

// open opens the map that the directory has now, with one reader.
func (l *live) open() (*liveMap, error) {
	for range tries {
		m, err := l.openControl()
		if err != nil {
			return nil, err
		}
		err = guard(func() error { return m.open(l) })
		// The reader's file must be in the directory of the map whose page was opened.
		if err == nil {
			info, err := os.Stat(l.file("control"))
			if err == nil && os.SameFile(info, m.info) {
				return m, nil
			}
		}
		m.close()
		if err != nil {
			return nil, err
		}
	}
	return nil, fmt.Errorf("%s: %w", l.path, ErrNotYet)
}

// guard turns memory that is not there, since a file was cut off, into an error.
func guard(do func() error) (err error) {
	before := debug.SetPanicOnFault(true)
	defer func() { err = left(noHome{}, visit{panics: before}, recover(), err) }()
	return do()
}

// noHome is the home of what no lock guards.
type noHome struct{}

func (noHome) enter() (visit, error)                       { return visit{}, nil }
func (noHome) leave(visit)                                 {}
func (noHome) renew(v visit, t *trouble) (visit, *trouble) { return v, t }

// openControl maps the page control.
func (l *live) openControl() (*liveMap, error) {
	file, err := os.Open(l.file("control"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%s: %w", l.path, ErrNotYet)
	}
	if err != nil {
		return nil, err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() || info.Size() < livePage {
		return nil, fmt.Errorf("%s: %w: control is no file of a live map", l.path, ErrNotSaved)
	}
	page, err := mapFile(file, livePage)
	if err != nil {
		return nil, err
	}
	m := &liveMap{control: page, info: info}
	m.readers.Store(&[]*liveReader{})
	return m, nil
}

// open checks what control says, registers a reader and maps the parts.
func (m *liveMap) open(l *live) error {
	if m.word(controlMagicAt) != controlMagic {
		return fmt.Errorf("%s: %w: control is not that of a live map", l.path, ErrNotSaved)
	}
	if version := m.word(controlVersionAt); version != controlVersion {
		return fmt.Errorf("%s: %w: it is %d, and this package knows %d", l.path, ErrVersion, version,
			controlVersion)
	}
	m.kind = m.word(controlKindAt)
	known := false
	for _, kind := range l.kinds {
		known = known || kind == m.kind
	}
	if number(m.state()) == 0 {
		return fmt.Errorf("%s: %w", l.path, ErrNotYet)
	}
	if !known {
		name, there := liveKinds[m.kind]
		if !there {
			name = fmt.Sprintf("kind %d", m.kind)
		}
		wanted := make([]string, len(l.kinds))
		for i, kind := range l.kinds {
			wanted[i] = liveKinds[kind]
		}
		return fmt.Errorf("%s: %w: a %s, not a %s", l.path, ErrKind, name, strings.Join(wanted, " or a "))
	}
	m.registered = true
	r, err := m.register(l)
	if errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.EROFS) {
		// The writer cannot know of this process.
		m.registered, r, err = false, &liveReader{}, nil
	}
	if err != nil {
		return err
	}
	m.readers.Store(&[]*liveReader{r})
	// The parts that are opened stay while the reader is online.
	r.announce(m.word(controlGraceAt))
	defer r.announce(0)
	return m.mapParts(l)
}

// close ends the use of the map. No visit is under way.
func (m *liveMap) close() {
	for _, r := range *m.readers.Load() {
		// A file of another user may have been cut off.
		_ = guard(func() error { r.close(); return nil })
	}
	_ = m.control.unmap()
	if m.parts != nil {
		for _, part := range m.parts.mappings {
			_ = part.unmap()
		}
	}
}

// mapParts maps the parts of the present data. A reader is online, and no visit is under way.
func (m *liveMap) mapParts(l *live) error {
	var last error
	for range tries {
		parts := &liveParts{of: m, state: m.state()}
		if number(parts.state) == 0 {
			return fmt.Errorf("%s: %w", l.path, ErrRemoved)
		}
		if last = m.mapEach(l, parts); last != nil {
			// Perhaps a new writer has replaced them.
			parts.drop(m.parts)
			continue
		}
		if m.state() == parts.state {
			if m.parts != nil {
				m.parts.drop(parts)
			}
			m.parts = parts
			for _, r := range *m.readers.Load() {
				r.say(parts)
			}
			return nil
		}
		parts.drop(m.parts)
	}
	if last == nil {
		last = fmt.Errorf("%s: %w", l.path, ErrBusy)
	}
	return last
}

// drop ends the mappings that other parts do not have.
func (p *liveParts) drop(other *liveParts) {
	for _, mapped := range p.mappings {
		kept := false
		if other != nil {
			for _, others := range other.mappings {
				kept = kept || others == mapped
			}
		}
		if !kept {
			_ = mapped.unmap()
		}
	}
}

// mapEach maps each part, or takes the old mapping where it has room for what the part has now.
func (m *liveMap) mapEach(l *live, parts *liveParts) error {
	of := number(parts.state)
	for part := range partsOf(m.kind) {
		size, known := m.bytes(of, part)
		if !known {
			return fmt.Errorf("%s: %w", l.path, ErrBusy)
		}
		size = min(size, liveMost) &^ 7
		if old := m.parts; old != nil && number(old.state) == of && len(old.mappings[part].bytes) >= int(size) {
			// It had no more bytes than the file when it was mapped, or the writer lengthened the file.
			parts.mappings = append(parts.mappings, old.mappings[part])
			parts.words = append(parts.words, old.mappings[part].window(0, int(size)))
			continue
		}
		file, err := os.Open(l.file(fmt.Sprintf("data-%d-%d", of, part)))
		if err != nil {
			return err
		}
		mapped, err := mapRoomy(file, int(size))
		_ = file.Close()
		if err != nil {
			return err
		}
		parts.mappings = append(parts.mappings, mapped)
		parts.words = append(parts.words, mapped.window(0, int(size)))
	}
	return nil
}

// enter takes a reader, and announces the newest period. If the map has grown, was taken over by
// another writer, or was removed and made again, the memory is that of now.
func (l *live) enter() (visit, error) {
	for range tries {
		v, moved, err := l.attempt()
		if err != nil || !moved {
			return v, err
		}
		if err := l.follow(); err != nil {
			return visit{}, err
		}
	}
	return visit{}, fmt.Errorf("%s: %w", l.path, ErrBusy)
}

// attempt begins a visit; moved says that the memory has to be found again first.
func (l *live) attempt() (v visit, moved bool, err error) {
	before := debug.SetPanicOnFault(true)
	l.lock.RLock()
	if l.closed {
		l.lock.RUnlock()
		debug.SetPanicOnFault(before)
		return visit{}, false, ErrClosed
	}
	stays := false
	defer func() {
		if !stays {
			v, err = visit{}, left(l, visit{panics: before, reader: v.reader}, recover(), err)
		}
	}()
	m := l.now
	if v.reader, err = m.take(l); err != nil {
		// Without a directory for it, the map was removed.
		if errors.Is(err, ErrNotYet) {
			return v, true, nil
		}
		return v, false, err
	}
	v.panics = before
	v.seen = m.word(controlGraceAt)
	v.reader.announce(v.seen)
	// Either the writer sees the announcement, or this process sees what was published.
	if m.state() != m.parts.state {
		return v, true, nil
	}
	v.parts, v.words = m.parts, m.parts.words[0]
	stays = true
	return v, false, nil
}

func (l *live) leave(v visit) {
	if v.reader != nil {
		v.reader.announce(0)
		v.reader.busy.Store(false)
	}
	l.lock.RUnlock()
}

// renew says that nothing may be used of what was read by a reader that was evicted, and brings the
// reader back. After an attempt that met trouble, the memory may have grown or moved.
func (l *live) renew(v visit, t *trouble) (visit, *trouble) {
	if v.failed != nil {
		return v, v.failed
	}
	m := v.parts.of
	if v.seen < m.lost() {
		t = changed
		v.seen = m.word(controlGraceAt)
		v.reader.announce(v.seen)
	}
	if t == nil || m.state() == v.parts.state {
		return v, t
	}
	// What looks damaged may lie behind what is mapped.
	l.leave(v)
	next, err := l.enter()
	if err != nil {
		// The visit ends without a reader.
		l.lock.RLock()
		failed := &trouble{err: err, whole: true}
		return visit{panics: v.panics, failed: failed}, failed
	}
	next.panics = v.panics
	return next, changed
}

// follow maps what there is now.
func (l *live) follow() error {
	l.lock.Lock()
	defer l.lock.Unlock()
	if l.closed {
		return ErrClosed
	}
	return guard(func() error {
		m := l.now
		info, err := os.Stat(l.file("control"))
		if number(m.state()) == 0 || err != nil || !os.SameFile(info, m.info) {
			return l.reopen()
		}
		err = m.mapOnline(l)
		if errors.Is(err, ErrRemoved) {
			return l.reopen()
		}
		return err
	})
}

// mapOnline maps the parts of the present data, by a reader that no call has.
func (m *liveMap) mapOnline(l *live) error {
	r, err := m.take(l)
	if err != nil {
		return err
	}
	defer r.busy.Store(false)
	defer r.announce(0)
	r.announce(m.word(controlGraceAt))
	return m.mapParts(l)
}

// reopen moves to the map that was made in the place of one that was removed.
func (l *live) reopen() error {
	next, err := l.open()
	if errors.Is(err, ErrNotYet) {
		return fmt.Errorf("%s: %w", l.path, ErrRemoved)
	}
	if err != nil {
		return err
	}
	l.now.close()
	l.now = next
	l.maps++
	return nil
}

// place tells apart the data that the directory has had: the upper half counts maps. It is 0 when
// the map was removed or closed.
func (l *live) place() (at uint64) {
	l.lock.RLock()
	defer l.lock.RUnlock()
	if l.closed {
		return 0
	}
	_ = guard(func() error {
		at = l.placeOf(l.now.state())
		return nil
	})
	return at
}

// placeOf is the place of a state. A visit is under way.
func (l *live) placeOf(state uint64) uint64 {
	if number(state) == 0 {
		return 0
	}
	return uint64(l.maps)<<32 | number(state)
}

// close unregisters the readers and unmaps the map.
func (l *live) close() error {
	l.lock.Lock()
	defer l.lock.Unlock()
	if !l.closed {
		l.closed = true
		l.now.close()
	}
	return nil
}

// nodes finds the nodes of a live map over byte strings.
func (l *live) nodes(v visit, seen *layout) (nodes, *layout, error) {
	n, found, t := nodesOf(v.words, false, seen)
	if t != nil {
		return nodes{}, nil, t.of(l.path)
	}
	return n, found, nil
}

func openLiveNames(path string) (*Names, error) {
	l, err := openLive(path, liveStore, liveShared, livePoints)
	if err != nil {
		return nil, err
	}
	m := &Names{home: l}
	m.at, m.title, m.moves = l, path, true
	if _, err := m.ValueBytes(); err != nil {
		_ = l.close()
		return nil, err
	}
	return m, nil
}
