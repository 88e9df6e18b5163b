#!/usr/bin/env bash
# No warning of the compiler or of Clippy, in anything, with all features.
. "$(dirname "$0")/lib.sh"
# shellcheck disable=SC2046 # two words
run cargo clippy --locked --workspace --all-targets $(all_features) -- -D warnings
