// Command coredns is a CoreDNS with the plugin "sapwood", and few others.
package main

import (
	"slices"

	"github.com/coredns/coredns/core/dnsserver"
	"github.com/coredns/coredns/coremain"
	_ "github.com/coredns/coredns/plugin/errors"
	_ "github.com/coredns/coredns/plugin/forward"
	_ "github.com/coredns/coredns/plugin/log"
	_ "github.com/coredns/coredns/plugin/whoami"

	"sapwood/doors/go/examples/coredns/blocker"
)

// The plugin comes before those that answer from elsewhere.
func order() {
	if slices.Contains(dnsserver.Directives, blocker.Name) {
		return
	}
	before := slices.Index(dnsserver.Directives, "cache")
	dnsserver.Directives = slices.Insert(dnsserver.Directives, before, blocker.Name)
}

func main() {
	order()
	coremain.Run()
}
