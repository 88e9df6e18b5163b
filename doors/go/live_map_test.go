//go:build linux

package sapwood

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
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
		"or a table of IPv6 routes") {
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

func TestLiveRoutes(t *testing.T) {
	random := rand.New(rand.NewPCG(13, 14))
	folder := liveFolder(t)
	for _, size := range []int{0, 3, 500, 6000} {
		table := routesOf(random, size)
		s := serve(t, folder, "routes", listOf(table), "--remove")
		r := routes4(t, s.live)
		if n, err := r.Len(); n != len(table) || err != nil {
			t.Fatal(n, len(table), err, allRoutes(t, r), listOf(table))
		}
		compareRoutes(t, random, r, table, 2000)
		if err := r.Verify(); err != nil {
			t.Fatal(err)
		}
		i, addresses := 0, benchAddresses(table)
		allocateNothing(t, "Lookup", func() {
			if i++; len(addresses) > 0 {
				_, _, _, _ = r.Lookup(addresses[i%len(addresses)])
			}
		})
		for round := range 40 {
			for net, hop := range routesOf(random, 3) {
				s.do(fmt.Sprintf("add %v %s-%d", net, hop, round))
				table[net] = fmt.Sprintf("%s-%d", hop, round)
			}
			for net := range table {
				s.do(fmt.Sprintf("remove %v", net))
				delete(table, net)
				break
			}
		}
		compareRoutes(t, random, r, table, 500)
		if size == 500 {
			// Taken over, with another table.
			s.kill()
			table = routesOf(random, 700)
			s = serve(t, folder, "routes", listOf(table), "--remove")
			compareRoutes(t, random, r, table, 500)
		}
		s.quit()
		_, _, _, err := r.Lookup(netip.MustParseAddr("10.0.0.1"))
		wants(t, err, ErrRemoved)
	}
}

// Next hops that come and go: an answer is the text that a prefix had, or has.
func TestLiveTextsComeAndGo(t *testing.T) {
	s := serve(t, liveFolder(t), "routes", "10.0.0.0/8 hop-0\n")
	r := routes4(t, s.live)
	newest := atomic.Int64{}
	over := make(chan struct{})
	go func() {
		defer close(over)
		for i := 1; i < 3000; i++ {
			newest.Store(int64(i))
			s.do(fmt.Sprintf("add 10.0.0.0/8 hop-%d", i))
		}
	}()
	count := 0
	for at := netip.MustParseAddr("10.1.2.3"); ; count++ {
		before := newest.Load()
		hop, _, found, err := r.Lookup(at)
		after := newest.Load()
		var number int64
		if _, bad := fmt.Sscanf(hop.Text, "hop-%d", &number); bad != nil || !found || err != nil {
			t.Fatal(hop, found, err)
		}
		if number < before-1 || number > after {
			t.Fatal(before, number, after)
		}
		select {
		case <-over:
			t.Log(count, "lookups")
			return
		default:
		}
	}
}

func TestLiveRanges(t *testing.T) {
	random := rand.New(rand.NewPCG(15, 16))
	folder := liveFolder(t)
	s := serve(t, folder, "ranges", "5 9 core\n20 29 lab\n", "--overwrite")
	r := ranges4(t, s.live)
	if got := allRanges(t, r); got != "5 9 \"core\"\n20 29 \"lab\"\n" {
		t.Fatal(got)
	}
	if n, err := r.Len(); n != 2 || err != nil || r.ValueBytes() != -1 {
		t.Fatal(n, err, r.ValueBytes())
	}
	// Each index has a text, or none.
	const most = 4000
	var texts [most]string
	for i := 5; i < 10; i++ {
		texts[i] = "core"
	}
	for i := 20; i < 30; i++ {
		texts[i] = "lab"
	}
	compare := func() {
		t.Helper()
		at := uint64(0)
		walk := r.All()
		for span, value := range walk.All() {
			if span.First < at || span.Last < span.First {
				t.Fatal(span, at)
			}
			for ; at < span.First; at++ {
				if texts[at] != "" {
					t.Fatal(at, texts[at])
				}
			}
			for ; at <= span.Last; at++ {
				if texts[at] != string(value) {
					t.Fatal(at, texts[at], string(value))
				}
			}
		}
		if walk.Err() != nil {
			t.Fatal(walk.Err())
		}
		for range 300 {
			index := random.Uint64N(most)
			value, span, found, err := r.Get(index)
			if err != nil || found != (texts[index] != "") || found && string(value) != texts[index] {
				t.Fatal(index, value, span, found, err)
			}
		}
	}
	for round := range 600 {
		first := random.IntN(most - 20)
		last := first + random.IntN(20)
		text := fmt.Sprint("text-", random.IntN(9))
		s.do(fmt.Sprintf("add %d %d %s", first, last, text))
		for i := first; i <= last; i++ {
			texts[i] = text
		}
		if round%60 == 0 {
			compare()
		}
	}
	compare()
	s.kill()
	s = serve(t, folder, "ranges", "7 18446744073709551615 all\n", "--overwrite")
	if got := allRanges(t, r); got != "7 18446744073709551615 \"all\"\n" {
		t.Fatal(got)
	}
}

// Maps of the kinds that the program does not serve.
func TestOtherLiveMaps(t *testing.T) {
	path := os.Getenv("SAPWOOD_LIVE_WRITER")
	if path == "" {
		t.Skip("skipped: SAPWOOD_LIVE_WRITER names no program; ci/go.sh builds it")
	}
	for kind, check := range map[string]func(folder string){
		"shared-numbers": func(folder string) {
			m := names4(t, folder)
			got := numbersOf(t, m)
			if len(got) != 4 || got["elm"] != 3 || got["oak"] != 1<<64-1 {
				t.Error(got)
			}
		},
		"shared-bytes": func(folder string) {
			m := names4(t, folder)
			value, found, err := m.Get([]byte("elder"))
			if string(value) != "2" || !found || err != nil {
				t.Error(value, found, err)
			}
		},
		"ranges-of-texts": func(folder string) {
			r := ranges4(t, folder)
			if got := allRanges(t, r); got != "10 19 \"free\"\n30 18446744073709551615 \"used\"\n" {
				t.Error(got)
			}
		},
	} {
		folder := filepath.Join(liveFolder(t), "map")
		command := exec.Command(path, kind, folder)
		input, err := command.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		output, err := command.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := command.Start(); err != nil {
			t.Fatal(err)
		}
		if _, err := bufio.NewReader(output).ReadString('\n'); err != nil {
			t.Fatal(kind, err)
		}
		check(folder)
		_ = input.Close()
		if err := command.Wait(); err != nil {
			t.Error(kind, err)
		}
	}
}

// Live maps that are damaged or cut off give errors or answers, and every operation ends.
func TestDamagedLiveMaps(t *testing.T) {
	random := rand.New(rand.NewPCG(17, 18))
	known := []error{ErrDamaged, ErrBusy, ErrLayout, ErrKind, ErrNotSaved, ErrVersion, ErrNotYet, ErrRemoved}
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
	for kind, list := range map[string]string{
		"names": names.String(), "ranges": ranges.String(), "routes": listOf(routesOf(random, 600)),
	} {
		folder := liveFolder(t)
		s := serve(t, folder, kind, list)
		s.quit()
		whole := map[string][]byte{}
		for _, name := range []string{"control", "data-1-0", "data-1-1", "texts/control", "texts/data-1-0"} {
			content, err := os.ReadFile(filepath.Join(s.live, name))
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
				if err := os.WriteFile(filepath.Join(s.live, name), content, 0o644); err != nil {
					t.Fatal(err)
				}
			}
		}
		for range rounds(t, 60) {
			restore()
			open := func() (m *Names, r *Routes, ranges *Ranges) {
				var err error
				switch kind {
				case "names":
					m, err = OpenNames(s.live)
				case "routes":
					r, err = OpenRoutes(s.live)
				default:
					ranges, err = OpenRanges(s.live)
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
			file, err := os.OpenFile(filepath.Join(s.live, name), os.O_RDWR, 0)
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
		if left := s.files(); len(left) != 0 {
			t.Error(left)
		}
	}
	if met[ErrDamaged] == 0 {
		t.Error("no damage was seen")
	}
	t.Log(met)
}

// Lookups in live maps allocate nothing.
func TestLiveLookupsAllocateNothing(t *testing.T) {
	names := serve(t, liveFolder(t), "names", "example.org\t1\n*.example.net\t2\n", "--dns")
	routes := serve(t, liveFolder(t), "routes", "10.0.0.0/8 core\n2001:db8::/32 lab\n")
	ranges := serve(t, liveFolder(t), "ranges", "5 9 core\n20 29 lab\n")
	m, r, spans := names4(t, names.live), routes4(t, routes.live), ranges4(t, ranges.live)
	room := make([]byte, 0, 64)
	key, err := DNSKey("example.org")
	if err != nil {
		t.Fatal(err)
	}
	v4, v6 := netip.MustParseAddr("10.2.3.4"), netip.MustParseAddr("2001:db8::1")
	for what, ask := range map[string]func() bool{
		"Append": func() bool { _, found, err := m.Append(room, key); return found && err == nil },
		"AppendClosest": func() bool {
			_, c, err := m.AppendClosest(room, "a.b.example.net.")
			return c.Wildcard.Found && err == nil
		},
		"Lookup, IPv4": func() bool {
			hop, _, found, err := r.Lookup(v4)
			return hop.Text == "core" && found && err == nil
		},
		"Lookup, IPv6":  func() bool { _, _, found, err := r.Lookup(v6); return found && err == nil },
		"Ranges.Append": func() bool { _, _, found, err := spans.Append(room, 25); return found && err == nil },
	} {
		allocations := testing.AllocsPerRun(200, func() {
			if !ask() {
				t.Fatal(what)
			}
		})
		if allocations != 0 {
			t.Errorf("%s: %v allocations", what, allocations)
		}
	}
}
