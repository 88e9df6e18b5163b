package sapwood

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
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

// committed is a saved file that the tests of Rust, C and Python use, too.
func committed(name string) string { return "../../core/sapwood/tests/files/" + name }

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

// closed closes what a test has opened.
func closed(t testing.TB, c interface{ Close() error }) {
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
}

func names4(t testing.TB, path string) *Names {
	t.Helper()
	m, err := OpenNames(path)
	if err != nil {
		t.Fatal(err)
	}
	closed(t, m)
	return m
}

func routes4(t testing.TB, path string) *Routes {
	t.Helper()
	r, err := OpenRoutes(path)
	if err != nil {
		t.Fatal(err)
	}
	closed(t, r)
	return r
}

func ranges4(t testing.TB, path string) *Ranges {
	t.Helper()
	r, err := OpenRanges(path)
	if err != nil {
		t.Fatal(err)
	}
	closed(t, r)
	return r
}

// allRoutes is a table as the program prints it, a line for each prefix.
func allRoutes(t testing.TB, r *Routes) string {
	t.Helper()
	var text strings.Builder
	walk := r.All()
	for net, hop := range walk.All() {
		fmt.Fprintf(&text, "%v %v\n", net, hop)
	}
	if walk.Err() != nil {
		t.Fatal(walk.Err())
	}
	return text.String()
}

func allRanges(t testing.TB, r *Ranges) string {
	t.Helper()
	var text strings.Builder
	walk := r.All()
	for span, value := range walk.All() {
		fmt.Fprintf(&text, "%d %d %q\n", span.First, span.Last, value)
	}
	if walk.Err() != nil {
		t.Fatal(walk.Err())
	}
	return text.String()
}

func TestLayoutHashes(t *testing.T) {
	if layoutHash(namesLayout, 8, 8, formatInline) != checkNames {
		t.Error("names")
	}
	if layoutHash(rangesLayout, 8, 8, rangesFormat) != checkRanges {
		t.Error("ranges")
	}
	if layoutHash(lpmLayout, 32, 4, 4, lpmFormat) != lpmHash4 {
		t.Error("IPv4")
	}
	if layoutHash(lpmLayout, 128, 4, 4, lpmFormat) != lpmHash6 {
		t.Error("IPv6")
	}
	if layoutHash(mapleLayout, 4, 4, mapleFormat) != mapleHash4 {
		t.Error("live ranges")
	}
}

// The files that Rust, C and Python read and write.
func TestCommittedFiles(t *testing.T) {
	for name, wanted := range map[string]string{
		"names.routes":    "10.0.0.0/8 core\n192.0.2.0/24 lab\n2001:db8::/32 core\n",
		"names-1.routes":  "10.0.0.0/8 core\n192.0.2.0/24 lab\n2001:db8::/32 core\n",
		"numbers.routes":  "10.0.0.0/8 64500\n10.1.2.0/24 4294967295\n2001:db8::/32 7\n",
		"nulls.routes":    "10.0.0.0/8 blackhole\n192.0.2.0/24 core\n",
		"groups.routes":   "10.0.0.0/8 1 weight 1, 2 weight 3\n2001:db8::/32 7\n",
		"groups-1.routes": "10.0.0.0/8 1 weight 1, 2 weight 3\n2001:db8::/32 7\n",
	} {
		r := routes4(t, committed(name))
		if got := allRoutes(t, r); got != wanted {
			t.Errorf("%s: %s", name, got)
		}
		if n, err := r.Len(); n != strings.Count(wanted, "\n") || err != nil {
			t.Errorf("%s: %d prefixes, %v", name, n, err)
		}
		if err := r.Verify(); err != nil {
			t.Error(err)
		}
	}
	r := routes4(t, committed("nulls.routes"))
	hop, net, found, err := r.Lookup(netip.MustParseAddr("10.9.8.7"))
	if !hop.Kind.IsNull() || hop.Kind != HopBlackhole || net.String() != "10.0.0.0/8" || !found || err != nil {
		t.Error(hop, net, found, err)
	}
	r = routes4(t, committed("groups.routes"))
	hop, found, err = r.Get(netip.MustParsePrefix("10.0.0.0/8"))
	if hop.Kind != HopGroup || len(hop.Members) != 2 || hop.Members[1].Weight != 3 || !found || err != nil {
		t.Error(hop, found, err)
	}
	if _, found, err = r.Get(netip.MustParsePrefix("10.0.0.0/9")); found || err != nil {
		t.Error(found, err)
	}

	numbers := ranges4(t, committed("numbers.ranges"))
	number, span, found, err := numbers.Number(9)
	if number != 7 || span != (Span{5, 9}) || !found || err != nil {
		t.Error(number, span, found, err)
	}
	number, span, found, err = numbers.Number(math.MaxUint64)
	if number != math.MaxUint64 || span != (Span{20, math.MaxUint64}) || !found || err != nil {
		t.Error(number, span, found, err)
	}
	if _, _, found, err = numbers.Number(10); found || err != nil {
		t.Error(found, err)
	}
	texts := ranges4(t, committed("texts.ranges"))
	wanted := "0 9 \"left\"\n20 29 \"right\"\n9223372036854775808 18446744073709551615 \"\"\n"
	if got := allRanges(t, texts); got != wanted {
		t.Error(got)
	}
	if n, err := texts.Len(); n != 3 || err != nil || texts.ValueBytes() != -1 || numbers.ValueBytes() != 8 {
		t.Error(n, err, texts.ValueBytes(), numbers.ValueBytes())
	}
	_, _, _, err = texts.Number(5)
	wants(t, err, ErrLayout)

	// Maps of an earlier format, without inline clusters.
	for name, entries := range map[string]int{"leaves-1.map": 1, "leaves-30.map": 30, "leaves-300.map": 300} {
		m := names4(t, committed(name))
		if n, err := m.Len(); n != entries || err != nil {
			t.Errorf("%s: %d entries, %v", name, n, err)
		}
		if err := m.Verify(); err != nil {
			t.Error(err)
		}
		count := 0
		walk := m.All()
		for key, value := range walk.All() {
			count++
			if got, found, err := m.Get(key); !bytes.Equal(got, value) || !found || err != nil {
				t.Fatal(got, found, err)
			}
		}
		if count != entries || walk.Err() != nil {
			t.Error(count, walk.Err())
		}
	}
}

