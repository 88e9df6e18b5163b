package sapwood

import (
	"bufio"
	"bytes"
	"encoding/binary"
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
	"testing"
)

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

// Tables and maps that are made anew have texts of their own, whose numbers stood for others
// before.
func TestLiveTextsOfNewMaps(t *testing.T) {
	folder := liveFolder(t)
	at := netip.MustParseAddr("10.1.2.3")
	var r *Routes
	for round := range 6 {
		table := fmt.Sprintf("10.0.0.0/8 hop-%d\n11.0.0.0/8 other\n", round)
		s := serve(t, folder, "routes", table, "--remove")
		if r == nil {
			r = routes4(t, s.live)
		}
		if round%2 == 0 {
			hop, _, found, err := r.Lookup(at)
			if hop.Text != fmt.Sprint("hop-", round) || !found || err != nil {
				t.Fatal(round, hop, found, err)
			}
		}
		if got := allRoutes(t, r); got != table {
			t.Fatal(round, got)
		}
		s.quit()
	}
	_, _, _, err := r.Lookup(at)
	wants(t, err, ErrRemoved)
	var spans *Ranges
	for round := range 4 {
		folder := filepath.Join(folder, "ranges")
		_ = os.Mkdir(folder, 0o755)
		s := serve(t, folder, "ranges", fmt.Sprintf("5 9 text-%d\n20 29 other\n", round), "--remove")
		if spans == nil {
			spans = ranges4(t, s.live)
		}
		text, _, found, err := spans.Get(7)
		if string(text) != fmt.Sprint("text-", round) || !found || err != nil {
			t.Fatal(round, text, found, err)
		}
		s.quit()
	}
}

// Servers are killed and followed while goroutines read: what stays is always found, with a text
// that it has had, and walks end.
func TestKilledServersOfTables(t *testing.T) {
	routesFolder, rangesFolder := liveFolder(t), liveFolder(t)
	table := func(round int) string {
		return fmt.Sprintf("10.0.0.0/8 hop-%d\n10.%d.0.0/16 other\n2001:db8::/32 hop-%d\n", round, round, round)
	}
	list := func(round int) string {
		return fmt.Sprintf("5 9 text-%d\n%d %d more\n", round, 100+round, 200+round)
	}
	a := serve(t, routesFolder, "routes", table(0))
	b := serve(t, rangesFolder, "ranges", list(0))
	r, spans := routes4(t, a.live), ranges4(t, b.live)
	newest := atomic.Int64{}
	var over atomic.Bool
	var group sync.WaitGroup
	is := func(text, form string, found bool, err error) {
		var round int64
		if _, bad := fmt.Sscanf(text, form, &round); bad != nil || !found || err != nil || round > newest.Load() {
			t.Error(text, found, err)
		}
	}
	for range 3 {
		group.Add(1)
		go func() {
			defer group.Done()
			for !over.Load() && !t.Failed() {
				hop, net, found, err := r.Lookup(netip.MustParseAddr("10.255.0.1"))
				is(hop.Text, "hop-%d", found && net.Bits() == 8, err)
				hop, _, found, err = r.Lookup(netip.MustParseAddr("2001:db8::1"))
				is(hop.Text, "hop-%d", found, err)
				text, _, found, err := spans.Get(7)
				is(string(text), "text-%d", found, err)
				count := 0
				walk := r.All()
				for range walk.All() {
					count++
				}
				if count < 2 || walk.Err() != nil {
					t.Error(count, walk.Err())
				}
			}
		}()
	}
	for round := 1; round < 12 && !t.Failed(); round++ {
		for i := range 20 {
			a.do(fmt.Sprintf("add 10.200.0.0/16 change-%d", i))
		}
		newest.Store(int64(round))
		a.kill()
		b.kill()
		a = serve(t, routesFolder, "routes", table(round))
		b = serve(t, rangesFolder, "ranges", list(round))
	}
	over.Store(true)
	group.Wait()
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
	serve(t, folder, "ranges", "7 18446744073709551615 all\n", "--overwrite")
	if got := allRanges(t, r); got != "7 18446744073709551615 \"all\"\n" {
		t.Fatal(got)
	}
}

// sortedMembers puts the members of a group in the order of their numbers: theirs is that of
// hashes.
func sortedMembers(text string) string {
	return strings.ReplaceAll(text, "8 weight 3, 7 weight 1", "7 weight 1, 8 weight 3")
}

