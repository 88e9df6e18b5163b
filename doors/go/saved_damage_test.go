package sapwood

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"net/netip"
	"os"
	"path/filepath"
	"testing"
)

// rewrite makes a file anew. One that is cut off and written again would be flushed to the disk.
func rewrite(path string, content []byte) error {
	_ = os.Remove(path)
	return os.WriteFile(path, content, 0o600)
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
		if err := rewrite(path, content); err != nil {
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
		for range rounds(t, 60) {
			description := make([]byte, 6*(1+random.IntN(20)))
			for i := range description {
				description[i] = byte(random.Uint32())
			}
			if err := rewrite(path, spoil(whole, description)); err != nil {
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
		if err := rewrite(path, content); err != nil {
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
	if err := rewrite(path, whole); err != nil {
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
