#!/usr/bin/env bash
# No warning of the compiler or of Clippy, in any target, with all features. The benchmarks, for
# which sixty libraries of others are compiled, come with lints.sh.
. "$(dirname "$0")/lib.sh"
# shellcheck disable=SC2046 # two words
run cargo clippy --profile test --locked --workspace --exclude sapwood-bench --all-targets $(all_features) -- -D warnings
