#!/usr/bin/env bash
# Makes the Debian packages libsapwood0, libsapwood-dev and sapwood of what `make install` installs,
# in the folder that is given. It needs dpkg-dev; the results belong to this machine's architecture.
set -euo pipefail
cd "$(dirname "$0")/.."
[ $# = 1 ] || { printf 'usage: %s FOLDER\n' "$0" >&2 && exit 2; }
mkdir -p "$1"
out=$(realpath "$1")
version=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -n 1)-1
arch=$(dpkg --print-architecture)
multi=$(dpkg-architecture -qDEB_HOST_MULTIARCH)
# Who answers for the packages.
maintainer=${MAINTAINER:-The Sapwood contributors <sapwood@localhost>}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
umask 022

units=lib/systemd/system
DESTDIR=$work/all PREFIX=/usr LIBDIR=/usr/lib/$multi SYSTEMDDIR=/$units ZSHDIR=/usr/share/zsh/vendor-completions packaging/install.sh

# Moves paths of the installation into a package.
take() { # package, paths...
    local package=$1 path
    shift
    for path; do
        mkdir -p "$work/$package/$(dirname "$path")"
        mv "$work/all/$path" "$work/$package/$path"
    done
}
lib=usr/lib/$multi
for file in "$work/all/$lib"/libsapwood.so.*; do take libsapwood0 "$lib/$(basename "$file")"; done
take libsapwood-dev "$lib/libsapwood.so" "$lib/libsapwood.a" "$lib/pkgconfig/sapwood.pc" "$lib/cmake" usr/include/sapwood.h usr/include/sapwood_inline.h usr/share/man/man3/sapwood.3
# With BPF. The static library needs two more libraries.
bpf_dev=
if [ -e "$work/all/usr/include/sapwood_bpf.h" ]; then
    take libsapwood-dev usr/include/sapwood_bpf.h usr/include/sapwood
    bpf_dev=', libelf-dev, zlib1g-dev'
fi
take sapwood usr/bin/sapwood usr/share/man/man1 usr/share/bash-completion usr/share/zsh usr/share/fish usr/share/sapwood usr/share/doc/sapwood "$units"
left=$(find "$work/all" ! -type d)
[ -z "$left" ] || { printf 'files of no package:\n%s\n' "$left" >&2 && exit 1; }

strip --strip-unneeded --remove-section=.comment --remove-section=.note "$work/libsapwood0/$lib"/libsapwood.so.*.*.* "$work/sapwood/usr/bin/sapwood"
strip --strip-debug "$work/libsapwood-dev/$lib/libsapwood.a"
find "$work" -path '*/usr/share/man/*' -type f -exec gzip -9n {} +

# The dependencies of a program or a library, by the system's lists of symbols.
needs() { # file
    mkdir -p "$work/shlibs/debian"
    printf 'Source: sapwood\n\nPackage: sapwood\nArchitecture: any\n' >"$work/shlibs/debian/control"
    (cd "$work/shlibs" && dpkg-shlibdeps -O --ignore-missing-info -e"$1" 2>/dev/null) | sed -n 's/^shlibs:Depends=//p'
}

pack() { # package, section, multi-arch, depends, summary, description
    local name=$1 folder=$work/$1 doc=$work/$1/usr/share/doc/$1
    mkdir -p "$folder/DEBIAN" "$doc"
    cp packaging/copyright "$doc/copyright"
    {
        printf 'sapwood (%s) unstable; urgency=medium\n\n' "$version"
        printf '  * See CHANGELOG.md in the sources.\n\n'
        printf ' -- %s  %s\n' "$maintainer" "$(date -uR -d "@$(git log -1 --format=%ct 2>/dev/null || echo 0)")"
    } | gzip -9n >"$doc/changelog.Debian.gz"
    {
        printf 'Package: %s\nSource: sapwood\nVersion: %s\nArchitecture: %s\n' "$name" "$version" "$arch"
        printf 'Maintainer: %s\n' "$maintainer"
        printf 'Installed-Size: %s\n' "$(du -k -s --apparent-size "$folder" | cut -f1)"
        [ -z "$4" ] || printf 'Depends: %s\n' "$4"
        printf 'Section: %s\nPriority: optional\nMulti-Arch: %s\n' "$2" "$3"
        printf 'Homepage: https://crates.io/crates/sapwood\n'
        printf 'Description: %s\n%s\n' "$5" "$6"
    } >"$folder/DEBIAN/control"
    (cd "$folder" && find . -path ./DEBIAN -prune -o -type f -printf '%P\0' | sort -z | xargs -0 md5sum) >"$folder/DEBIAN/md5sums"
    dpkg-deb --root-owner-group --build "$folder" "$out" >/dev/null
    printf '%s\n' "$out/${name}_${version}_$arch.deb"
}

mkdir -p "$work/libsapwood0/DEBIAN"
printf 'activate-noawait ldconfig\n' >"$work/libsapwood0/DEBIAN/triggers"
printf 'libsapwood 0 libsapwood0 (>= %s)\n' "${version%-*}" >"$work/libsapwood0/DEBIAN/shlibs"
text=' Maps of names, tables of routes, and maps of ranges for the data path. Readers
 take no lock; memory is reused after a grace period. Maps that were saved are
 read in place by any number of processes.'
pack libsapwood0 libs same "$(needs "$work/libsapwood0/$lib/libsapwood.so.0")" \
    "ordered maps whose readers never lock" "$text"
pack libsapwood-dev libdevel same "libsapwood0 (= $version)$bpf_dev" \
    "ordered maps whose readers never lock (development files)" "$text
 .
 This package has the header, the static library, and the files for pkg-config
 and CMake."
pack sapwood utils foreign "$(needs "$work/sapwood/usr/bin/sapwood")" \
    "program for ordered maps of names, routes and ranges" "$text
 .
 This package has the program, which builds such maps from texts, asks them and
 serves them, with units for systemd and dashboards for Grafana."
