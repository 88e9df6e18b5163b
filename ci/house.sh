#!/usr/bin/env bash
# The house rules that a search can check: nothing unfinished, nothing specific to one machine,
# unsafe code only in its folders.
. "$(dirname "$0")/lib.sh"
bad=0

# Fails if there are such lines, and prints them under a heading.
none() { # heading, lines
    [ -n "$2" ] || return 0
    bad=1
    printf '%s:\n%s\n' "$1" "$2"
}
search() { # pattern, files...
    local pattern=$1
    shift
    files "$@" | xargs -0 -r grep -nIE -- "$pattern" /dev/null || true
}

# This script contains the patterns that it searches for.
me=':!ci/house.sh'

# A test may run a part of itself in another process; that part is marked as ignored.
none "Left unfinished" "$(search 'todo!\(|unimplemented!\(|dbg!\(|#\[ignore' '*.rs' |
    grep -v 'a part of other tests, in a process of its own' || true)"

host=$(hostname 2>/dev/null || true)
# A name such as "debian" identifies no machine; one such as build-7f3a does.
[[ ${#host} -ge 6 && "$host" =~ [0-9] ]] || host=ip-10-0-0-1
none "Paths and names of one machine" "$(
    search "/work/|/tmp/target-|/root/|/home/[a-z]+/|/Users/[A-Za-z]+/|\bip-[0-9]+-[0-9]+-[0-9]+-[0-9]+\b|\b$host\b" . "$me"
)"

# Comments and names of lints do not count.
none "Unsafe code outside its directories (core/qsbr, core/arena, doors/c, */raw/, the bench's allocator and its shims, the fuzzers' fence and headers)" "$(
    search '^[^/"]*\bunsafe( *\{| +impl\b| +fn\b| +trait\b| +extern\b|\()|allow\(unsafe_code\)' '*.rs' |
        grep -vE '^(core/(qsbr|arena)/|doors/c/|core/[a-z]+/src/raw/|core/sapwood/tests/support/raw/|proof/model/src/raw/|kernel/(bpf|xdp)/src/raw/|kernel/xdp/tests/raw/|doors/live/src/raw/|proof/bench/src/(alloc|shim)\.rs:|proof/bench/src/(capi|engines/native|routes/dpdk|ranges/native|stores/urcu)/raw\.rs:|proof/fuzz/src/(fence|headers)\.rs:)' || true
)"
# What maps arenas and files.
none "Unsafe code of Go outside its files" "$(search '"unsafe"' '*.go' | grep -vE '^doors/go/mapping(_linux)?\.go:' || true)"
for lib in core/{common,qp,maple,lpm,route,cache,sapwood}/src/lib.rs doors/live/src/lib.rs kernel/{bpf,xdp}/src/lib.rs; do
    grep -q '^#!\[deny(unsafe_code)\]' "$lib" || none "Unsafe code is no longer denied" "$lib"
done

# rustfmt breaks lines of code. Tables, code blocks and URLs cannot be broken.
none "Text of more than 100 columns" "$(
    files '*.md' '*.rs' '*.c' '*.h' '*.go' '*.sh' | xargs -0 -r perl -CSD -ne '
        $fence = 0 if $. == 1;
        $comment = $ARGV =~ /\.md$/ || $ARGV !~ /\.sh$/ && m{^ *(//[/!]?|\*) ?\S} || $ARGV =~ /\.sh$/ && /^ *# /;
        $fence = !$fence if m{^ *(//[/!] ?|\* )?```};
        printf "%s:%d: %.100s\n", $ARGV, $., $_ =~ s/\n//r
            if length > 101 && $comment && !$fence && !m{://} && !($ARGV =~ /\.md$/ && /^    /) && !/^ *(\/\/[\/!] ?)?\|/;
        close ARGV if eof;'
)"

# `module::name` in a document is a test or a function of a file or folder of that name, and a name
# of four words or more is somewhere in the code. The changes of past versions name what was there.
none "Documents name what the code does not have" "$(
    files '*.rs' '*.go' '*.py' '*.c' '*.h' '*.sh' '*.proto' '*.json' '*.md' ':!CHANGELOG.md' ':!docs/proofs.md' |
        xargs -0 -r perl -CSD -ne '
            if ($ARGV =~ /\.md$/) {
                while (/`((?:[a-z]\w*::)+)([a-z]\w*)?(\x{2026}?)`/g) {
                    push @cited, [$ARGV, $., $1, $2 // "", $3];
                }
                push @names, [$ARGV, $., $1] while /`(?:\w+::)*([a-z][a-z0-9]*(?:_[a-z0-9]+){3,})`/g;
            } else {
                ($where) = $ARGV =~ m{^(?:\./)?(.*)\.\w+$};
                @parts = map { s/^test_//r } split m{/}, $where;
                $in{$parts[$_ - 1]}{$parts[$_]} = 1 for 1 .. $#parts;
                while (/\b(?:fn|mod|const|static|macro_rules!|def|use \w+ as) +([a-z]\w*)/g) {
                    $in{$_}{$1} = 1 for @parts;
                }
                $words{$_} = 1 for /\b[a-z][a-z0-9]*(?:_[a-z0-9]+){3,}\b/g;
            }
            close ARGV if eof;
            END {
                # Of the standard library and of the kernel.
                $in{mem}{forget} = 1;
                $words{$_} = 1 for qw(call_rcu_tasks_trace bpf_free_used_maps ignore_routes_with_linkdown);
                for (@cited) {
                    my ($file, $line, $path, $name, $more) = @$_;
                    my ($module) = grep { $_ ne "tests" } reverse split /::/, $path;
                    my $all = $in{$module} or next;
                    next if $more ? grep { index($_, $name) == 0 } keys %$all : $all->{$name};
                    print "$file:$line: $path$name$more\n";
                }
                for (@names) {
                    print "$$_[0]:$$_[1]: $$_[2]\n" unless $words{$$_[2]};
                }
            }'
)"

# A clone without the whole history cannot tell.
if [ "$(git rev-parse --is-shallow-repository 2>/dev/null)" = false ]; then
    none "Commits that are not in this history, and do not say so" "$(
        {
            files 'proof/bench/record/*.csv' | xargs -0 -r grep -nE '^# commits?:' /dev/null
            grep -nE '^\| [a-z-]+ \|' docs/proofs.md | cut -d'|' -f1,6 | sed 's|^|docs/proofs.md:|'
        } | grep -v 'not in this history' | while IFS= read -r line; do
            for commit in $(grep -oE '\b[0-9a-f]{7,40}\b' <<<"${line##*csv:}" | grep '[0-9]' | sort -u); do
                git merge-base --is-ancestor "$commit" HEAD 2>/dev/null || echo "$line"
            done
        done
    )"
fi

for script in ci/*.sh .ci/run; do
    case $script in ci/lib.sh | ci/steps.sh) continue ;; esac
    [ -x "$script" ] || none "Not executable" "$script"
done

# Cargo chooses test programs by their names alone, in all packages: a second one of the same name
# would be built and run where the first one is wanted. Those of the libraries run together.
none "Two test programs with one name" "$(
    for crate in $CRATES proof/bench; do
        case " $LIBRARIES " in *" $(name "$crate") "*) kind=libraries ;; *) kind=$crate ;; esac
        # shellcheck disable=SC2046 # words
        printf '%s\n' $(programs "$crate") | grep -v -e '^--test$' -e '^$' | sed "s|$| $kind|"
    done | sort -u | cut -d' ' -f1 | uniq -d
)"

lines=$(wc -l <README.md)
[ "$lines" -le 200 ] || none "README.md has more than 200 lines: figures belong in docs/figures.md" "$lines"

long=$(files '*.rs' '*.go' | xargs -0 -r wc -l | awk '$2 != "total" && $1 > 600 { print "  " $2 ": " $1 " lines" }')
[ -z "$long" ] || printf 'Warning: more than 600 lines; has each file one subject?\n%s\n' "$long"

[ $bad = 0 ] || exit 1
say "The house rules hold."
