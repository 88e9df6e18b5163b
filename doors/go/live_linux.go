package sapwood

import (
	"errors"
	"os"
	"sync/atomic"
	"syscall"
)

// roomLeast is the bytes of addresses that a part takes at least, if they are to be had. Tests take
// less.
var roomLeast = liveRoom

// mapRoomy maps at least this many bytes of a file for reading, and more where there are addresses,
// since the file may grow: eight times as much, or 64 MiB.
func mapRoomy(file *os.File, least int) (*mapping, error) {
	info, err := file.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() || info.Size() < int64(least) {
		return nil, &os.PathError{Op: "map", Path: file.Name(), Err: errors.New("it is shorter than control says")}
	}
	least = (max(least, livePage) + livePage - 1) &^ (livePage - 1)
	size := max(min(8*least, liveMost), roomLeast, least)
	for {
		const flags = syscall.MAP_SHARED | syscall.MAP_NORESERVE
		memory, err := syscall.Mmap(int(file.Fd()), 0, size, syscall.PROT_READ, flags)
		if err == nil {
			end := func() error { return syscall.Munmap(memory) }
			return &mapping{words: wordsOf(memory), bytes: memory, end: end}, nil
		}
		if size == least {
			return nil, &os.PathError{Op: "map", Path: file.Name(), Err: err}
		}
		size = max(size/4&^(livePage-1), least)
	}
}

// registerAt makes a reader's file under one name, and gives it another one when it counts.
func registerAt(begun, last string, parts *liveParts) (r *liveReader, err error) {
	file, err := os.OpenFile(begun, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return nil, err
	}
	r = &liveReader{path: last}
	defer func() {
		_ = file.Close()
		if err != nil {
			_ = os.Remove(begun)
			if r.page != nil {
				_ = r.page.unmap()
			}
			if r.lock != nil {
				_ = r.lock.Close()
			}
			r = nil
		}
	}()
	// The writer must be able to read it, whatever the mask of this process is.
	if err = file.Chmod(0o644); err != nil {
		return r, err
	}
	// A page that is there before it is used: a full file system is an error, and no signal.
	err = syscall.Fallocate(int(file.Fd()), 0, 0, livePage)
	if errors.Is(err, syscall.EOPNOTSUPP) || errors.Is(err, syscall.ENOSYS) {
		_, err = file.WriteAt(make([]byte, livePage), 0)
	}
	if err != nil {
		return r, &os.PathError{Op: "make room for", Path: begun, Err: err}
	}
	if err = syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		return r, &os.PathError{Op: "lock", Path: begun, Err: err}
	}
	const access = syscall.PROT_READ | syscall.PROT_WRITE
	memory, err := syscall.Mmap(int(file.Fd()), 0, livePage, access, syscall.MAP_SHARED)
	if err != nil {
		return r, &os.PathError{Op: "map", Path: begun, Err: err}
	}
	end := func() error { return syscall.Munmap(memory) }
	r.page = &mapping{words: wordsOf(memory), bytes: memory, end: end}
	atomic.StoreUint64(&r.page.w64[readerPidAt], uint64(uint32(os.Getpid()))|readerChecked)
	r.say(parts)
	// The mapping keeps the open file, and so the lock, without a descriptor.
	_ = file.Close()
	again, err := os.Open(begun)
	if err != nil {
		return r, err
	}
	if syscall.Flock(int(again.Fd()), syscall.LOCK_SH|syscall.LOCK_NB) == nil {
		if err = syscall.Flock(int(again.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
			_ = again.Close()
			return r, &os.PathError{Op: "lock", Path: begun, Err: err}
		}
		r.lock = again
	} else {
		_ = again.Close()
	}
	// From here on the writer sees it, with its lock.
	return r, os.Rename(begun, last)
}
