package sapwood

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// listVectors are the vectors of services/lists, which Rust writes.
const listVectors = "../../services/lists/tests/files/vectors"

func lists4(t testing.TB, path string) *Lists {
	t.Helper()
	l, err := OpenLists(path)
	if err != nil {
		t.Fatal(err)
	}
	closed(t, l)
	return l
}

// shownVerdict is a verdict as the test in Rust writes it.
func shownVerdict(v *Verdict) string {
	if !v.Found {
		return "none"
	}
	text := fmt.Sprintf("%v %d %d %d %s", v.Action, v.List, v.Rank, v.Others, v.Rule())
	for _, address := range v.Addresses {
		text += " " + address.String()
	}
	if v.Action == ActionName {
		text += " " + v.Target
	}
	for _, record := range v.Records {
		text += fmt.Sprintf(" %d/%d/%s", record.Type, record.TTL, hex.EncodeToString(record.Data))
	}
	return text
}

// The answers to the vectors are those of Rust.
func TestListVectors(t *testing.T) {
	l := lists4(t, listVectors+".lists")
	text, err := os.ReadFile(listVectors + ".answers")
	if err != nil {
		t.Fatal(err)
	}
	count := 0
	for _, line := range strings.Split(strings.TrimSpace(string(text)), "\n") {
		if strings.HasPrefix(line, "#") {
			continue
		}
		parts := strings.Split(line, "\t")
		rtype, err := strconv.ParseUint(parts[1], 10, 16)
		if err != nil {
			t.Fatal(err)
		}
		v, err := l.Ask(parts[0], uint16(rtype))
		if err != nil {
			t.Fatal(line, err)
		}
		if got := shownVerdict(&v); got != parts[2] {
			t.Errorf("%s: %s", line, got)
		}
		if v.Found && v.ListName != l.Names()[v.List] {
			t.Error(line, v.ListName)
		}
		count++
	}
	if count < 1000 {
		t.Error(count, "vectors")
	}
}

// What cannot be told is an error, and never a verdict without a rule.
func TestListErrors(t *testing.T) {
	l := lists4(t, listVectors+".lists")
	long := strings.Repeat("a", 60)
	for name, wanted := range map[string]error{
		"a..m.example": ErrName, strings.Repeat("a", 64) + ".m.example": ErrName, `\9.m.example`: ErrName,
		// The target with this name in the place of its asterisk has too many bytes.
		long + "." + long + "." + long + "." + strings.Repeat("b", 50) + ".m.example": ErrName,
	} {
		v, err := l.Ask(name, 1)
		if !errors.Is(err, wanted) || v.Found {
			t.Error(name, err)
		}
	}
	for name, wanted := range map[string]error{"names.routes": ErrKind, "leaves-30.map": ErrLayout} {
		_, err := OpenLists(committed(name))
		wants(t, err, wanted)
	}
	if _, err := OpenLists(filepath.Join(t.TempDir(), "none")); !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
	other := built(t, "a.example\tvalue\n", "names", "build", "--dns", "--values", "text")
	_, err := OpenLists(other)
	wants(t, err, ErrLayout)
	if !strings.Contains(err.Error(), `not a map of "sapwood lists"`) {
		t.Error(err)
	}
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	_, err = l.Ask("m.example", 1)
	wants(t, err, ErrClosed)
}

// Rules that only block are found without an allocation.
func TestListsAllocateNothing(t *testing.T) {
	l := lists4(t, listVectors+".lists")
	for name, action := range map[string]Action{
		"x.y.w.example": ActionNXDomain, "good.w.example": ActionPass, "other.org": ActionPass,
	} {
		allocations := testing.AllocsPerRun(500, func() {
			if v, err := l.Ask(name, 1); err != nil || v.Action != action {
				t.Fatal(name, v, err)
			}
		})
		if allocations != 0 {
			t.Errorf("%s: %v allocations", name, allocations)
		}
	}
}

// Bytes that are no rules are refused, and read nothing outside them.
func TestOtherRules(t *testing.T) {
	for _, value := range [][]byte{
		{0x30}, {0x0f}, {0x80}, {0x07}, {0x40}, {0x08}, {0x09, 1}, {7, 1, 5, 1, 2, 3, 4, 5},
		{0x80, 0xff, 0xff, 0xff, 0xff, 0xff, 1}, {0x80, 0xff, 0xff, 4}, {0x40, 7}, {0x40, 8 | 4, 9},
		{0x40, 32 | 4, 1, 9, 1},
	} {
		b := ruleBytes{rest: value}
		for len(b.rest) > 0 {
			b.rule()
		}
		if !b.bad {
			t.Errorf("%x is a rule", value)
		}
	}
	for at := range 40 {
		if readLists(bytes.Repeat([]byte{byte(at + 2)}, at)) != nil {
			t.Error(at)
		}
	}
}

// FuzzRules reads any bytes as rules.
func FuzzRules(f *testing.F) {
	f.Add([]byte{0x20, 0xe0, 3, 0x2c, 1, 1, 1, 'x'}, []byte("x\x00"))
	f.Fuzz(func(t *testing.T, value, key []byte) {
		b := ruleBytes{rest: value}
		for len(b.rest) > 0 {
			before := len(b.rest)
			r := b.rule()
			if len(b.rest) >= before {
				t.Fatal("a rule without bytes")
			}
			if !b.bad {
				r.key = len(key)
				r.applies(key, 1)
				_, _ = targetOf(r.bytes, key)
			}
		}
	})
}

func BenchmarkListsAsk(b *testing.B) {
	l := lists4(b, listVectors+".lists")
	b.ReportAllocs()
	for range b.N {
		if v, err := l.Ask("a.b.c.w.example", 1); err != nil || !v.Found {
			b.Fatal(v, err)
		}
	}
}
