# SPDX-License-Identifier: Apache-2.0
"""Runs the examples of a page: its python and sh blocks, one after the other, as a reader would in the folder of the sources.

Usage: check_examples.py PAGE SOURCE_DIR BUILD_DIR. Python blocks share their names; the exit code is 1 when one fails."""
import os
import re
import subprocess
import sys
import tempfile
import traceback


def main():
    page, source, build = (os.path.abspath(one) for one in sys.argv[1:4])
    with open(page, encoding="utf-8") as file:
        text = file.read()
    blocks = [(match.group(1), match.group(2), text.count("\n", 0, match.start()) + 2)
              for match in re.finditer(r"^```(python|sh)\n(.*?)^```", text, re.M | re.S)]
    assert blocks, f"{page} has no examples"
    sys.path.insert(0, os.path.join(build, "python"))
    environment = dict(os.environ, PATH=os.path.join(build, "bin") + os.pathsep + os.environ["PATH"])
    names = {"__name__": "__main__"}
    with tempfile.TemporaryDirectory(prefix="hpu-examples-") as work:
        for folder in ("include", "tests"):
            os.symlink(os.path.join(source, folder), os.path.join(work, folder))
        os.chdir(work)
        for kind, code, line in blocks:
            try:
                if kind == "python":
                    exec(compile("\n" * (line - 1) + code, page, "exec"), names)
                else:
                    subprocess.run(["bash", "-euc", code], check=True, timeout=120, env=environment)
            except Exception:  # pylint: disable=broad-except
                traceback.print_exc()
                sys.exit(f"{page}:{line}: this example fails")
    print(f"{len(blocks)} examples run")


if __name__ == "__main__":
    main()
