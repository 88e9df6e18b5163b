#!/usr/bin/env bash
# The reader in Go: its form, and its tests, by the Go that is here and by the oldest one, and with
# the race detector. It answers as the kept vectors say, and as Rust says of maps of all kinds, also
# of damaged ones; it reads a pinned arena beside its writer, the saved files of all languages, and
# live maps whose servers and readers are killed. The examples run: a program in the kernel that the
# program loads and Go attaches, a plugin of CoreDNS, a million addresses. FUZZ_EXECS is how many
# inputs each fuzz target gets.
. "$(dirname "$0")/lib.sh"
if ! go_ready; then
    absent "There is no Go $GO_OLDEST or newer; see ci/setup.sh."
    skip "there is no Go $GO_OLDEST or newer; see ci/setup.sh"
fi
run go version
root=$PWD module=$PWD/doors/go examples=$PWD/doors/go/examples
cd "$module"
badly=$(gofmt -l .)
[ -z "$badly" ] || fail "gofmt would change: $badly"
run go vet ./...
GOARCH=arm64 run go vet ./...
GOOS=darwin run go vet ./...
# Another look at the code, and at that of the modules beside it, where its program can be had.
staticcheck=$TARGET/go-tools/staticcheck
if ! [ "$("$staticcheck" -version 2>/dev/null | grep -o '([^)]*)')" = "(${STATICCHECK#v})" ]; then
    GOBIN=$TARGET/go-tools run go install "honnef.co/go/tools/cmd/staticcheck@$STATICCHECK" || staticcheck=
fi
[ -n "$staticcheck" ] || say "skipped: staticcheck $STATICCHECK cannot be fetched"
checked() { [ -z "$staticcheck" ] || run "$staticcheck" ./...; }
checked

# Maps of all kinds, writers beside Go, and what the examples need.
cd "$root"
if bpf_tools && bpf_runs; then
    bpf_ready
    grep -q ' /sys/kernel/tracing tracefs ' /proc/mounts || run mount -t tracefs tracefs /sys/kernel/tracing
    export SAPWOOD_IMAGES=$TARGET/go/images
    rm -rf "$SAPWOOD_IMAGES"
    mkdir -p "$SAPWOOD_IMAGES"
    chosen tests --test vectors -- images_for_other_languages
    # shellcheck disable=SC2046 # words
    run cargo build -q --locked --workspace $(all_features) --profile test --example arena_writer --example live_writer --bin sapwood
    export SAPWOOD_ARENA_WRITER=$TARGET/debug/examples/arena_writer SAPWOOD_OPENS=$TARGET/go/opens.bpf.o
    case $(uname -m) in aarch64) arch=arm64 ;; *) arch=x86 ;; esac
    run "${SAPWOOD_CLANG:-clang-19}" -g -O2 -Wall -Wextra -Werror -target bpf -mcpu=v4 "-D__TARGET_ARCH_$arch" \
        -I kernel/bpf/bpf/include -I "/usr/include/$(uname -m)-linux-gnu" -c "$examples/opens/bpf/opens.bpf.c" -o "$SAPWOOD_OPENS"
else
    say "skipped: what needs arenas; they are built with $BPF_PACKAGES, and run as root on Linux 6.9"
    run cargo build -q --locked --profile test -p sapwood-cli -p sapwood-live --example live_writer --bin sapwood
fi
export SAPWOOD_PROGRAM=$TARGET/debug/sapwood SAPWOOD_LIVE_WRITER=$TARGET/debug/examples/live_writer

log=$(mktemp)
trap 'rm -f "$log"' EXIT
cd "$module"
run go test -count=1 -v ./... 2>&1 | tee "$log"
# The race detector needs a C compiler, which nothing else here does.
if has "${CC:-cc}"; then
    CGO_ENABLED=1 run go test -race -count=1 -run 'Beside|Texts|LiveNames|Evict|Waits|Kill|Append' .
else
    absent "The race detector needs a C compiler."
    say "skipped: the race detector needs a C compiler"
fi
# A number of inputs, not a time: Go's fuzzer fails with "context deadline exceeded" if the time
# ends while a worker is at work. What hangs has failed; the slowest target has 1,500 inputs a
# second.
inputs=${FUZZ_EXECS:-20000}
for target in FuzzDamage FuzzSaved FuzzDNSNames FuzzRules; do
    run timeout --verbose --kill-after=30 $((300 + inputs / 100)) \
        go test -run '^$' -fuzz "^$target\$" -fuzztime "${inputs}x" -fuzzminimizetime 10x .
done
# Each benchmark runs once.
run go test -run '^$' -bench . -benchtime 1x .
oldest=
if GOTOOLCHAIN=go$GO_OLDEST run go version; then
    oldest=go$GO_OLDEST
    GOTOOLCHAIN=$oldest run go test -count=1 ./...
else
    absent "Go $GO_OLDEST cannot be fetched."
    say "skipped: Go $GO_OLDEST cannot be fetched"
fi

# Modules with dependencies of their own: the examples, and the benchmarks beside the peers, which
# "sapwood-bench go" runs (bench.sh).
for folder in "$examples/opens" "$examples/coredns" "$module/bench"; do
    cd "$folder"
    example=${folder#"$module/"}
    # The modules of others: those of go.sum, or none.
    if run go mod download; then
        run go mod tidy -diff
        badly=$(gofmt -l .)
        [ -z "$badly" ] || fail "gofmt would change: $badly"
        run go vet ./...
        checked
        # The peers need a newer one.
        [ -z "$oldest" ] || [ "$example" = bench ] || GOTOOLCHAIN=$oldest run go vet ./...
        run go test -count=1 -v ./... 2>&1 | tee -a "$log"
    else
        absent "The modules of $example cannot be fetched."
        say "skipped: the modules of $example cannot be fetched"
    fi
done
if bpf_tools && bpf_runs && grep -n 'skipped: ' "$log"; then
    fail "This kernel can run BPF programs, but tests were skipped."
fi
