package sapwood

import (
	"encoding/binary"
	"fmt"
	"iter"
	"math"
	"os"
	"runtime/debug"
)

// Span is the first and the last index of a range; both belong to it.
type Span struct{ First, Last uint64 }

// Ranges is a saved map of ranges of 64-bit numbers, or a live one. Its methods may be called by
// many goroutines at the same time.
type Ranges struct {
	table rangeTable
	title string
}

// rangeTable is the memory of a map of ranges.
type rangeTable interface {
	close() error
	// after appends the value of the first range that ends at or after an index.
	after(to []byte, index uint64) ([]byte, Span, bool, error)
	// valueBytes is the bytes of a value, or -1.
	valueBytes() int
	len() (int, error)
}

// OpenRanges opens a map of ranges: a saved file, which the program (ranges build), Rust, C and
// Python write, or the directory of a live map, which they serve. Of a file it checks the header,
// the checksums, and the order of the ranges: all of its bytes, at some gigabytes a second.
//
// Errors: as OpenNames.
func OpenRanges(path string) (*Ranges, error) {
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		return openLiveRanges(path)
	}
	file, err := openSaved(path)
	if err != nil {
		return nil, err
	}
	size, align, known := valuesOf(file.hash, rangesLayout, rangesFormat)
	if !known {
		return nil, file.refused(path, "a map of ranges")
	}
	s := &savedRanges{savedFile: file, title: path, size: int(size)}
	s.strings = size == byteStrings && align == 8
	if err := s.check(); err != nil {
		_ = file.close()
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return &Ranges{s, path}, nil
}

// Close ends the use of the file or the live map. It waits for the operations that run. Later ones
// return ErrClosed. A second call does nothing.
func (r *Ranges) Close() error { return r.table.close() }

// ValueBytes returns the bytes of each value, or -1 when values are texts.
func (r *Ranges) ValueBytes() int { return r.table.valueBytes() }

// Get returns a copy of the value of the range that holds an index, and the range.
//
// It costs one search. Errors: ErrDamaged; ErrClosed; of a live map also ErrBusy and ErrRemoved.
func (r *Ranges) Get(index uint64) (value []byte, span Span, found bool, err error) {
	return r.Append([]byte{}, index)
}

// Append appends the value of the range that holds an index to a slice. It allocates nothing where
// the slice has room.
//
// As Get.
func (r *Ranges) Append(to []byte, index uint64) (with []byte, span Span, found bool, err error) {
	// The tables are named, so that the slice need not be on the heap.
	switch table := r.table.(type) {
	case *savedRanges:
		with, span, found, err = table.after(to, index)
	case *liveSpans:
		with, span, found, err = table.after(to, index)
	}
	if err != nil || !found || span.First > index {
		return to, Span{}, false, err
	}
	return with, span, true, nil
}

// Number returns the value of the range that holds an index as a number, where values have up to
// eight bytes.
//
// As Get; ErrLayout where values are texts or longer.
func (r *Ranges) Number(index uint64) (number uint64, span Span, found bool, err error) {
	if size := r.ValueBytes(); size < 0 || size > 8 {
		return 0, Span{}, false, fmt.Errorf("%s: %w: its values are no numbers", r.title, ErrLayout)
	}
	var room [8]byte
	_, span, found, err = r.Append(room[:0], index)
	return binary.LittleEndian.Uint64(room[:]), span, found, err
}

// AtOrAfter returns a copy of the value of the first range that ends at or after an index, and the
// range.
//
// As Get.
func (r *Ranges) AtOrAfter(index uint64) (value []byte, span Span, found bool, err error) {
	return r.table.after([]byte{}, index)
}

// Len returns the number of ranges that the map states.
//
// Errors: as Get.
func (r *Ranges) Len() (int, error) { return r.table.len() }

// All begins a walk over all ranges, in order.
func (r *Ranges) All() *RangeWalk { return r.From(0) }

// From begins a walk over the ranges that end at or after an index, in order.
func (r *Ranges) From(index uint64) *RangeWalk { return &RangeWalk{r: r, from: index} }

// RangeWalk is a walk over ranges. Range over All, then ask Err whether the walk came to its end.
// It belongs to one goroutine at a time. Beside a writer, each range was there at some time, and
// ends behind the one before it.
type RangeWalk struct {
	r    *Ranges
	from uint64
	over bool
	err  error
}

