package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	sapwood "sapwood/doors/go"
)

// environment is a variable that ci/go.sh sets. Without it the test is skipped.
func environment(t *testing.T, name string) string {
	t.Helper()
	value := os.Getenv(name)
	if value == "" {
		t.Skipf("skipped: %s is not set; ci/go.sh sets it", name)
	}
	return value
}

// What README.md says: the command makes the map and loads the program, this program attaches it
// and reads exact counts.
func TestOpens(t *testing.T) {
	program, object := environment(t, "SAPWOOD_PROGRAM"), environment(t, "SAPWOOD_OPENS")
	folder := fmt.Sprintf("/sys/fs/bpf/sapwood-opens-%d", os.Getpid())
	arenaPin := filepath.Join(folder, "arena")
	sapwoodRun := func(arguments ...string) string {
		t.Helper()
		output, err := exec.Command(program, arguments...).CombinedOutput()
		if err != nil {
			t.Fatalf("sapwood %v: %v: %s", arguments, err, output)
		}
		return string(output)
	}
	made := sapwoodRun("bpf", "map", "create", arenaPin, "opens", "--kind", "program", "--arena-bytes", "64M")
	t.Cleanup(func() { sapwoodRun("bpf", "unload", folder) })
	if fields := strings.Split(made, "\t"); len(fields) < 2 || fields[1] != "0" {
		t.Fatalf("the map has another number: %q", made)
	}
	sapwoodRun("bpf", "load", object, "--arena", arenaPin, "--pin", folder)
	service := exec.Command(program, "bpf", "serve", arenaPin)
	service.Stderr = os.Stderr
	if err := service.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = service.Process.Signal(os.Interrupt)
		if err := service.Wait(); err != nil {
			t.Error("serve:", err)
		}
	})

	arena, err := sapwood.OpenArena(arenaPin)
	if err != nil {
		t.Fatal(err)
	}
	defer arena.Close()
	opens, err := arena.Map("opens")
	if err != nil {
		t.Fatal(err)
	}
	mine := t.TempDir()
	openAll := func() {
		t.Helper()
		for i := range 30 {
			path := filepath.Join(mine, fmt.Sprintf("file-%02d", i))
			for range i + 1 {
				file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
				if err != nil {
					t.Fatal(err)
				}
				file.Close()
			}
		}
	}
	// Nothing is counted before the program is attached, and after it was detached.
	openAll()
	attached, err := attach(folder)
	if err != nil {
		t.Fatal(err)
	}
	openAll()
	if err := attached.Close(); err != nil {
		t.Fatal(err)
	}
	openAll()
	all, err := counts(opens, mine+"/file-")
	if err != nil || len(all) != 30 {
		t.Fatalf("%d paths, %v", len(all), err)
	}
	for i, c := range all {
		if path := filepath.Join(mine, fmt.Sprintf("file-%02d", i)); c.path != path || c.times != uint64(i)+1 {
			t.Fatalf("%s was opened %d times, says the map, and not %d", c.path, c.times, i+1)
		}
	}
	if err := arena.Close(); err != nil {
		t.Fatal(err)
	}

	// The program as a whole.
	binary := filepath.Join(t.TempDir(), "opens")
	if output, err := exec.Command("go", "build", "-o", binary, ".").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, output)
	}
	command := exec.Command(binary, "-every", "100ms", "-most", "1", "-prefix", mine+"/file-", folder)
	var output, errs bytes.Buffer
	command.Stdout, command.Stderr = &output, &errs
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	time.Sleep(time.Second)
	_ = command.Process.Signal(os.Interrupt)
	if err := command.Wait(); err != nil {
		t.Fatalf("%v: %s", err, errs.String())
	}
	wanted := fmt.Sprintf("30 paths\n30\t%s/file-29\n", mine)
	if !strings.HasPrefix(output.String(), wanted) {
		t.Fatalf("%q, not %q", output.String(), wanted)
	}
}
