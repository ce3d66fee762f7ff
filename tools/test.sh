#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Everything that must pass: a Release build with all tests, then ASan+UBSan and TSan builds of the parts without LLVM
# and the tests that tests/sanitizers names for each. --full runs all of their tests, adds the compiler under ASan and the
# tests with the label 'long'. Up to three tests that fail get a second try with the machine to themselves, unless a
# sanitizer has reported something; what passes then is named at the end with what it said first.
set -euo pipefail
cd "$(dirname "$0")/.."

full=0
case "${1:-}" in
  "") ;;
  --full) full=1 ;;
  *) echo "usage: tools/test.sh [--full]" >&2; exit 1 ;;
esac

tools/install_deps.sh --torch
tools/install_ort.sh
jobs=$(nproc)
started=$SECONDS
failed=()
unsteady=()

step() { printf '\n== %s (%d s)\n' "$1" $((SECONDS - started)); }

# build_and_test PRESET TESTS [ctest arguments]: TESTS is a file of names, each of a test and of its target; "all" without one.
build_and_test() {
  local preset=$1 list=$2 dir=build targets=() chosen=()
  shift 2
  [ "$preset" = release ] || dir=build/$preset
  step "$preset: configure and build"
  cmake --preset "$preset" >"/tmp/openhpu-configure-$preset.$$.log" 2>&1 || { cat "/tmp/openhpu-configure-$preset.$$.log"; exit 1; }
  rm -f "/tmp/openhpu-configure-$preset.$$.log"
  # Where the compiler of an old tree changes, CMake forgets what else the preset says.
  if [ "$preset" != release ] && ! grep -q '^HPU_SANITIZE:[A-Z]*=.' "$dir/CMakeCache.txt"; then
    rm -rf "$dir"
    cmake --preset "$preset" >/dev/null
  fi
  if [ "$list" != all ]; then
    mapfile -t targets < <(grep -v '^#' "$list")
    chosen=(-R "^($(IFS='|' && echo "${targets[*]}"))\$")
  fi
  ninja -C "$dir" -j "$jobs" --quiet "${targets[@]}"
  step "$preset: tests"
  rm -f "$dir"/Testing/Temporary/FirstTry*.log
  ctest --test-dir "$dir" -j "$jobs" --no-tests=error "${chosen[@]}" "$@" || second_try "$preset" "$dir" || failed+=("$preset")
}

# A machine that does something else for seconds can fail a test that waits for another process; a fault that is always
# there, or that a sanitizer has seen once, is none of that kind.
second_try() {
  local preset=$1 last=$2/Testing/Temporary
  [ "$(wc -l <"$last/LastTestsFailed.log")" -le 3 ] || return 1
  ! grep -qE 'ERROR: (Address|Leak)Sanitizer|WARNING: ThreadSanitizer|: runtime error: ' "$last/LastTest.log" || return 1
  step "$preset: second try of what failed"
  local what
  what=$(cut -d: -f2 "$last/LastTestsFailed.log" | paste -sd ' ')
  cp "$last/LastTest.log" "$last/FirstTry.log"
  cp "$last/LastTestsFailed.log" "$last/FirstTryFailed.log"
  if ctest --test-dir "$2" --rerun-failed -j 1; then
    unsteady+=("$preset: $what")
    failures "$last/FirstTry.log"
  else
    return 1
  fi
}

# What failed tests said first, at the end of the output, where it is looked for. All of it is in LastTest.log.
failures() {
  echo "(whole outputs: $1)"
  awk '/^[0-9]+\/[0-9]+ Testing: / { name = $3; text = running = ""; lines = show = 0 }
       /^\[ RUN / { running = $0 }
       /^\[ +(OK|FAILED|SKIPPED) +\]/ { running = "" }
       /^\[ (RUN|      OK) |^\[---|^\[====|: FAILED TEST|^ *$/ { next }
       /: Failure$|^\[  FAILED|ERROR|Error|WARNING: ThreadSanitizer|runtime error|^FAIL/ { show = 8 }
       show > 0 && lines < 40 { text = text substr($0, 1, 300) "\n"; ++lines; --show }
       /^Test time = / { took = $4 }
       /^Test (Failed|Timeout)/ { printf "-- %s (%s s): %s\n%s", name, took, $0, text
                                  if (running != "") print "was running: " running }' \
    "$1"
}

if [ $full -eq 1 ]; then
  build_and_test release all
  build_and_test asan all -LE long
  build_and_test tsan all -LE long
  build_and_test asan-compiler all
else
  build_and_test release all -LE long
  build_and_test asan tests/sanitizers/asan.tests -LE long
  build_and_test tsan tests/sanitizers/tsan.tests -LE long
fi

step "done"
if [ ${#unsteady[@]} -gt 0 ]; then
  printf 'passed only at the second try: %s\n' "${unsteady[@]}"
fi
if [ ${#failed[@]} -gt 0 ]; then
  for preset in "${failed[@]}"; do
    step "failures of $preset"
    dir=build
    [ "$preset" = release ] || dir=build/$preset
    for log in "$dir"/Testing/Temporary/{FirstTry,LastTest}.log; do
      [ ! -f "$log" ] || failures "$log" || true
    done
  done
  echo "FAILED: ${failed[*]}"
  exit 1
fi
echo "all tests passed"
