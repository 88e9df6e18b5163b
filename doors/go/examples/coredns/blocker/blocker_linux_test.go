package blocker

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	sapwood "sapwood/doors/go"
)

// served is a plugin over a live map that the program serves by a command, from a text.
func served(t *testing.T, rules bool, text string, command ...string) *blocker {
	t.Helper()
	program := os.Getenv("SAPWOOD_PROGRAM")
	if program == "" {
		t.Skip("skipped: SAPWOOD_PROGRAM names no program; ci/go.sh builds it")
	}
	folder, err := os.MkdirTemp("/dev/shm", "sapwood-blocker")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(folder) })
	list, live := filepath.Join(folder, "list"), filepath.Join(folder, "map")
	if err := os.WriteFile(list, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	server := exec.Command(program, append(command, "--quiet", "--remove", "--live", live, list)...)
	server.Stderr = os.Stderr
	input, err := server.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_, _ = input.Write([]byte("quit\n"))
		_ = server.Wait()
	})
	limited, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := sapwood.WaitForMap(limited, live); err != nil {
		t.Fatal(err)
	}
	b := new(blocker)
	if err := b.open(live, rules); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = b.close() })
	return b
}

// allocates fails if a question allocates, or has another answer.
func allocates(t *testing.T, wanted map[string]bool, blocks func(name string) (bool, error)) {
	t.Helper()
	for name, blocked := range wanted {
		count := testing.AllocsPerRun(100, func() {
			if got, err := blocks(name); err != nil || got != blocked {
				t.Fatal(name, got, err)
			}
		})
		if count != 0 {
			t.Errorf("%s: %v allocations", name, count)
		}
	}
}

// What the plugin asks of a live map allocates nothing.
func TestQuestionsAllocateNothing(t *testing.T) {
	names := served(t, false, "ads.example\t1\n*.track.example\t1\ngood.ads.example\t0\n",
		"names", "serve", "--dns")
	wanted := map[string]bool{
		"ads.example.": true, "www.ads.example.": true, "x.track.example.": true,
		"good.ads.example.": false, "track.example.": false, "www.example.org.": false,
		".": false,
	}
	allocates(t, wanted, names.blocks)

	rules := served(t, true, "||ads.example^\n@@||good.ads.example^\n", "lists", "serve")
	delete(wanted, "x.track.example.")
	allocates(t, wanted, func(name string) (bool, error) {
		verdict, err := rules.lists.Ask(name, 1)
		return verdict.Action == sapwood.ActionNXDomain, err
	})
}
