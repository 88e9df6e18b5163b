#!/usr/bin/env bash
# No warning of the compiler or of Clippy, in anything, with all features.
. "$(dirname "$0")/lib.sh"
run cargo clippy --locked --workspace --all-targets --all-features -- -D warnings
