#!/usr/bin/env bash
# The missing Debian packages of `make test` (argument `test`), of `make check` (`check`), or of
# both and the tour: installed as root, otherwise named.
. "$(dirname "$0")/lib.sh"
for_test=1 for_check=1
case ${1:-} in
test) for_check= ;;
check) for_test= ;;
esac

need=() # without these nothing works
has cc && has c++ || need+=(build-essential)
has git || need+=(git)
more=() # without these, tests of BPF, C, Python, etcd, services or pages are skipped
linux=$(uname -s | grep -x Linux || true)
if [ -n "$linux" ] && [ -n "$for_test" ]; then
    if ! bpf_tools; then
        # shellcheck disable=SC2206 # one word each
        more+=($BPF_PACKAGES)
    fi
    # The example in C with a skeleton of libbpf.
    [ -x /usr/sbin/bpftool ] || more+=(bpftool)
    [ -e /usr/include/bpf/libbpf.h ] || more+=(libbpf-dev)
    # Programs for packets are tested between network namespaces.
    has ip || more+=(iproute2)
    has ping || more+=(iputils-ping)
    has dig || more+=(bind9-dnsutils)
    has iperf3 || more+=(iperf3)
    has ethtool || more+=(ethtool)
    has sysctl || more+=(procps)
    # The client of etcd is built with protoc.
    etcd_tools || more+=(protobuf-compiler libprotobuf-dev)
    # The Python module is tested in an environment of its own.
    python3 -c 'import venv, ensurepip' 2>/dev/null || more+=(python3 python3-venv)
fi
if [ -n "$linux" ] && [ -n "$for_check" ]; then
    # Programs in C are run under it, too.
    has valgrind || more+=(valgrind)
    # The reader in Go runs as a program for another processor.
    has qemu-aarch64-static || has qemu-aarch64 || [ "$(uname -m)" = aarch64 ] || more+=(qemu-user-static)
    # Metrics, dashboards and units are checked by promtool and systemd-analyze.
    has promtool || more+=(prometheus)
    has systemd-analyze || more+=(systemd)
    has strace || more+=(strace)
    # What is built with the C library, and what looks at its packages.
    has pkg-config || more+=(pkg-config)
    has cmake || more+=(cmake)
    [ -e /usr/include/uv.h ] || more+=(libuv1-dev)
    ! has dpkg-deb || has lintian || more+=(lintian)
    has dnsdist || more+=(dnsdist)
    has kresd || more+=(knot-resolver)
    # Tests of logs in etcd start nodes of their own.
    has etcd || more+=(etcd-server)
    has etcdctl || more+=(etcd-client)
    # Zones come from servers that the tests start. Lists are given to others, and the answers
    # compared.
    [ -x /usr/sbin/nsd ] || more+=(nsd)
    [ -x /usr/sbin/named ] || more+=(bind9)
    [ -x /usr/sbin/unbound ] || more+=(unbound)
    has dnsmasq || [ -x /usr/sbin/dnsmasq ] || more+=(dnsmasq-base)
    # The pages of `report`, of the program and of the benchmarks, are looked at by a browser.
    browser || more+=(chromium)
fi
[ ${#need[@]} -gt 0 ] || [ ${#more[@]} -gt 0 ] || exit 0
if [ "$(id -u)" = 0 ] && has apt-get; then
    # RUNLEVEL: no service is started.
    export DEBIAN_FRONTEND=noninteractive RUNLEVEL=1
    install() { run apt-get install -y -q --no-install-recommends "$@"; }
    # An existing package list may be old. An interrupted installation is resumed.
    run apt-get update -q
    if [ ${#need[@]} -gt 0 ]; then
        install "${need[@]}" ca-certificates
    fi
    if [ ${#more[@]} -gt 0 ]; then
        install "${more[@]}" || { run dpkg --configure -a && install "${more[@]}"; } ||
            say "Not all of these can be installed here, so the tests that need them are skipped: ${more[*]}"
    fi
    # Only the programs of these packages are wanted. Debian enables their services, whatever
    # RUNLEVEL says.
    for package in prometheus:prometheus etcd-server:etcd dnsdist:dnsdist nsd:nsd bind9:named \
        unbound:unbound knot-resolver:kresd.target; do
        service=${package#*:}
        case " ${more[*]} " in
        *" ${package%:*} "*)
            if has systemctl; then run systemctl disable --now "$service" || run systemctl disable "$service" || true; fi
            ! has pgrep || ! pgrep -x "$service" >/dev/null || say "A service $service runs, which ci/packages.sh did not want."
            ;;
        esac
    done
    exit 0
fi
[ ${#more[@]} = 0 ] || say "For the maps in the kernel, C, Python, etcd, services and pages, on Debian and Ubuntu (else tests are skipped):
    sudo apt-get update && sudo apt-get install -y ${more[*]}"
[ ${#need[@]} = 0 ] || fail "Missing: ${need[*]}. Install them first, on Debian and Ubuntu with:
    sudo apt-get update && sudo apt-get install -y ${need[*]}"
