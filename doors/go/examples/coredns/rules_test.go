package main

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/miekg/dns"
)

// The rules of a zone of response policies.
const zone = `$ORIGIN rpz.
@ 60 SOA a. b. 1 2 3 4 5
nx.example CNAME .
no.example CNAME *.
drop.example CNAME rpz-drop.
tcp.example CNAME rpz-tcp-only.
pass.nx.example CNAME rpz-passthru.
*.nx.example CNAME .
host.example A 192.0.2.7
host.example 30 TXT "hi"
other.example CNAME host.example.
loop.example CNAME loop.example.
*.wild.example CNAME *.nx.example.
`

func replace(t testing.TB, path, text string) {
	t.Helper()
	if err := os.WriteFile(path+".new", []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
}

// Each action of a rule is an answer.
func TestRules(t *testing.T) {
	l := serveKind(t, memory(t), zone, "lists", "serve", "--remove")
	udp, tcp := coreDNS(t, "sapwood lists "+l.path)
	rcodes(t, "udp", udp, map[string]int{
		"nx.example": dns.RcodeNameError, "a.NX.example": dns.RcodeNameError,
		"no.example": dns.RcodeSuccess, "pass.nx.example": dns.RcodeSuccess,
		"example.org": dns.RcodeSuccess, "a.wild.example": dns.RcodeNameError,
		"loop.example": dns.RcodeSuccess,
	})
	// "whoami" answers what passes with additional records; rules do not.
	for name, passes := range map[string]bool{
		"no.example": false, "pass.nx.example": true, "example.org": true, "host.example": false,
	} {
		if got := ask(t, "udp", udp, name); (len(got.Extra) > 0) != passes {
			t.Error(name, got)
		}
	}
	if got := ask(t, "udp", udp, "tcp.example"); !got.Truncated {
		t.Error(got)
	}
	if got := ask(t, "tcp", tcp, "tcp.example"); got.Truncated || len(got.Extra) == 0 {
		t.Error(got)
	}
	got := ask(t, "udp", udp, "host.example")
	if len(got.Answer) != 1 || got.Answer[0].(*dns.A).A.String() != "192.0.2.7" {
		t.Error(got)
	}
	query := new(dns.Msg)
	query.SetQuestion("host.example.", dns.TypeTXT)
	got, err := dns.Exchange(query, udp)
	if err != nil || len(got.Answer) != 1 || got.Answer[0].(*dns.TXT).Txt[0] != "hi" ||
		got.Answer[0].Header().Ttl != 30 {
		t.Error(got, err)
	}
	got = ask(t, "udp", udp, "other.example")
	if len(got.Answer) != 2 || got.Answer[0].(*dns.CNAME).Target != "host.example." ||
		got.Answer[1].(*dns.A).A.String() != "192.0.2.7" {
		t.Error(got)
	}
	if got = ask(t, "udp", udp, "a.wild.example"); got.Answer[0].(*dns.CNAME).Target != "a.wild.example.nx.example." {
		t.Error(got)
	}
	query.SetQuestion("drop.example.", dns.TypeA)
	client := &dns.Client{Timeout: 300 * time.Millisecond}
	if got, _, err := client.Exchange(query, udp); err == nil {
		t.Error(got)
	}
	// Rules that were removed are not rules that pass.
	l.end()
	rcodes(t, "udp", udp, map[string]int{"example.org": dns.RcodeServerFailure})
}

// The lists are reloaded under 5,000 queries a second, and no query is lost.
func TestReloadUnderQueries(t *testing.T) {
	const each, workers, rate = 800, 20, 5000
	folder := memory(t)
	text := func(round int) string {
		all := "||ads.example^\n@@||good.ads.example^\n"
		for i := range 20000 {
			if i%10 != round%10 {
				all += fmt.Sprintf("||n%d.z%d.example^\n", i, i%100)
			}
		}
		return all
	}
	texts := []string{text(0), text(1), text(2)}
	l := serveKind(t, folder, texts[0], "lists", "serve", "--watch", "--remove")
	udp, _ := coreDNS(t, "sapwood lists "+l.path)
	wanted := map[string]int{
		"www.ads.example.": dns.RcodeNameError, "good.ads.example.": dns.RcodeSuccess,
		"n17.z17.example.": dns.RcodeNameError, "example.org.": dns.RcodeSuccess,
	}
	var group sync.WaitGroup
	var answered atomic.Int64
	begin := time.Now()
	for worker := range workers {
		group.Add(1)
		go func() {
			defer group.Done()
			socket, err := net.Dial("udp", udp)
			if err != nil {
				t.Error(err)
				return
			}
			conn := &dns.Conn{Conn: socket}
			defer conn.Close()
			next := begin.Add(time.Duration(worker) * time.Second / rate)
			for range each / len(wanted) {
				for name, rcode := range wanted {
					time.Sleep(time.Until(next))
					next = next.Add(workers * time.Second / rate)
					query := new(dns.Msg)
					query.SetQuestion(name, dns.TypeA)
					_ = conn.SetDeadline(time.Now().Add(10 * time.Second))
					if err := conn.WriteMsg(query); err != nil {
						t.Error(err)
						return
					}
					got, err := conn.ReadMsg()
					if err != nil || got.Id != query.Id || got.Rcode != rcode {
						t.Error(name, got, err)
						return
					}
					answered.Add(1)
				}
			}
		}()
	}
	done := make(chan struct{})
	var took time.Duration
	go func() {
		group.Wait()
		took = time.Since(begin)
		close(done)
	}()
	// A name that a text does not have tells that it is in force.
	reloads := 0
	for under := true; under; {
		select {
		case <-done:
			under = false
			continue
		default:
		}
		round := (reloads + 1) % len(texts)
		replace(t, filepath.Join(folder, "list"), texts[round])
		missing := fmt.Sprintf("n%d.z%d.example", 10+round, 10+round)
		for limit := time.Now().Add(20 * time.Second); ask(t, "udp", udp, missing).Rcode != dns.RcodeSuccess; {
			if time.Now().After(limit) {
				t.Fatal("the list is not read again")
			}
			time.Sleep(5 * time.Millisecond)
		}
		reloads++
	}
	if answered.Load() != each*workers || reloads < 2 {
		t.Error(answered.Load(), "answers and", reloads, "reloads")
	}
	t.Logf("%d answers, %.0f a second, and %d reloads", answered.Load(),
		float64(answered.Load())/took.Seconds(), reloads)
}