// Maps of the kinds that the program does not serve.
func TestOtherLiveMaps(t *testing.T) {
	if os.Getenv("SAPWOOD_LIVE_WRITER") == "" {
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
		"points": func(folder string) {
			m := names4(t, folder)
			if got, found := numberOfKey(t, m, "ash"); got != 1 || !found {
				t.Error(got, found)
			}
			_, _, _, err := m.First()
			wants(t, err, ErrNoOrder)
			_, err = m.Closest("a.b")
			wants(t, err, ErrNoOrder)
			all := map[string]bool{}
			walk := m.All()
			for key := range walk.All() {
				all[string(key)] = true
			}
			if len(all) != 4 || walk.Err() != nil {
				t.Error(all, walk.Err())
			}
		},
		"routes-of-numbers": func(folder string) {
			r := routes4(t, folder)
			wanted := "0.0.0.0/0 1\n10.0.0.0/8 18446744073709551615\n::/0 2\n2001:db8::1/128 3\n"
			if got := allRoutes(t, r); got != wanted {
				t.Error(got)
			}
			hop, net, found, err := r.Lookup(netip.MustParseAddr("10.1.2.3"))
			if hop.Number != 1<<64-1 || net.String() != "10.0.0.0/8" || !found || err != nil {
				t.Error(hop, net, found, err)
			}
		},
		"routes-of-ipv4": func(folder string) {
			r := routes4(t, folder)
			if got := allRoutes(t, r); got != "10.0.0.0/8 0x010000000200000003000000\n" {
				t.Error(got)
			}
			if _, _, found, err := r.Lookup(netip.MustParseAddr("::1")); found || err != nil {
				t.Error(found, err)
			}
		},
		"routes-of-groups": func(folder string) {
			r := routes4(t, folder)
			wanted := "10.0.0.0/8 7 weight 1, 8 weight 3\n10.1.0.0/16 9\n10.9.0.0/16 prohibit\n2001:db8::/32 7 weight 1, 8 weight 3\n"
			if got := allRoutes(t, r); sortedMembers(got) != wanted {
				t.Error(got)
			}
			hop, net, found, err := r.Lookup(netip.MustParseAddr("10.2.3.4"))
			if hop.Kind != HopGroup || len(hop.Members) != 2 || net.Bits() != 8 || !found || err != nil {
				t.Error(hop, net, found, err)
			}
			hop, net, found, err = r.Lookup(netip.MustParseAddr("10.9.3.4"))
			if hop.Kind != HopProhibit || net.Bits() != 16 || !found || err != nil {
				t.Error(hop, net, found, err)
			}
			hop, net, found, err = r.Lookup(netip.MustParseAddr("10.1.3.4"))
			if hop.Kind != HopNumber || hop.Number != 9 || net.Bits() != 16 || !found || err != nil {
				t.Error(hop, net, found, err)
			}
		},
		"ranges-of-words": func(folder string) {
			r := ranges4(t, folder)
			if n, err := r.Len(); n != 1000 || err != nil || r.ValueBytes() != 24 {
				t.Error(n, err, r.ValueBytes())
			}
			i := uint64(0)
			walk := r.All()
			for span, value := range walk.All() {
				wanted := binary.LittleEndian.AppendUint64(nil, i)
				wanted = binary.LittleEndian.AppendUint64(wanted, 2*i)
				wanted = binary.LittleEndian.AppendUint64(wanted, 3*i)
				if span != (Span{10 * i, 10*i + 4}) || !bytes.Equal(value, wanted) {
					t.Fatal(span, value)
				}
				i++
			}
			if i != 1000 || walk.Err() != nil {
				t.Error(i, walk.Err())
			}
			if _, _, found, err := r.Get(5005); found || err != nil {
				t.Error(found, err)
			}
		},
		"ranges-of-texts": func(folder string) {
			r := ranges4(t, folder)
			if got := allRanges(t, r); got != "10 19 \"free\"\n30 18446744073709551615 \"used\"\n" {
				t.Error(got)
			}
		},
	} {
		folder, writer := startLiveWriter(t, kind)
		check(folder)
		writer.quit()
	}
}

// liveKindsOfWriter are the kinds of maps that the example live_writer makes.
var liveKindsOfWriter = []string{"shared-numbers", "shared-bytes", "points", "routes-of-numbers",
	"routes-of-ipv4", "routes-of-groups", "ranges-of-words", "ranges-of-texts"}

// liveWriter is a process of the example live_writer.
type liveWriter struct {
	t       testing.TB
	command *exec.Cmd
	input   io.Closer
}

// startLiveWriter makes a live map of a kind. The process has no more input than what ends it.
func startLiveWriter(t testing.TB, kind string) (folder string, w *liveWriter) {
	t.Helper()
	folder = filepath.Join(liveFolder(t), "map")
	w = &liveWriter{t: t, command: exec.Command(os.Getenv("SAPWOOD_LIVE_WRITER"), kind, folder)}
	input, err := w.command.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	w.input = input
	output, err := w.command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := w.command.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := bufio.NewReader(output).ReadString('\n'); err != nil {
		t.Fatal(kind, err)
	}
	return folder, w
}

// quit ends the process, which removes its map.
func (w *liveWriter) quit() {
	w.t.Helper()
	_ = w.input.Close()
	if err := w.command.Wait(); err != nil {
		w.t.Error(err)
	}
}

// kill kills the process, which leaves its map.
func (w *liveWriter) kill() {
	_ = w.command.Process.Kill()
	_ = w.command.Wait()
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
