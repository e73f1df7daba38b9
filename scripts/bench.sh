#!/bin/sh
# Runs benchmarks of build/bin one after another: scripts/bench.sh [name...]; `figures` if none is named.
#
# figures is `tutti tune`, into build/costs.json, then `tutti bench figures`, which runs with these costs and without: the
# table of ratios that the library is held to, for this machine, in some minutes. Its rows go to build/figures.json as well; RUNS=5 takes the median of five runs.
# Other names are programs of build/bin.
set -eu

TORCH_PYTHON=$(scripts/python.sh torch)
export TORCH_PYTHON

[ $# != 0 ] || set -- figures
for bench in "$@"; do
  echo "== $bench"
  if [ "$bench" = figures ]; then
    build/bin/tutti tune --file build/costs.json
    build/bin/tutti bench figures --tuned build/costs.json --runs "${RUNS:-1}" --json build/figures.json
  elif [ -x "build/bin/$bench" ]; then
    "build/bin/$bench"
  else
    echo "bench: there is no build/bin/$bench; configuring says what was left out" >&2
  fi
done
