// Package bench has the benchmarks of the module beside its peers, which the suite "go" of
// sapwood-bench runs. The peers are dependencies of this module alone.
package bench

import (
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gaissmai/bart"
	iradix "github.com/hashicorp/go-immutable-radix/v2"

	sapwood "sapwood/doors/go"
)

// none is the answer where there is none.
const none = ^uint64(0)

// The engines, by the names of the suite.
const (
	ours  = "sapwood-go"
	goMap = "map[string]"
	radix = "go-immutable-radix"
	bartT = "bart"
)

// asked is the questions of an operation, and the answers that they must have.
type asked struct {
	texts   []string
	answers []uint64
	// The sums of the first answers.
	sums []uint64
}

// pairs reads a file that sapwood-bench wrote: a text and a number a line.
func pairs(b *testing.B, file string) (a asked) {
	b.Helper()
	all, err := os.ReadFile(file)
	if err != nil {
		b.Fatal(err)
	}
	a.sums = []uint64{0}
	for line := range strings.Lines(string(all)) {
		text, number, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "\t")
		answer := none
		if number != "-" {
			if answer, err = strconv.ParseUint(number, 10, 64); err != nil {
				b.Fatal(err)
			}
		}
		a.texts, a.answers = append(a.texts, text), append(a.answers, answer)
		a.sums = append(a.sums, a.sums[len(a.sums)-1]+answer)
	}
	return a
}

// folderOf is the folder of a case; the benchmark is skipped without one.
func folderOf(b *testing.B, name string) string {
	b.Helper()
	folder := os.Getenv("SAPWOOD_GO_BENCH")
	if folder == "" {
		b.Skip("skipped: SAPWOOD_GO_BENCH names no folder; sapwood-bench go makes one")
	}
	folder = filepath.Join(folder, name)
	if _, err := os.Stat(folder); err != nil {
		b.Skip("skipped:", err)
	}
	return folder
}

// processorTime is the processor time of this thread.
func processorTime(b *testing.B) time.Duration {
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_THREAD, &used); err != nil {
		b.Fatal(err)
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}

// measure compares all answers of an operation, and then measures it. Other programs' turns do not
// count.
func measure[Q any](b *testing.B, engine, operation string, a asked, questions []Q,
	ask func(q Q) (uint64, error)) {
	b.Helper()
	b.Run(engine+"/"+operation, func(b *testing.B) {
		for i, q := range questions {
			if got, err := ask(q); err != nil || got != a.answers[i] {
				b.Fatalf("%s: %d and %v, not %d", a.texts[i], got, err, a.answers[i])
			}
		}
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		b.ReportAllocs()
		sum, at := uint64(0), 0
		b.ResetTimer()
		begin := processorTime(b)
		for range b.N {
			got, err := ask(questions[at])
			if err != nil {
				b.Fatal(err)
			}
			sum += got
			if at++; at == len(questions) {
				at = 0
			}
		}
		took := processorTime(b) - begin
		b.StopTimer()
		wanted := uint64(b.N/len(questions))*a.sums[len(questions)] + a.sums[b.N%len(questions)]
		if sum != wanted {
			b.Fatalf("the answers make %d, not %d", sum, wanted)
		}
		b.ReportMetric(float64(took.Nanoseconds())/float64(b.N), "cpu-ns/op")
	})
}

// number is the value of eight bytes, if there is one.
func number(value []byte, found bool) uint64 {
	if !found || len(value) != 8 {
		return none
	}
	return uint64(value[0]) | uint64(value[1])<<8 | uint64(value[2])<<16 | uint64(value[3])<<24 |
		uint64(value[4])<<32 | uint64(value[5])<<40 | uint64(value[6])<<48 | uint64(value[7])<<56
}

// keysOf are the keys of names, which lie one behind the other, as the names do.
func keysOf(b *testing.B, names []string) [][]byte {
	b.Helper()
	all, ends := []byte{}, []int{0}
	for _, name := range names {
		var err error
		if all, err = sapwood.AppendDNSKey(all, name); err != nil {
			b.Fatal(name, err)
		}
		ends = append(ends, len(all))
	}
	keys := make([][]byte, len(names))
	for i := range keys {
		keys[i] = all[ends[i]:ends[i+1]:ends[i+1]]
	}
	return keys
}

// above finds the longest name at or above a name.
func above(all map[string]uint64, name string) uint64 {
	for {
		if value, found := all[name]; found {
			return value
		}
		dot := strings.IndexByte(name, '.')
		if dot < 0 {
			return none
		}
		name = name[dot+1:]
	}
}

func mapOf(entries asked) map[string]uint64 {
	all := make(map[string]uint64, len(entries.texts))
	for i, name := range entries.texts {
		all[name] = entries.answers[i]
	}
	return all
}

