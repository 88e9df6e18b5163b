package sapwood

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Live maps that are damaged or cut off give errors or answers, and every operation ends.
func TestDamagedLiveMaps(t *testing.T) {
	random := rand.New(rand.NewPCG(17, 18))
	known := []error{ErrDamaged, ErrBusy, ErrNoOrder, ErrLayout, ErrKind, ErrNotSaved, ErrVersion, ErrNotYet, ErrRemoved}
	met := map[error]int{}
	check := func(err error) bool {
		t.Helper()
		if err == nil {
			return true
		}
		for _, wanted := range known {
			if errors.Is(err, wanted) {
				met[wanted]++
				return false
			}
		}
		var system *os.PathError
		if !errors.As(err, &system) {
			t.Fatal(err)
		}
		return false
	}
	// The open maps, asked for everything.
	ask := func(m *Names, r *Routes, s *Ranges) {
		t.Helper()
		if m != nil {
			for _, key := range []string{"name-5", "name-99", "", "z"} {
				_, _, err := m.Get([]byte(key))
				check(err)
				_, _, _, err = m.Next([]byte(key))
				check(err)
			}
			_, err := m.Closest("a.b")
			check(err)
			check(m.Verify())
		}
		if r != nil {
			for _, text := range []string{"10.1.2.3", "::1", "2001::5", "192.0.2.1"} {
				_, _, _, err := r.Lookup(netip.MustParseAddr(text))
				check(err)
			}
			check(r.Verify())
		}
		if s != nil {
			for _, index := range []uint64{0, 5, 777, 1 << 40, 1<<64 - 1} {
				_, _, _, err := s.Get(index)
				check(err)
			}
			walk := s.All()
			for range walk.All() {
			}
			check(walk.Err())
		}
	}
	var names, ranges strings.Builder
	for i := range 600 {
		fmt.Fprintf(&names, "name-%d\t%d\n", i, i)
		fmt.Fprintf(&ranges, "%d %d text-%d\n", 10*i, 10*i+i%10, i%3)
	}
	// The maps that servers have left, and of what each is.
	left := map[string]string{}
	for kind, list := range map[string]string{
		"names": names.String(), "ranges": ranges.String(), "routes": listOf(routesOf(random, 600)),
	} {
		s := serve(t, liveFolder(t), kind, list)
		s.quit()
		left[s.live] = kind
	}
	if os.Getenv("SAPWOOD_LIVE_WRITER") != "" {
		for _, kind := range liveKindsOfWriter {
			folder, writer := startLiveWriter(t, kind)
			writer.kill()
			what, _, _ := strings.Cut(kind, "-")
			left[folder] = map[string]string{"routes": "routes", "ranges": "ranges"}[what]
		}
	}
	for path, kind := range left {
		whole := map[string][]byte{}
		for _, name := range []string{"control", "data-1-0", "data-1-1", "data-1-2", "texts/control", "texts/data-1-0"} {
			content, err := os.ReadFile(filepath.Join(path, name))
			if err == nil {
				whole[name] = content
			}
		}
		files := []string{}
		for name := range whole {
			files = append(files, name)
		}
		restore := func() {
			for name, content := range whole {
				if err := os.WriteFile(filepath.Join(path, name), content, 0o644); err != nil {
					t.Fatal(err)
				}
			}
		}
		for range rounds(t, 60) / 3 {
			restore()
			open := func() (m *Names, r *Routes, ranges *Ranges) {
				var err error
				switch kind {
				case "ranges":
					ranges, err = OpenRanges(path)
				case "routes":
					r, err = OpenRoutes(path)
				default:
					m, err = OpenNames(path)
				}
				check(err)
				return m, r, ranges
			}
			m, r, ranges := open()
			if m == nil && r == nil && ranges == nil {
				t.Fatal(kind, "does not open")
			}
			// Damage of a map that is open, which is opened again then.
			name := files[random.IntN(len(files))]
			file, err := os.OpenFile(filepath.Join(path, name), os.O_RDWR, 0)
			if err != nil {
				t.Fatal(err)
			}
			used := max(len(bytes.TrimRight(whole[name], "\x00")), 64)
			for range 1 + random.IntN(60) {
				at := random.IntN(used)
				_, _ = file.WriteAt([]byte{byte(random.Uint32()), byte(random.Uint32())}[:1+at%2], int64(at))
			}
			if random.IntN(8) == 0 {
				_ = file.Truncate(int64(random.IntN(used)))
			}
			_ = file.Close()
			ask(m, r, ranges)
			m2, r2, ranges2 := open()
			ask(m2, r2, ranges2)
			for _, m := range []*Names{m, m2} {
				if m != nil {
					_ = m.Close()
				}
			}
			for _, r := range []*Routes{r, r2} {
				if r != nil {
					_ = r.Close()
				}
			}
			for _, s := range []*Ranges{ranges, ranges2} {
				if s != nil {
					_ = s.Close()
				}
			}
		}
		if files, err := filepath.Glob(filepath.Join(path, "readers", "*")); len(files) != 0 || err != nil {
			t.Error(files, err)
		}
	}
	if met[ErrDamaged] == 0 {
		t.Error("no damage was seen")
	}
	t.Log(met)
}
