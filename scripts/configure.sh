#!/bin/sh
# Configures one CMake preset quietly: scripts/configure.sh release
#
# Prints CMake's whole output only if it fails or warns; otherwise only our own lines, which say what was left out.
set -eu

preset=$1
launcher=""
if command -v ccache >/dev/null 2>&1; then launcher="-DCMAKE_CXX_COMPILER_LAUNCHER=ccache"; fi

log=$(mktemp)
trap 'rm -f "$log"' EXIT
if ! cmake --preset "$preset" $launcher >"$log" 2>&1; then
  cat "$log" >&2
  echo "configure: the preset '$preset' failed; the lines above say why" >&2
  exit 1
fi
if grep -q '^CMake Warning' "$log"; then cat "$log" >&2; else grep '^-- Tutti' "$log" || true; fi
