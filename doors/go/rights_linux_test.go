package sapwood

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
)

// A process without any capability reads an arena whose pin it may read and write, and no other.
func TestWithoutCapabilities(t *testing.T) {
	if pin := os.Getenv("SAPWOOD_CHILD_PIN"); pin != "" {
		readAsNobody(t, pin)
		return
	}
	w := startWriter(t)
	// The folder of the test program is closed to others.
	folder, err := os.MkdirTemp("", "sapwood-go")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(folder) })
	program, err := os.ReadFile(os.Args[0])
	if err != nil {
		t.Fatal(err)
	}
	child := filepath.Join(folder, "child")
	if err := os.WriteFile(child, program, 0o755); err != nil {
		t.Fatal(err)
	}
	pin := filepath.Join(w.folder, "arena")
	for path, mode := range map[string]fs.FileMode{folder: 0o755, child: 0o755, w.folder: 0o755, pin: 0o666} {
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
	}
	command := exec.Command(child, "-test.run=^TestWithoutCapabilities$")
	command.Dir = "/"
	command.Env = append(os.Environ(), "SAPWOOD_CHILD_PIN="+pin)
	command.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	if output, err := command.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, output)
	}
	if err := os.Chmod(pin, 0o600); err != nil {
		t.Fatal(err)
	}
	refused := exec.Command(child, "-test.run=^TestWithoutCapabilities$")
	refused.Dir, refused.SysProcAttr = "/", command.SysProcAttr
	refused.Env = append(command.Env, "SAPWOOD_CHILD_REFUSED=1")
	if output, err := refused.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, output)
	}
}

func readAsNobody(t *testing.T, pin string) {
	if os.Getuid() != 65534 {
		t.Fatal("user", os.Getuid())
	}
	arena, err := OpenArena(pin)
	if os.Getenv("SAPWOOD_CHILD_REFUSED") != "" {
		wants(t, err, fs.ErrPermission)
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	defer arena.Close()
	m, err := arena.Map("shared")
	if err != nil {
		t.Fatal(err)
	}
	if length, err := m.Len(); err != nil || length < 1000 {
		t.Fatal(length, err)
	}
}
