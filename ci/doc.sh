#!/usr/bin/env bash
# The documentation builds without a warning: no broken link, no public item without a word.
. "$(dirname "$0")/lib.sh"
features=$(all_features)
export RUSTDOCFLAGS="-D warnings"
# As docs.rs builds them: no compiler of BPF programs is called.
export DOCS_RS=1 SAPWOOD_CLANG=none
# The library and the program have one name, and their pages one place: not both at the same time.
# shellcheck disable=SC2086 # two words
run cargo doc --locked --workspace --exclude sapwood-cli --no-deps $features
run cargo doc --locked -p sapwood-cli --no-deps
