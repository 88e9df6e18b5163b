package sapwood

import (
	"net/netip"
	"testing"
)

// go test -run '^$' -bench . The module in bench has lookups beside peers.

// benchAddresses are addresses of routes, in no order.
func benchAddresses(table map[netip.Prefix]string) []netip.Addr {
	all := make([]netip.Addr, 0, len(table))
	for net := range table {
		all = append(all, net.Addr())
	}
	return all
}

func BenchmarkChecksum(b *testing.B) {
	memory := make([]byte, 1<<20)
	b.SetBytes(int64(len(memory)))
	for range b.N {
		xxh3(memory)
	}
}
