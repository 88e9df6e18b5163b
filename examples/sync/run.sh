#!/usr/bin/env bash
# One list of blocked names and one table of routes, published on one "machine" and followed on
# four. It begins everything that it needs on this machine, shows changes on all followers, kills
# one and shows it back, checks what it shows, and ends everything.
#
#   cargo build --release -p sapwood-cli --features etcd,bpf
#   examples/sync/run.sh
#
# With etcd (Debian: etcd-server), the log lies in three nodes on loopback addresses; without it, or
# with --folder, in a folder. As root, with a program that has the feature bpf, two of the followers
# feed filters of DNS queries (XDP) on veth pairs; else, or with --live, live maps.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
sapwood=${SAPWOOD:-$here/../../target/release/sapwood}
use_etcd=1 use_xdp=1
for arg in "$@"; do
    case $arg in
        --folder) use_etcd=0 ;;
        --live) use_xdp=0 ;;
        *) echo "usage: $0 [--folder] [--live]" >&2; exit 2 ;;
    esac
done
[ -x "$sapwood" ] || { echo "$0: no program $sapwood; build it, or name it in SAPWOOD" >&2; exit 2; }

work=$(mktemp -d)
memory=$(mktemp -d "$([ -d /dev/shm ] && echo /dev/shm || echo /tmp)/sapwood-sync.XXXXXX")
tag=$$
pids=()
pin=/sys/fs/bpf/sapwood-sync-$tag

