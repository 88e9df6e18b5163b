package sapwood_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"log"
	"net/netip"
	"time"

	sapwood "sapwood/doors/go"
)

// A list of blocked names: a saved file, or a live map that another process serves.
func Example() {
	blocked, err := sapwood.OpenNames("/dev/shm/blocked")
	if err != nil {
		log.Fatal(err)
	}
	defer blocked.Close()
	found, err := blocked.Closest("www.ads.example.")
	if err != nil {
		log.Fatal(err)
	}
	if rule := found.Longest(); rule.Found {
		fmt.Println("blocked by a name of", rule.Labels, "labels")
	}
}

// A saved table of routes, which the tests of all languages read.
func ExampleRoutes_Lookup() {
	table, err := sapwood.OpenRoutes("../../core/sapwood/tests/files/names.routes")
	if err != nil {
		log.Fatal(err)
	}
	defer table.Close()
	for _, text := range []string{"10.1.2.3", "2001:db8::7", "192.0.3.1"} {
		hop, net, found, err := table.Lookup(netip.MustParseAddr(text))
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(text, found, net, hop)
	}
	// Output:
	// 10.1.2.3 true 10.0.0.0/8 core
	// 2001:db8::7 true 2001:db8::/32 core
	// 192.0.3.1 false invalid Prefix 0
}

// All routes of a table.
func ExampleRoutes_All() {
	table, err := sapwood.OpenRoutes("../../core/sapwood/tests/files/nulls.routes")
	if err != nil {
		log.Fatal(err)
	}
	defer table.Close()
	walk := table.All()
	for net, hop := range walk.All() {
		fmt.Println(net, hop)
	}
	if err := walk.Err(); err != nil {
		log.Fatal(err)
	}
	// Output:
	// 10.0.0.0/8 blackhole
	// 192.0.2.0/24 core
}

// Ranges with texts.
func ExampleRanges_Get() {
	spans, err := sapwood.OpenRanges("../../core/sapwood/tests/files/texts.ranges")
	if err != nil {
		log.Fatal(err)
	}
	defer spans.Close()
	text, span, found, err := spans.Get(25)
	fmt.Printf("%s %d-%d %v %v\n", text, span.First, span.Last, found, err)
	_, _, found, err = spans.Get(15)
	fmt.Println(found, err)
	// Output:
	// right 20-29 true <nil>
	// false <nil>
}

// Lookups that allocate nothing, by any number of goroutines.
func ExampleNames_Append() {
	words, err := sapwood.OpenNames("words.map")
	if err != nil {
		log.Fatal(err)
	}
	defer words.Close()
	room := make([]byte, 0, 64)
	value, found, err := words.Append(room, []byte("elm"))
	if err != nil {
		log.Fatal(err)
	}
	if found {
		fmt.Println(binary.LittleEndian.Uint64(value))
	}
}

// A live map that its writer has not made yet.
func ExampleWaitForMap() {
	ctx, stop := context.WithTimeout(context.Background(), time.Minute)
	defer stop()
	if err := sapwood.WaitForMap(ctx, "/dev/shm/routes"); err != nil {
		log.Fatal(err)
	}
	table, err := sapwood.OpenRoutes("/dev/shm/routes")
	if err != nil {
		log.Fatal(err)
	}
	defer table.Close()
}

// Keys of domain names sort in the canonical order of DNSSEC.
func ExampleDNSKey() {
	key, err := sapwood.DNSKey("www.Example.org.")
	fmt.Printf("%q %v\n", key, err)
	name, err := sapwood.DNSName(key)
	fmt.Println(name, err)
	_, err = sapwood.DNSKey("a..b")
	fmt.Println(err)
	// Output:
	// "org\x00example\x00www\x00" <nil>
	// www.example.org <nil>
	// not a domain name: "a..b": empty label at byte 2
}

// The counts of a map that programs write, whose values have eight bytes.
func ExampleOpenArena() {
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
