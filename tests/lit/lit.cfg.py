# SPDX-License-Identifier: Apache-2.0
# The lit suite of OpenHPU; run it through ctest (-L lit) or `lit -v BUILD/tests/lit/normalize`.
import os

import lit.formats

config.name = "OpenHPU"
config.test_format = lit.formats.ShTest(execute_external=False)
config.suffixes = [".mlir", ".test"]
config.excludes = ["Inputs", "CMakeLists.txt"]
config.test_source_root = os.path.dirname(__file__)

# build/bin holds our tools, LLVM's folder FileCheck, not, count and split-file.
paths = [os.path.join(config.hpu_binary, "bin"), config.hpu_llvm_bin]
config.environment["PATH"] = os.pathsep.join(paths + [os.environ.get("PATH", "")])
config.environment["HPU_SOURCE_DIR"] = config.hpu_source
for name in ("ASAN_OPTIONS", "UBSAN_OPTIONS", "TSAN_OPTIONS", "HPU_NUM_THREADS", "HPU_NODE", "HPU_ACQUIRE_TIMEOUT_MS"):
    if name in os.environ:
        config.environment[name] = os.environ[name]

config.substitutions.append(("%models", os.path.join(config.hpu_source, "tests/models")))
config.substitutions.append(("%python", "/usr/bin/python3"))
if config.hpu_sanitize:
    config.available_features.add("sanitizers")