// What is not the file that was asked for is an error, which says what it is.
func TestOtherFiles(t *testing.T) {
	folder := t.TempDir()
	open := func(path string) [3]error {
		_, a := OpenNames(path)
		_, b := OpenRoutes(path)
		_, c := OpenRanges(path)
		return [3]error{a, b, c}
	}
	for name, file := range map[string]struct {
		wanted [3]error
		says   string
	}{
		"names.routes":     {[3]error{ErrKind, nil, ErrKind}, "a table of routes, not a map of names"},
		"texts.ranges":     {[3]error{ErrKind, ErrKind, nil}, "a map of ranges, not a map of names"},
		"leaves-30.map":    {[3]error{nil, ErrLayout, ErrLayout}, ""},
		"library-1.routes": {[3]error{nil, ErrLayout, ErrLayout}, ""},
	} {
		got := open(committed(name))
		for i, err := range got {
			if !errors.Is(err, file.wanted[i]) {
				t.Errorf("%s, %d: %v, not %v", name, i, err, file.wanted[i])
			}
		}
		if got[0] != nil && !strings.Contains(got[0].Error(), file.says) {
			t.Error(got[0])
		}
	}
	path := filepath.Join(folder, "file")
	for _, err := range open(path) {
		wants(t, err, fs.ErrNotExist)
	}
	for content, wanted := range map[string]error{
		"": ErrNotSaved, "word\n": ErrNotSaved, "SAPWOOD\x00": ErrDamaged,
		strings.Repeat("x", 9000): ErrNotSaved,
	} {
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		for _, err := range open(path) {
			wants(t, err, wanted)
		}
	}
	whole, err := os.ReadFile(committed("names.routes"))
	if err != nil {
		t.Fatal(err)
	}
	for at, wanted := range map[int]error{headerVersionAt: ErrVersion, headerStateAt: ErrDamaged} {
		other := bytes.Clone(whole)
		other[at]++
		if err := os.WriteFile(path, other, 0o600); err != nil {
			t.Fatal(err)
		}
		for _, err := range open(path) {
			wants(t, err, wanted)
		}
	}
	for _, err := range open("/dev/null") {
		wants(t, err, ErrNotSaved)
	}
}

