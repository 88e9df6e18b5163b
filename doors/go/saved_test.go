package sapwood

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// committed is a saved file that the tests of Rust, C and Python use, too.
func committed(name string) string { return "../../core/sapwood/tests/files/" + name }

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
