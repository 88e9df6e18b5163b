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
	next  plugin.Handler
	names *sapwood.Names
	// What a name of the list gets that is only blocked.
	block rule
	// Whether a query is answered by the next plugin when the list cannot be read.
	open bool
}

// The choices of the Corefile.
var (
	answers    = map[string]byte{"nxdomain": nxdomain, "nodata": nodata, "refused": refused}
	unreadable = map[string]bool{"servfail": false, "pass": true}
)

func init() {
	caddy.RegisterPlugin(Name, caddy.Plugin{ServerType: "dns", Action: setup})
}

// setup reads the plugin's part of the Corefile:
//
//	sapwood PATH {
//		answer nxdomain|nodata|refused
//		unreadable servfail|pass
//	}
func setup(c *caddy.Controller) error {
	b := &blocker{}
	var path string
	for c.Next() {
		if path != "" {
			return plugin.Error(Name, c.Err("there is one list in a server block"))
		}
		paths := c.RemainingArgs()
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
				b.block.action, known = answers[arguments[0]]
			case "unreadable":
				b.open, known = unreadable[arguments[0]]
			}
			if !known {
				return plugin.Error(Name, c.Errf("unknown: %s %s", what, arguments[0]))
			}
		}
	}
	var err error
	if b.names, err = sapwood.OpenNames(path); err != nil {
		return plugin.Error(Name, err)
	}
	c.OnShutdown(b.names.Close)
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
	found, err := b.decide(state.QName(), state.QType())
	switch {
	case err != nil && !b.open:
		return dns.RcodeServerFailure, plugin.Error(Name, err)
	case found == nil || found.action == pass:
		return plugin.NextOrFailure(Name, b.next, ctx, w, r)
	case found.action == drop:
		return dns.RcodeSuccess, nil
	}
	m := found.answer(r)
	if m.Rcode != dns.RcodeRefused && len(m.Answer) == 0 && !m.Truncated {
		// How long resolvers may remember it.
		m.Ns = []dns.RR{&dns.SOA{
			Hdr: dns.RR_Header{Name: state.QName(), Rrtype: dns.TypeSOA, Class: dns.ClassINET, Ttl: 60},
			Ns:  "blocked.invalid.", Mbox: "blocked.invalid.", Serial: 1,
			Refresh: 3600, Retry: 600, Expire: 86400, Minttl: 60,
		}}
	}
	if err := w.WriteMsg(m); err != nil {
		return dns.RcodeServerFailure, err
	}
	return dns.RcodeSuccess, nil
}

// decide returns the rule for a question; nil if the next plugin answers. The map has rules, as
// "sapwood lists" makes them, or only names.
func (b *blocker) decide(query string, qtype uint16) (*rule, error) {
	unread := func(err error) (*rule, error) {
		if errors.Is(err, sapwood.ErrName) {
			return nil, nil
		}
		return nil, fmt.Errorf("the list cannot be read: %w", err)
	}
	var room [512]byte
	about, hasRules, err := b.names.Append(room[:0], []byte(listsKey))
	if err != nil {
		return unread(err)
	}
	if hasRules {
		tiers, err := tiersOf(about)
		if err != nil {
			return unread(err)
		}
		_, above, err := b.names.AppendAbove(nil, nil, query)
		if err != nil {
			return unread(err)
		}
		found, err := verdict(above, tiers, query, qtype)
		if err != nil {
			return unread(err)
		}
		if found != nil && found.action == nxdomain {
			found = &b.block
		}
		return found, nil
	}
	// By an entry of its own, a wildcard, or the longest name above. An entry whose value is the
	// number 0 or the text "pass" lets its names through.
	_, closest, err := b.names.AppendClosest(room[:0], query)
	if err != nil {
		return unread(err)
	}
	if owner := closest.Longest(); !owner.Found || passes(owner.Value) {
		return nil, nil
	}
	return &b.block, nil
}

// passes says whether a value is that of an exception.
func passes(value []byte) bool {
	switch string(value) {
	case "pass", "\x00\x00\x00\x00\x00\x00\x00\x00":
		return true
	}
	return false
}
