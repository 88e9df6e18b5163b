#!/usr/bin/env bash
# The libraries compile with the oldest supported Rust, with all features and with none.
. "$(dirname "$0")/lib.sh"
grep -q "^rust-version = \"${MSRV%.0}\"" Cargo.toml || fail "Cargo.toml promises another version than $MSRV"
if ! cargo "+$MSRV" --version >/dev/null 2>&1; then
    say "Rust $MSRV is not installed: Clippy checks instead, which knows the first version with each item of the standard library."
    for crate in $LIBRARIES; do
        run cargo clippy --locked -p "$crate" --all-features -- -D clippy::incompatible_msrv
    done
    exit
fi
export CARGO_TARGET_DIR="$TARGET/msrv"
for crate in $LIBRARIES; do
    run cargo "+$MSRV" check --locked -p "$crate" --all-features
    run cargo "+$MSRV" check --locked -p "$crate" --no-default-features
done
