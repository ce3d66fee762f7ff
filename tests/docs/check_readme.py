# SPDX-License-Identifier: Apache-2.0
"""The README's five minutes, word for word, in an empty folder, with the programs of a build tree or of an installed one.

Usage: check_readme.py SOURCE_DIR BUILD_DIR, or check_readme.py SOURCE_DIR PREFIX --installed [--hide BUILD_DIR]. A python block
is the file that its first line names; sh blocks are run one after the other. The picture must be the one of docs/images
(HPU_README_PICTURE=1 writes it there). Installed: the prefix is moved, nothing of the tree is in the environment, and
where namespaces are allowed the source and build folders are empty for the run. The exit code is 1 when a block fails."""
import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile


def blocks(text):
    """(kind, code, line) of the section's fenced blocks."""
    heading = "## Your own PyTorch model in five minutes"
    begin = text.index(heading)
    end = text.index("\n## ", begin + 1)
    return [(match.group(1), match.group(2), text.count("\n", 0, match.start()) + 2)
            for match in re.finditer(r"^```(\w+)\n(.*?)^```", text, re.M | re.S) if begin < match.start() < end]


def without(folders):
    """What to put before a command so that it finds nothing in these folders; empty where that is not allowed."""
    hide = ["unshare", "-m", "bash", "-c", 'for d in ' + " ".join(f"'{one}'" for one in folders) +
            '; do mount -t tmpfs none "$d" || exit 99; done; exec "$@"', "_"]
    return hide if shutil.which("unshare") and subprocess.run([*hide, "true"], stderr=subprocess.DEVNULL, check=False).returncode == 0 else []


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("source", type=os.path.abspath)
    parser.add_argument("tree", type=os.path.abspath)
    parser.add_argument("--installed", action="store_true")
    parser.add_argument("--hide", type=os.path.abspath, help="the build folder")
    parser.add_argument("--no-python", action="store_true", help="the package openhpu was not built")
    arguments = parser.parse_args()
    source = arguments.source
    with open(os.path.join(source, "README.md"), encoding="utf-8") as file:
        parts = blocks(file.read())
    image = os.path.join(source, "docs", "images", "block.svg")
    picture = open(image, "rb").read() if os.path.exists(image) else b""
    assert [kind for kind, _, _ in parts] == ["python", "sh", "python", "sh"], "the README's five minutes are two programs and their commands"

    environment = {name: value for name, value in os.environ.items()
                   if name in ("HOME", "LANG", "LC_ALL", "TMPDIR", "USER", "HPU_NODE", "HPU_ACQUIRE_TIMEOUT_MS")}
    environment["PATH"] = os.path.join(arguments.tree, "bin") + ":/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"
    environment["PYTHONPATH"] = os.path.join(arguments.tree, "lib/python3/dist-packages" if arguments.installed else "python")
    with tempfile.TemporaryDirectory(prefix="hpu-readme-") as work:
        before = []
        if arguments.installed:
            tree = os.path.join(work, "moved")  # Out of the build folder, which is hidden.
            shutil.copytree(arguments.tree, tree, symlinks=True)
            environment = {name: value.replace(arguments.tree, tree) for name, value in environment.items()}
            before = without([one for one in (arguments.hide, source) if one])
            print("the source and build folders are " + ("hidden" if before else "not hidden: this user may not mount; "
                  "only the environment lacks them"))
        here = os.path.join(work, "empty")
        os.mkdir(here)
        for kind, code, line in parts[:2] if arguments.no_python else parts:
            if kind == "python":
                with open(os.path.join(here, re.match(r"# (\w+\.py)\n", code)[1]), "w", encoding="utf-8") as file:
                    file.write(code)
                continue
            result = subprocess.run([*before, "bash", "-euxc", code], cwd=here, env=environment, text=True, timeout=240, check=False,
                                    stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
            print(result.stdout)
            if result.returncode != 0:
                sys.exit(f"README.md:{line}: these commands fail (exit code {result.returncode})")
            if "hpu-run" in code:
                for line_of_tool in (r"^output +y: passed", r"^passed +y "):  # hpu-run's and hpu-verify's.
                    assert re.search(line_of_tool, result.stdout, re.M), f"README.md:{line}: not compared with PyTorch's output"
            if "run.py" in code:
                worst = float(re.search(r"largest difference from PyTorch: (\S+)", result.stdout)[1])
                assert worst < 1e-4, f"README.md:{line}: {worst}"
        with open(os.path.join(here, "block.svg"), "rb") as file:
            drawn = file.read()
    if os.environ.get("HPU_README_PICTURE"):
        os.makedirs(os.path.dirname(image), exist_ok=True)
        with open(image, "wb") as file:
            file.write(drawn)
    elif drawn != picture:
        sys.exit("docs/images/block.svg is not what the README's commands draw (any more): HPU_README_PICTURE=1 with this test writes it again")
    print("the README's blocks work")


if __name__ == "__main__":
    main()
