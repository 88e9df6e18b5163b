#!/usr/bin/env bash
# The public crates are compatible with the last release: no public item is removed or changed,
# unless the version says so. Before the first release tag (v1.2.3) there is nothing to compare
# with.
. "$(dirname "$0")/lib.sh"
last=$(last_release)
[ -n "$last" ] || skip "there is no tag of a release yet"
has cargo-semver-checks || fail "cargo-semver-checks is missing: run ci/setup.sh"
# The kernel's side is compared only by its layout: building it twice takes minutes.
for crate in $PUBLIC; do
    run cargo semver-checks check-release -p "$crate" --baseline-rev "$last" --default-features
done
