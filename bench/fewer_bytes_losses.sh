#!/bin/sh
# What sending fewer bytes costs in accuracy: the small GPT of examples/cpp_torch learns for STEPS (300) steps on RANKS (4)
# ranks with each compression, and without; the losses are of text that is not learned. Prints the last loss and the
# bytes that a step says, as Counters count them, and draws all curves.
#
#   bench/fewer_bytes_losses.sh PROGRAM OUT.svg          e.g. build-train/gpt docs/plots/fewer-bytes-losses.svg
#
# TUTTI names the tutti command, CURVES the program that draws (build/bin/loss_curves).
set -eu
here=$(cd "$(dirname "$0")" && pwd)
program=$1 picture=$2 steps=${STEPS:-300} ranks=${RANKS:-4}
curves=${CURVES:-$here/../build/bin/loss_curves}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
set --
run() {  # name options...
  name=$1
  shift
  "${TUTTI:-tutti}" run -n "$ranks" --no-prefix -- "$program" --held-out 64 --steps "$((steps + 1))" --report \
    --losses "$folder/$name" "$@" >"$folder/$name.log" || true
  # What every step says: bytes of a call, times how often.
  awk '/^every step says/ { says = 1; next } /^[^ ]/ { says = 0 }
       says { unit = $3 == "KB" ? 1 / 1024 : $3 == "B" ? 1 / 1048576 : 1; sum += $2 * unit * $5 }
       END { printf "%.0f KB", 1024 * sum }' "$folder/$name.log" >"$folder/$name.bytes"
  awk -v name="$name" -v bytes="$(cat "$folder/$name.bytes")" \
    'END { printf "%-20s loss %.4f, %s a step\n", name, $2, bytes }' "$folder/$name"
}
curve() {  # name words: how the curve is called
  echo "$2, $(cat "$folder/$1.bytes")=$folder/$1"
}
for hook in none bf16 int8 e4m3 int4 e3m0; do
  run $hook --compress $hook
  set -- "$@" "$(curve $hook $hook)"
done
for hook in topk power_sgd one_bit; do
  run $hook-from-50 --compress $hook --compress-from 50
  set -- "$@" "$(curve $hook-from-50 "$hook from step 50")"
done
run topk-by-deviation --compress topk --compress-from 50 --by-deviation
set -- "$@" "$(curve topk-by-deviation "topk by deviation")"
run topk-by-deviation-momentum --compress topk --compress-from 50 --by-deviation --most-beta1 1
run topk-by-deviation-forgetful --compress topk --compress-from 50 --by-deviation --no-error-feedback
for rank in 2 4 16; do
  name=power_sgd-$rank-by-deviation
  run $name --compress power_sgd --power-rank $rank --compress-from 50 --by-deviation
  set -- "$@" "$(curve $name "power_sgd ($rank) by deviation")"
  run $name-momentum --compress power_sgd --power-rank $rank --compress-from 50 --by-deviation --most-beta1 1
  run $name-forgetful --compress power_sgd --power-rank $rank --compress-from 50 --by-deviation --no-error-feedback
done
run one_bit-forgetful --compress one_bit --compress-from 50 --no-error-feedback
run topk-forgetful --compress topk --compress-from 50 --no-error-feedback
set -- "$@" "$(curve topk-forgetful "topk without feedback")"
"$curves" "$picture" "The small GPT, $ranks ranks: loss with gradients in fewer bytes" "$@"
