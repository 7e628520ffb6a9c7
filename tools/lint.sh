#!/usr/bin/env bash
# Everything that reads the sources without running them.  Goes through to the end, then fails if anything was found.
set -u
cd "$(dirname "$(readlink -f "$0")")/.."
bin=.venv/bin
failed=0
check() {
  echo "lint: $1" >&2
  shift
  "$@" || failed=1
}

mapfile -t python < <(git ls-files '*.py')
mapfile -t cpp < <(git ls-files '*.cpp' '*.h')
mapfile -t prose < <(git ls-files '*.md' '*.toml' '*.cpp' '*.h' '*.py' '*.sh' '*.1' '*.7')
check ruff "$bin/ruff" check --config python/pyproject.toml "${python[@]}"
check "ruff format" "$bin/ruff" format --check --config python/pyproject.toml "${python[@]}"
check mypy env -C python "../$bin/mypy"
check codespell "$bin/codespell" --toml python/pyproject.toml "${prose[@]}"
if command -v clang-format >/dev/null; then
  check clang-format clang-format --dry-run --Werror "${cpp[@]}"
else
  echo "lint: clang-format is not there; layout of C++ not checked" >&2
fi
check tidy "$bin/python3" tests/tidy.py
exit $failed
