#!/usr/bin/env bash
# The example of examples/lua: blocked names in one mapped file, which several workers of dnsdist
# look up by LuaJIT. Queries over the loopback are refused or answered; the table shows how much of
# the file's memory each worker has to itself. NAMES: how many names (two million). The argument is
# the prefix that `make install` has filled.
. "$(dirname "$0")/lib.sh"
root=${1:?a prefix with the library and the program}
names=${NAMES:-2000000} workers=3 port=${PORT:-5391}

# The declarations in sapwood.lua are the header's, apart from comments and white space.
perl -0777 -e '
    open my $h, "<", "doors/c/include/sapwood.h" or die $!; my $header = <$h>;
    open my $l, "<", "examples/lua/sapwood.lua" or die $!; my $lua = <$l>;
    my ($cdef) = $lua =~ /cdef\[\[\n(.*?)\]\]/s or die "no cdef";
    $header =~ s{/\*.*?\*/}{}gs;
    s/\s+//g for $header;
    for my $line (split /\n/, $cdef) { (my $bare = $line) =~ s/\s+//g; index($header, $bare) >= 0 or die "not in the header: $line\n" }
'
say "The declarations of sapwood.lua are those of the header."
if ! has dnsdist || ! has dig; then
    say "skipped: dnsdist or dig is not installed"
    exit 0
fi
work=$(mktemp -d)
pids=() small=
finish() {
    [ ${#pids[@]} = 0 ] || kill "${pids[@]}" $small 2>/dev/null || true
    wait 2>/dev/null || true
    rm -rf "$work"
}
trap finish EXIT
awk -v n="$names" 'BEGIN { for (i = 0; i < n; i++) printf "n%d.z%d.blocked%d.example\n", i * 7919 % 1000003 + i, i % 5000, i % 7 }' >"$work/blocked.txt"
# The parent of names whose keys are longer than their messages.
printf 'ads.example\n' >>"$work/blocked.txt"
run "$root/bin/sapwood" names build --dns "$work/blocked.txt" -o "$work/blocked.qp"
export BLOCKED=$work/blocked.qp SAPWOOD_LUA=examples/lua LISTEN=127.0.0.1:$port SAPWOOD_LIBRARY=$root/lib/libsapwood.so.0
for ((i = 0; i < workers; i++)); do
    dnsdist --supervised --disable-syslog -C examples/lua/blocked.lua >"$work/log$i" 2>&1 &
    pids+=($!)
done
ask() { # name, expected status
    local answer
    answer=$(dig +time=2 +tries=5 +retry=5 -p "$port" @127.0.0.1 "$1" A 2>&1) || true
    grep -q "status: $2" <<<"$answer" || { cat "$work"/log* >&2 && fail "$1: not $2 but $answer"; }
}
# Until all workers listen.
for ((i = 0; i < 100; i++)); do
    [ "$(cat "$work"/log* | grep -c 'Listening on')" -lt $workers ] || break
    sleep 0.1
done
# dig takes a new port for each query, so that the kernel gives them to all workers.
for i in 1 2 3 4 5 6 7 8; do
    line=$((names / 8 * i))
    name=$(sed -n "${line}p" "$work/blocked.txt")
    ask "$name" REFUSED
    ask "a.b.$name" REFUSED
    ask "${name^^}" REFUSED
    ask "not$name" NOERROR
    ask "${name#*.}" NOERROR
done
# A byte 0 in a label takes two in the key: three labels of fifty, and names of 255 bytes.
zeros() { printf '\\000%.0s' $(seq "$1"); }
for i in 1 2 3 4; do
    ask "$(zeros 50).$(zeros 50).$(zeros 50).ads.example" REFUSED
    ask "$(zeros 50).$(zeros 50).$(zeros 50).bads.example" NOERROR
    ask "$(zeros 63).$(zeros 63).$(zeros 63).$(zeros 49).ads.example" REFUSED
    ask "$(zeros 63).$(zeros 63).$(zeros 63).$(zeros 61)" NOERROR
done
say "Long labels of zeros below a blocked name hide nothing."
# A worker whose room for keys is too small refuses what it cannot look up, and its log says why.
mkdir "$work/small"
sed 's/^local KEY_MAX = .*/local KEY_MAX = 16/' examples/lua/sapwood.lua >"$work/small/sapwood.lua"
port=$((port + 1))
SAPWOOD_LUA=$work/small LISTEN=127.0.0.1:$port \
    dnsdist --supervised --disable-syslog -C examples/lua/blocked.lua >"$work/small/log" 2>&1 &
small=$!
for ((i = 0; i < 100; i++)); do
    ! grep -q 'Listening on' "$work/small/log" || break
    sleep 0.1
done
ask a.long.name.that.is.not.blocked REFUSED
ask short.name NOERROR
grep -q 'could not be looked up, and is refused: .* do not fit into 16' "$work/small/log" || fail "no reason in the log: $(cat "$work/small/log")"
kill $small
wait $small || true
small=
say "What cannot be looked up is refused."
say "40 queries were refused or answered as they should be, by $workers workers with $names blocked names."
printf '%-8s %14s %14s %16s %14s\n' worker 'file, KiB' 'resident, KiB' 'its share, KiB' 'own, KiB'
for pid in "${pids[@]}"; do
    awk -v pid="$pid" -v file="$work/blocked.qp" '
        /^[0-9a-f]+-[0-9a-f]+ / { mine = index($0, file) > 0 }
        mine && /^Size:/ { size += $2 }
        mine && /^Rss:/ { rss += $2 }
        mine && /^Pss:/ { pss += $2 }
        mine && /^Private_(Clean|Dirty):/ { own += $2 }
        END { printf "%-8s %14d %14d %16d %14d\n", pid, size, rss, pss, own; exit !(size > 0) }' "/proc/$pid/smaps"
done
