#!/usr/bin/env bash
# The tests of the reader in Go, compiled for arm64 and run by qemu: the order of memory accesses in
# its code is that of another processor. What go.sh made is used: maps of all kinds, if they are
# there, and the programs beside Go.
. "$(dirname "$0")/lib.sh"
if ! go_ready; then
    absent "There is no Go $GO_OLDEST or newer; see ci/setup.sh."
    skip "there is no Go $GO_OLDEST or newer; see ci/setup.sh"
fi
if [ "$(uname -sm)" = "Linux aarch64" ]; then
    skip "this is an arm64 machine, on which go.sh runs the same tests"
fi
qemu=$(command -v qemu-aarch64-static || command -v qemu-aarch64 || true)
if [ -z "$qemu" ]; then
    absent "There is no qemu-aarch64 of the package qemu-user-static; see ci/packages.sh."
    skip "there is no qemu-aarch64 of the package qemu-user-static; see ci/packages.sh"
fi
# shellcheck disable=SC2046 # words
run cargo build -q --locked --workspace $(all_features) --profile test --example live_writer --bin sapwood
export SAPWOOD_PROGRAM=$TARGET/debug/sapwood SAPWOOD_LIVE_WRITER=$TARGET/debug/examples/live_writer
if [ -d "$TARGET/go/images" ]; then
    export SAPWOOD_IMAGES=$TARGET/go/images
else
    say "skipped: maps of all kinds; ci/go.sh makes them"
fi
program=$(mktemp)
trap 'rm -f "$program"' EXIT
run go version
CGO_ENABLED=0 GOARCH=arm64 run go test -C doors/go -c -o "$program" .
cd doors/go
# qemu does not say at which address memory is missing, so that Go takes files that are cut off for
# a mistake of its own. The kernel does not start programs of arm64, as which some tests run
# themselves. Damage is random: a part of it is enough here.
left='TestDamagedLiveMaps|TestFileThatIsCutWhileOpen|TestKills|TestWithoutRegistration|TestWithoutCapabilities'
run "$qemu" "$program" -test.count=1 -test.skip "^($left|TestDamage|TestRandomBytes)\$"
SAPWOOD_OPS=6 run "$qemu" "$program" -test.count=1 -test.run '^(TestDamage|TestRandomBytes)$'