// askFile asks everything of a file, if it opens. The errors are those that are documented. It says
// whether it met one.
func askFile(t testing.TB, path string) (failed bool) {
	t.Helper()
	check := func(err error) bool {
		t.Helper()
		if err == nil {
			return true
		}
		failed = true
		for _, known := range []error{ErrDamaged, ErrKind, ErrLayout, ErrNotSaved, ErrVersion, ErrBusy} {
			if errors.Is(err, known) {
				return false
			}
		}
		t.Fatal(err)
		return false
	}
	if m, err := OpenNames(path); check(err) {
		defer m.Close()
		check(m.Verify())
		keys := [][]byte{nil, {0}, []byte("org\x00example\x00"), []byte("key-7"), {255, 255}}
		walk := m.All()
		for key := range walk.All() {
			if keys = append(keys, key); len(keys) > 40 {
				break
			}
		}
		check(walk.Err())
		for _, key := range keys {
			_, _, err = m.Get(key)
			check(err)
			_, _, _, err = m.Next(key)
			check(err)
			_, _, _, err = m.Previous(key)
			check(err)
			_, _, _, err = m.LongestPrefix(key)
			check(err)
			if name, err := DNSName(key); err == nil {
				_, err = m.Closest(name)
				check(err)
			}
		}
	}
	if r, err := OpenRoutes(path); check(err) {
		defer r.Close()
		check(r.Verify())
		for _, text := range []string{"10.1.2.3", "192.0.2.9", "0.0.0.0", "255.255.255.255", "::", "2001:db8::7"} {
			address := netip.MustParseAddr(text)
			_, _, _, err = r.Lookup(address)
			check(err)
			for length := 0; length <= address.BitLen(); length += 5 {
				_, _, err = r.Get(netip.PrefixFrom(address, length))
				check(err)
			}
		}
	}
	if r, err := OpenRanges(path); check(err) {
		defer r.Close()
		for _, index := range []uint64{0, 5, 9, 10, 25, 1 << 63, math.MaxUint64} {
			_, _, _, err = r.Get(index)
			check(err)
		}
		walk := r.All()
		for range walk.All() {
		}
		check(walk.Err())
	}
	return failed
}

var damagedFiles = []string{"names.routes", "groups.routes", "groups-1.routes", "nulls.routes", "leaves-30.map",
	"leaves-300.map", "numbers.ranges", "texts.ranges"}

// Files that were cut off, or have a wrong bit, are refused.
func TestTornFiles(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	refused := func(what string, content []byte) {
		t.Helper()
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
		for _, open := range []func() error{
			func() error { _, err := OpenNames(path); return err },
			func() error { _, err := OpenRoutes(path); return err },
			func() error { _, err := OpenRanges(path); return err },
		} {
			if open() == nil {
				t.Fatal(what, "opens")
			}
		}
	}
	for _, name := range damagedFiles[:len(damagedFiles):len(damagedFiles)] {
		whole, err := os.ReadFile(committed(name))
		if err != nil {
			t.Fatal(err)
		}
		for size := 0; size < len(whole); size += 1 + size/40 {
			refused(fmt.Sprint(name, " of ", size), whole[:size])
		}
		refused(name+" and more", append(bytes.Clone(whole), 0))
		for at := 0; at < len(whole); at += 1 + len(whole)/150 {
			other := bytes.Clone(whole)
			other[at] ^= 1 << (at % 8)
			refused(fmt.Sprint(name, " with a wrong byte ", at), other)
		}
	}
}

// seal gives an image right checksums and the right length.
func seal(image []byte) {
	binary.LittleEndian.PutUint64(image[headerLengthAt:], uint64(len(image)))
	binary.LittleEndian.PutUint64(image[headerBodySumAt:], xxh3(image[headerPage:]))
	page := append(bytes.Clone(image[:headerSumAt]), image[headerSumAt+8:headerPage]...)
	binary.LittleEndian.PutUint64(image[headerSumAt:], xxh3(page))
}

// spoil changes an image as a description says, and seals it.
func spoil(image, description []byte) []byte {
	image = bytes.Clone(image)
	for ; len(description) >= 6; description = description[6:] {
		at := int(binary.LittleEndian.Uint32(description))
		switch content := description[5]; description[4] % 4 {
		case 0:
			image[headerPage+at%(len(image)-headerPage)] = content
		case 1:
			image[headerPage+at%(len(image)-headerPage)] ^= 1 << (content % 8)
		case 2:
			image[headerRootsAt+at%24] = content
		case 3:
			from := headerPage + at%(len(image)-headerPage)
			to := headerPage + int(content)*8%(len(image)-headerPage)
			copy(image[from:min(from+8, len(image))], image[to:])
		}
	}
	seal(image)
	return image
}

