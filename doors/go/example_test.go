package sapwood_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"log"

	sapwood "sapwood/doors/go"
)

// The counts of a map that programs write, whose values have eight bytes.
func Example() {
	arena, err := sapwood.OpenArena("/sys/fs/bpf/opens/arena")
	if err != nil {
		log.Fatal(err)
	}
	defer arena.Close()
	opens, err := arena.Map("opens")
	if err != nil {
		log.Fatal(err)
	}
	value, found, err := opens.Get([]byte("/etc/passwd"))
	if err != nil {
		log.Fatal(err)
	}
	if found {
		fmt.Println("/etc/passwd", binary.LittleEndian.Uint64(value))
	}
	walk := opens.Prefix([]byte("/etc/ssl/"))
	for path, value := range walk.All() {
		fmt.Printf("%s %d\n", path, binary.LittleEndian.Uint64(value))
	}
	if err := walk.Err(); err != nil {
		log.Fatal(err)
	}
}

// What an arena has.
func ExampleArena_Windows() {
	arena, err := sapwood.OpenArena("/sys/fs/bpf/opens/arena")
	if errors.Is(err, sapwood.ErrVersion) {
		log.Fatal("another version of Sapwood made the arena")
	}
	if err != nil {
		log.Fatal(err)
	}
	defer arena.Close()
	windows, err := arena.Windows()
	if err != nil {
		log.Fatal(err)
	}
	for _, w := range windows {
		fmt.Printf("%d %s %v, %d bytes\n", w.Number, w.Name, w.Kind, w.Len)
	}
}

// Lookups that allocate nothing.
func ExampleMap_Append() {
	arena, err := sapwood.OpenArena("/sys/fs/bpf/opens/arena")
	if err != nil {
		log.Fatal(err)
	}
	defer arena.Close()
	opens, err := arena.Map("opens")
	if err != nil {
		log.Fatal(err)
	}
	room := make([]byte, 0, 64)
	for _, path := range []string{"/etc/passwd", "/etc/group"} {
		value, found, err := opens.Append(room, []byte(path))
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(path, found, value)
	}
}
