# SPDX-License-Identifier: Apache-2.0
"""Code that a page shows is in the program that it is from, line by line.

Usage: check_code.py SOURCE_DIR PAGE... A block ```cpp file=PATH (or ```c) (of the page's folder) holds lines of that file as they follow each
other there; a line `…` stands for what is left out. Blocks without file= are not looked at. The exit code is 2 when a line is missing."""
import os
import re
import sys


def missing(shown, lines):
    """The first line of `shown` that is not where it should be, or None."""
    parts = [[]]
    for line in shown:
        if line.strip() == "…":
            parts.append([])
        else:
            parts[-1].append(line.rstrip())
    at = 0
    for part in parts:
        found = next((i for i in range(at, len(lines) - len(part) + 1) if lines[i:i + len(part)] == part), None)
        if found is None:
            return next((line for line in part if line not in lines[at:]), part[0])
        at = found + len(part)
    return None


def main():
    source, pages = os.path.abspath(sys.argv[1]), sys.argv[2:]
    count, failed = 0, False
    for page in pages:
        with open(os.path.join(source, page), encoding="utf-8") as file:
            text = file.read()
        for match in re.finditer(r"^```c(?:pp)? file=(\S+)\n(.*?)^```", text, re.M | re.S):
            count += 1
            path = os.path.join(source, os.path.dirname(page), match[1])
            with open(path, encoding="utf-8") as file:
                line = missing(match[2].splitlines(), file.read().splitlines())
            if line is not None:
                failed = True
                print(f"{page}:{text.count(chr(10), 0, match.start()) + 1}: {match[1]} does not have there (any more): {line}")
    print(f"{count} blocks")
    sys.exit(2 if failed or count < 3 * len(pages) else 0)


if __name__ == "__main__":
    main()
