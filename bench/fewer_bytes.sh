#!/bin/sh
# What quantised all_reduce gains between hosts: network namespaces, RATE=1gbit limits their links. Needs root.
#
#   RATE=1gbit bench/fewer_bytes.sh HOSTS [BYTES...]      build/bin/fewer_bytes_bench on each host, one rank
set -eu
here=$(cd "$(dirname "$0")" && pwd)
if [ -z "${HOSTS:-}" ]; then
  count=$1
  shift
  exec sh "$here/../tests/acceptance/hosts.sh" "$count" "$0" "$@"
fi
program=${PROGRAM:-$here/../build/bin/fewer_bytes_bench}
set -- "$program" "$@"
rank=0
size=$(echo "$HOSTS" | wc -w)
first=$(echo $ADDRESSES | cut -d' ' -f1)
token=$(od -An -N32 -tx1 /dev/urandom | tr -d ' \n')
for host in $HOSTS; do
  TUTTI_RANK=$rank TUTTI_SIZE=$size TUTTI_RENDEZVOUS="$first:29777" TUTTI_JOB=fewer TUTTI_TOKEN=$token \
    ip netns exec "$host" "$@" &
  rank=$((rank + 1))
done
code=0
for host in $HOSTS; do wait || code=$?; done
exit $code
