package main

import (
	"bufio"
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

	"github.com/coredns/caddy"
	"github.com/coredns/coredns/core/dnsserver"
	"github.com/miekg/dns"
)

// list is a process of the program that serves a list.
type list struct {
	t      testing.TB
	path   string
	input  io.Writer
	output *bufio.Reader
	end    func()
}

// serveList serves a list in a live map.
func serveList(t testing.TB, folder, text string, arguments ...string) *list {
	t.Helper()
	return serveKind(t, folder, text, append([]string{"names", "serve", "--dns"}, arguments...)...)
}

// serveKind serves a list by this command.
func serveKind(t testing.TB, folder, text string, arguments ...string) *list {
	t.Helper()
	program := os.Getenv("SAPWOOD_PROGRAM")
	if program == "" {
		t.Skip("skipped: SAPWOOD_PROGRAM names no program; ci/go.sh builds it")
	}
	file := filepath.Join(folder, "list")
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	l := &list{t: t, path: filepath.Join(folder, "map")}
	arguments = append(arguments, "--quiet", "--live", l.path)
	command := exec.Command(program, append(arguments, file)...)
	command.Stderr = os.Stderr
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
	l.input, l.output = input, bufio.NewReader(output)
	l.end = sync.OnceFunc(func() {
		_, _ = io.WriteString(input, "quit\n")
		_ = command.Wait()
	})
	t.Cleanup(l.end)
	l.do("begin")
	l.do("rollback")
	return l
}

// do makes a change, which the map has when this returns.
func (l *list) do(change string) {
	l.t.Helper()
	if _, err := io.WriteString(l.input, change+"\n"); err != nil {
		l.t.Fatal(change, err)
	}
	if line, err := l.output.ReadString('\n'); err != nil {
		l.t.Fatal(change, line, err)
	}
}

// memory is a directory in memory, where live maps belong.
func memory(t testing.TB) string {
	t.Helper()
	folder, err := os.MkdirTemp("/dev/shm", "sapwood-coredns")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(folder) })
	return folder
}

// coreDNS starts a server with the plugin before "whoami", and returns its addresses.
func coreDNS(t testing.TB, part string) (udp, tcp string) {
	t.Helper()
	order()
	dnsserver.Quiet, caddy.Quiet = true, true
	corefile := fmt.Sprintf(".:0 {\n%s\nwhoami\n}\n", part)
	instance, err := caddy.Start(caddy.CaddyfileInput{Contents: []byte(corefile), ServerTypeName: "dns"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		instance.ShutdownCallbacks()
		if err := instance.Stop(); err != nil {
			t.Error(err)
		}
	})
	port := func(address string) string { return "127.0.0.1" + address[strings.LastIndex(address, ":"):] }
	server := instance.Servers()[0]
	return port(server.LocalAddr().String()), port(server.Addr().String())
}

// ask asks for the address of a name, and returns the answer.
func ask(t testing.TB, network, address, name string) *dns.Msg {
	t.Helper()
	query := new(dns.Msg)
	query.SetQuestion(dns.Fqdn(name), dns.TypeA)
	client := &dns.Client{Net: network, Timeout: 10 * time.Second}
	answer, _, err := client.Exchange(query, address)
	if err != nil {
		t.Error(name, err)
		return query
	}
	return answer
}

func rcodes(t testing.TB, network, address string, wanted map[string]int) {
	t.Helper()
	for name, rcode := range wanted {
		if got := ask(t, network, address, name); !got.Response || got.Rcode != rcode {
			t.Errorf("%s: %s, not %s", name, dns.RcodeToString[got.Rcode], dns.RcodeToString[rcode])
		}
	}
}

const blocked = "ads.example\t1\n*.track.example\t1\ngood.ads.example\t0\n"

func TestAnswers(t *testing.T) {
	l := serveList(t, memory(t), blocked)
	udp, tcp := coreDNS(t, "sapwood "+l.path)
	wanted := map[string]int{
		"ads.example":           dns.RcodeNameError,
		"WWW.Ads.Example":       dns.RcodeNameError,
		"a.b.c.ads.example":     dns.RcodeNameError,
		"x.track.example":       dns.RcodeNameError,
		"track.example":         dns.RcodeSuccess,
		"good.ads.example":      dns.RcodeSuccess,
		"more.good.ads.example": dns.RcodeSuccess,
		"bads.example":          dns.RcodeSuccess,
		"example":               dns.RcodeSuccess,
		`a\.b.example`:          dns.RcodeSuccess,
		`\000\255.ads.example`:  dns.RcodeNameError,
	}
	rcodes(t, "udp", udp, wanted)
	rcodes(t, "tcp", tcp, wanted)
	got := ask(t, "udp", udp, "ads.example")
	if len(got.Ns) != 1 || got.Ns[0].Header().Rrtype != dns.TypeSOA || len(got.Answer) != 0 {
		t.Error(got)
	}

	// The list changes, and the next query meets the change.
	l.do("add new.example 1")
	rcodes(t, "udp", udp, map[string]int{"www.new.example": dns.RcodeNameError})
	l.do("remove new.example")
	l.do("remove ads.example")
	rcodes(t, "udp", udp, map[string]int{
		"www.new.example": dns.RcodeSuccess, "ads.example": dns.RcodeSuccess,
		"x.track.example": dns.RcodeNameError,
	})

	// The server of the list ends. Its map stays, and is taken over.
	l.end()
	rcodes(t, "udp", udp, map[string]int{"x.track.example": dns.RcodeNameError})
	folder := filepath.Dir(l.path)
	l = serveList(t, folder, "other.example\t1\n", "--remove")
	rcodes(t, "udp", udp, map[string]int{
		"other.example": dns.RcodeNameError, "x.track.example": dns.RcodeSuccess,
	})

	// A list that was removed is not an empty one.
	l.end()
	rcodes(t, "udp", udp, map[string]int{"example.org": dns.RcodeServerFailure})
	serveList(t, folder, "other.example\t1\n")
	rcodes(t, "udp", udp, map[string]int{
		"other.example": dns.RcodeNameError, "example.org": dns.RcodeSuccess,
	})
}

