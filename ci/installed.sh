#!/usr/bin/env bash
# What users of C get: `make install` into a folder, programs compiled by pkg-config and by CMake
# and run, Debian packages without an error of lintian, and the map of blocked names in the workers
# of dnsdist. Where BPF programs can be built, the library has its maps of them (BPF=1), and the
# example in plain C is built and run.
# NAMES is the number of blocked names.
. "$(dirname "$0")/lib.sh"
[ "$(uname -s)" = Linux ] || skip "the C library is tested on Linux"
has pkg-config || skip "pkg-config is not installed (ci/packages.sh says how)"
# The build of readme.sh, so that the libraries of others are compiled once.
TARGET=$TARGET/readme-build
# Nothing is measured here, and to compile well takes twice the time.
export CARGO_TARGET_DIR=$TARGET CARGO_PROFILE_RELEASE_DEBUG=0 CARGO_PROFILE_RELEASE_OPT_LEVEL=1
BPF=
! bpf_tools || BPF=1
export BPF
# shellcheck disable=SC2086 # words or none
run cargo build --locked --release -p sapwood-capi -p sapwood-cli ${BPF:+--features sapwood-cli/bpf,sapwood-capi/bpf}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

say "== make install"
run make -s install "DESTDIR=$work/tree" PREFIX=/usr "TARGET=$TARGET"
root=$work/tree/usr
export PKG_CONFIG_PATH=$root/lib/pkgconfig PKG_CONFIG_SYSROOT_DIR=$work/tree LD_LIBRARY_PATH=$root/lib
for file in include/sapwood.h include/sapwood_inline.h lib/libsapwood.so lib/libsapwood.so.0 lib/libsapwood.a lib/pkgconfig/sapwood.pc \
    lib/cmake/sapwood/sapwood-config.cmake lib/cmake/sapwood/sapwood-config-version.cmake \
    share/man/man3/sapwood.3 share/man/man1/sapwood.1 share/bash-completion/completions/sapwood bin/sapwood \
    lib/systemd/system/sapwood-names@.service lib/systemd/system/sapwood-ranges@.service share/doc/sapwood/examples/names.conf \
    lib/systemd/system/sapwood-sync-publish@.service lib/systemd/system/sapwood-sync-follow@.service \
    share/doc/sapwood/examples/sync-publish.conf share/doc/sapwood/examples/sync-follow.conf share/man/man1/sapwood-sync-follow.1 \
    share/doc/sapwood/operations.md share/sapwood/grafana/sapwood-live.json share/sapwood/prometheus/sapwood.rules.yml; do
    [ -e "$root/$file" ] || fail "make install did not install $file"
done
if [ -n "$BPF" ]; then
    for file in include/sapwood_bpf.h include/sapwood/layout.h include/sapwood/qp_write.bpf.h; do
        [ -e "$root/$file" ] || fail "make install BPF=1 did not install $file"
    done
fi
[ "$(pkg-config --modversion sapwood)" = "$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -n 1)" ] || fail "sapwood.pc has another version"

# Compiles a program by pkg-config and runs it.
program() { # source, packages, arguments...
    local source=$1 packages=$2 name
    shift 2
    name=$work/$(basename "$source" .c)
    # shellcheck disable=SC2046,SC2086 # words
    run cc -std=c99 -O2 -Wall -Wextra -Wpedantic -Werror -o "$name" "$source" $(pkg-config --cflags --libs $packages) -lpthread
    run "$name" "$@"
}
say "== programs by pkg-config"
# The manual page's example, linked with the shared library, and with the static one.
sed -n '/^\.EX/,/^\.EE/{/^\.E[XE]/d;s/\\e/\\/g;p}' "$root/share/man/man3/sapwood.3" >"$work/example.c"
[ "$(program "$work/example.c" sapwood | tail -n 1)" = 7 ] || fail "the manual page's example does not print 7"
# shellcheck disable=SC2046
run cc -o "$work/static" "$work/example.c" $(pkg-config --cflags sapwood) "$root/lib/libsapwood.a" $(pkg-config --static --libs-only-l sapwood | sed 's/-lsapwood//')
[ "$(LD_LIBRARY_PATH='' "$work/static")" = 7 ] || fail "the example with the static library does not print 7"
program examples/c/packets.c sapwood 65536 0.5
program examples/c/forward.c sapwood "$work/routes" 0.5
printf '||ads.example^\n' >"$work/ads"
run "$root/bin/sapwood" lists build --quiet "$work/ads" -o "$work/ads.lists"
[ "$(program examples/c/lists.c sapwood "$work/ads.lists" x.ads.example | tail -n 1)" = "x.ads.example: nxdomain, by ads.example of $work/ads, line 1" ] ||
    fail "examples/c/lists.c does not say which rule answers"
