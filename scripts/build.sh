#!/bin/sh
# Builds targets of a configured preset: scripts/build.sh release [target...], without targets all of them
#
# Says first how much there is to do and about how long it will take, where that is worth waiting for; then Ninja counts.
# JOBS is how many compilers run at once.
set -eu

preset=$1
shift
jobs=${JOBS:-$(nproc)}
folder=$(dirname "$0")/../build
[ "$preset" = release ] || folder=$folder-$preset

# What a step takes on a core of the usual speed, in tenths of seconds; sanitizers take longer.
case $preset in asan* | tsan) step=35 ;; *) step=19 ;; esac

steps=$(ninja -C "$folder" -n "$@" 2>/dev/null | sed -n 's/^\[[0-9]*\/\([0-9]*\)\].*/\1/p' | tail -n 1)
seconds=$((${steps:-0} * step / 10 / jobs))
if [ $seconds -gt 90 ]; then
  about="$(((seconds + 30) / 60)) minutes"
elif [ $seconds -gt 20 ]; then
  about="a minute"
else
  about=""
fi
cores="$jobs cores"
[ "$jobs" != 1 ] || cores="one core"
if [ -n "$about" ]; then echo "building: $steps steps, about $about on $cores; later builds take what has changed"; fi

targets=""
[ $# = 0 ] || targets="--target $*"
NINJA_STATUS='[%f of %t, %es] ' exec cmake --build "$folder" --parallel "$jobs" $targets
