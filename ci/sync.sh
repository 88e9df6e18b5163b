#!/usr/bin/env bash
# Publishers, followers and nodes of etcd are killed, paused and cut off at random for two minutes,
# or for as many seconds as SAPWOOD_SOAK says. Afterwards one log must explain all that was seen.
# Beside that, logs of both engines are removed, emptied, torn and put back, for half of the time
# each.
. "$(dirname "$0")/lib.sh"
etcd_tools && has etcd && has etcdctl || skip "etcd or protoc is missing (ci/packages.sh)"
etcd_ready
export SAPWOOD_SOAK=${SAPWOOD_SOAK:-120}
# shellcheck disable=SC2046 # words
chosen tests $(programs services/sync) -- \
    followers_show_the_leaders_versions_whatever_breaks \
    followers_keep_their_maps_whatever_befalls_a_log --show-output
