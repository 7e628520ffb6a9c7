#!/usr/bin/env bash
# Gives an installation a Python that has the command line's modules: a private virtual environment, or where none can be made the
# system's python3 if that has them.  tools/install_python.sh PREFIX
set -eu
cd "$(dirname "$(readlink -f "$0")")/.."
say() { echo "install: $*" >&2; }
if [ -n "${DESTDIR:-}" ]; then
  say "DESTDIR is set, so no virtual environment is made; the package must depend on the Python modules typer and rich"
  exit
fi
home=$1/share/penstock/venv
if "$home/bin/python3" -c 'import typer, rich' 2>/dev/null; then exit; fi
mapfile -t modules < <(.venv/bin/python3 -c '
import tomllib
print("\n".join(tomllib.load(open("python/pyproject.toml", "rb"))["project"]["dependencies"]))')
# The checkout's environment was made from a Python that is new enough; its base is the one to build on.
base=$(.venv/bin/python3 -c 'import sys; print(sys._base_executable)')
say "preparing $home"
if "$base" -m venv --clear "$home" && "$home/bin/python3" -m pip install --quiet --disable-pip-version-check "${modules[@]}"; then
  exit
fi
rm -rf "$home"
if python3 -c 'import sys, typer, rich; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
  say "no virtual environment could be made; bin/penstock uses the python3 in PATH, which has the modules"
  exit
fi
say "${modules[*]} could not be installed into $home; the lines above say why." \
  "Everything but bin/penstock is installed and works; run make install again to complete it."
exit 1
