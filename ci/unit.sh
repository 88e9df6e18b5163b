#!/usr/bin/env bash
# All tests and all examples in the documentation, but those of BPF (see bpf.sh); then the libraries without the standard library.
. "$(dirname "$0")/lib.sh"
run cargo test --locked --workspace --features "$FEATURES" --no-fail-fast
for crate in $LIBRARIES; do
    run cargo build --locked -p "$crate" --no-default-features
done
# Tests that are for the core alone.
run cargo test --locked -p sapwood-qsbr --no-default-features
