#!/bin/sh
# What local updates gain on slow links: the time in which they reach the loss that data parallel has after so many
# steps of the small GPT of examples/cpp_torch. Needs root, for network namespaces.
#
#   RATE=10mbit bench/local_updates.sh PROGRAM [OPTIONS OF PROGRAM...]    e.g. build-train/gpt
#
# Losses, of text that is not learned, do not depend on links: both learn without a limit first, on RANKS (4) ranks of
# this machine, data parallel for STEPS (500) steps and local updates, every H (50), for twice as many. The seconds of a
# step are then measured on hosts with limited links, over SHAPED (20) steps of data parallel, and as many exchanges'
# worth of local updates as fit: 2 H. TUTTI names the tutti command; DATA and LOCAL give either options of its own, whose
# defaults are the best rates of learning that were found for each.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
ranks=${RANKS:-4} steps=${STEPS:-500} every=${H:-50} shaped=${SHAPED:-20} rate=${RATE:-10mbit}
data=${DATA:---rate 0.006 --warm-up 50}
local=${LOCAL:---rate 0.006 --warm-up 50 --outer-rate 1 --outer-momentum 0.5}

program=$1
shift
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
tutti=${TUTTI:-tutti}

learn() {  # file steps options...
  file=$1 count=$2
  shift 2
  "$tutti" run -n "$ranks" --no-prefix -- "$program" --held-out 64 --steps "$((count + 1))" --losses "$file" "$@" >"$file.log"
}
seconds_of() {  # steps options...: the time of a step on average, as the program tells it
  count=$1
  shift
  RATE=$rate TUTTI_LOG=off sh "$here/../tests/acceptance/hosts.sh" "$ranks" "$here/on_each_host.sh" "$program" \
    --steps "$count" "$@" >"$folder/shaped.log" || true
  sed -n 's/.*, \([0-9.]*\) ms a step.*/\1/p' "$folder/shaped.log" | awk '{print $1 / 1000}'
}

learn "$folder/data" "$steps" "$@" $data
learn "$folder/local" "$((2 * steps))" --local-updates "$every" "$@" $local
goal=$(awk 'END { print $2 }' "$folder/data")
reached=$(awk -v goal="$goal" '$2 <= goal { print $1; exit }' "$folder/local")
alone=$("$tutti" run -n "$ranks" --no-prefix -- "$program" --steps "$shaped" --json "$@" $data |
  sed -n 's/.*"computing_ms": \([0-9.]*\).*/\1/p')
data_s=$(seconds_of "$shaped" "$@" $data)
local_s=$(seconds_of "$((2 * every))" --local-updates "$every" "$@" $local)

echo "data parallel: loss $goal after $steps steps; a step on $rate takes $data_s s, of which computing is $alone ms"
if [ -z "$reached" ]; then
  echo "local updates every $every steps: loss $(awk 'END { print $2 }' "$folder/local") after $((2 * steps)) steps, which is not there yet"
  exit 1
fi
awk -v goal="$goal" -v steps="$steps" -v data="$data_s" -v every="$every" -v reached="$reached" -v local="$local_s" -v alone="$alone" 'BEGIN {
  printf "local updates every %d steps: that loss after %d steps; a step takes %s s on average\n", every, reached, local
  printf "communication over computation of data parallel: %.1f\n", (data * 1000 - alone) / alone
  printf "seconds to that loss: %.1f and %.1f, %.1f times as fast\n", steps * data, reached * local, steps * data / (reached * local)
}'
