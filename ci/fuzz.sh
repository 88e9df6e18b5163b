#!/usr/bin/env bash
# Every fuzz target, or those named, for FUZZ_SECONDS each (4). What is found lies in
# fuzz/artifacts/.
. "$(dirname "$0")/lib.sh"
x86_64_linux || skip "fuzzing runs on x86_64 Linux here"
has cargo-fuzz || fail "cargo-fuzz is missing: run ci/setup.sh"
seconds=${FUZZ_SECONDS:-4}
# Reports name functions by the table of symbols.
export CARGO_TARGET_DIR="$TARGET/fuzz" CARGO_PROFILE_RELEASE_DEBUG="${CARGO_PROFILE_RELEASE_DEBUG:-0}"
# program_map needs what BPF programs are built with, but no kernel that runs them. Building all of
# that with the sanitizer takes minutes, and checking it one, so it is built with FUZZ_KERNEL=1 only
# (see prove.sh). Its rules are those of sapwood-bpf's tests, which CI runs.
features=--no-default-features without=program_map
[ -z "${FUZZ_KERNEL:-}" ] || features=--features=kernel without='^$'
run cargo "+$NIGHTLY" fuzz build "$features"
if [ $# -eq 0 ]; then
    # shellcheck disable=SC2046 # names have no spaces
    set -- $(cargo "+$NIGHTLY" fuzz list | grep -v "$without")
fi
# Two at a time; each shows what it printed when it is done.
export seconds features NIGHTLY
one() {
    log=$(mktemp)
    cargo "+$NIGHTLY" fuzz run "$features" "$1" -- -max_total_time="$seconds" -len_control=0 \
        -timeout=60 -rss_limit_mb=4096 -print_final_stats=1 \
        >"$log" 2>&1 && code=0 || code=$?
    printf '$ cargo fuzz run %s\n%s\n' "$1" "$(cat "$log")"
    rm -f "$log"
    return "$code"
}
export -f one
printf '%s\n' "$@" | xargs -P 2 -I '{}' bash -c 'one {}'
