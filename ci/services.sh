#!/usr/bin/env bash
# The tests that need other servers and their tools: logs in etcd, with nodes that the tests start;
# zones from NSD and BIND; lists, whose answers are compared with those of Unbound, BIND, dnsmasq
# and AdGuard's library; the example that answers by lists with Hickory DNS; and of the program its
# services, units, metrics, dashboards and the page of `sapwood report`. The test programs are those
# of unit.sh, which leaves these tests out.
. "$(dirname "$0")/lib.sh"
! bpf_tools || bpf_ready
etcd_ready
lists_ready
browser || say "skipped: what a browser makes of the page of \`sapwood report\`; Chromium is not installed"
# shellcheck disable=SC2046,SC2086 # words
chosen tests $(programs services/sync services/lists program/cli) -- $SERVICES
# A workspace of its own, for its many dependencies.
run cargo test --locked --manifest-path examples/hickory/Cargo.toml --target-dir "$TARGET"
