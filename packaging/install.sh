#!/usr/bin/env bash
# Installs what `cargo build --release -p sapwood-capi -p sapwood-cli` built: the header, the shared
# and the static library, the files for pkg-config and for CMake, the manual page of the library,
# the program with its completions and manual pages, its units for systemd, and its dashboards and
# alerts.
#
# Variables: DESTDIR (a folder that stands for the root), PREFIX (/usr/local), LIBDIR
# (PREFIX/lib), INCLUDEDIR (PREFIX/include), SYSTEMDDIR (PREFIX/lib/systemd/system), TARGET (the
# folder of cargo's results, target).
set -euo pipefail
cd "$(dirname "$0")/.."

prefix=${PREFIX:-/usr/local}
libdir=${LIBDIR:-$prefix/lib}
includedir=${INCLUDEDIR:-$prefix/include}
share=$prefix/share
built=${TARGET:-target}/release
root=${DESTDIR:-}
version=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -n 1)

case $prefix:$libdir:$includedir in
/*:/*:/*) ;;
*) printf 'PREFIX, LIBDIR and INCLUDEDIR must begin with a slash: %s, %s, %s\n' "$prefix" "$libdir" "$includedir" >&2 && exit 1 ;;
esac
for file in libsapwood_capi.a sapwood; do
    [ -e "$built/$file" ] || { printf '%s is not built: run cargo build --release -p sapwood-capi -p sapwood-cli\n' "$built/$file" >&2 && exit 1; }
done

put() { # mode, source, place
    install -D -m "$1" "$2" "$root$3"
}

put 644 doors/c/include/sapwood.h "$includedir/sapwood.h"
put 644 doors/c/include/sapwood_inline.h "$includedir/sapwood_inline.h"
# What the library has of BPF, and the headers of the programs, if it was built with its feature.
bpf_libs=
if nm -g "$built/libsapwood_capi.a" 2>/dev/null | grep ' T sapwood_bpf_check$' >/dev/null; then
    bpf_libs='-lelf -lz '
    put 644 doors/c/include/sapwood_bpf.h "$includedir/sapwood_bpf.h"
    for header in kernel/bpf/bpf/include/sapwood/*.h; do
        put 644 "$header" "$includedir/sapwood/$(basename "$header")"
    done
fi
# The shared library, with its versions of symbols, and the two links to it.
mkdir -p "$root$libdir"
doors/c/link.sh "$built/libsapwood_capi.a" "$root$libdir"
chmod 644 "$root$libdir"/libsapwood.so.*.*
put 644 "$built/libsapwood_capi.a" "$libdir/libsapwood.a"

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# The system's libraries that the static library needs, as the compiler of Rust names them.
sed -e "s|@prefix@|$prefix|" -e "s|@libdir@|$libdir|" -e "s|@includedir@|$includedir|" \
    -e "s|@version@|$version|" -e "s|@bpf_libs@|$bpf_libs|" packaging/sapwood.pc.in >"$work/sapwood.pc"
put 644 "$work/sapwood.pc" "$libdir/pkgconfig/sapwood.pc"
# CMake's files name places relative to their own, so that a staged or moved tree works.
cmake=$libdir/cmake/sapwood
sed -e "s|@include@|$(realpath -m --relative-to="$cmake" "$includedir")|" -e "s|@bpf_libs@|${bpf_libs:+elf;z;}|" packaging/sapwood-config.cmake.in >"$work/config"
sed -e "s|@version@|$version|" -e "s|@pointer@|$(($(getconf LONG_BIT) / 8))|" packaging/sapwood-config-version.cmake.in >"$work/version"
put 644 "$work/config" "$cmake/sapwood-config.cmake"
put 644 "$work/version" "$cmake/sapwood-config-version.cmake"
put 644 packaging/sapwood.3 "$share/man/man3/sapwood.3"

put 755 "$built/sapwood" "$prefix/bin/sapwood"
# The units start the program where it is installed.
for unit in packaging/systemd/*.service; do
    # Only those of commands that the program has: they depend on its features.
    case $unit in
    */sapwood-bpf-*) "$built/sapwood" bpf --help >/dev/null 2>&1 || continue ;;
    */sapwood-sync-*) "$built/sapwood" sync --help >/dev/null 2>&1 || continue ;;
    esac
    sed -e "s|/usr/bin/sapwood|$prefix/bin/sapwood|" -e "s|docs/operations.md|$share/doc/sapwood/operations.md|" "$unit" >"$work/unit"
    put 644 "$work/unit" "${SYSTEMDDIR:-$prefix/lib/systemd/system}/$(basename "$unit")"
done
for example in packaging/systemd/*.conf; do
    put 644 "$example" "$share/doc/sapwood/examples/$(basename "$example")"
done
put 644 docs/operations.md "$share/doc/sapwood/operations.md"
for board in packaging/grafana/*.json; do
    put 644 "$board" "$share/sapwood/grafana/$(basename "$board")"
done
put 644 packaging/prometheus/sapwood.rules.yml "$share/sapwood/prometheus/sapwood.rules.yml"
"$built/sapwood" man --out "$work/man"
for page in "$work"/man/*.1; do
    put 644 "$page" "$share/man/man1/$(basename "$page")"
done
"$built/sapwood" completions bash >"$work/bash"
"$built/sapwood" completions zsh >"$work/zsh"
"$built/sapwood" completions fish >"$work/fish"
put 644 "$work/bash" "$share/bash-completion/completions/sapwood"
put 644 "$work/zsh" "${ZSHDIR:-$share/zsh/site-functions}/_sapwood"
put 644 "$work/fish" "$share/fish/vendor_completions.d/sapwood.fish"
