#!/usr/bin/env bash
# Licences, sources and bans of all dependencies; also known vulnerabilities, if their list can be
# fetched.
. "$(dirname "$0")/lib.sh"
has cargo-deny || fail "cargo-deny is missing: run ci/setup.sh"
run cargo deny --locked --all-features check -A license-exception-not-encountered -A unused-wrapper licenses bans sources
# One list serves all workspaces; an entry that only another one uses is not reported.
for more in proof/fuzz doors/python examples/hickory; do
    run cargo deny --locked --manifest-path $more/Cargo.toml --config deny.toml check -A license-exception-not-encountered -A unused-wrapper licenses bans sources
done
if run timeout 120 cargo deny --all-features fetch db; then
    run cargo deny --locked --all-features check --disable-fetch advisories
else
    say "The list of vulnerabilities cannot be fetched here: advisories are NOT checked."
fi
