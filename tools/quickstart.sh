#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# From a clone to a verified run: installs packages, builds, compiles a trained model exported by PyTorch, runs it on a
# simulated Gaudi 2, compares every answer and writes a trace. A second run takes seconds.
set -euo pipefail
cd "$(dirname "$0")/.."

work=build/quickstart
model=tests/models/digits

say() { printf '\n\033[1m%s\033[0m\n' "$*"; }
show() { printf '$ %s\n' "$*"; "$@"; }

say "1. Packages"
tools/install_deps.sh
echo "all there"

say "2. Build (about 15 minutes on two cores the first time)"
[ -f build/build.ninja ] || cmake --preset release >/dev/null
ninja -C build --quiet hpu-compile hpu-run hpu-verify hpu-trace hpu-opt
echo "programs are in build/bin"

mkdir -p "$work"
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
  ninja -C build                                                                hpu-smi, hccl-perf, libSynapse.so and all the rest
  tools/test.sh                                                                 everything that must pass
  docs/architecture.md                                                          how it works
TEXT