// Files with right checksums and other bytes are refused, or give errors or answers.
func TestHostileFiles(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	random := rand.New(rand.NewPCG(1, 2))
	for _, name := range damagedFiles {
		whole, err := os.ReadFile(committed(name))
		if err != nil {
			t.Fatal(err)
		}
		met := 0
		for range rounds(t, 300) {
			description := make([]byte, 6*(1+random.IntN(20)))
			for i := range description {
				description[i] = byte(random.Uint32())
			}
			if err := os.WriteFile(path, spoil(whole, description), 0o600); err != nil {
				t.Fatal(err)
			}
			if askFile(t, path) {
				met++
			}
		}
		if met == 0 {
			t.Errorf("no damage of %s was seen", name)
		}
	}
}

// go test -fuzz FuzzSaved: changes of saved files under right checksums, and any bytes.
func FuzzSaved(f *testing.F) {
	var all [][]byte
	for i, name := range damagedFiles {
		whole, err := os.ReadFile(committed(name))
		if err != nil {
			f.Fatal(err)
		}
		all = append(all, whole)
		f.Add(byte(i), []byte{0, 1, 0, 0, 2, 7, 9, 0, 0, 0, 0, 200})
	}
	f.Add(byte(255), all[0][:4200])
	folder := f.TempDir()
	f.Fuzz(func(t *testing.T, which byte, description []byte) {
		path := filepath.Join(folder, "file")
		content := description
		if int(which) < len(all) {
			content = spoil(all[which], description)
		} else if len(content) >= headerPage {
			content = bytes.Clone(content)
			seal(content)
		}
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
		askFile(t, path)
	})
}

// A file that is cut off while it is open gives errors.
func TestFileThatIsCutWhileOpen(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	whole, err := os.ReadFile(committed("leaves-300.map"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, whole, 0o600); err != nil {
		t.Fatal(err)
	}
	m := names4(t, path)
	if err := os.Truncate(path, headerPage); err != nil {
		t.Fatal(err)
	}
	wants(t, m.Verify(), ErrDamaged)
	_, _, err = m.Get([]byte("key"))
	wants(t, err, ErrDamaged)
	if err := m.Close(); err != nil {
		t.Fatal(err)
	}
	_, _, err = m.Get([]byte("key"))
	wants(t, err, ErrClosed)
}

// built builds a file by the program, and returns its path.
func built(t testing.TB, text string, arguments ...string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "file")
	program(t, text, append(arguments, "--quiet", "-o", path, "-")...)
	return path
}

