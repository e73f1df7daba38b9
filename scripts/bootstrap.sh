#!/bin/sh
# Makes sure the packages for the named purposes are there: scripts/bootstrap.sh build test python torch bench view format tidy
#
# Where nothing is missing it does nothing, says nothing and uses no network. On Debian it installs what is missing
# (as root, or through sudo) and says so in one line; where it may not, it prints the command to run and exits with 1.
# Packages that one can do without come along with others, where they can be had; alone they are not asked for.
set -eu

# One line per purpose: package=probe, where a probe is a command, empty for a package that brings no command, or ? for one
# that brings none and that one can do without.
packages_for() {
  case "$1" in
    build) echo "g++=g++ cmake=cmake ninja-build=ninja libhwy-dev= nlohmann-json3-dev= libcli11-dev= libfmt-dev= libssl-dev=" \
                "libpmix-dev= libhwloc-dev=" ;;
    test) echo "pkg-config=pkg-config libgtest-dev= libgmock-dev= iproute2=ip openmpi-bin=mpirun.openmpi mpich=mpiexec.hydra slurmctld=slurmctld" \
               "slurmd=slurmd slurm-client=srun munge=munged libucx-dev=?" ;;
    python) echo "python3=python3 python3-venv= python3-dev=" ;;
    torch) echo "python3-venv=" ;;
    bench) echo "libbenchmark-dev= openmpi-bin=mpirun.openmpi libopenmpi-dev= mpich=mpiexec.hydra libmpich-dev= libgloo-dev=" ;;
    view) echo "chromium=chromium chromium-driver=chromedriver python3-selenium=" ;;
    format) echo "clang-format=clang-format git=git" ;;
    tidy) echo "clang-tidy=clang-tidy git=git" ;;
    *) echo "bootstrap: no purpose named '$1'; known: build test python torch bench view format tidy" >&2; return 1 ;;
  esac
}

is_there() {
  package=${1%%=*}
  probe=${1#*=}
  if [ -n "${probe#\?}" ]; then
    command -v "$probe" >/dev/null 2>&1
  else
    [ "$(dpkg-query -W -f='${db:Status-Status}' "$package" 2>/dev/null)" = installed ]
  fi
}

# Other systems bring these under other names: CMake then says what it does not find.
command -v dpkg-query >/dev/null 2>&1 || exit 0

missing="" optional=""
for purpose in "$@"; do
  list=$(packages_for "$purpose")
  for entry in $list; do
    is_there "$entry" && continue
    case "$entry" in
      *=\?) optional="$optional ${entry%%=*}" ;;
      *) missing="$missing ${entry%%=*}" ;;
    esac
  done
done
[ -n "$missing" ] || exit 0

if [ "$(id -u)" = 0 ]; then
  as_root="env"
elif command -v sudo >/dev/null 2>&1; then
  as_root="sudo env"
else
  echo "bootstrap: missing packages; as root, run: apt-get install --no-install-recommends$missing" >&2
  exit 1
fi

echo "bootstrap: installing missing packages:$missing${optional:+, and if there is one$optional}"
log=$(mktemp)
trap 'rm -f "$log"' EXIT
update() {
  $as_root apt-get update -qq || return 1
  for package in $optional; do
    if apt-cache show "$package" >/dev/null 2>&1; then missing="$missing $package"; fi
  done
}
if ! { update &&
       $as_root DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $missing; } >"$log" 2>&1; then
  cat "$log" >&2
  echo "bootstrap: could not install:$missing" >&2
  exit 1
fi
