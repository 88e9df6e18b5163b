#!/usr/bin/env bash
# Licences, sources and bans of all dependencies; known vulnerabilities too, when the list of them
# can be fetched.
. "$(dirname "$0")/lib.sh"
has cargo-deny || fail "cargo-deny is missing: run ci/setup.sh"
run cargo deny --locked --all-features check -A license-exception-not-encountered -A unused-wrapper licenses bans sources
# One list for both; what only the other one uses is no news.
run cargo deny --locked --manifest-path fuzz/Cargo.toml --config deny.toml check -A license-exception-not-encountered -A unused-wrapper licenses bans sources
if run timeout 120 cargo deny --all-features fetch db; then
    run cargo deny --locked --all-features check --disable-fetch advisories
else
    say "The list of vulnerabilities cannot be fetched here: advisories are NOT checked."
fi
