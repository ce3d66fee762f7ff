#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Gives every broken model of tests/models/malformed to hpu-compile and judges the refusals.

Each must end with exit code 1 within --timeout, mention what manifest.json says, and leave no
recipe. Exit codes: 0 ok, 1 user error, 2 a model was accepted or badly explained, 3 a crash.
"""

import json
import os
import re
import subprocess
import sys
import tempfile

import script_arguments


def judge(result, model, mention, recipe):
    """Problems with one refusal: (crashed, list of texts)."""
    if result.returncode not in (0, 1):
        lines = result.stderr.strip().splitlines()
        return True, [f"exit code {result.returncode}: {lines[-1] if lines else 'no message'}"]
    problems = []
    if result.returncode == 0:
        problems.append("was accepted")
    if os.path.exists(recipe):
        problems.append("a recipe was left behind")
    # The path is in every message and would satisfy patterns by accident.
    text = result.stderr.replace(model, "").replace(os.path.basename(model), "")
    for pattern in mention:
        if not re.search(pattern, text, re.IGNORECASE):
            problems.append(f"the error does not mention /{pattern}/: "
                            f"{text.strip().splitlines()[:3]}")
    return False, problems


def parse(argv):
    parser = script_arguments.parser(__doc__)
    parser.add_argument("--models", default=os.path.join(script_arguments.ROOT, "tests", "models", "malformed"))
    parser.add_argument("--timeout", type=float, default=20, help="seconds for one model")
    return script_arguments.parse(parser, argv)


def main(argv=None):
    args = parse(argv)
    try:
        tool = script_arguments.tool(args.build, "hpu-compile")
        with open(os.path.join(args.models, "manifest.json"), encoding="utf-8") as file:
            manifest = json.load(file)
    except (OSError, ValueError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    crashes = failures = 0
    for name, entry in manifest.items():
        model = os.path.join(args.models, name)
        with tempfile.TemporaryDirectory(prefix="verify-malformed-") as work:
            recipe = os.path.join(work, "model.recipe")
            try:
                result = subprocess.run([tool, model, "-o", recipe], capture_output=True,
                                        text=True, errors="replace", timeout=args.timeout,
                                        check=False)
                crashed, problems = judge(result, model, entry["mention"], recipe)
            except subprocess.TimeoutExpired:
                crashed, problems = True, [f"no answer within {args.timeout:g} s"]
        crashes += crashed
        failures += bool(problems)
        print(f"{'ok' if not problems else 'FAIL':5} {name:32} {entry['what']}")
        for problem in problems:
            print(f"      {problem}")
    print(f"{len(manifest)} models, {failures} failed")
    return 3 if crashes else 2 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
