package sapwood

import (
	"bufio"
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// A call that stands still is evicted. Its answer does not count, and it reads again.
func TestEviction(t *testing.T) {
	s := serve(t, liveFolder(t), "names", "ash\t1\n", "--evict-after", "20")
	m := names4(t, s.live)
	l := m.home.(*live)
	v, err := l.enter()
	if err != nil {
		t.Fatal(err)
	}
	if got, wrong := l.renew(v, nil); wrong != nil || got.seen != v.seen {
		t.Fatal(wrong)
	}
	for i := 0; v.seen >= v.parts.of.lost(); i++ {
		s.do(fmt.Sprint("add elm ", i))
		time.Sleep(time.Millisecond)
		if i == 10_000 {
			t.Fatal("it was not evicted")
		}
	}
	if s.status()["evicted"] != "1" {
		t.Error(s.status())
	}
	again, wrong := l.renew(v, nil)
	if wrong != changed || again.seen <= v.seen {
		t.Fatal(wrong, again.seen, v.seen)
	}
	if _, wrong = l.renew(again, nil); wrong != nil {
		t.Fatal(wrong)
	}
	_ = left(l, again, nil, nil)
	if got, found := numberOfKey(t, m, "ash"); got != 1 || !found {
		t.Fatal(got, found)
	}
}

// The writer waits for a call, and no longer than it takes.
func TestTheWriterWaits(t *testing.T) {
	s := serve(t, liveFolder(t), "names", "ash\t1\n")
	m := names4(t, s.live)
	l := m.home.(*live)
	v, err := l.enter()
	if err != nil {
		t.Fatal(err)
	}
	for i := range 50 {
		s.do(fmt.Sprint("add ash ", i))
	}
	if s.status()["holding-back"] != "1" {
		t.Error(s.status())
	}
	if n, _, wrong := nodesOf(v.words, false, nil); wrong != nil || n.root() == 0 {
		t.Error(wrong)
	}
	_ = left(l, v, nil, nil)
	if s.status()["holding-back"] != "0" {
		t.Error(s.status())
	}
}

// readForEver reads a map until the process is killed.
func readForEver(path string) {
	m, err := OpenNames(path)
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	for i := 0; ; i++ {
		if _, found, err := m.Get([]byte("ash")); !found || err != nil {
			fmt.Println(found, err)
			os.Exit(1)
		}
		if i == 100 {
			fmt.Println("reads")
		}
	}
}

// Readers that are killed hold nothing back, and servers that are killed are followed by others.
func TestKills(t *testing.T) {
	if path := os.Getenv("SAPWOOD_CHILD_LIVE"); path != "" {
		readForEver(path)
	}
	folder := liveFolder(t)
	s := serve(t, folder, "names", "ash\t1\n")
	m := names4(t, s.live)
	random := rand.New(rand.NewPCG(11, 12))
	for round := range rounds(t, 60) / 10 {
		child := exec.Command(os.Args[0], "-test.run=^TestKills$")
		child.Env = append(os.Environ(), "SAPWOOD_CHILD_LIVE="+s.live)
		output, err := child.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := child.Start(); err != nil {
			t.Fatal(err)
		}
		line, err := bufio.NewReader(output).ReadString('\n')
		if line != "reads\n" || err != nil {
			t.Fatal(line, err)
		}
		for i := range random.IntN(60) {
			s.do(fmt.Sprint("add elm ", i))
		}
		// Both are killed while they work.
		s.ask("begin")
		for i := range 200 {
			s.ask(fmt.Sprint("add x-", i, " 1"))
		}
		s.ask("commit")
		if round%2 == 0 {
			time.Sleep(time.Duration(random.IntN(3000)) * time.Microsecond)
			s.kill()
		}
		_ = child.Process.Kill()
		_ = child.Wait()
		count := 0
		for key := range numbersOf(t, m) {
			if strings.HasPrefix(key, "x-") {
				count++
			}
		}
		if round%2 == 0 {
			if count != 0 && count != 200 {
				t.Fatal("a part of a commit:", count)
			}
			s = serve(t, folder, "names", "ash\t1\n")
			continue
		}
		for range 201 {
			s.line()
		}
		if line := s.line(); !strings.HasPrefix(line, "committed") {
			t.Fatal(line)
		}
		s.write("ash\t1\n")
		s.do("reload")
		if got := numbersOf(t, m); len(got) != 1 {
			t.Fatal(got)
		}
		// The writer finds the dead reader, and removes its file.
		for i := 0; len(s.files()) > 1; i++ {
			s.do(fmt.Sprint("add elm ", i))
			if i == 1000 {
				t.Fatal(s.files())
			}
		}
	}
}

// A process that may not register reads without it.
func TestWithoutRegistration(t *testing.T) {
	if path := os.Getenv("SAPWOOD_CHILD_UNREGISTERED"); path != "" {
		m := names4(t, path)
		for range 20_000 {
			if got, found := numberOfKey(t, m, "ash"); got != 1 || !found {
				t.Fatal(got, found)
			}
		}
		if m.home.(*live).now.registered {
			t.Fatal("it is registered")
		}
		return
	}
	if os.Getuid() != 0 {
		t.Skip("skipped: only root can start a process of another user")
	}
	folder := liveFolder(t)
	s := serve(t, folder, "names", "ash\t1\n")
	binary, err := os.ReadFile(os.Args[0])
	if err != nil {
		t.Fatal(err)
	}
	// The folder of the test program is closed to others.
	child := filepath.Join(folder, "child")
	if err := os.WriteFile(child, binary, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(folder, 0o755); err != nil {
		t.Fatal(err)
	}
	command := exec.Command(child, "-test.run=^TestWithoutRegistration$")
	command.Dir = "/"
	command.Env = append(os.Environ(), "SAPWOOD_CHILD_UNREGISTERED="+s.live)
	command.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	var told bytes.Buffer
	command.Stdout, command.Stderr = &told, &told
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- command.Wait() }()
	for i := 0; ; i++ {
		select {
		case err := <-done:
			if err != nil {
				t.Fatal(err, told.String())
			}
			t.Log(i, "changes")
			return
		default:
			s.do(fmt.Sprintf("add key-%d %d", i%50, i))
			if len(s.files()) > 0 {
				t.Fatal(s.files())
			}
		}
	}
}

// A reader keeps no descriptor: the mapping of its file has the lock.
func TestLiveReadersKeepNoDescriptor(t *testing.T) {
	count := func() int {
		t.Helper()
		files, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			t.Fatal(err)
		}
		return len(files)
	}
	s := serve(t, liveFolder(t), "names", "ash\t1\n")
	before := count()
	m := names4(t, s.live)
	l := m.home.(*live)
	var visits []visit
	for range 20 {
		v, err := l.enter()
		if err != nil {
			t.Fatal(err)
		}
		visits = append(visits, v)
	}
	if n := len(s.files()); n != 20 {
		t.Error(n, "readers")
	}
	if s.status()["readers"] != "20" {
		t.Error(s.status())
	}
	if now := count(); now != before {
		t.Error(before, "descriptors, and then", now)
	}
	for _, v := range visits {
		_ = left(l, v, nil, nil)
	}
	// The readers are used again.
	for range 100 {
		if got, found := numberOfKey(t, m, "ash"); got != 1 || !found {
			t.Fatal(got, found)
		}
	}
	if n := len(s.files()); n != 20 {
		t.Error(n, "readers")
	}
}

// On a full file system there is no room for a reader's file: an error, and no signal.
func TestNoRoomForAReader(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("skipped: only root can mount a file system")
	}
	folder := liveFolder(t)
	if err := syscall.Mount("sapwood", folder, "tmpfs", 0, "size=1m"); err != nil {
		t.Skip("skipped: no file system can be mounted: ", err)
	}
	t.Cleanup(func() { _ = syscall.Unmount(folder, syscall.MNT_DETACH) })
	s := serve(t, folder, "names", "ash\t1\n")
	filler := filepath.Join(folder, "filler")
	file, err := os.Create(filler)
	if err != nil {
		t.Fatal(err)
	}
	for err == nil {
		_, err = file.Write(make([]byte, 4096))
	}
	_ = file.Close()
	_, err = OpenNames(s.live)
	wants(t, err, syscall.ENOSPC)
	if files := s.files(); len(files) != 0 {
		t.Error(files)
	}
	if err := os.Remove(filler); err != nil {
		t.Fatal(err)
	}
	m := names4(t, s.live)
	if got, found := numberOfKey(t, m, "ash"); got != 1 || !found {
		t.Fatal(got, found)
	}
	if err := m.Close(); err != nil {
		t.Fatal(err)
	}
	s.quit()
}
