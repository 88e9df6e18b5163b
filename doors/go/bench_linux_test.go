package sapwood

import (
	"fmt"
	"math/rand/v2"
	"testing"
)

const benchEntries = 100_000

func BenchmarkLive(b *testing.B) {
	random := rand.New(rand.NewPCG(5, 6))
	table := routesOf(random, benchEntries)
	addresses := benchAddresses(table)
	r := routes4(b, serve(b, liveFolder(b), "routes", listOf(table)).live)
	b.Run("Routes", func(b *testing.B) {
		b.ReportAllocs()
		for i := range b.N {
			if _, _, _, err := r.Lookup(addresses[i*7919%len(addresses)]); err != nil {
				b.Fatal(err)
			}
		}
	})
	list, keys := "", make([][]byte, benchEntries/10)
	for i := range keys {
		keys[i] = fmt.Appendf(nil, "%x-%d", random.Uint32(), i)
		list += string(keys[i]) + "\n"
	}
	m := names4(b, serve(b, liveFolder(b), "names", list).live)
	room := make([]byte, 0, 64)
	b.Run("Names", func(b *testing.B) {
		b.ReportAllocs()
		for i := range b.N {
			if _, found, err := m.Append(room, keys[i*7919%len(keys)]); !found || err != nil {
				b.Fatal(found, err)
			}
		}
	})
	b.Run("Names, many goroutines", func(b *testing.B) {
		b.RunParallel(func(pb *testing.PB) {
			room := make([]byte, 0, 64)
			for i := 0; pb.Next(); i++ {
				if _, found, err := m.Append(room, keys[i*7919%len(keys)]); !found || err != nil {
					b.Fatal(found, err)
				}
			}
		})
	})
}
