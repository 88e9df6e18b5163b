#!/usr/bin/env bash
# All tests and all examples in the documentation, but those of sapwood-bpf (see bpf.sh); then the libraries without the standard
# library. The program and the benchmarks have their feature for BPF, if that can be built here.
. "$(dirname "$0")/lib.sh"
test() { run cargo test --locked --no-fail-fast "$@"; }
features="$FEATURES"
if bpf_tools; then
    features="$features,sapwood-cli/bpf,sapwood-bench/bpf"
    bpf_ready
fi
if x86_64_linux && [ -n "${CI_ONCE:-}" ]; then
    # In a run of all checks the address sanitizer has the libraries' larger tests (asan.sh): here are the others.
    packages=() without=()
    for crate in $LIBRARIES; do packages+=(-p "$crate") without+=(--exclude "$crate"); done
    tools=sapwood-model/arbitrary${features#"$FEATURES"}
    test --workspace "${without[@]}" --exclude sapwood-bpf --features "$tools"
    features=sapwood/usdt,sapwood-qsbr/tokio
    # shellcheck disable=SC2086 # names have no spaces
    chosen cargo test --locked --no-fail-fast "${packages[@]}" --features $features --test all -- $UNSANITIZED
    test "${packages[@]}" --features $features --doc
else
    test --workspace --exclude sapwood-bpf --features "$features"
fi
for crate in $LIBRARIES; do
    run cargo build --locked -p "$crate" --no-default-features
done
# Tests that are for the core alone.
run cargo test --locked -p sapwood-qsbr --no-default-features
