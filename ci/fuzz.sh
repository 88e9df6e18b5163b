#!/usr/bin/env bash
# Every fuzz target, or the named ones, for FUZZ_SECONDS each (default 4). Findings are in
# proof/fuzz/artifacts/.
. "$(dirname "$0")/lib.sh"
x86_64_linux || skip "fuzzing runs on x86_64 Linux here"
has cargo-fuzz || fail "cargo-fuzz is missing: run ci/setup.sh"
seconds=${FUZZ_SECONDS:-4}
# Reports take the names of functions from the symbol table.
export CARGO_TARGET_DIR="$TARGET/fuzz" CARGO_PROFILE_RELEASE_DEBUG="${CARGO_PROFILE_RELEASE_DEBUG:-0}"
# program_map needs the build tools of BPF programs, but no kernel that runs them. Building it with
# the sanitizer takes minutes, and checking it takes one, so only FUZZ_KERNEL=1 builds it (see
# prove.sh). The tests of sapwood-bpf, which CI runs, check the same rules.
features=--no-default-features without=program_map
[ -z "${FUZZ_KERNEL:-}" ] || features=--features=kernel without='^$'
run cargo "+$NIGHTLY" fuzz build --fuzz-dir proof/fuzz "$features"
if [ $# -eq 0 ]; then
    # shellcheck disable=SC2046 # names have no spaces
    set -- $(cargo "+$NIGHTLY" fuzz list --fuzz-dir proof/fuzz | grep -v "$without")
fi
# Two targets run at a time; each shows its output when it ends.
export seconds features NIGHTLY
one() {
    log=$(mktemp)
    cargo "+$NIGHTLY" fuzz run --fuzz-dir proof/fuzz "$features" "$1" -- -max_total_time="$seconds" -len_control=0 \
        -timeout=60 -rss_limit_mb=4096 -print_final_stats=1 \
        >"$log" 2>&1 && code=0 || code=$?
    printf '$ cargo fuzz run %s\n%s\n' "$1" "$(cat "$log")"
    rm -f "$log"
    return "$code"
}
export -f one
printf '%s\n' "$@" | xargs -P 2 -I '{}' bash -c 'one {}'