end() {
    code=$?
    set +e
    for pid in "${pids[@]}"; do kill "$pid" 2>/dev/null; done
    for pid in "${pids[@]}"; do wait "$pid" 2>/dev/null; done
    for edge in 3 4; do
        [ -d "$pin-$edge" ] && "$sapwood" bpf names unload "$pin-$edge" >/dev/null
        ip netns del "sw$tag-$edge" 2>/dev/null
    done
    [ $code = 0 ] || { echo "--- the logs:"; tail -n 5 "$work"/*.log "$work"/*.out; }
    rm -rf "$work" "$memory"
    exit $code
}
trap end EXIT
trap 'exit 130' INT TERM

say() { printf '\n== %s\n' "$*"; }
fail() { echo "FAILED: $*" >&2; exit 1; }

# Waits until a command succeeds, for 20 seconds at most.
until_so() {
    local what=$1 i
    shift
    for ((i = 0; i < 200; i++)); do
        if "$@" >/dev/null 2>&1; then return; fi
        sleep 0.1
    done
    fail "not within 20 seconds: $what"
}

# ---------------------------------------------------------------------------------- the log
# The exit code of a status is 1 when nobody leads, and 2 without a log.
status() { "$sapwood" sync status "$@" 2>&1 || true; }
has_etcd() {
    local said
    said=$(status --map none --etcd http://127.0.0.1:1 --snapshots "$work/none")
    [[ $said != *"without the feature etcd"* ]]
}
if [ $use_etcd = 1 ] && command -v etcd >/dev/null && has_etcd; then
    port=$((20000 + tag % 20000))
    cluster=n1=http://127.0.0.1:$((port + 1)),n2=http://127.0.0.2:$((port + 1)),n3=http://127.0.0.3:$((port + 1))
    urls=
    for n in 1 2 3; do
        client=http://127.0.0.$n:$port peer=http://127.0.0.$n:$((port + 1))
        etcd --name n$n --data-dir "$work/etcd-$n" --initial-cluster "$cluster" \
            --initial-cluster-state new --initial-cluster-token "sapwood-$tag" \
            --listen-client-urls "$client" --advertise-client-urls "$client" \
            --listen-peer-urls "$peer" --initial-advertise-peer-urls "$peer" \
            --unsafe-no-fsync >"$work/etcd-$n.log" 2>&1 &
        pids+=($!)
        urls=${urls:+$urls,}$client
    done
    log=(--etcd "$urls" --snapshots "$work/snapshots")
    say "the log: three etcd nodes, $urls"
    answers() { grep -q '^commit' <<<"$(status --map none "${log[@]}")"; }
    until_so "etcd answers" answers
else
    log=(--folder "$work/log")
    say "the log: a folder (no etcd here, or --folder)"
fi

# ---------------------------------------------------------------------------- the publishers
seq -f 'name%.0f.example	block' 1 2000 >"$work/names"
printf 'ads.example\tblock\ngood.ads.example\tallow\n' >>"$work/names"
awk 'BEGIN { for (i = 0; i < 5000; i++) printf "10.%d.%d.0/24 192.0.2.%d\n", i / 256, i % 256, i % 7 + 1 }' \
    >"$work/routes"
mkfifo "$work/to-names" "$work/to-routes"
"$sapwood" sync publish names --dns --values text "$work/names" --map blocked "${log[@]}" \
    --name publisher <"$work/to-names" >"$work/names.out" 2>"$work/names.log" &
pids+=($!)
exec 8>"$work/to-names"
"$sapwood" sync publish routes "$work/routes" --map edge "${log[@]}" \
    --name publisher <"$work/to-routes" >"$work/routes.out" 2>"$work/routes.log" &
pids+=($!)
exec 9>"$work/to-routes"
until_so "the names are published" grep -q ' in term ' "$work/names.log"
until_so "the routes are published" grep -q ' in term ' "$work/routes.log"
cat "$work/names.log" "$work/routes.log"

# ----------------------------------------------------------------------------- the followers
can_xdp() {
    [ $use_xdp = 1 ] && [ "$(id -u)" = 0 ] && "$sapwood" sync follow --help | grep -q -- --xdp &&
        "$sapwood" bpf list >/dev/null 2>&1 && mountpoint -q /sys/fs/bpf && ip netns add "sw$tag-3" 2>/dev/null
}
xdp=0
if can_xdp; then
    xdp=1
    ip netns add "sw$tag-4"
    for edge in 3 4; do
        ip link add "swx$edge" type veth peer name c0 netns "sw$tag-$edge"
        ip addr add "10.201.$edge.1/24" dev "swx$edge"
        ip link set "swx$edge" up
        ip -n "sw$tag-$edge" addr add "10.201.$edge.2/24" dev c0
        ip -n "sw$tag-$edge" link set c0 up
    done
fi
declare -A follower
follow() { # edge, map
    local to=(--live "$memory/edge-$1")
    if [ $xdp = 1 ] && [ "$1" -ge 3 ]; then to=(--xdp "swx$1" --pin "$pin-$1"); fi
    "$sapwood" sync follow --map "$2" "${log[@]}" --name "edge-$1" "${to[@]}" \
        >>"$work/edge-$1.out" 2>>"$work/edge-$1.log" &
    follower[$1]=$!
    pids+=($!)
}
follow 1 blocked
follow 2 edge
follow 3 blocked
follow 4 blocked
for edge in 1 2 3 4; do
    until_so "edge-$edge follows" grep -q '^restored' "$work/edge-$edge.out"
    echo "edge-$edge: $(head -n 1 "$work/edge-$edge.out")"
done

# What a follower does with a name: block, allow, or nothing.
rule() { # edge, name
    if [ $xdp = 1 ] && [ "$1" -ge 3 ]; then
        "$sapwood" bpf dump "$pin-$1/arena" followed --dns |
            awk -v name="$2" -F '\t' '$1 == name { print ($2 == 1 ? "block" : "allow") }'
    else
        "$sapwood" names get --dns --live "$memory/edge-$1" "$2" 2>/dev/null || true
    fi
}
has_rule() { [ "$(rule "$1" "$2")" = "$3" ]; }
dropped() { "$sapwood" bpf names stats "$pin-$1" | awk '$1 == "dropped" { print $2 }'; }
# Sends a DNS query for a name of two labels from behind a veth.
ask() { # edge, label, label
    local query
    query=$(printf '\\x00\\x01\\x01\\x00\\x00\\x01\\x00\\x00\\x00\\x00\\x00\\x00\\x%02x%s\\x%02x%s\\x00\\x00\\x01\\x00\\x01' \
        ${#2} "$2" ${#3} "$3")
    ip netns exec "sw$tag-$1" bash -c "printf '$query' >/dev/udp/10.201.$1.1/53"
}
is_dropped() { # edge, label, label
    local before
    before=$(dropped "$1")
    ask "$1" "$2" "$3"
    [ "$(dropped "$1")" = $((before + 1)) ]
}

# --------------------------------------------------------------------------------- the changes
say "a commit of three changes: seen on all three followers of the names"
printf 'begin\nadd new.example block\nadd ads.example allow\nremove name7.example\ncommit\n' >&8
for edge in 1 3 4; do
    until_so "edge-$edge has new.example" has_rule "$edge" new.example block
    has_rule "$edge" ads.example allow || fail "edge-$edge has a part of the commit"
    has_rule "$edge" name7.example "" || fail "edge-$edge has a part of the commit"
    echo "edge-$edge: new.example is blocked, ads.example is allowed, name7.example is gone"
done
if [ $xdp = 1 ]; then
    for edge in 3 4; do
        until_so "edge-$edge drops queries" is_dropped $edge new example
        if is_dropped $edge ads example; then fail "edge-$edge drops what is allowed"; fi
        echo "edge-$edge: the kernel dropped a query for new.example, and passed one for ads.example"
    done
fi
say "a route: seen on its follower"
printf 'add 10.1.2.0/24 192.0.2.99\nremove 10.0.7.0/24\n' >&9
hop() { [ "$("$sapwood" routes lookup --live "$memory/edge-2" "$1" | cut -f 2)" = "$2" ]; }
until_so "edge-2 has the route" hop 10.1.2.3 192.0.2.99
until_so "edge-2 has no route to 10.0.7.1" hop 10.0.7.1 ""
echo "edge-2: 10.1.2.3 goes to 192.0.2.99, and 10.0.7.1 nowhere"

# ------------------------------------------------------------------------------- one is killed
for edge in 1 3; do
    say "edge-$edge is killed; its readers go on with what it had"
    kill -9 "${follower[$edge]}"
    wait "${follower[$edge]}" 2>/dev/null || true
    has_rule $edge new.example block || fail "edge-$edge lost what it had"
    if [ $xdp = 1 ] && [ $edge = 3 ]; then
        is_dropped 3 new example || fail "the filter of edge-3 is gone"
        echo "edge-3: the kernel still drops queries for new.example"
    fi
    printf 'add late%s.example block\nremove new.example\n' $edge >&8
    until_so "edge-4 goes on" has_rule 4 late$edge.example block
    has_rule $edge new.example block || fail "edge-$edge changed without a follower"
    follow $edge blocked
    until_so "edge-$edge is back" has_rule $edge late$edge.example block
    until_so "edge-$edge has no new.example" has_rule $edge new.example ""
    echo "edge-$edge is back: late$edge.example is blocked, new.example is not"
    printf 'add new.example block\n' >&8
    until_so "edge-$edge follows" has_rule $edge new.example block
done

# ---------------------------------------------------------------------------------- the status
say "the state of both maps"
all_there() { # map, followers
    [ "$("$sapwood" sync status --map "$1" "${log[@]}" --max-lag 0 | grep -c '^follower	')" = "$2" ] &&
        "$sapwood" sync status --map "$1" "${log[@]}" --max-lag 0
}
until_so "all followers of the names are up to date" all_there blocked 3
until_so "the follower of the routes is up to date" all_there edge 1
"$sapwood" sync status --map blocked "${log[@]}"
"$sapwood" sync status --map edge "${log[@]}"

say "the publishers end; the log and the maps stay"
printf 'quit\n' >&8
printf 'quit\n' >&9
nobody_leads() { grep -q '^leader	-$' <<<"$(status --map "$1" "${log[@]}")"; }
until_so "nobody leads the names" nobody_leads blocked
until_so "nobody leads the routes" nobody_leads edge
"$sapwood" sync snapshot --map blocked "${log[@]}" | head -n 3
"$sapwood" sync snapshot --map blocked "${log[@]}" --verify >/dev/null || fail "a bad snapshot"
say "done: all of it was checked"
