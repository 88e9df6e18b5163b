#!/usr/bin/env bash
# Installs what the checks need and what is missing: system packages (as root; else says which),
# parts of Rust's toolchains, cargo-fuzz, cargo-deny; after the first release cargo-semver-checks.
. "$(dirname "$0")/lib.sh"

ci/packages.sh

has rustup || fail "Rust comes by rustup; see https://rustup.rs. Install it with:
    curl --proto '=https' --tlsv1.2 -sSf https://sh.rustup.rs | sh -s -- -y"

# Lists the parts of a toolchain; nothing if it is not there.
parts() { rustup component list --toolchain "$1" --installed 2>/dev/null || true; }

rustup toolchain list | grep -q . || run rustup toolchain install stable --profile minimal
here=$(rustup show active-toolchain | cut -d' ' -f1)
for part in rustfmt clippy; do
    parts "$here" | grep -q "^$part" || run rustup component add "$part" --toolchain "$here"
done

have=$(parts "$NIGHTLY")
for part in miri rust-src; do
    if ! grep -q "^$part" <<<"$have"; then
        # The newest nightly may lack a part; the one before has it.
        run rustup toolchain install "$NIGHTLY" --profile minimal --allow-downgrade -c miri -c rust-src
        break
    fi
done

if [ -z "$(parts "$MSRV")" ]; then
    run rustup toolchain install "$MSRV" --profile minimal ||
        say "Rust $MSRV cannot be had here: the check of it falls back on Clippy."
fi

# The tools' sources are compiled quickly rather than well.
tool() {
    has "$1" && return
    say "Compiling $1 $2: once, about $3 on two cores."
    CARGO_PROFILE_RELEASE_OPT_LEVEL=1 CARGO_PROFILE_RELEASE_LTO=off CARGO_PROFILE_RELEASE_CODEGEN_UNITS=16 \
        CARGO_PROFILE_RELEASE_DEBUG=0 RUSTFLAGS='' CARGO_TARGET_DIR="$TARGET/tools" run cargo install "$1" --version "$2" --locked
}
tool cargo-fuzz "$CARGO_FUZZ" "a minute"
tool cargo-deny "$CARGO_DENY" "five minutes"
# What compares with the last release, as soon as there is one.
[ -z "$(last_release)" ] || tool cargo-semver-checks "$CARGO_SEMVER_CHECKS" "ten minutes"
rm -rf "$TARGET/tools"
say "Everything is there."
