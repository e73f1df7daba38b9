#!/bin/sh
# What quantised all_reduce gains between hosts: network namespaces, RATE=1gbit limits their links. Needs root.
#
#   RATE=1gbit bench/fewer_bytes.sh HOSTS [BYTES...]      build/bin/fewer_bytes_bench on each host, one rank
set -eu
here=$(cd "$(dirname "$0")" && pwd)
count=$1
shift
exec sh "$here/../tests/acceptance/hosts.sh" "$count" "$here/on_each_host.sh" \
  "${PROGRAM:-$here/../build/bin/fewer_bytes_bench}" "$@"
