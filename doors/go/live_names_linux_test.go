package sapwood

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// server is a process of the program that serves a live map.
type server struct {
	t       testing.TB
	command *exec.Cmd
	input   io.WriteCloser
	output  *bufio.Reader
	// The directory of the map, and the list.
	live, list string
	over       bool
}

// liveFolder is a directory in memory, where live maps belong.
func liveFolder(t testing.TB) string {
	t.Helper()
	if os.Getenv("SAPWOOD_PROGRAM") == "" {
		t.Skip("skipped: SAPWOOD_PROGRAM names no program; ci/go.sh builds it")
	}
	folder, err := os.MkdirTemp("/dev/shm", "sapwood-go")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(folder) })
	return folder
}

// serve serves a list of a kind ("names", "routes", "ranges") in a directory.
func serve(t testing.TB, folder, kind, text string, arguments ...string) *server {
	t.Helper()
	s := &server{t: t, live: filepath.Join(folder, "map"), list: filepath.Join(folder, "list")}
	s.write(text)
	arguments = append([]string{kind, "serve", "--live", s.live}, arguments...)
	s.command = exec.Command(os.Getenv("SAPWOOD_PROGRAM"), append(arguments, s.list)...)
	input, err := s.command.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	output, err := s.command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	s.input, s.output = input, bufio.NewReader(output)
	if err := s.command.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.kill() })
	// It answers once the map is there.
	s.do("begin")
	s.do("rollback")
	return s
}

func (s *server) write(text string) {
	s.t.Helper()
	if err := os.WriteFile(s.list+".new", []byte(text), 0o644); err != nil {
		s.t.Fatal(err)
	}
	if err := os.Rename(s.list+".new", s.list); err != nil {
		s.t.Fatal(err)
	}
}

func (s *server) ask(command string) {
	s.t.Helper()
	if _, err := io.WriteString(s.input, command+"\n"); err != nil {
		s.t.Fatal(command, err)
	}
}

func (s *server) line() string {
	s.t.Helper()
	line, err := s.output.ReadString('\n')
	if err != nil {
		s.t.Fatal(line, err)
	}
	return strings.TrimSuffix(line, "\n")
}

// do makes a change, which the map has when this returns.
func (s *server) do(command string) string {
	s.t.Helper()
	s.ask(command)
	return s.line()
}

// kill kills the server. Its map stays.
func (s *server) kill() {
	if !s.over {
		s.over = true
		_ = s.command.Process.Kill()
		_ = s.command.Wait()
	}
}

// quit ends the server in order.
func (s *server) quit() {
	s.t.Helper()
	s.ask("quit")
	s.over = true
	if err := s.command.Wait(); err != nil {
		s.t.Fatal(err)
	}
}

// status is what "live status" says of a map.
func (s *server) status() map[string]string {
	s.t.Helper()
	all := map[string]string{}
	for _, line := range strings.Split(program(s.t, "", "live", "status", s.live), "\n") {
		if name, value, found := strings.Cut(line, "\t"); found {
			all[name] = value
		}
	}
	return all
}

// files are the readers' files of a map.
func (s *server) files() []string {
	files, err := filepath.Glob(filepath.Join(s.live, "readers", readerPrefix+"*"))
	if err != nil {
		s.t.Fatal(err)
	}
	return files
}

func numberOfKey(t testing.TB, m *Names, key string) (uint64, bool) {
	t.Helper()
	value, found, err := m.Get([]byte(key))
	if err != nil {
		t.Error(err)
	}
	if !found {
		return 0, false
	}
	return binary.LittleEndian.Uint64(value), true
}

func numbersOf(t testing.TB, m *Names) map[string]uint64 {
	t.Helper()
	all := map[string]uint64{}
	var before []byte
	walk := m.All()
	for key, value := range walk.All() {
		if len(all) > 0 && bytes.Compare(before, key) >= 0 {
			t.Errorf("%q comes behind %q", key, before)
		}
		before = key
		all[string(key)] = binary.LittleEndian.Uint64(value)
	}
	if walk.Err() != nil {
		t.Error(walk.Err())
	}
	return all
}

