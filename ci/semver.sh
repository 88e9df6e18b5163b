#!/usr/bin/env bash
# The public crates keep their promises since the last release: no item is gone or changed that
# users have, unless the version says so. Before the first tag of a release (v1.2.3) there is
# nothing to compare with.
. "$(dirname "$0")/lib.sh"
last=$(last_release)
[ -n "$last" ] || skip "there is no tag of a release yet"
has cargo-semver-checks || fail "cargo-semver-checks is missing: run ci/setup.sh"
# The kernel's side is compared by its layout alone: building it twice takes minutes.
for crate in $PUBLIC; do
    run cargo semver-checks check-release -p "$crate" --baseline-rev "$last" --default-features
done
