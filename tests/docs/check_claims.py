# SPDX-License-Identifier: Apache-2.0
"""Every claim of a page has a test that exists: in its tables, whose last column is called "test", each row names tests
(`Suite.Name` of Google Test, or the name of a CTest), and so may the text.

Usage: check_claims.py SOURCE_DIR PAGE... The exit code is 2 when a row names none, or a test is not there."""
import os
import re
import sys


def known_tests(source):
    """Suite.Name of Google Test, and the names of CTests as CMakeLists.txt have them (of a loop: without its variable)."""
    units, ctests = set(), set()
    for folder in ("tests", "examples", "pytorch", "benchmarks"):
        for path, _, files in os.walk(os.path.join(source, folder)):
            for name in files:
                if not name.endswith((".cpp", ".txt")):
                    continue
                with open(os.path.join(path, name), encoding="utf-8", errors="replace") as file:
                    text = file.read()
                units.update(f"{suite}.{test}" for suite, test in re.findall(r"^TEST(?:_F|_P)?\((\w+),\s*(\w+)\)", text, re.M))
                if name != "CMakeLists.txt":
                    continue
                ctests.update(re.findall(r"add_test\(NAME ([\w-]+)[\s)]", text))
                for variable, words, body in re.findall(r"foreach\((\w+)\s+([^)]*)\)(.*?)endforeach", text, re.S):
                    for test in re.findall(r"add_test\(NAME ([^\s)]+)", body):
                        ctests.update(test.replace("${" + variable + "}", word) for word in words.split())
    return units, ctests


def main():
    source, pages, failed, count = sys.argv[1], sys.argv[2:], False, 0
    units, ctests = known_tests(source)

    def wrong(page, number, what):
        nonlocal failed
        failed = True
        print(f"{page}:{number}: {what}")

    for page in pages:
        with open(os.path.join(source, page), encoding="utf-8") as file:
            lines = file.read().splitlines()
        in_claims = False
        for number, line in enumerate(lines, 1):
            cells = [cell.strip() for cell in line.strip().strip("|").split("|")] if line.startswith("|") else None
            if not cells:
                in_claims = False
            elif cells[-1] == "test":
                in_claims = True
                continue
            for name in re.findall(r"`([A-Z]\w+\.[A-Z]\w+)`", line):
                if name not in units:
                    wrong(page, number, f"there is no test {name}")
            if not in_claims or set(cells[-1]) <= set("-: "):
                continue
            named = re.findall(r"`([\w.-]+)`", cells[-1])
            count += len(named)
            if not named:
                wrong(page, number, "the claim names no test")
            for name in named:
                if name not in units and name not in ctests:
                    wrong(page, number, f"there is no test {name}")
    print(f"{count} tests named")
    sys.exit(2 if failed or count < 10 * len(pages) else 0)


if __name__ == "__main__":
    main()
