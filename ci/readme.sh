#!/usr/bin/env bash
# Every command in README.md runs: the code fences marked `sh`, but not those marked `sh no-check`.
#
# The commands run in a copy of the files that git has or would add, so that a forgotten file is
# missing there, as in a fresh clone. They run in order, with one shell per fence. The build is kept
# for the next run.
. "$(dirname "$0")/lib.sh"
[ -f README.md ] || fail "there is no README.md"
copy="$TARGET/readme"
rm -rf "$copy"
mkdir -p "$copy/clone" "$copy/fences"
files | tar --null --files-from=- -cf - | tar -xf - -C "$copy/clone"
# The commands expect programs under target/.
mkdir -p "$TARGET/readme-build"
ln -s "$TARGET/readme-build" "$copy/clone/target"
awk -v out="$copy/fences" '
    /^ *```/ {
        if (inside) { inside = 0; close(file); next }
        info = $0; sub(/^ *```+ */, "", info); sub(/ *$/, "", info)
        inside = 1; file = "/dev/null"
        if (info == "sh") { n++; file = sprintf("%s/%03d.sh", out, n); print "# README.md, line " NR + 1 > file }
        next
    }
    inside { print > file }
' README.md
count=0
for fence in "$copy"/fences/*.sh; do
    [ -e "$fence" ] || fail "README.md has no commands marked sh"
    say "--- $(head -n 1 "$fence" | cut -c3-)"
    # One of the commands is `make test`, which would run this script again: see run.sh.
    (cd "$copy/clone" && env -u CARGO_TARGET_DIR CARGO_PROFILE_RELEASE_DEBUG=0 \
        CARGO_PROFILE_RELEASE_OPT_LEVEL=1 SAPWOOD_INSIDE=1 bash -euxo pipefail "$fence" </dev/null)
    count=$((count + 1))
done
rm -rf "$copy"
say "$count fences, all commands run."
