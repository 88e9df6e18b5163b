package sapwood

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// says runs the program about a file, and returns what it prints, and whether it ended well.
func says(t *testing.T, arguments ...string) (string, bool) {
	t.Helper()
	var exit *exec.ExitError
	output, err := exec.Command(os.Getenv("SAPWOOD_PROGRAM"), arguments...).Output()
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(arguments, err)
	}
	return string(output), err == nil
}

// Of hostile files with right checksums, Go says what the program says that finds them sound: the
// same entries, in the same order. What the program refuses, Go refuses, or it gives an error for
// the entry in question, or answers with what is there.
func TestHostileFilesAsTheProgramSays(t *testing.T) {
	path := built(t, "ash\t1\nelder\t2\nelm\t3\noak\t4\nyew\t5\nyew-tree\t6\n", "names", "build")
	random := rand.New(rand.NewPCG(19, 20))
	for kind, all := range map[string]struct {
		file string
		list []string
		walk func(path string) (string, error)
	}{
		"names": {path, []string{"names", "prefix"}, func(path string) (string, error) {
			m, err := OpenNames(path)
			if err != nil {
				return "", err
			}
			defer m.Close()
			var text strings.Builder
			walk := m.All()
			for key, value := range walk.All() {
				fmt.Fprintf(&text, "%s\t%v\n", key, hopOf(value))
			}
			return text.String(), errors.Join(walk.Err(), m.Verify())
		}},
		"routes": {committed("groups.routes"), []string{"routes", "export"}, walkedRoutes},
		"nulls":  {committed("nulls.routes"), []string{"routes", "export"}, walkedRoutes},
		"ranges": {committed("texts.ranges"), []string{"ranges", "export"}, func(path string) (string, error) {
			r, err := OpenRanges(path)
			if err != nil {
				return "", err
			}
			defer r.Close()
			var text strings.Builder
			walk := r.All()
			for span, value := range walk.All() {
				line := fmt.Sprintf("%d %d %s", span.First, span.Last, value)
				text.WriteString(strings.TrimSuffix(line, " ") + "\n")
			}
			return text.String(), walk.Err()
		}},
	} {
		whole, err := os.ReadFile(all.file)
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(t.TempDir(), "file")
		sound, refused, both := 0, 0, 0
		for range rounds(t, 60) {
			description := make([]byte, 6*(1+random.IntN(3)))
			for i := range description {
				description[i] = byte(random.Uint32())
			}
			if err := rewrite(path, spoil(whole, description)); err != nil {
				t.Fatal(err)
			}
			_, isSound := says(t, all.list[0], "verify", path)
			got, err := all.walk(path)
			if !isSound {
				if refused++; err != nil {
					both++
				}
				continue
			}
			sound++
			arguments := append(append([]string{}, all.list...), path)
			if kind == "names" {
				arguments = append(arguments, "")
			}
			// Texts with bytes that no line can have are not printed.
			wanted, printed := says(t, arguments...)
			if err != nil || printed && got != wanted {
				t.Fatalf("%s: %v, %q, but the program says %q", kind, err, got, wanted)
			}
		}
		t.Logf("%s: %d sound, %d refused by the program, %d of them by Go", kind, sound, refused, both)
		if refused == 0 || both == 0 {
			t.Errorf("%s: %d, %d", kind, refused, both)
		}
	}
}

func walkedRoutes(path string) (string, error) {
	r, err := OpenRoutes(path)
	if err != nil {
		return "", err
	}
	defer r.Close()
	var text strings.Builder
	walk := r.All()
	for net, hop := range walk.All() {
		fmt.Fprintf(&text, "%v %v\n", net, hop)
	}
	return text.String(), errors.Join(walk.Err(), r.Verify())
}
