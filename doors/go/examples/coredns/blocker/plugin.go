// Package blocker is the plugin "sapwood" of CoreDNS: it answers from a list of names that another
// process serves, or from a saved one.
package blocker

import (
	"context"
	"errors"
	"fmt"

	"github.com/coredns/caddy"
	"github.com/coredns/coredns/core/dnsserver"
	"github.com/coredns/coredns/plugin"
	"github.com/coredns/coredns/request"
	"github.com/miekg/dns"

	sapwood "sapwood/doors/go"
)

// Name is the name of the plugin in a Corefile.
const Name = "sapwood"

// blocker answers queries for names that the list has.
type blocker struct {
	next plugin.Handler
	// What is asked: a list of names, or the rules of "sapwood lists".
	names *sapwood.Names
	lists *sapwood.Lists
	// The answer for a name of the list.
	rcode int
	// Whether a query is answered by the next plugin when the list cannot be read.
	passes bool
}

func (b *blocker) open(path string, rules bool) (err error) {
	if rules {
		b.lists, err = sapwood.OpenLists(path)
	} else {
		b.names, err = sapwood.OpenNames(path)
	}
	return err
}

func (b *blocker) close() error {
	if b.lists != nil {
		return b.lists.Close()
	}
	return b.names.Close()
}

// The choices of the Corefile.
var (
	answers = map[string]int{
		"nxdomain": dns.RcodeNameError, "nodata": dns.RcodeSuccess, "refused": dns.RcodeRefused,
	}
	unreadable = map[string]bool{"servfail": false, "pass": true}
)

func init() {
	caddy.RegisterPlugin(Name, caddy.Plugin{ServerType: "dns", Action: setup})
}

// setup reads the plugin's part of the Corefile:
//
//	sapwood [lists] PATH {
//		answer nxdomain|nodata|refused
//		unreadable servfail|pass
//	}
func setup(c *caddy.Controller) error {
	b := &blocker{rcode: dns.RcodeNameError}
	var path string
	rules := false
	for c.Next() {
		if path != "" {
			return plugin.Error(Name, c.Err("there is one list in a server block"))
		}
		paths := c.RemainingArgs()
		if len(paths) == 2 && paths[0] == "lists" {
			rules, paths = true, paths[1:]
		}
		if len(paths) != 1 {
			return plugin.Error(Name, c.ArgErr())
		}
		path = paths[0]
		for c.NextBlock() {
			what, arguments := c.Val(), c.RemainingArgs()
			if len(arguments) != 1 {
				return plugin.Error(Name, c.ArgErr())
			}
			known := false
			switch what {
			case "answer":
				b.rcode, known = answers[arguments[0]]
			case "unreadable":
				b.passes, known = unreadable[arguments[0]]
			}
			if !known {
				return plugin.Error(Name, c.Errf("unknown: %s %s", what, arguments[0]))
			}
		}
	}
	if err := b.open(path, rules); err != nil {
		return plugin.Error(Name, err)
	}
	c.OnShutdown(b.close)
	dnsserver.GetConfig(c).AddPlugin(func(next plugin.Handler) plugin.Handler {
		b.next = next
		return b
	})
	return nil
}

// Name is the plugin's name.
func (b *blocker) Name() string { return Name }

// ServeDNS answers for the names of the list and the names below them, and leaves others to the
// next plugin.
func (b *blocker) ServeDNS(ctx context.Context, w dns.ResponseWriter, r *dns.Msg) (int, error) {
	state := request.Request{W: w, Req: r}
	if b.lists != nil {
		return b.serveRules(ctx, state)
	}
	blocked, err := b.blocks(state.QName())
	switch {
	case err != nil && !b.passes:
		return dns.RcodeServerFailure, plugin.Error(Name, err)
	case !blocked:
		return plugin.NextOrFailure(Name, b.next, ctx, w, r)
	}
	return b.block(state, b.rcode)
}

// block answers without records.
func (b *blocker) block(state request.Request, rcode int) (int, error) {
	m := reply(state, rcode)
	if rcode != dns.RcodeRefused {
		m.Ns = authority(state)
	}
	return written(state, m)
}

func reply(state request.Request, rcode int) *dns.Msg {
	m := new(dns.Msg)
	m.SetRcode(state.Req, rcode)
	m.RecursionAvailable = true
	return m
}

func written(state request.Request, m *dns.Msg) (int, error) {
	if err := state.W.WriteMsg(m); err != nil {
		return dns.RcodeServerFailure, err
	}
	return dns.RcodeSuccess, nil
}

// The seconds that resolvers may remember an answer that has no time to live.
const ttl = 60

// authority says how long resolvers may remember that there is nothing.
func authority(state request.Request) []dns.RR {
	return []dns.RR{&dns.SOA{
		Hdr: dns.RR_Header{Name: state.QName(), Rrtype: dns.TypeSOA, Class: dns.ClassINET, Ttl: ttl},
		Ns:  "blocked.invalid.", Mbox: "blocked.invalid.", Serial: 1,
		Refresh: 3600, Retry: 600, Expire: 86400, Minttl: ttl,
	}}
}

// blocks says whether the list blocks a name: by an entry of its own, a wildcard, or the longest
// name above. An entry whose value is the number 0 or the text "pass" lets its names through. What
// is not a host's name, such as a name with other bytes, is looked up as well.
func (b *blocker) blocks(query string) (bool, error) {
	var room [128]byte
	_, found, err := b.names.AppendClosest(room[:0], query)
	if errors.Is(err, sapwood.ErrName) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("the list cannot be read: %w", err)
	}
	owner := found.Longest()
	return owner.Found && !passes(owner.Value), nil
}

// passes says whether a value is that of an exception.
func passes(value []byte) bool {
	switch string(value) {
	case "pass", "\x00\x00\x00\x00\x00\x00\x00\x00":
		return true
	}
	return false
}
