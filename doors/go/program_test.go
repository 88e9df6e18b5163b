package sapwood

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sort"
	"strings"
	"testing"
)

// program runs the program sapwood, with a text as its input.
func program(t testing.TB, input string, arguments ...string) string {
	t.Helper()
	path := os.Getenv("SAPWOOD_PROGRAM")
	if path == "" {
		t.Skip("skipped: SAPWOOD_PROGRAM names no program; ci/go.sh builds it")
	}
	command := exec.Command(path, arguments...)
	command.Stdin = strings.NewReader(input)
	var told bytes.Buffer
	command.Stderr = &told
	output, err := command.Output()
	if err != nil {
		t.Fatal(arguments, err, told.String())
	}
	return string(output)
}

// built builds a file by the program, and returns its path.
func built(t testing.TB, text string, arguments ...string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "file")
	program(t, text, append(arguments, "--quiet", "-o", path, "-")...)
	return path
}

// zone is a list of names, which is searched name by name.
type zone struct {
	list   map[string]uint64
	exists map[string]bool
}

// namesAbove are a name and the names above it, the longest first.
func namesAbove(name string) []string {
	all := []string{}
	for rest := name; rest != "."; {
		all = append(all, rest)
		if _, after, more := strings.Cut(rest, "."); more {
			rest = after
		} else {
			rest = "."
		}
	}
	return append(all, ".")
}

func zoneOf(list map[string]uint64) *zone {
	z := &zone{list, map[string]bool{}}
	for known := range list {
		for _, name := range namesAbove(known) {
			z.exists[name] = true
		}
	}
	return z
}

// closest is what the list has around a name.
func (z *zone) closest(name string) (c Closest, ancestor, wildcard uint64) {
	labels := func(name string) int { return len(namesAbove(name)) - 1 }
	c.Labels, c.Exists = labels(name), z.exists[name]
	_, c.Exact = z.list[name]
	encloser := "."
	for _, up := range namesAbove(name) {
		if z.exists[up] {
			encloser = up
			break
		}
	}
	c.Encloser = labels(encloser)
	for _, up := range namesAbove(name) {
		if value, found := z.list[up]; found {
			c.Ancestor, ancestor = Owner{Found: true, Labels: labels(up)}, value
			break
		}
	}
	if !c.Exists {
		star := "*." + encloser
		if encloser == "." {
			star = "*"
		}
		if value, found := z.list[star]; found {
			c.Wildcard, wildcard = Owner{Found: true, Labels: labels(star)}, value
		}
	}
	return c, ancestor, wildcard
}

// Maps of names that the program builds answer as a naive search of their lists does.
func TestProgramNames(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	label := func() string {
		return []string{"a", "b", "www", "ads", "example", "x-1", "*", strings.Repeat("l", 63)}[random.IntN(8)]
	}
	name := func() string {
		labels := make([]string, 1+random.IntN(4))
		for i := range labels {
			labels[i] = label()
			if i > 0 && labels[i] == "*" {
				labels[i] = "star"
			}
		}
		labels = append(labels, []string{"org", "example", "net"}[random.IntN(3)])
		return strings.Join(labels, ".")
	}
	for _, size := range []int{0, 1, 2, 10, 200, 4000} {
		list := map[string]uint64{}
		var text strings.Builder
		for range size {
			name := name()
			list[name] = random.Uint64()
			fmt.Fprintf(&text, "%s\t%d\n", name, list[name])
		}
		m := names4(t, built(t, text.String(), "names", "build", "--dns"))
		if err := m.Verify(); err != nil {
			t.Fatal(err)
		}
		if n, err := m.Len(); n != len(list) || err != nil {
			t.Fatalf("%d of %d names, %v", n, len(list), err)
		}
		walk := m.All()
		for key, value := range walk.All() {
			name, err := DNSName(key)
			if number, found := list[name]; !found || err != nil || number != binary.LittleEndian.Uint64(value) {
				t.Fatal(name, err, value)
			}
		}
		if walk.Err() != nil {
			t.Fatal(walk.Err())
		}
		asked := []string{".", "org", "nothing", "*.org", `\000\001x.org`, strings.Repeat("x.", 126) + "y"}
		for _, byte := range []string{`\000`, "b"} {
			// 255 bytes in wire form.
			long := strings.Repeat(byte, 63)
			asked = append(asked, strings.Join([]string{long, long, long, strings.Repeat(byte, 61)}, "."))
		}
		for range 500 {
			asked = append(asked, name())
		}
		for name := range list {
			asked = append(asked, name, "below."+name)
			if len(asked) > 2000 {
				break
			}
		}
		zone := zoneOf(list)
		for _, name := range asked {
			wanted, ancestor, wildcard := zone.closest(name)
			got, err := m.Closest(strings.ToUpper(name))
			if err != nil {
				t.Fatal(name, err)
			}
			number := func(owner *Owner) (n uint64) {
				if owner.Found {
					n = binary.LittleEndian.Uint64(owner.Value)
				}
				owner.Value = nil
				return n
			}
			above, star := number(&got.Ancestor), number(&got.Wildcard)
			if fmt.Sprint(got) != fmt.Sprint(wanted) || above != ancestor || star != wildcard {
				t.Fatalf("%s of %d: %+v %d %d, not %+v %d %d", name, size, got, above, star, wanted, ancestor, wildcard)
			}
		}
		i, room := 0, make([]byte, 0, 64)
		allocateNothing(t, "AppendClosest", func() {
			i++
			_, _, _ = m.AppendClosest(room, asked[i%len(asked)])
		})
	}
}

