#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# From a clone to a verified run: installs packages, builds, compiles a trained model exported by PyTorch, runs it on a
# simulated Gaudi 2, compares every answer and writes a trace. A second run takes seconds.
#   tools/quickstart.sh --torch   builds the PyTorch plug-in instead, and trains a model on the device "hpu"
set -euo pipefail
cd "$(dirname "$0")/.."

torch=0
case "${1:-}" in
  "") ;;
  --torch) torch=1 ;;
  *) echo "usage: tools/quickstart.sh [--torch]" >&2; exit 1 ;;
esac

work=build/quickstart
model=tests/models/digits

say() { printf '\n\033[1m%s\033[0m\n' "$*"; }
show() { printf '$ %s\n' "$*"; "$@"; }

# build TARGETS...: says how far it is, on a terminal in one line, else at each tenth; what the compiler says is in a file,
# of which a failure shows the first error.
build() {
  local log=$work/build.log terminal=0
  [ -t 1 ] && terminal=1
  mkdir -p "$work"
  if NINJA_STATUS='[%f/%t] ' ninja -C build "$@" 2>&1 | tee "$log" | awk -v terminal=$terminal '
    match($0, /^\[[0-9]+\/[0-9]+\]/) {
      split(substr($0, 2, RLENGTH - 2), at, "/")
      if (terminal) printf "\r  %d of %d", at[1], at[2]
      else if (int(10 * at[1] / at[2]) > tenths) { tenths = int(10 * at[1] / at[2]); printf "  %d of %d\n", at[1], at[2] }
      fflush()
    }
    END { if (terminal) printf "\r\033[K" }'; then
    return 0
  fi
  { grep -m 1 -A 20 '^FAILED' "$log" || tail -20 "$log"; } | cut -c1-300 >&2
  echo "the build has failed; all of its output is in $log" >&2
  return 1
}

say "1. Packages"
if [ $torch -eq 1 ]; then tools/install_deps.sh --torch; else tools/install_deps.sh; fi
echo "all there"

if [ $torch -eq 1 ]; then
  say "2. Build (about 10 minutes on two cores the first time)"
  # Also of a tree that was configured before the packages were there.
  cmake --preset release >/dev/null
  build hpu_torch_python
  echo "the packages hpu_torch and habana_frameworks.torch are in build/python"

  say "3. Train a classifier of handwritten digits on hpu"
  show env PYTHONPATH=build/python /usr/bin/python3 docs/examples/torch/train_digits.py

  say "Next"
  echo "  docs/pytorch.md    what is there, porting, memory, streams, what runs on the CPU"
  exit 0
fi

say "2. Build (about 15 minutes on two cores the first time)"
[ -f build/build.ninja ] || cmake --preset release >/dev/null
build hpu-compile hpu-run hpu-verify hpu-trace hpu-opt hpu-smi hccl-perf hccl-sim
echo "programs are in build/bin; what the compiler said is in $work/build.log"

say "3. Compile a classifier of handwritten digits, trained and exported with PyTorch"
show build/bin/hpu-compile "$model/model.onnx" -o "$work/digits.recipe" --target gaudi2

say "4. Run it on a simulated Gaudi 2 and compare all 360 answers with PyTorch's"
show build/bin/hpu-run "$work/digits.recipe" --data "$model/test_data_set_0" --labels "$model/labels.txt" \
  --iters 20 --trace "$work/digits.hputrace"

say "5. What the device did"
show build/bin/hpu-trace summary "$work/digits.hputrace"

say "Next"
cat <<'TEXT'
  build/bin/hpu-compile MODEL.onnx -o MODEL.recipe --report fusion,tile,time    your own model, and what became of it
  build/bin/hpu-run MODEL.recipe --iters 100                                    its latency, here and on the device
  build/bin/hpu-verify MODEL.onnx --data DIR --precision bf16                   its accuracy in bf16
  build/bin/hpu-trace export build/quickstart/digits.hputrace --format perfetto a trace for https://ui.perfetto.dev
  build/bin/hccl-perf all_reduce --ranks 8 -b 1M -e 256M -f 4                   collectives on eight simulated devices
  ninja -C build                                                                libSynapse.so, tests and all the rest
  tools/test.sh                                                                 everything that must pass
  docs/architecture.md                                                          how it works
TEXT