func TestChoices(t *testing.T) {
	folder := memory(t)
	l := serveList(t, folder, blocked, "--remove")
	for answer, rcode := range map[string]int{
		"nxdomain": dns.RcodeNameError, "nodata": dns.RcodeSuccess, "refused": dns.RcodeRefused,
	} {
		udp, _ := coreDNS(t, fmt.Sprintf("sapwood %s {\nanswer %s\nunreadable pass\n}", l.path, answer))
		rcodes(t, "udp", udp, map[string]int{"ads.example": rcode, "example.org": dns.RcodeSuccess})
	}
	udp, _ := coreDNS(t, fmt.Sprintf("sapwood %s {\nunreadable pass\n}", l.path))
	l.end()
	rcodes(t, "udp", udp, map[string]int{"ads.example": dns.RcodeSuccess})

	for part, says := range map[string]string{
		"sapwood":                                 "Wrong argument count",
		"sapwood /nowhere/at/all":                 "no such file",
		"sapwood a b":                             "Wrong argument count",
		"sapwood " + l.path + " {\nanswer ok\n}":  "unknown: answer ok",
		"sapwood " + l.path + " {\nanswer\n}":     "Wrong argument count",
		"sapwood " + l.path + " {\nother many\n}": "unknown: other many",
		"sapwood " + folder:                       "there is no live map yet",
	} {
		input := caddy.CaddyfileInput{Contents: []byte(".:0 {\n" + part + "\n}\n"), ServerTypeName: "dns"}
		instance, err := caddy.Start(input)
		if err == nil {
			_ = instance.Stop()
			t.Errorf("%q starts", part)
		} else if !strings.Contains(err.Error(), says) {
			t.Errorf("%q: %v", part, err)
		}
	}
}

// Texts as values, in a saved file.
func TestSavedList(t *testing.T) {
	program := os.Getenv("SAPWOOD_PROGRAM")
	if program == "" {
		t.Skip("skipped: SAPWOOD_PROGRAM names no program; ci/go.sh builds it")
	}
	path := filepath.Join(t.TempDir(), "list.names")
	command := exec.Command(program, "names", "build", "--dns", "--values", "text", "--quiet", "-o", path, "-")
	command.Stdin = strings.NewReader("ads.example\tblock\ngood.ads.example\tpass\n")
	if said, err := command.CombinedOutput(); err != nil {
		t.Fatal(string(said), err)
	}
	udp, _ := coreDNS(t, "sapwood "+path)
	rcodes(t, "udp", udp, map[string]int{
		"ads.example": dns.RcodeNameError, "good.ads.example": dns.RcodeSuccess,
		"www.ads.example": dns.RcodeNameError, "org": dns.RcodeSuccess,
	})
}

// No query is lost or answered wrongly while the list changes and is read again.
func TestQueriesBesideChanges(t *testing.T) {
	l := serveList(t, memory(t), blocked)
	udp, _ := coreDNS(t, "sapwood "+l.path)
	var over atomic.Bool
	var group sync.WaitGroup
	asked := atomic.Int64{}
	for range 4 {
		group.Add(1)
		go func() {
			defer group.Done()
			for !over.Load() {
				rcodes(t, "udp", udp, map[string]int{
					"www.ads.example": dns.RcodeNameError, "www.example.org": dns.RcodeSuccess,
				})
				asked.Add(2)
			}
		}()
	}
	for i := range 40 {
		l.do("begin")
		for j := range 100 {
			l.do(fmt.Sprintf("add n%d.changes.example %d", j, i+1))
		}
		l.do("commit")
		l.do("reload")
	}
	over.Store(true)
	group.Wait()
	if asked.Load() == 0 {
		t.Error("no query was answered")
	}
	t.Log(asked.Load(), "queries")
}