// Maps with texts, with long and short keys and values.
func TestProgramTexts(t *testing.T) {
	random := rand.New(rand.NewPCG(5, 6))
	list := map[string]string{}
	var text strings.Builder
	for i := range 3000 {
		key := fmt.Sprintf("%s%d", strings.Repeat("k", random.IntN(3)*random.IntN(200)), random.IntN(1e6))
		list[key] = strings.Repeat("v", []int{0, 1, 7, 60, 200, 300, 40_000}[i%7*min(1, random.IntN(3))])
		fmt.Fprintf(&text, "%s\t%s\n", key, list[key])
	}
	m := names4(t, built(t, text.String(), "names", "build", "--values", "text"))
	if n, err := m.ValueBytes(); n != -1 || err != nil {
		t.Fatal(n, err)
	}
	if err := m.Verify(); err != nil {
		t.Fatal(err)
	}
	keys := make([]string, 0, len(list))
	for key, value := range list {
		keys = append(keys, key)
		if got, found, err := m.Get([]byte(key)); string(got) != value || !found || err != nil {
			t.Fatal(key, len(got), found, err)
		}
		if found, err := m.Has([]byte(key + "+")); found || err != nil {
			t.Fatal(key, found, err)
		}
	}
	slices.Sort(keys)
	i := 0
	walk := m.All()
	for key, value := range walk.All() {
		if string(key) != keys[i] || string(value) != list[keys[i]] {
			t.Fatalf("%s in the place of %s", key, keys[i])
		}
		i++
	}
	if walk.Err() != nil || i != len(keys) {
		t.Fatal(i, walk.Err())
	}
}

// routesOf is a random table: what prefixes lead to.
func routesOf(random *rand.Rand, size int) map[netip.Prefix]string {
	table := map[netip.Prefix]string{}
	for range size {
		var net netip.Prefix
		if random.IntN(2) == 0 {
			var all [4]byte
			binary.BigEndian.PutUint32(all[:], random.Uint32()&random.Uint32())
			net = netip.PrefixFrom(netip.AddrFrom4(all), random.IntN(33))
		} else {
			all := [16]byte{0x20, 1}
			binary.BigEndian.PutUint64(all[2:], random.Uint64()&random.Uint64()&random.Uint64())
			net = netip.PrefixFrom(netip.AddrFrom16(all), random.IntN(129))
		}
		table[net.Masked()] = []string{"core", "lab", "by 192.0.2.1", ""}[random.IntN(4)]
	}
	return table
}

// longest is the longest prefix of an address, found by a look at each length.
func longest(table map[netip.Prefix]string, address netip.Addr, most int) (netip.Prefix, string, bool) {
	for length := most; length >= 0; length-- {
		net := netip.PrefixFrom(address, length).Masked()
		if hop, found := table[net]; found {
			return net, hop, true
		}
	}
	return netip.Prefix{}, "", false
}

