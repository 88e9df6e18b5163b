package sapwood

import (
	"bytes"
	"strings"
	"testing"
)

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
