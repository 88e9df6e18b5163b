#!/usr/bin/env bash
# The examples of examples/lua for block lists: dnsdist and Knot Resolver answer by the rules of a
# live map, which changes meanwhile. Each action of a rule is an answer; what cannot be looked up is
# refused. Then dnsdist and CoreDNS are asked RATE questions a second (10,000) while a list of RULES
# lines is read anew ten times: none is lost, and none is answered by half a list. FLOOR is the rate
# that a busy machine reaches. The argument is the prefix that `make install` has filled.
. "$(dirname "$0")/lib.sh"
root=${1:?a prefix with the library and the program}
port=${PORT:-5393}
if ! has dig; then
    say "skipped: dig is not installed"
    exit 0
fi
work=$(mktemp -d)
pids=()
finish() {
    [ ${#pids[@]} = 0 ] || kill "${pids[@]}" 2>/dev/null || true
    wait 2>/dev/null || true
    rm -rf "$work"
}
trap finish EXIT
map=$work/map
export LISTS=$map SAPWOOD_LUA=$PWD/examples/lua SAPWOOD_LIBRARY=$root/lib/libsapwood.so.0
zone() { # lines
    printf '$ORIGIN rpz.\n@ 60 SOA a. b. 1 2 3 4 5\n%s\n' "$1" >"$work/new"
    mv "$work/new" "$work/zone.rpz"
}
rules='nx.example CNAME .
*.nx.example CNAME .
good.nx.example CNAME rpz-passthru.
no.example CNAME *.
drop.example CNAME rpz-drop.
tcp.example CNAME rpz-tcp-only.
host.example A 192.0.2.7
other.example CNAME host.example.
*.wild.example CNAME *.z.example.'
refused='local-zone: "refused.example" refuse'
asked() { # name, part of the answer, options of dig...
    local name=$1 part=$2 answer
    shift 2
    answer=$(dig +time=1 +tries=3 -p "$port" "$@" @127.0.0.1 "$name" 2>&1) || true
    grep -Eq -- "$part" <<<"$answer" || { cat "$work"/log* >&2 && fail "$name $*: not $part but $answer"; }
}
zeros() { printf '\\000%.0s' $(seq "$1"); }

# Starts the server of lists, and waits for its map. Sets: server.
serve() { # lists...
    "$root/bin/sapwood" lists serve "$@" --live "$map" --watch --remove --allow-shrunk \
        >"$work/log-serve" 2>&1 </dev/null &
    server=$!
    pids+=("$server")
    for ((i = 0; i < 100; i++)); do
        [ ! -e "$map/control" ] || break
        sleep 0.1
    done
}
# Starts a resolver, and waits until it answers. Sets: pid.
resolve() { # command...
    LISTEN=127.0.0.1:$port "$@" >"$work/log" 2>&1 &
    pid=$!
    pids+=("$pid")
    for ((i = 0; i < 100; i++)); do
        ! dig +time=1 +tries=1 -p "$port" @127.0.0.1 example.org >/dev/null 2>&1 || break
        sleep 0.1
    done
}
# Ends what was started.
stop() {
    kill "${pids[@]}" 2>/dev/null || true
    wait "${pids[@]}" 2>/dev/null || true
    pids=()
    port=$((port + 1))
}

# Asks a server that this command starts.
answers() { # title, command...
    local title=$1 pid server
    shift
    zone "$rules"
    printf '%s\n' "$refused" >"$work/unbound.conf"
    serve "$work/zone.rpz" "$work/unbound.conf"
    resolve "$@"
    asked example.org '192\.0\.2\.1$'
    asked nx.example 'status: NXDOMAIN'
    asked A.b.NX.example 'status: NXDOMAIN'
    asked good.nx.example '192\.0\.2\.1$'
    asked no.example 'ANSWER: 0'
    asked no.example 'status: NOERROR'
    asked refused.example 'status: REFUSED'
    asked drop.example 'timed out|no servers could be reached' +tries=1
    asked tcp.example 'flags:.* tc' +ignore
    asked tcp.example '192\.0\.2\.1$' +tcp
    asked host.example '192\.0\.2\.7$'
    asked host.example 'ANSWER: 0' -t AAAA
    asked other.example 'CNAME.*host\.example\.'
    asked a.wild.example 'CNAME.*a\.wild\.example\.z\.example\.'
    # The name is too long for the place of the asterisk: neither listed nor not listed.
    asked "$(zeros 63).$(zeros 63).$(zeros 63).$(zeros 40).wild.example" 'status: REFUSED'
    grep -q 'could not be looked up, and is refused: ' "$work/log" || fail "no reason in the log: $(cat "$work/log")"
    # Other rules are in force without a restart.
    zone 'new.example CNAME .'
    for ((i = 0; i < 100; i++)); do
        ! dig +time=1 +tries=1 -p "$port" @127.0.0.1 new.example | grep -q NXDOMAIN || break
        sleep 0.1
    done
    asked new.example 'status: NXDOMAIN'
    asked nx.example '192\.0\.2\.1$'
    # A map that was removed is no list without rules.
    kill "$server"
    wait "$server" || true
    asked example.org 'status: REFUSED'
    stop
    say "$title answers by the rules of lists."
}

# The same for many questions a second, while the list is read anew.
many() { # title, command...
    local title=$1 pid server
    shift
    "$questions" list "$work/ads"
    serve "$work/ads"
    resolve "$@"
    say "$title under many questions:"
    "$questions" ask "127.0.0.1:$port" "$work/ads" "$server" "$pid" ||
        { cat "$work"/log* >&2 && fail "$title: a question was lost, or answered wrongly."; }
    stop
}
# It needs the standard library alone.
run rustc --edition 2024 -O -o "$work/questions" services/lists/examples/questions.rs
questions=$work/questions
if has dnsdist; then
    answers dnsdist dnsdist --supervised --disable-syslog -C examples/lua/lists.lua
    many dnsdist dnsdist --supervised --disable-syslog -C examples/lua/lists.lua
else
    say "skipped: dnsdist is not installed"
fi
if has kresd; then
    answers "Knot Resolver" kresd -n -c "$PWD/examples/lua/kresd.lua" "$work"
else
    say "skipped: Knot Resolver is not installed"
fi
if go_ready && (cd doors/go/examples/coredns && run go build -o "$work/coredns" .); then
    # shellcheck disable=SC2016 # CoreDNS reads the variable
    printf '.:{$PORT} {\n sapwood lists %s\n whoami\n}\n' "$map" >"$work/Corefile"
    coredns() { exec env PORT="${LISTEN##*:}" "$work/coredns" -conf "$work/Corefile"; }
    many CoreDNS coredns
else
    absent "CoreDNS cannot be built."
    say "skipped: CoreDNS cannot be built here"
fi
