package sapwood

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"strings"
	"testing"
)

// go test -run '^$' -bench .

const benchEntries = 100_000

// benchNames are names of domains, and the map of them that the program builds.
func benchNames(b *testing.B) (*Names, []string) {
	random := rand.New(rand.NewPCG(1, 2))
	names := make([]string, benchEntries)
	var text strings.Builder
	for i := range names {
		names[i] = fmt.Sprintf("%x.%x.example", random.Uint32(), random.IntN(3000))
		fmt.Fprintf(&text, "%s\t%d\n", names[i], i)
	}
	return names4(b, built(b, text.String(), "names", "build", "--dns")), names
}

func BenchmarkNames(b *testing.B) {
	m, names := benchNames(b)
	keys := make([][]byte, len(names))
	for i, name := range names {
		keys[i], _ = DNSKey(name)
	}
	room := make([]byte, 0, 64)
	b.Run("Append", func(b *testing.B) {
		b.ReportAllocs()
		for i := range b.N {
			if _, found, err := m.Append(room, keys[i*7919%len(keys)]); !found || err != nil {
				b.Fatal(found, err)
			}
		}
	})
	b.Run("AppendClosest", func(b *testing.B) {
		b.ReportAllocs()
		for i := range b.N {
			_, c, err := m.AppendClosest(room, names[i*7919%len(names)])
			if !c.Exact || err != nil {
				b.Fatal(c, err)
			}
		}
	})
	b.Run("AppendClosest of a name that is not there", func(b *testing.B) {
		b.ReportAllocs()
		for i := range b.N {
			_, c, err := m.AppendClosest(room, "www."+names[i*7919%len(names)][3:])
			if c.Exact || err != nil {
				b.Fatal(c, err)
			}
		}
	})
	all := map[string]uint64{}
	walk := m.All()
	for key, value := range walk.All() {
		all[string(key)] = binary.LittleEndian.Uint64(value)
	}
	b.Run("map of Go", func(b *testing.B) {
		for i := range b.N {
			if _, found := all[string(keys[i*7919%len(keys)])]; !found {
				b.Fatal(i)
			}
		}
	})
}

// benchAddresses are addresses of routes, in no order.
func benchAddresses(table map[netip.Prefix]string) []netip.Addr {
	all := make([]netip.Addr, 0, len(table))
	for net := range table {
		all = append(all, net.Addr())
	}
	return all
}

func BenchmarkRoutes(b *testing.B) {
	random := rand.New(rand.NewPCG(3, 4))
	table := routesOf(random, benchEntries)
	addresses := benchAddresses(table)
	lookups := func(b *testing.B, r *Routes) {
		b.ReportAllocs()
		for i := range b.N {
			if _, _, _, err := r.Lookup(addresses[i*7919%len(addresses)]); err != nil {
				b.Fatal(err)
			}
		}
	}
	r := routes4(b, built(b, listOf(table), "routes", "build"))
	b.Run("a saved table", func(b *testing.B) { lookups(b, r) })
}

func BenchmarkRanges(b *testing.B) {
	var text strings.Builder
	for i := range benchEntries {
		fmt.Fprintf(&text, "%d %d text\n", 10*i, 10*i+5)
	}
	r := ranges4(b, built(b, text.String(), "ranges", "build"))
	room := make([]byte, 0, 64)
	b.ReportAllocs()
	b.ResetTimer()
	for i := range b.N {
		if _, _, _, err := r.Append(room, uint64(i*7919%(10*benchEntries))); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkChecksum(b *testing.B) {
	memory := make([]byte, 1<<20)
	b.SetBytes(int64(len(memory)))
	for range b.N {
		xxh3(memory)
	}
}
