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
# feed programs in the kernel (XDP) on veth pairs, a filter of DNS queries and a router; else, or
# with --live, live maps.
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
    [ -d "$pin" ] && "$sapwood" bpf names unload "$pin" >/dev/null
    for space in asks sends left right; do ip netns del "sw$tag-$space" 2>/dev/null; done
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
        "$sapwood" bpf list >/dev/null 2>&1 && mountpoint -q /sys/fs/bpf && ip netns add "sw$tag-asks" 2>/dev/null
}
# A machine behind a veth: its namespace, the interface here and its address, the other's addresses.
behind() {
    local space=$1 interface=$2 here=$3 there
    ip netns add "sw$tag-$space" 2>/dev/null || true
    ip link add "$interface" type veth peer name c0 netns "sw$tag-$space"
    ip addr add "$here" dev "$interface"
    ip link set "$interface" up
    for there in "${@:4}"; do ip -n "sw$tag-$space" addr add "$there" dev c0; done
    ip -n "sw$tag-$space" link set lo up
    ip -n "sw$tag-$space" link set c0 up
    ip -n "sw$tag-$space" route add default via "${here%/*}"
}
xdp=0
if can_xdp; then
    xdp=1
    # Before the filter, a machine that asks; before the router, one that sends, and behind it the
    # next hops, which take packets for all addresses of 10.0.0.0/8.
    behind asks swx3 10.201.3.1/24 10.201.3.2/24
    behind sends swx4 198.51.100.1/24 198.51.100.2/24
    behind left swx4l 192.0.2.126/25 192.0.2.{1..7}/25
    behind right swx4r 192.0.2.254/25 192.0.2.199/25
    for space in left right; do ip -n "sw$tag-$space" route add local 10.0.0.0/8 dev lo; done
fi
declare -A follower
follow() { # edge, map
    local to=(--live "$memory/edge-$1")
    if [ $xdp = 1 ] && [ "$1" = 3 ]; then to=(--xdp swx3 --pin "$pin"); fi
    if [ $xdp = 1 ] && [ "$1" = 4 ]; then to=(--xdp swx4 --xdp swx4l --xdp swx4r --generic); fi
    "$sapwood" sync follow --map "$2" "${log[@]}" --name "edge-$1" "${to[@]}" \
        >>"$work/edge-$1.out" 2>>"$work/edge-$1.log" &
    follower[$1]=$!
    pids+=($!)
}
follow 1 blocked
follow 2 edge
follow 3 blocked
follow 4 edge
for edge in 1 2 3 4; do
    until_so "edge-$edge follows" grep -q '^restored' "$work/edge-$edge.out"
    echo "edge-$edge: $(head -n 1 "$work/edge-$edge.out")"
done

