#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# ONNX Runtime, an npm package, into benchmarks/ort: what random models and benchmarks are compared with. Nothing is
# built with it, so where it cannot be installed (no npm, no network) this warns and succeeds.
set -uo pipefail
cd "$(dirname "$0")/../benchmarks/ort"

there() { compgen -G 'node_modules/onnxruntime-node/bin/*/linux/x64/libonnxruntime.so.1' >/dev/null; }

there && exit 0
if ! command -v npm >/dev/null; then
  reason="npm is not there"
elif ! npm ci --ignore-scripts --no-audit --no-fund >&2; then
  reason="'npm ci' failed (see above)"
elif ! there; then
  reason="the package has no library for this machine"
else
  exit 0
fi
cat >&2 <<END
WARNING: ONNX Runtime could not be installed: $reason.
  Tests that need it are left out, by name, as "Skipped": random_models_* but for the narrow precisions.
  To run them: cd benchmarks/ort && npm ci --ignore-scripts
END
