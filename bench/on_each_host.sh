#!/bin/sh
# As a command of tests/acceptance/hosts.sh: a program as one rank on each host. Ends with the code of one that failed.
#
#   RATE=1gbit tests/acceptance/hosts.sh 4 bench/on_each_host.sh PROGRAM [OPTIONS OF PROGRAM...]
set -eu
rank=0
size=$(echo "$HOSTS" | wc -w)
first=$(echo $ADDRESSES | cut -d' ' -f1)
token=$(od -An -N32 -tx1 /dev/urandom | tr -d ' \n')
started=""
for host in $HOSTS; do
  TUTTI_RANK=$rank TUTTI_SIZE=$size TUTTI_RENDEZVOUS="$first:29777" TUTTI_JOB=each TUTTI_TOKEN=$token \
    ip netns exec "$host" "$@" &
  started="$started $!"
  rank=$((rank + 1))
done
code=0
for process in $started; do wait "$process" || code=$?; done
exit $code