// compareRoutes compares a table with what it should have.
func compareRoutes(t testing.TB, random *rand.Rand, r *Routes, table map[netip.Prefix]string, asked int) {
	t.Helper()
	nets := make([]netip.Prefix, 0, len(table))
	for net := range table {
		nets = append(nets, net)
	}
	sort.Slice(nets, func(i, j int) bool {
		a, b := nets[i], nets[j]
		if order := a.Addr().Compare(b.Addr()); order != 0 {
			return order < 0
		}
		return a.Bits() < b.Bits()
	})
	i := 0
	walk := r.All()
	for net, hop := range walk.All() {
		if i == len(nets) || net != nets[i] || hop.String() != table[net] {
			t.Fatalf("%v %v in the place of %v", net, hop, nets[min(i, len(nets)-1)])
		}
		i++
	}
	if walk.Err() != nil || i != len(nets) {
		t.Fatal(i, len(nets), nets, walk.Err())
	}
	for range asked {
		address := netip.AddrFrom4([4]byte{byte(random.Uint32()), byte(random.Uint32()), 0, 1})
		if len(nets) > 0 && random.IntN(4) > 0 {
			address = nets[random.IntN(len(nets))].Addr()
			bytes := address.AsSlice()
			bytes[random.IntN(len(bytes))] ^= 1 << random.IntN(8)
			address, _ = netip.AddrFromSlice(bytes)
		}
		wanted, hop, there := longest(table, address, address.BitLen())
		got, net, found, err := r.Lookup(address)
		if err != nil || found != there || net != wanted || there && got.String() != hop {
			t.Fatalf("%v: %v %v %v %v, not %v %q", address, got, net, found, err, wanted, hop)
		}
		asked := netip.PrefixFrom(address, random.IntN(address.BitLen()+1))
		wanted, hop, there = longest(table, address, asked.Bits())
		got, net, found, err = r.Covering(asked)
		if err != nil || found != there || net != wanted || there && got.String() != hop {
			t.Fatalf("%v: %v %v %v %v, not %v %q", asked, got, net, found, err, wanted, hop)
		}
		_, there = table[asked.Masked()]
		if _, found, err = r.Get(asked); found != there || err != nil {
			t.Fatal(asked, found, there, err)
		}
	}
}

func listOf(table map[netip.Prefix]string) string {
	var text strings.Builder
	for net, hop := range table {
		fmt.Fprintf(&text, "%v %s\n", net, hop)
	}
	return text.String()
}

func TestProgramRoutes(t *testing.T) {
	random := rand.New(rand.NewPCG(7, 8))
	for _, size := range []int{0, 1, 2, 5, 40, 600, 20_000} {
		table := routesOf(random, size)
		r := routes4(t, built(t, listOf(table), "routes", "build"))
		if err := r.Verify(); err != nil {
			t.Fatal(err)
		}
		compareRoutes(t, random, r, table, 3000)
		i, addresses := 0, benchAddresses(table)
		allocateNothing(t, "Lookup", func() {
			if i++; len(addresses) > 0 {
				_, _, _, _ = r.Lookup(addresses[i%len(addresses)])
			}
		})
	}
}

// allocateNothing checks that calls allocate nothing, whatever they are about.
func allocateNothing(t testing.TB, what string, ask func()) {
	t.Helper()
	if n := testing.AllocsPerRun(500, ask); n != 0 {
		t.Errorf("%s: %v allocations", what, n)
	}
}

func TestProgramRanges(t *testing.T) {
	random := rand.New(rand.NewPCG(9, 10))
	for _, size := range []int{0, 1, 7, 3000} {
		type entry struct {
			span Span
			text string
		}
		var all []entry
		var text strings.Builder
		free := uint64(0)
		for i := range size {
			first := free + random.Uint64N(1000)
			last := first + random.Uint64N(1000)
			if i == size-1 {
				last = math.MaxUint64
			}
			all = append(all, entry{Span{first, last}, strings.Repeat("t", random.IntN(9))})
			fmt.Fprintf(&text, "%d %d %s\n", first, last, all[i].text)
			free = last + 1
		}
		r := ranges4(t, built(t, text.String(), "ranges", "build"))
		i := 0
		walk := r.All()
		for span, value := range walk.All() {
			if all[i] != (entry{span, string(value)}) {
				t.Fatal(i, span, value)
			}
			i++
		}
		if n, err := r.Len(); n != size || err != nil || walk.Err() != nil || i != size {
			t.Fatal(n, err, walk.Err(), i)
		}
		for range 2000 {
			index := random.Uint64N(free + 3000)
			at := sort.Search(len(all), func(i int) bool { return all[i].span.Last >= index })
			value, span, found, err := r.Get(index)
			there := at < len(all) && all[at].span.First <= index
			if err != nil || found != there || there && all[at] != (entry{span, string(value)}) {
				t.Fatal(index, value, span, found, err)
			}
		}
	}
}
