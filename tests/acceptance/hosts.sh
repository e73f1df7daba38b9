#!/bin/sh
# Several hosts on one machine: network namespaces on a switch of their own, made here and removed in the end.
#
#   hosts.sh COUNT COMMAND...   runs COMMAND with HOSTS="name name ..." and ADDRESSES="address address ..."; a host runs
#                               a program as `ip netns exec NAME program`. Nothing outside these namespaces is touched.
#
# RATE=1gbit in the environment limits each link to that, both ways.
#
# Exits with COMMAND's code; with 77, and the reason, where namespaces cannot be made.
set -eu

count=$1
shift
id="tutti$$"
switch="$id-switch"
hosts=""
addresses=""

remove() {
  for host in $hosts $switch; do
    ip netns pids "$host" 2>/dev/null | xargs -r kill -9 2>/dev/null || true
    ip netns delete "$host" 2>/dev/null || true
  done
}
trap remove EXIT
trap 'exit 130' INT TERM

cannot() {
  echo "hosts.sh: network namespaces cannot be made here: $1"
  exit 77
}

command -v ip >/dev/null || cannot "there is no ip command (package iproute2)"
reason=$(ip netns add "$switch" 2>&1) || cannot "$reason"
reason=$(ip -n "$switch" link add bridge0 type bridge 2>&1) || cannot "$reason"
ip -n "$switch" link set bridge0 up
number=0
while [ "$number" -lt "$count" ]; do
  host="$id-h$number"
  address="10.77.0.$((number + 1))"
  ip netns add "$host"
  hosts="$hosts $host"
  addresses="$addresses $address"
  reason=$(ip link add "eth0" netns "$host" type veth peer name "port$number" netns "$switch" 2>&1) || cannot "$reason"
  ip -n "$switch" link set "port$number" master bridge0 up
  ip -n "$host" address add "$address/24" dev eth0
  ip -n "$host" link set lo up
  ip -n "$host" link set eth0 up
  if [ -n "${RATE:-}" ]; then
    for end in "$host eth0" "$switch port$number"; do  # up, and down
      tc -n "${end% *}" qdisc add dev "${end#* }" root tbf rate "$RATE" burst 256kb latency 50ms
    done
  fi
  number=$((number + 1))
done

HOSTS="${hosts# }" ADDRESSES="${addresses# }" "$@"