func names(b *testing.B, name string, peers bool) {
	folder := folderOf(b, name)
	m, err := sapwood.OpenNames(filepath.Join(folder, "map"))
	if err != nil {
		b.Fatal(err)
	}
	defer m.Close()
	room := make([]byte, 0, 64)
	var all map[string]uint64
	tree := iradix.New[uint64]()
	if peers {
		entries := pairs(b, filepath.Join(folder, "entries"))
		all = mapOf(entries)
		txn := tree.Txn()
		for i, key := range keysOf(b, entries.texts) {
			txn.Insert(key, entries.answers[i])
		}
		tree = txn.Commit()
	}
	for _, operation := range []string{"hit_mops", "miss_mops"} {
		a := pairs(b, filepath.Join(folder, operation))
		keys := keysOf(b, a.texts)
		measure(b, ours, operation, a, keys, func(key []byte) (uint64, error) {
			value, found, err := m.Append(room, key)
			return number(value, found), err
		})
		if !peers {
			continue
		}
		measure(b, goMap, operation, a, a.texts, func(name string) (uint64, error) {
			if value, found := all[name]; found {
				return value, nil
			}
			return none, nil
		})
		measure(b, radix, operation, a, keys, func(key []byte) (uint64, error) {
			if value, found := tree.Root().Get(key); found {
				return value, nil
			}
			return none, nil
		})
	}
	for _, operation := range []string{"closest_hit_ns", "closest_below_ns", "closest_miss_ns"} {
		a := pairs(b, filepath.Join(folder, operation))
		measure(b, ours, operation, a, a.texts, func(name string) (uint64, error) {
			_, found, err := m.AppendClosest(room, name)
			longest := found.Longest()
			return number(longest.Value, longest.Found), err
		})
		if !peers {
			continue
		}
		measure(b, goMap, operation, a, a.texts, func(name string) (uint64, error) {
			return above(all, name), nil
		})
		var key [sapwood.DNSKeyMax]byte
		measure(b, radix, operation, a, a.texts, func(name string) (uint64, error) {
			k, err := sapwood.AppendDNSKey(key[:0], name)
			if err != nil {
				return 0, err
			}
			if _, value, found := tree.Root().LongestPrefix(k); found {
				return value, nil
			}
			return none, nil
		})
	}
}

func BenchmarkNames(b *testing.B)     { names(b, "names", true) }
func BenchmarkNamesLive(b *testing.B) { names(b, "names-live", false) }

func routes(b *testing.B, name string, peers bool) {
	folder := folderOf(b, name)
	r, err := sapwood.OpenRoutes(filepath.Join(folder, "map"))
	if err != nil {
		b.Fatal(err)
	}
	defer r.Close()
	table := new(bart.Table[uint64])
	if peers {
		entries := pairs(b, filepath.Join(folder, "entries"))
		for i, net := range entries.texts {
			table.Insert(netip.MustParsePrefix(net), entries.answers[i])
		}
	}
	for _, operation := range []string{"random_mlps", "intable_mlps"} {
		a := pairs(b, filepath.Join(folder, operation))
		addresses := make([]netip.Addr, len(a.texts))
		for i, text := range a.texts {
			addresses[i] = netip.MustParseAddr(text)
		}
		measure(b, ours, operation, a, addresses, func(address netip.Addr) (uint64, error) {
			hop, _, found, err := r.Lookup(address)
			if !found {
				return none, err
			}
			return hop.Number, err
		})
		if !peers {
			continue
		}
		measure(b, bartT, operation, a, addresses, func(address netip.Addr) (uint64, error) {
			if hop, found := table.Lookup(address); found {
				return hop, nil
			}
			return none, nil
		})
	}
}

func BenchmarkRoutesV4(b *testing.B)   { routes(b, "routes-v4", true) }
func BenchmarkRoutesV6(b *testing.B)   { routes(b, "routes-v6", true) }
func BenchmarkRoutesLive(b *testing.B) { routes(b, "routes-live", false) }

func ranges(b *testing.B, name string) {
	folder := folderOf(b, name)
	r, err := sapwood.OpenRanges(filepath.Join(folder, "map"))
	if err != nil {
		b.Fatal(err)
	}
	defer r.Close()
	const operation = "load_ns"
	a := pairs(b, filepath.Join(folder, operation))
	indices := make([]uint64, len(a.texts))
	for i, text := range a.texts {
		if indices[i], err = strconv.ParseUint(text, 10, 64); err != nil {
			b.Fatal(err)
		}
	}
	measure(b, ours, operation, a, indices, func(index uint64) (uint64, error) {
		value, _, found, err := r.Number(index)
		if !found {
			return none, err
		}
		return value, err
	})
}

func BenchmarkRanges(b *testing.B)     { ranges(b, "ranges") }
func BenchmarkRangesLive(b *testing.B) { ranges(b, "ranges-live") }

func BenchmarkLists(b *testing.B) {
	folder := folderOf(b, "lists")
	l, err := sapwood.OpenLists(filepath.Join(folder, "map"))
	if err != nil {
		b.Fatal(err)
	}
	defer l.Close()
	all := mapOf(pairs(b, filepath.Join(folder, "entries")))
	const operation = "ask_mops"
	a := pairs(b, filepath.Join(folder, operation))
	measure(b, ours, operation, a, a.texts, func(name string) (uint64, error) {
		verdict, err := l.Ask(name, 1)
		if !verdict.Found {
			return none, err
		}
		return 1, err
	})
	measure(b, goMap, operation, a, a.texts, func(name string) (uint64, error) {
		return above(all, name), nil
	})
}
