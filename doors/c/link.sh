#!/bin/sh
# Makes the shared library of the static one: link.sh libsapwood_capi.a DIR puts libsapwood.so.0.1.0
# and its two links into DIR. With the feature `bpf`, the library needs libelf and zlib.
set -eu
from=$1 into=$2
here=$(cd "$(dirname "$0")" && pwd)
bpf=
if ${NM:-nm} -g "$from" 2>/dev/null | grep ' T sapwood_bpf_check$' >/dev/null; then bpf='-lelf -lz'; fi
# Values may be retired by threads that run after a dlclose, so the library stays in memory.
${CC:-cc} -shared -o "$into/libsapwood.so.0.1.0" \
    -Wl,-soname,libsapwood.so.0 -Wl,--version-script="$here/sapwood.map" \
    -Wl,--whole-archive "$from" -Wl,--no-whole-archive \
    -Wl,--gc-sections -Wl,--as-needed -Wl,-z,nodelete -Wl,-z,relro -Wl,-z,now -Wl,-z,defs \
    $bpf -lgcc_s -lpthread -ldl -lm -lc
ln -sf libsapwood.so.0.1.0 "$into/libsapwood.so.0"
ln -sf libsapwood.so.0 "$into/libsapwood.so"
