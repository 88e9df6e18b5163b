#!/usr/bin/env bash
# All code has rustfmt's default style, including the fuzz targets and the Python module.
. "$(dirname "$0")/lib.sh"
run cargo fmt --all --check
run cargo fmt --manifest-path proof/fuzz/Cargo.toml --check
run cargo fmt --manifest-path doors/python/Cargo.toml --check
