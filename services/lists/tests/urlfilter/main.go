// What AdGuard's library urlfilter says of names. The arguments are lists; each line of the input
// is a question, a number of a type and a name; each line of the output is what AdGuard Home makes
// of the library's answer.
package main

import (
	"bufio"
	"fmt"
	"net/netip"
	"os"
	"strings"

	"github.com/AdguardTeam/urlfilter"
	"github.com/AdguardTeam/urlfilter/filterlist"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run() error {
	var lists []filterlist.RuleList
	for at, path := range os.Args[1:] {
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		list := &filterlist.StringRuleList{ID: at, RulesText: string(text), IgnoreCosmetic: true}
		lists = append(lists, list)
	}
	storage, err := filterlist.NewRuleStorage(lists)
	if err != nil {
		return err
	}
	engine := urlfilter.NewDNSEngine(storage)
	out := bufio.NewWriter(os.Stdout)
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		var rtype uint16
		var name string
		if _, err := fmt.Sscanf(lines.Text(), "%d %s", &rtype, &name); err != nil {
			return fmt.Errorf("%q: %w", lines.Text(), err)
		}
		fmt.Fprintln(out, answer(engine, rtype, strings.ToLower(name)))
	}
	if err := lines.Err(); err != nil {
		return err
	}
	return out.Flush()
}

// A rewriting comes before all; then rules with names; then those of hosts files.
func answer(engine *urlfilter.DNSEngine, rtype uint16, name string) string {
	request := &urlfilter.DNSRequest{Hostname: name, DNSType: rtype}
	result, matched := engine.MatchRequest(request)
	if rewrites := result.DNSRewrites(); len(rewrites) > 0 {
		var addresses []string
		for _, rule := range rewrites {
			rewrite := rule.DNSRewrite
			switch {
			case rewrite.NewCNAME != "":
				return "name " + rewrite.NewCNAME
			case rewrite.RCode != 0:
				return fmt.Sprintf("code %d", rewrite.RCode)
			}
			if address, ok := rewrite.Value.(netip.Addr); ok && rewrite.RRType == rtype {
				addresses = append(addresses, address.String())
			}
		}
		return strings.Join(append([]string{"addresses"}, addresses...), " ")
	}
	switch {
	case !matched:
		return "pass"
	case result.NetworkRule != nil && result.NetworkRule.Whitelist:
		return "pass"
	case result.NetworkRule != nil:
		return "block"
	}
	addresses := []string{"addresses"}
	if rtype == 1 {
		for _, rule := range result.HostRulesV4 {
			addresses = append(addresses, rule.IP.String())
		}
	}
	if rtype == 28 {
		for _, rule := range result.HostRulesV6 {
			addresses = append(addresses, rule.IP.String())
		}
	}
	return strings.Join(addresses, " ")
}
