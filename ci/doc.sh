#!/usr/bin/env bash
# The documentation builds without a warning: no broken link, no undocumented public item.
. "$(dirname "$0")/lib.sh"
features=$(all_features)
export RUSTDOCFLAGS="-D warnings"
# The features of docs.rs: no compiler of BPF programs is called.
export DOCS_RS=1 SAPWOOD_CLANG=none
# The library and the program have the same name, and their pages the same folder: never both at
# once.
# shellcheck disable=SC2086 # two words
run cargo doc --locked --workspace --exclude sapwood-cli --no-deps $features
run cargo doc --locked -p sapwood-cli --no-deps
