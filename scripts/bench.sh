#!/bin/sh
# Runs benchmarks of build/bin one after another: scripts/bench.sh [name...], or all of them.
set -eu

[ $# != 0 ] || set -- limit figures kernels_bench
for bench in "$@"; do
  if [ ! -x "build/bin/$bench" ]; then
    echo "bench: there is no build/bin/$bench; configuring says what was left out" >&2
    continue
  fi
  echo "== $bench"
  "build/bin/$bench"
done
