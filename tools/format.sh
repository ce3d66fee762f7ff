#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# One format for all C and C++ files, that of .clang-format: formats them, or with --check names those that differ.
set -euo pipefail
cd "$(dirname "$0")/.."

case "${1:-}" in
  "") mode=(-i) ;;
  --check) mode=(--dry-run -Werror) ;;
  *) echo "usage: tools/format.sh [--check]" >&2; exit 1 ;;
esac
formatter=$(command -v clang-format-22) || { echo "clang-format-22 is missing: tools/install_deps.sh installs it" >&2; exit 1; }

# Tables that are written by a script (*List.inc) keep that script's form.
git ls-files -z '*.cpp' '*.h' '*.hpp' '*.c' '*.inc' ':!*List.inc' | xargs -0 -P "$(nproc)" -n 40 "$formatter" "${mode[@]}"
