package blocker

import (
	"context"
	"fmt"
	"net/netip"

	"github.com/coredns/coredns/plugin"
	"github.com/coredns/coredns/plugin/pkg/upstream"
	"github.com/coredns/coredns/request"
	"github.com/miekg/dns"

	sapwood "sapwood/doors/go"
)

// renamed marks the context of a question for the target of a rule. Its rules give no other name
// again, so that rules cannot send a question round.
type renamed struct{}

// serveRules answers by the rule that decides about a question. What cannot be looked up is not
// answered as if no list had it.
func (b *blocker) serveRules(ctx context.Context, state request.Request) (int, error) {
	verdict, err := b.lists.Ask(state.QName(), state.QType())
	if err != nil && !b.passes {
		return dns.RcodeServerFailure, plugin.Error(Name, fmt.Errorf("the lists cannot be read: %w", err))
	}
	pass := func() (int, error) { return plugin.NextOrFailure(Name, b.next, ctx, state.W, state.Req) }
	if err != nil {
		return pass()
	}
	switch verdict.Action {
	case sapwood.ActionNXDomain:
		return b.block(state, b.rcode)
	case sapwood.ActionNoData:
		return b.block(state, dns.RcodeSuccess)
	case sapwood.ActionRefused:
		return b.block(state, dns.RcodeRefused)
	case sapwood.ActionDrop:
		// CoreDNS writes nothing for this result.
		return dns.RcodeSuccess, nil
	case sapwood.ActionTruncate:
		if state.Proto() != "udp" {
			return pass()
		}
		m := reply(state, dns.RcodeSuccess)
		m.Truncated = true
		return written(state, m)
	case sapwood.ActionNull, sapwood.ActionAddresses, sapwood.ActionRecords:
		m := reply(state, dns.RcodeSuccess)
		if m.Answer, err = answer(state, &verdict); err != nil {
			return dns.RcodeServerFailure, plugin.Error(Name, err)
		}
		if len(m.Answer) == 0 {
			m.Ns = authority(state)
		}
		return written(state, m)
	case sapwood.ActionName:
		return b.rename(ctx, state, verdict.Target)
	}
	return pass()
}

func header(state request.Request, rtype uint16, seconds uint32) dns.RR_Header {
	return dns.RR_Header{Name: state.QName(), Rrtype: rtype, Class: dns.ClassINET, Ttl: seconds}
}

// answer is the records of a rule that have the question's type.
func answer(state request.Request, verdict *sapwood.Verdict) (all []dns.RR, err error) {
	addresses := verdict.Addresses
	if verdict.Action == sapwood.ActionNull {
		addresses = []netip.Addr{netip.IPv4Unspecified(), netip.IPv6Unspecified()}
	}
	for _, address := range addresses {
		switch {
		case address.Is4() && state.QType() == dns.TypeA:
			all = append(all, &dns.A{Hdr: header(state, dns.TypeA, ttl), A: address.AsSlice()})
		case address.Is6() && state.QType() == dns.TypeAAAA:
			all = append(all, &dns.AAAA{Hdr: header(state, dns.TypeAAAA, ttl), AAAA: address.AsSlice()})
		}
	}
	for _, record := range verdict.Records {
		if record.Type != state.QType() {
			continue
		}
		head := header(state, record.Type, record.TTL)
		head.Rdlength = uint16(len(record.Data))
		made, _, err := dns.UnpackRRWithHeader(head, record.Data, 0)
		if err != nil {
			return nil, fmt.Errorf("a record of %s: %w", verdict.Rule(), err)
		}
		all = append(all, made)
	}
	return all, nil
}

// rename answers with another name, and with what this server says of it.
func (b *blocker) rename(ctx context.Context, state request.Request, target string) (int, error) {
	m := reply(state, dns.RcodeSuccess)
	other := &dns.CNAME{Hdr: header(state, dns.TypeCNAME, ttl), Target: dns.Fqdn(target)}
	m.Answer = []dns.RR{other}
	if ctx.Value(renamed{}) == nil && state.QType() != dns.TypeCNAME {
		ctx = context.WithValue(ctx, renamed{}, true)
		found, err := upstream.New().Lookup(ctx, state, other.Target, state.QType())
		if err != nil {
			return dns.RcodeServerFailure, plugin.Error(Name, err)
		}
		m.Rcode, m.Ns = found.Rcode, found.Ns
		m.Answer = append(m.Answer, found.Answer...)
	}
	return written(state, m)
}
