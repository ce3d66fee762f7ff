# SPDX-License-Identifier: Apache-2.0
"""Stand-in programs for tests of scripts that call the tools.

A stand-in appends its arguments to calls.jsonl beside it and does what plan.json says for its
name: print "stdout", exit with "code", sleep "sleep" seconds, copy "copy_outputs" to --output.
"""

import json
import os
import sys

_PROGRAM = """#!{python}
import json, os, shutil, sys, time
here = os.path.dirname(os.path.abspath(__file__))
name = os.path.basename(__file__)
with open(os.path.join(here, "calls.jsonl"), "a") as file:
    file.write(json.dumps([name] + sys.argv[1:]) + "\\n")
plan = json.load(open(os.path.join(here, "plan.json")))[name]
if isinstance(plan, list):
    counter = os.path.join(here, name + ".count")
    done = int(open(counter).read()) if os.path.exists(counter) else 0
    open(counter, "w").write(str(done + 1))
    plan = plan[min(done, len(plan) - 1)]
time.sleep(plan.get("sleep", 0))
if "copy_outputs" in plan and "--output" in sys.argv:
    target = sys.argv[sys.argv.index("--output") + 1]
    for file in os.listdir(plan["copy_outputs"]):
        shutil.copy(os.path.join(plan["copy_outputs"], file), target)
sys.stderr.write(plan.get("stderr", ""))
sys.stdout.write(plan["stdout"] if isinstance(plan["stdout"], str) else json.dumps(plan["stdout"]))
sys.exit(plan.get("code", 0))
"""


def install(folder, plan):
    """Writes one program for each name of the plan; a list is one entry for each call in turn."""
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, "plan.json"), "w", encoding="utf-8") as file:
        json.dump(plan, file)
    for name in plan:
        path = os.path.join(folder, name)
        with open(path, "w", encoding="utf-8") as file:
            file.write(_PROGRAM.format(python=sys.executable))
        os.chmod(path, 0o755)


def calls(folder):
    """The argument lists of all calls so far, the program's name first."""
    path = os.path.join(folder, "calls.jsonl")
    if not os.path.exists(path):
        return []
    with open(path, encoding="utf-8") as file:
        return [json.loads(line) for line in file]
