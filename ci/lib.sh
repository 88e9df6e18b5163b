# Read by the other scripts: where things are, and what is pinned. Not a program.
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."

# Rust by rustup, also where no login shell has set the path.
PATH="$PATH:${CARGO_HOME:-$HOME/.cargo}/bin"
export PATH

NIGHTLY=${SAPWOOD_NIGHTLY:-nightly}
MSRV=1.85.0
CARGO_DENY=0.20.2
CARGO_FUZZ=0.13.2
TARGET=$(realpath -m "${CARGO_TARGET_DIR:-target}")
export CARGO_TERM_COLOR=${CARGO_TERM_COLOR:-never}
export CARGO_NET_RETRY=${CARGO_NET_RETRY:-5}
# Nothing in CI is debugged, and nothing is compiled twice for being incremental.
export CARGO_INCREMENTAL=0
# Crates that are meant for others; the rest are tests and tools.
LIBRARIES="sapwood-qsbr sapwood-arena sapwood"

say() { printf '%s\n' "$*"; }
fail() { printf '%s\n' "$*" >&2; exit 1; }
# A check that this machine cannot do: neither passed nor failed.
skip() { say "skipped: $*"; exit 77; }
has() { command -v "$1" >/dev/null 2>&1; }
# Shows a command, then runs it.
run() { printf '$ %s\n' "$*"; "$@"; }
x86_64_linux() { [ "$(uname -sm)" = "Linux x86_64" ]; }
# Tracked files, and new ones that are not ignored.
files() { git ls-files -z --cached --others --exclude-standard -- "$@" | sort -zu | while IFS= read -r -d '' f; do [ -f "$f" ] && printf '%s\0' "$f"; done || true; }
