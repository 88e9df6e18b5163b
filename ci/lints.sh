#!/usr/bin/env bash
# What clippy.sh leaves out: the benchmarks, the Python module, the example for Hickory DNS, the
# core without the standard library, and a lint on which compilers disagree.
. "$(dirname "$0")/lib.sh"
# shellcheck disable=SC2046 # two words
run cargo clippy --profile test --locked --workspace --all-targets $(all_features) -- -D warnings
# An item that no user can reach must not be `pub`. Older compilers judge differently, so only this
# script asks for the lint.
packages=()
for crate in $LIBRARIES; do packages+=(-p "$crate"); done
# shellcheck disable=SC2046
run cargo clippy --locked "${packages[@]}" --lib --features sapwood/tokio,sapwood/usdt -- -D warnings -D unreachable_pub
# The core alone, without the standard library.
for crate in $LIBRARIES; do
    run cargo clippy --locked -p "$crate" --no-default-features --lib -- -D warnings
done
# The core for processors without an operating system, as setup.sh installed the targets: maps,
# tables of prefixes and routes, groups and the cache of routes.
for target in $BARE; do
    if rustup target list --installed 2>/dev/null | grep -qx "$target"; then
        run cargo build --locked -p sapwood -p sapwood-vswitch --no-default-features --target "$target"
    else
        say "the target $target is not installed: the core is not built for it (ci/setup.sh installs it)"
    fi
done
# The Python module and the example, which are workspaces of their own.
run cargo clippy --locked --manifest-path doors/python/Cargo.toml --target-dir "$TARGET" -- -D warnings
run cargo clippy --locked --manifest-path examples/hickory/Cargo.toml --target-dir "$TARGET" --all-targets -- -D warnings