// All ranges over the ranges that are left, and copies of their values. It ends after an error. A
// loop that is left may be gone on with by another one.
func (w *RangeWalk) All() iter.Seq2[Span, []byte] {
	return func(yield func(Span, []byte) bool) {
		for !w.over {
			value, span, found, err := w.r.AtOrAfter(w.from)
			w.err, w.over = err, err != nil || !found || span.Last == math.MaxUint64
			w.from = span.Last + 1
			if err != nil || !found || !yield(span, value) {
				return
			}
		}
	}
}

// Err is the error that ended the walk, or nil.
func (w *RangeWalk) Err() error { return w.err }

// savedRanges is a saved map of ranges: sorted ranges, and their values or where their texts end.
type savedRanges struct {
	*savedFile
	title   string
	entries int
	// Bytes of a value, which may be texts.
	size    int
	strings bool
}

const (
	spanBytes = 16
	endBytes  = 8
)

func (s *savedRanges) valueBytes() int {
	if s.strings {
		return -1
	}
	return s.size
}

func (s *savedRanges) len() (int, error) { return s.entries, nil }

func (s *savedRanges) close() error { return s.savedFile.close() }

// number is the number at a place behind the header page.
func (s *savedRanges) number(at int) uint64 {
	return binary.LittleEndian.Uint64(s.memory.bytes[headerPage+at:])
}

func (s *savedRanges) span(i int) Span {
	return Span{s.number(spanBytes * i), s.number(spanBytes*i + 8)}
}

// check checks that the file has the values of all ranges, and that the ranges are in order.
func (s *savedRanges) check() (err error) {
	v := visit{panics: debug.SetPanicOnFault(true)}
	s.lock.RLock()
	defer func() { err = left(s.savedFile, v, recover(), err) }()
	body := s.savedFile.size - headerPage
	stated := s.root[0]
	each := uint64(spanBytes + s.size)
	if s.strings {
		each = spanBytes + endBytes
	}
	if stated > uint64(body)/each || !s.strings && stated*each != uint64(body) {
		return fmt.Errorf("%w: %d bytes are not those of %d ranges", ErrDamaged, body, stated)
	}
	s.entries = int(stated)
	free, before := uint64(0), uint64(0)
	texts := s.textsAt()
	for i := range s.entries {
		span := s.span(i)
		if span.First < free || span.Last < span.First || i > 0 && free == 0 {
			return fmt.Errorf("%w: range %d, %d to %d, is out of order", ErrDamaged, i, span.First, span.Last)
		}
		free = span.Last + 1
		if s.strings {
			end := s.number(spanBytes*s.entries + endBytes*i)
			if end < before || end > uint64(body-texts) {
				return fmt.Errorf("%w: the end of text %d is wrong", ErrDamaged, i)
			}
			before = end
		}
	}
	if s.strings && before != uint64(body-texts) {
		return fmt.Errorf("%w: %d bytes of texts are not those of %d ranges", ErrDamaged, body-texts, stated)
	}
	return nil
}

// textsAt is where the texts begin, behind the header page.
func (s *savedRanges) textsAt() int { return (spanBytes + endBytes) * s.entries }

func (s *savedRanges) after(to []byte, index uint64) (with []byte, span Span, found bool, err error) {
	v, err := s.enter()
	if err != nil {
		return to, Span{}, false, err
	}
	defer func() { err = left(s.savedFile, v, recover(), err) }()
	first, behind := 0, s.entries
	for first < behind {
		middle := int(uint(first+behind) / 2)
		if s.span(middle).Last < index {
			first = middle + 1
		} else {
			behind = middle
		}
	}
	if first == s.entries {
		return to, Span{}, false, nil
	}
	from, end := spanBytes*s.entries+s.size*first, spanBytes*s.entries+s.size*(first+1)
	if s.strings {
		ends, texts := spanBytes*s.entries, s.textsAt()
		from, end = texts, texts+int(s.number(ends+endBytes*first))
		if first > 0 {
			from += int(s.number(ends + endBytes*(first-1)))
		}
	}
	if from < 0 || end < from || end > s.savedFile.size-headerPage {
		// The file was changed while it is open.
		return to, Span{}, false, damaged("a text outside the file", headerPage+from).of(s.title)
	}
	return append(to, s.memory.bytes[headerPage+from:headerPage+end]...), s.span(first), true, nil
}
