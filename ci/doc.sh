#!/usr/bin/env bash
# The documentation builds without a warning: no broken link, no public item without a word.
. "$(dirname "$0")/lib.sh"
export RUSTDOCFLAGS="-D warnings"
run cargo doc --locked --workspace --no-deps --all-features