// zoneOf is what a list has around a name, found by looking at all names.
func zoneOf(list map[string]uint64, name string) (c Closest, ancestor, wildcard uint64) {
	above := func(name string) []string {
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
	exists := map[string]bool{}
	for known := range list {
		for _, name := range above(known) {
			exists[name] = true
		}
	}
	labels := func(name string) int { return len(above(name)) - 1 }
	c.Labels, c.Exists = labels(name), exists[name]
	_, c.Exact = list[name]
	encloser := "."
	for _, up := range above(name) {
		if exists[up] {
			encloser = up
			break
		}
	}
	c.Encloser = labels(encloser)
	for _, up := range above(name) {
		if value, found := list[up]; found {
			c.Ancestor, ancestor = Owner{Found: true, Labels: labels(up)}, value
			break
		}
	}
	if !c.Exists {
		star := "*." + encloser
		if encloser == "." {
			star = "*"
		}
		if value, found := list[star]; found {
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
		asked := []string{".", "org", "nothing", "*.org"}
		for range 500 {
			asked = append(asked, name())
		}
		for name := range list {
			asked = append(asked, name, "below."+name)
			if len(asked) > 2000 {
				break
			}
		}
		for _, name := range asked {
			wanted, ancestor, wildcard := zoneOf(list, name)
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
		table[net.Masked()] = []string{"core", "lab", "via 192.0.2.1", ""}[random.IntN(4)]
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

func TestDNSNames(t *testing.T) {
	zeros := func(n int) string { return strings.Repeat(`\000`, n) }
	longest := strings.Join([]string{zeros(63), zeros(63), zeros(63), zeros(61)}, ".")
	for name, wanted := range map[string]string{
		"www.Example.org.": "org\x00example\x00www\x00",
		".":                "",
		"":                 "",
		`a\.b.c`:           "c\x00a.b\x00",
		`\001\000x`:        "\x01\x02\x01\x01x\x00",
		`a\\b.\255`:        "\xff\x00a\\b\x00",
	} {
		key, err := DNSKey(name)
		if string(key) != wanted || err != nil {
			t.Errorf("%q: %q, %v", name, key, err)
		}
		text, err := DNSName(key)
		again, err2 := DNSKey(text)
		if string(again) != wanted || err != nil || err2 != nil {
			t.Errorf("%q: %q, %v, %v", name, text, err, err2)
		}
	}
	key, err := DNSKey(longest)
	if len(key) != DNSKeyMax || err != nil {
		t.Error(len(key), err)
	}
	if text, err := DNSName(key); text != longest || err != nil {
		t.Error(len(text), err)
	}
	plain := strings.Join([]string{strings.Repeat("a", 63), strings.Repeat("b", 63), strings.Repeat("c", 63),
		strings.Repeat("d", 61)}, ".")
	if key, err := DNSKey(plain + "."); len(key) != 254 || err != nil {
		t.Error(len(key), err)
	}
	single := strings.Repeat("x.", 127)
	if key, err := DNSKey(single); len(key) != 254 || err != nil {
		t.Error(len(key), err)
	}
	for _, name := range []string{"..", ".a", "a..b", strings.Repeat("a", 64), `a\`, `a\25`, `a\256`, `a\2x3`,
		longest + "a", plain + "e", single + "y", strings.Repeat("x", 300)} {
		_, err := DNSKey(name)
		wants(t, err, ErrName)
	}
	for _, key := range []string{"a", "a\x00\x00", "\x01\x03\x00", "\x01", strings.Repeat("a", 64) + "\x00",
		strings.Repeat("aa\x00", 86), strings.Repeat("a\x00", 300)} {
		_, err := DNSName([]byte(key))
		wants(t, err, ErrName)
	}
	room := make([]byte, 0, DNSKeyMax)
	if n := testing.AllocsPerRun(100, func() { _, _ = AppendDNSKey(room, longest) }); n != 0 {
		t.Error(n, "allocations")
	}
}

// Lookups allocate nothing.
func TestLookupsAllocateNothing(t *testing.T) {
	m := names4(t, built(t, "example.org\t1\n*.example.net\t2\n", "names", "build", "--dns"))
	r := routes4(t, committed("groups.routes"))
	texts := ranges4(t, committed("texts.ranges"))
	room := make([]byte, 0, 64)
	key, err := DNSKey("example.org")
	if err != nil {
		t.Fatal(err)
	}
	v4, v6 := netip.MustParseAddr("10.2.3.4"), netip.MustParseAddr("2001:db8::1")
	for what, ask := range map[string]func() bool{
		"Append": func() bool { _, found, err := m.Append(room, key); return found && err == nil },
		"AppendClosest": func() bool {
			_, c, err := m.AppendClosest(room, "a.b.example.net.")
			return c.Wildcard.Found && err == nil
		},
		"an ancestor": func() bool {
			_, c, err := m.AppendClosest(room, "a.example.org.")
			return c.Ancestor.Found && err == nil
		},
		"Lookup, IPv4":  func() bool { _, _, found, err := r.Lookup(v4); return found && err == nil },
		"Lookup, IPv6":  func() bool { _, _, found, err := r.Lookup(v6); return found && err == nil },
		"Ranges.Append": func() bool { _, _, found, err := texts.Append(room, 25); return found && err == nil },
	} {
		allocations := testing.AllocsPerRun(200, func() {
			if !ask() {
				t.Fatal(what)
			}
		})
		if allocations != 0 {
			t.Errorf("%s: %v allocations", what, allocations)
		}
	}
}

// go test -fuzz FuzzDNSNames: a name and its key say the same, and keys sort as names do.
func FuzzDNSNames(f *testing.F) {
	for _, name := range []string{"www.Example.org.", ".", `a\.b.\001\000`, strings.Repeat("x.", 127)} {
		f.Add(name, "example.org")
	}
	f.Fuzz(func(t *testing.T, a, b string) {
		key, err := DNSKey(a)
		if err != nil {
			wants(t, err, ErrName)
			return
		}
		text, err := DNSName(key)
		if err != nil {
			t.Fatal(a, err)
		}
		again, err := DNSKey(text)
		if !bytes.Equal(again, key) || err != nil || len(key) > DNSKeyMax {
			t.Fatalf("%q: %q, %q, %v", a, text, again, err)
		}
		other, err := DNSKey(b)
		if err != nil || len(key) == 0 || len(other) == 0 {
			return
		}
		// A name below another one has its key, and more.
		if below, err := DNSKey(text + "." + b); err == nil && !bytes.HasPrefix(below, other) {
			t.Fatalf("%q is not below %q", below, other)
		}
	})
}
