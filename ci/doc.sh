#!/usr/bin/env bash
# The documentation builds without a warning: no broken link, no public item without a word.
. "$(dirname "$0")/lib.sh"
export RUSTDOCFLAGS="-D warnings"
# The library and the program have one name, and their pages one place: not both at the same time.
# shellcheck disable=SC2046 # two words
run cargo doc --locked --workspace --exclude sapwood-cli --no-deps $(all_features)
run cargo doc --locked -p sapwood-cli --no-deps
