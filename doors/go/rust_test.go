package sapwood

import (
	"bufio"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
)

// mixed is a number made of bytes, as kernel/bpf/tests/vectors.rs makes it.
func mixed(sum uint64, b []byte) uint64 {
	sum += uint64(len(b))
	for _, c := range b {
		sum = sum*31 + uint64(c)
	}
	return sum
}

// named is the name that the test in Rust gives an error.
func named(t *testing.T, err error) string {
	t.Helper()
	names := map[error]string{ErrDamaged: "damaged", ErrBusy: "busy", ErrNoOrder: "no-order", ErrLayout: "layout"}
	for known, name := range names {
		if errors.Is(err, known) {
			return name
		}
	}
	t.Fatal(err)
	return ""
}

// answerAsRust asks one question, and says the answer as the test in Rust does.
func answerAsRust(t *testing.T, m *Map, what string, key []byte) string {
	t.Helper()
	found, err := false, error(nil)
	var there, value []byte
	switch what {
	case "first":
		there, value, found, err = m.First()
	case "last":
		there, value, found, err = m.Last()
	case "get":
		there = key
		value, found, err = m.Get(key)
	case "next":
		there, value, found, err = m.Next(key)
	case "prev":
		there, value, found, err = m.Previous(key)
	case "longest":
		there, value, found, err = m.LongestPrefix(key)
	case "all", "from":
		walk := m.All()
		if what == "from" {
			walk = m.From(key)
		}
		count, sum, end := 0, uint64(0), "end"
		for key, value := range walk.All() {
			count, sum = count+1, mixed(mixed(sum, key), value)
		}
		if walk.Err() != nil {
			end = named(t, walk.Err())
		}
		return fmt.Sprintf("%d %d %s", count, sum, end)
	default:
		t.Fatal("what is", what)
	}
	switch {
	case err != nil:
		return named(t, err)
	case !found:
		return "none"
	}
	return fmt.Sprint(mixed(mixed(0, there), value))
}

// Of damaged maps, Go says what Rust says: the same answers, and the same kinds of errors.
func TestDamagedAsRustSays(t *testing.T) {
	for name, files := range images(t) {
		text, err := os.Open(strings.TrimSuffix(files[0], ".image") + ".damaged")
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		defer text.Close()
		image, err := os.ReadFile(files[0])
		if err != nil {
			t.Fatal(err)
		}
		var arena *Arena
		var m *Map
		copies, answers, errs := 0, 0, 0
		lines := bufio.NewScanner(text)
		for lines.Scan() {
			what, rest, _ := strings.Cut(lines.Text(), " ")
			if what == "copy" {
				if arena, err = arenaOfImage(image); err != nil {
					t.Fatal(err)
				}
				m = nil
				copies++
				continue
			}
			where, wanted, _ := strings.Cut(rest, " ")
			if what == "word" {
				at, err1 := strconv.Atoi(where)
				word, err2 := strconv.ParseUint(wanted, 10, 64)
				if err1 != nil || err2 != nil {
					t.Fatal(lines.Text(), err1, err2)
				}
				arena.memory.w64[at/8] = word
				continue
			}
			if m == nil {
				m, err = arena.Map("names")
				if (err != nil) != (what == "map") || err != nil && named(t, err) != wanted {
					t.Fatalf("%s, copy %d: %v, but Rust says %s", name, copies, err, lines.Text())
				}
			}
			if what == "map" {
				continue
			}
			key, err := hex.DecodeString(where[1:])
			if err != nil {
				t.Fatal(lines.Text(), err)
			}
			if got := answerAsRust(t, m, what, key); got != wanted {
				t.Fatalf("%s, copy %d, %s %x: %s, but Rust says %s", name, copies, what, key, got, wanted)
			}
			answers++
			if !strings.ContainsAny(wanted, "0123456789") && wanted != "none" {
				errs++
			}
		}
		if lines.Err() != nil || copies < 60 || errs < 50 {
			t.Fatalf("%s: %d copies, %d errors, %v", name, copies, errs, lines.Err())
		}
		t.Logf("%s: %d copies, %d answers, %d errors", name, copies, answers, errs)
	}
}