// A live map is read while its server changes it. Another server takes it over after the first one
// was killed, and makes a new one in the place of one that was removed.
func TestLiveNames(t *testing.T) {
	folder := liveFolder(t)
	_, err := OpenNames(folder)
	wants(t, err, ErrNotYet)
	short, end := context.WithTimeout(context.Background(), 20*time.Millisecond)
	defer end()
	err = WaitForMap(short, filepath.Join(folder, "map"))
	wants(t, err, ErrNotYet)
	wants(t, err, context.DeadlineExceeded)
	there := make(chan error, 1)
	go func() { there <- WaitForMap(context.Background(), filepath.Join(folder, "map")) }()
	s := serve(t, folder, "names", "ash\t1\nelm\t2\n")
	if err := <-there; err != nil {
		t.Fatal(err)
	}
	m := names4(t, s.live)
	_, err = OpenRoutes(s.live)
	wants(t, err, ErrKind)
	if !strings.HasSuffix(err.Error(), "another structure: a store, not a table of routes or a table of IPv4 routes "+
		"or a table of IPv6 routes or a table of routes with groups") {
		t.Error(err)
	}
	_, err = OpenRanges(s.live)
	wants(t, err, ErrKind)
	is := func(wanted map[string]uint64) {
		t.Helper()
		if got := numbersOf(t, m); fmt.Sprint(got) != fmt.Sprint(wanted) {
			t.Fatal(got, wanted)
		}
		if n, err := m.Len(); err != nil || n != len(wanted) && len(wanted) > 0 {
			t.Fatal(n, err)
		}
		for key, value := range wanted {
			if got, found := numberOfKey(t, m, key); got != value || !found {
				t.Fatal(key, got, found)
			}
		}
		if err := m.Verify(); err != nil {
			t.Fatal(err)
		}
	}
	is(map[string]uint64{"ash": 1, "elm": 2})
	if files := s.files(); len(files) != 1 {
		t.Fatal(files)
	}
	if got := s.status()["readers"]; got != "1" {
		t.Fatal(s.status())
	}
	s.do("add oak 7")
	is(map[string]uint64{"ash": 1, "elm": 2, "oak": 7})
	s.do("begin")
	s.do("remove ash")
	s.do("add elm 3")
	is(map[string]uint64{"ash": 1, "elm": 2, "oak": 7})
	s.do("commit")
	is(map[string]uint64{"elm": 3, "oak": 7})
	first, _, found, err := m.First()
	if string(first) != "elm" || !found || err != nil {
		t.Fatal(first, found, err)
	}
	for range 200 {
		s.do("add oak 8")
		s.do("remove oak")
	}
	is(map[string]uint64{"elm": 3})
	if got := s.status()["holding-back"]; got != "0" {
		t.Fatal(s.status())
	}

	// Killed, and followed by another server.
	s.kill()
	is(map[string]uint64{"elm": 3})
	s = serve(t, folder, "names", "ash\t10\noak\t11\n")
	is(map[string]uint64{"ash": 10, "oak": 11})
	if s.status()["generation"] != "1" {
		t.Fatal(s.status())
	}
	s.quit()
	is(map[string]uint64{"ash": 10, "oak": 11})

	// Removed, and made again.
	s = serve(t, folder, "names", "ash\t10\n", "--remove")
	is(map[string]uint64{"ash": 10})
	s.quit()
	_, _, err = m.Get([]byte("ash"))
	wants(t, err, ErrRemoved)
	walk := m.All()
	for range walk.All() {
		t.Fatal("an entry")
	}
	wants(t, walk.Err(), ErrRemoved)
	s = serve(t, folder, "names", "yew\t5\n")
	is(map[string]uint64{"yew": 5})

	// Another structure in its place.
	s.quit()
	if err := os.RemoveAll(s.live); err != nil {
		t.Fatal(err)
	}
	is(map[string]uint64{"yew": 5})
	if err := m.Close(); err != nil {
		t.Fatal(err)
	}
	_, _, err = m.Get([]byte("ash"))
	wants(t, err, ErrClosed)
	s = serve(t, folder, "names", "yew\ttext\n", "--values", "text")
	m = names4(t, s.live)
	value, found, err := m.Get([]byte("yew"))
	if string(value) != "text" || !found || err != nil {
		t.Fatal(value, found, err)
	}
	if err := m.Close(); err != nil {
		t.Fatal(err)
	}
	if files := s.files(); len(files) != 0 {
		t.Fatal(files)
	}
}

// A map that outgrows what is mapped of it is mapped anew.
func TestLiveMapsGrow(t *testing.T) {
	folder := liveFolder(t)
	defer func(old int) { roomLeast = old }(roomLeast)
	roomLeast = livePage
	s := serve(t, folder, "names", "ash\t1\n")
	m := names4(t, s.live)
	before := m.home.(*live).now.parts.mappings[0]
	if len(before.bytes) > 1<<20 {
		t.Fatal(len(before.bytes))
	}
	var text strings.Builder
	for i := range 100_000 {
		fmt.Fprintf(&text, "name-%d\t%d\n", i, i)
	}
	s.write(text.String())
	s.do("reload")
	for i := range 100_000 {
		if got, found := numberOfKey(t, m, fmt.Sprint("name-", i)); got != uint64(i) || !found {
			t.Fatal(i, got, found)
		}
	}
	if n := len(numbersOf(t, m)); n != 100_000 {
		t.Fatal(n)
	}
	if m.home.(*live).now.parts.mappings[0] == before {
		t.Fatal("the map did not outgrow its mapping")
	}
}

// Many goroutines read beside a server that changes the map.
func TestLiveNamesBesideChanges(t *testing.T) {
	s := serve(t, liveFolder(t), "names", "a\t1\nb\t1\nm\t1\ny\t1\nz\t1\n")
	m := names4(t, s.live)
	var over atomic.Bool
	var group sync.WaitGroup
	reads := atomic.Int64{}
	for range 4 {
		group.Add(1)
		go func() {
			defer group.Done()
			for !over.Load() {
				for _, key := range []string{"a", "m", "z"} {
					if _, found := numberOfKey(t, m, key); !found {
						t.Error(key)
					}
				}
				// A commit changes all of these, or none.
				list := numbersOf(t, m)
				for _, key := range []string{"a", "b", "m", "y", "z"} {
					if _, found := list[key]; !found {
						t.Error(key, list)
					}
				}
				reads.Add(1)
			}
		}()
	}
	for i := range 100 {
		s.do("begin")
		for j := range 40 {
			if (i+j)%3 == 0 {
				s.do(fmt.Sprintf("remove k-%d", j))
			} else {
				s.do(fmt.Sprintf("add k-%d %d", j, i))
			}
		}
		s.do("commit")
	}
	over.Store(true)
	group.Wait()
	if reads.Load() == 0 || t.Failed() {
		t.Fatal(reads.Load())
	}
	t.Log(reads.Load(), "walks,", len(s.files()), "readers")
	if len(s.files()) > 40 {
		t.Fatal(s.files())
	}
}
