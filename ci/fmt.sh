#!/usr/bin/env bash
# All code has rustfmt's default style, including the workspaces beside the library's: the fuzz
# targets, the Python module, the example for Hickory DNS.
. "$(dirname "$0")/lib.sh"
run cargo fmt --all --check
run cargo fmt --manifest-path proof/fuzz/Cargo.toml --check
run cargo fmt --manifest-path doors/python/Cargo.toml --check
run cargo fmt --manifest-path examples/hickory/Cargo.toml --check
