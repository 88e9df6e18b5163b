package sapwood

import (
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"sync/atomic"
)

// liveTexts are the texts that the numbers of a live map stand for: a store in a directory inside
// that of the map. A number stands for one text as long as the store has the same data.
type liveTexts struct {
	names *Names
	home  *live
	lock  sync.RWMutex
	of    uint64
	known map[uint32]string
	// The map whose texts these are.
	parent *live
	// The upper half of the map's place when these were found to be its texts.
	maps atomic.Uint64
}

// The most texts that are remembered.
const textsMost = 1 << 16

// openTexts opens the texts of a live map, if it has some.
func openTexts(parent *live) (*liveTexts, error) {
	place := parent.place()
	names, err := openLiveNames(filepath.Join(parent.path, textsFolder))
	if errors.Is(err, ErrNotYet) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if size, err := names.ValueBytes(); err != nil || size != -1 {
		_ = names.Close()
		if err == nil {
			err = fmt.Errorf("%s: %w: its values are no texts", names.title, ErrLayout)
		}
		return nil, err
	}
	x := &liveTexts{names: names, home: names.home.(*live), parent: parent}
	x.maps.Store(place >> 32)
	return x, nil
}

func (x *liveTexts) close() error {
	if x == nil {
		return nil
	}
	return x.names.Close()
}

// text is the text of a number that the map had at a place; false when it has none any more, or
// when the map has moved, so that the number has to be looked up again.
func (x *liveTexts) text(number uint32, at uint64) (string, bool, error) {
	// Another map in the place of the one before has texts of its own.
	if maps := at >> 32; x.maps.Load() != maps {
		if err := x.home.follow(); err != nil {
			return "", false, err
		}
		x.maps.Store(maps)
	}
	text, found, err := x.newest(number)
	return text, found && x.parent.place() == at, err
}

// newest is the text that a number has now.
func (x *liveTexts) newest(number uint32) (string, bool, error) {
	place := x.home.place()
	x.lock.RLock()
	text, known := x.known[number]
	known = known && x.of == place && place != 0
	x.lock.RUnlock()
	if known {
		return text, true, nil
	}
	key := [4]byte{byte(number >> 24), byte(number >> 16), byte(number >> 8), byte(number)}
	value, found, err := x.names.Get(key[:])
	if err != nil || !found {
		return "", false, err
	}
	text = string(value)
	x.lock.Lock()
	defer x.lock.Unlock()
	// What is known of other data, or was read of them, does not count.
	if now := x.home.place(); now != place || now == 0 {
		return text, true, nil
	}
	if x.of != place || len(x.known) >= textsMost {
		x.of, x.known = place, map[uint32]string{}
	}
	x.known[number] = text
	return text, true, nil
}