# What a follower does with a name: block, allow, or nothing.
rule() { # edge, name
    if [ $xdp = 1 ] && [ "$1" = 3 ]; then
        "$sapwood" bpf dump "$pin/arena" followed --dns |
            awk -v name="$2" -F '\t' '$1 == name { print ($2 == 1 ? "block" : "allow") }'
    else
        "$sapwood" names get --dns --live "$memory/edge-$1" "$2" 2>/dev/null || true
    fi
}
has_rule() { [ "$(rule "$1" "$2")" = "$3" ]; }
dropped() { "$sapwood" bpf names stats "$pin" | awk '$1 == "dropped" { print $2 }'; }
# Sends a DNS query for a name of two labels to the filter.
ask() { # label, label
    local query
    query=$(printf '\\x00\\x01\\x01\\x00\\x00\\x01\\x00\\x00\\x00\\x00\\x00\\x00\\x%02x%s\\x%02x%s\\x00\\x00\\x01\\x00\\x01' \
        ${#1} "$1" ${#2} "$2")
    ip netns exec "sw$tag-asks" bash -c "printf '$query' >/dev/udp/10.201.3.1/53"
}
is_dropped() { # label, label
    local before
    before=$(dropped)
    ask "$1" "$2"
    [ "$(dropped)" = $((before + 1)) ]
}
# The packets that came to a machine for a port that nobody listens on.
came() { ip netns exec "sw$tag-$1" cat /proc/net/snmp | awk '/^Udp: [0-9]/ { print $3 }'; }
# Sends a packet to an address by the router, and sees where it comes.
comes() { # address, "left" or "right"
    local before i
    before=$(came "$2")
    ip netns exec "sw$tag-sends" bash -c "echo >/dev/udp/$1/9"
    for ((i = 0; i < 20; i++)); do
        [ "$(came "$2")" -gt "$before" ] && return
        sleep 0.02
    done
    return 1
}

# --------------------------------------------------------------------------------- the changes
say "a commit of three changes: seen on both followers of the names"
printf 'begin\nadd new.example block\nadd ads.example allow\nremove name7.example\ncommit\n' >&8
for edge in 1 3; do
    until_so "edge-$edge has new.example" has_rule "$edge" new.example block
    has_rule "$edge" ads.example allow || fail "edge-$edge has a part of the commit"
    has_rule "$edge" name7.example "" || fail "edge-$edge has a part of the commit"
    echo "edge-$edge: new.example is blocked, ads.example is allowed, name7.example is gone"
done
if [ $xdp = 1 ]; then
    until_so "edge-3 drops queries" is_dropped new example
    if is_dropped ads example; then fail "edge-3 drops what is allowed"; fi
    echo "edge-3: the kernel dropped a query for new.example, and passed one for ads.example"
fi
say "routes: seen on both followers"
hop() { [ "$("$sapwood" routes lookup --live "$memory/edge-$1" "$2" | cut -f 2)" = "$3" ]; }
if [ $xdp = 1 ]; then
    for address in 10.1.2.3 10.0.7.1; do until_so "edge-4 forwards" comes $address left; done
    echo "edge-4: the kernel forwarded packets for 10.1.2.3 and 10.0.7.1"
fi
printf 'begin\nadd 10.1.2.0/24 192.0.2.199\nremove 10.0.7.0/24\ncommit\n' >&9
lives=(2)
[ $xdp = 1 ] || lives+=(4)
for edge in "${lives[@]}"; do
    until_so "edge-$edge has the route" hop $edge 10.1.2.3 192.0.2.199
    until_so "edge-$edge has no route to 10.0.7.1" hop $edge 10.0.7.1 ""
    echo "edge-$edge: 10.1.2.3 goes to 192.0.2.199, and 10.0.7.1 nowhere"
done
if [ $xdp = 1 ]; then
    until_so "edge-4 forwards to the new next hop" comes 10.1.2.3 right
    until_so "edge-4 forwards to the others" comes 10.1.3.3 left
    for side in left right; do
        if comes 10.0.7.1 $side; then fail "edge-4 forwards without a route"; fi
    done
    echo "edge-4: the kernel forwards packets for 10.1.2.3 to 192.0.2.199, and none for 10.0.7.1"
fi

# ------------------------------------------------------------------------------- one is killed
for edge in 1 3; do
    say "edge-$edge is killed; its readers go on with what it had"
    kill -9 "${follower[$edge]}"
    wait "${follower[$edge]}" 2>/dev/null || true
    has_rule $edge new.example block || fail "edge-$edge lost what it had"
    if [ $xdp = 1 ] && [ $edge = 3 ]; then
        is_dropped new example || fail "the filter of edge-3 is gone"
        echo "edge-3: the kernel still drops queries for new.example"
    fi
    printf 'add late%s.example block\nremove new.example\n' $edge >&8
    until_so "edge-$((4 - edge)) goes on" has_rule $((4 - edge)) late$edge.example block
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
until_so "all followers of the names are up to date" all_there blocked 2
until_so "both followers of the routes are up to date" all_there edge 2
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
