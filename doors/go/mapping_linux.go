package sapwood

import (
	"fmt"
	"os"
	"runtime"
	"syscall"
	"unsafe"
)

// The mappings of arenas. The files mapping*.go alone are unsafe.

// The kernel's interface (uapi/linux/bpf.h, uapi/linux/mman.h).
const (
	bpfObjGet        = 7
	bpfGetInfoByFD   = 15
	bpfTypeArena     = 33
	mapFixedNoPlace  = 0x100000
	bpfMapInfoBytes  = 88
	bpfInfoType      = 0
	bpfInfoPages     = 16
	bpfInfoExtra     = 80
	bpfNumberGeneric = 280
	bpfNumberX86     = 321
)

func bpfNumber() (uintptr, error) {
	switch runtime.GOARCH {
	case "amd64":
		return bpfNumberX86, nil
	case "arm64", "riscv64", "loong64":
		return bpfNumberGeneric, nil
	}
	return 0, ErrUnsupported
}

// bpf calls the kernel with attributes, which are words of memory.
func bpf(command uintptr, attributes unsafe.Pointer, size uintptr) (uintptr, error) {
	number, err := bpfNumber()
	if err != nil {
		return 0, err
	}
	got, _, errno := syscall.Syscall(number, command, uintptr(attributes), size)
	if errno != 0 {
		return 0, errno
	}
	return got, nil
}

// openPinned opens the pinned object at a path. The kernel maps no arena that was opened for
// reading only.
func openPinned(path string) (int, error) {
	name, err := syscall.BytePtrFromString(path)
	if err != nil {
		return -1, err
	}
	attributes := struct {
		path      uint64
		fd, flags uint32
		pathFD    uint32
		_         uint32
	}{path: uint64(uintptr(unsafe.Pointer(name)))}
	fd, err := bpf(bpfObjGet, unsafe.Pointer(&attributes), unsafe.Sizeof(attributes))
	runtime.KeepAlive(name)
	if err != nil {
		return -1, &os.PathError{Op: "open", Path: path, Err: err}
	}
	return int(fd), nil
}

// mapPinned maps the arena that is pinned at a path.
func mapPinned(path string) (*mapping, error) {
	fd, err := openPinned(path)
	if err != nil {
		return nil, err
	}
	defer syscall.Close(fd)
	var info [bpfMapInfoBytes]byte
	attributes := struct {
		fd, size uint32
		info     uint64
	}{uint32(fd), uint32(len(info)), uint64(uintptr(unsafe.Pointer(&info)))}
	_, err = bpf(bpfGetInfoByFD, unsafe.Pointer(&attributes), unsafe.Sizeof(attributes))
	if err != nil {
		return nil, &os.PathError{Op: "ask for the size of", Path: path, Err: err}
	}
	kind := *(*uint32)(unsafe.Pointer(&info[bpfInfoType]))
	if kind != bpfTypeArena {
		return nil, fmt.Errorf("%s: %w: a map of type %d", path, ErrNotAnArena, kind)
	}
	pages := *(*uint32)(unsafe.Pointer(&info[bpfInfoPages]))
	at := uintptr(*(*uint64)(unsafe.Pointer(&info[bpfInfoExtra])))
	size := uintptr(pages) * pageBytes
	if size < pageBytes || size > arenaMax {
		return nil, fmt.Errorf("%s: %w: %d bytes", path, ErrNotAnArena, size)
	}
	// The kernel maps only whole arenas at their own address. Nothing is unmapped to make room.
	flags := uintptr(syscall.MAP_SHARED | mapFixedNoPlace)
	base, _, errno := syscall.Syscall6(syscall.SYS_MMAP, at, size, syscall.PROT_READ, flags, uintptr(fd), 0)
	switch {
	case errno == syscall.EEXIST || errno == syscall.EBUSY:
		return nil, fmt.Errorf("%s: %w: %#x", path, ErrAddress, at)
	case errno != 0:
		return nil, &os.PathError{Op: "map", Path: path, Err: errno}
	}
	// The pointer to memory that Go does not manage, from the number that the kernel returned.
	memory := *(*unsafe.Pointer)(unsafe.Pointer(&base))
	return &mapping{
		words: words{
			w64: unsafe.Slice((*uint64)(memory), size/8),
			w32: unsafe.Slice((*uint32)(memory), size/4),
		},
		end: func() error {
			_, _, errno := syscall.Syscall(syscall.SYS_MUNMAP, base, size, 0)
			if errno != 0 {
				return errno
			}
			return nil
		},
	}, nil
}
