# SPDX-License-Identifier: Apache-2.0
"""Compiles the model of docs/architecture.md and finds every line of IR that the document shows.

A block ```mlir phase=NAME holds lines of the dump after that phase, in order; … stands for text that was cut. Locations
are ignored. Usage: check_walk.py HPU_COMPILE DOCUMENT
"""
import os
import re
import subprocess
import sys
import tempfile

import make_ffn


def blocks(text):
    """(phase, lines) of each block."""
    return [(phase, body.splitlines()) for phase, body in re.findall(r"^```mlir phase=(\w+)\n(.*?)^```", text, re.M | re.S)]


def without_locations(text):
    nested = r"\((?:[^()]|\((?:[^()]|\([^()]*\))*\))*\)"
    return [re.sub(rf" loc{nested}", "", line).strip() for line in text.splitlines()]


def missing(shown, dump):
    """The first line of `shown` that does not follow in `dump`, or None."""
    lines = iter(dump)
    for line in shown:
        if not line.strip():
            continue
        pattern = re.compile(".*".join(re.escape(part.strip()) for part in line.strip().split("…")))
        if not any(pattern.match(candidate) for candidate in lines):
            return line.strip()
    return None


def dumps(compiler, folder):
    """IR by phase."""
    model = os.path.join(folder, "ffn.onnx")
    make_ffn.save(make_ffn.make_model(), model)
    run = lambda *options: subprocess.run([compiler, model, "--quiet", "--target", "gaudi2", *options], check=True)
    run("-o", os.path.join(folder, "import.mlir"), "--stop-after", "import")
    run("-o", os.path.join(folder, "ffn.recipe"), "--dump-phases", folder)
    result = {}
    for name in os.listdir(folder):
        phase = re.fullmatch(r"(?:\d\d-)?(\w+)\.mlir", name)
        if phase:
            with open(os.path.join(folder, name), encoding="utf-8") as file:
                result[phase[1]] = without_locations(file.read())
    return result


def main():
    compiler, document = sys.argv[1:]
    with open(document, encoding="utf-8") as file:
        shown = blocks(file.read())
    if len(shown) < 6:
        sys.exit(f"{document}: only {len(shown)} blocks ```mlir phase=NAME; the walk is gone")
    with tempfile.TemporaryDirectory() as folder:
        ir = dumps(compiler, folder)
    failed = False
    for phase, lines in shown:
        line = missing(lines, ir.get(phase, []))
        if line is not None:
            print(f"{document}: after the phase {phase} there is no line (any more): {line}")
            print("  see it with: hpu-compile ffn.onnx --dump-phases=DIR", "\n".join(ir.get(phase, [])[:40])[:4000], sep="\n")
            failed = True
    sys.exit(2 if failed else 0)


if __name__ == "__main__":
    main()