if pkg-config --exists libuv; then
    program examples/c/uv-loop.c "sapwood libuv"
else
    say "skipped: libuv1-dev is not installed"
fi

say "== a program in the kernel, in plain C"
if [ -n "$BPF" ] && [ -x /usr/sbin/bpftool ] && [ -e /usr/include/bpf/libbpf.h ]; then
    cp -r examples/bpf "$work/bpf"
    run make -C "$work/bpf" CFLAGS="-O2 -Wall -Wextra -Werror"
    if bpf_runs; then
        # It needs the kernel's list of tracepoints, which these processes see alone.
        run unshare --mount sh -c '{ [ -d /sys/kernel/tracing/events ] || mount -t tracefs nodev /sys/kernel/tracing; } && "$1"/opens cat "$1/opens.c" "$1/opens.c"' sh "$work/bpf" >"$work/opens.log"
        grep -q "^     2 $work/bpf/opens.c$" "$work/opens.log" || fail "the example did not count: $(tail -n 20 "$work/opens.log")"
    else
        say "skipped: this kernel or user cannot run BPF programs"
    fi
else
    say "skipped: bpftool, libbpf-dev or what builds BPF programs is not installed"
fi

say "== a program by CMake"
if has cmake; then
    # Each goes with its own standard and the warnings of careful users; another version is refused.
    configure() { run cmake -S examples/cmake -B "$work/cmake-$1" -DCMAKE_PREFIX_PATH="$2" "-DCMAKE_C_FLAGS=-std=c99 $STRICT" "-DCMAKE_CXX_FLAGS=$STRICT"; }
    STRICT="-Wall -Wextra -Wpedantic -Werror"
    configure installed "$root"
    run cmake --build "$work/cmake-installed"
    for name in names names-static; do
        [ "$("$work/cmake-installed/$name")" = "/usr/lib has 2" ] || fail "$name of examples/cmake does not print what it should"
    done
    # A tree that was moved as a whole is found, too.
    cp -a "$work/tree/usr" "$work/moved"
    configure moved "$work/moved"
    run cmake --build "$work/cmake-moved"
    sed 's/find_package(sapwood 0.1 /find_package(sapwood 99.0 /' examples/cmake/CMakeLists.txt >"$work/moved/CMakeLists.txt"
    cp examples/cmake/names.c "$work/moved"
    ! cmake -S "$work/moved" -B "$work/cmake-wrong" -DCMAKE_PREFIX_PATH="$root" >"$work/wrong.log" 2>&1 || fail "CMake took this version for 99.0"
    grep -q 'version "99.0"' "$work/wrong.log" || fail "CMake failed, but not for the version: $(cat "$work/wrong.log")"
else
    say "skipped: cmake is not installed"
fi

say "== Debian packages"
if has dpkg-deb && has dpkg-shlibdeps; then
    TARGET=$TARGET packaging/deb.sh "$work/debs"
    if has lintian; then
        # Warnings are shown; errors fail. Packages that users make for themselves have nobody's
        # address.
        lintian --allow-root --fail-on error --suppress-tags initial-upload-closes-no-bugs,bogus-mail-host,bogus-mail-host-in-debian-changelog "$work"/debs/*.deb
    else
        say "skipped: lintian is not installed"
    fi
else
    say "skipped: this is no Debian"
fi

say "== blocked names in dnsdist"
ci/blocked.sh "$root"
say "== rules of block lists in dnsdist and Knot Resolver"
ci/lists.sh "$root"
say "The C library can be installed and used."
