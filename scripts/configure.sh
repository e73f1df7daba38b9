#!/bin/sh
# Configures one CMake preset quietly: scripts/configure.sh release [build] [test] [python] [bench]
#
# The words are those of scripts/bootstrap.sh, and name the parts that are wanted; without any it is all of them. What an
# earlier call asked for in the same folder stays, because CMake deletes what it no longer knows how to build.
# Prints CMake's whole output only if it fails or warns; otherwise only our own lines, which say what was left out.
set -eu

preset=$1
shift
here=$(dirname "$0")
folder=$here/../build
[ "$preset" = release ] || folder=$folder-$preset
fresh=yes
[ ! -e "$folder/CMakeCache.txt" ] || fresh=no

wants() { [ -z "$parts" ] || case " $parts " in *" $1 "*) true ;; *) false ;; esac; }
parts=$*

options=""
switch() {  # part option
  if wants "$1"; then
    options="$options -D$2=ON"
  elif [ $fresh = yes ]; then
    options="$options -D$2=OFF"
  fi
}
switch test TUTTI_TESTS
[ "$preset" != release ] || switch bench TUTTI_BENCH  # the other presets do without

# The Python package goes along where a python has what it takes (scripts/python.sh).
if wants python; then
  python=$("$here"/python.sh package)
  if [ -n "$python" ]; then options="$options -DTUTTI_PYTHON=ON -DPython_EXECUTABLE=$python"; fi
fi
# ccache keeps what was compiled, but not with precompiled headers.
if command -v ccache >/dev/null 2>&1; then
  options="$options -DCMAKE_CXX_COMPILER_LAUNCHER=ccache -DCMAKE_DISABLE_PRECOMPILE_HEADERS=ON"
fi

log=$(mktemp)
trap 'rm -f "$log"' EXIT
if ! cmake --preset "$preset" $options >"$log" 2>&1; then
  cat "$log" >&2
  echo "configure: the preset '$preset' failed; the lines above say why" >&2
  exit 1
fi
if grep -q '^CMake Warning' "$log"; then cat "$log" >&2; else grep '^-- Tutti' "$log" || true; fi
