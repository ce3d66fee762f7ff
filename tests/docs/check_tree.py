# SPDX-License-Identifier: Apache-2.0
"""The table of folders in docs/architecture.md, held to the tree.

Usage: check_tree.py SOURCE_DIR. Every folder with sources is in one row, and has a README of at most 30 lines; no file
includes a header of a folder that its row does not allow. What is wrong is named; the exit code is then 2."""
import os
import re
import subprocess
import sys

TOPS = ("src", "compiler", "runtime", "collectives", "include", "tools", "pytorch")
README_LINES = 30


def folder_of(path):
    """The row's folder of a file: two levels, three within src/bindings and runtime/driver; None at a top level."""
    parts = path.split("/")
    depth = 3 if len(parts) > 3 and parts[:2] in (["src", "bindings"], ["runtime", "driver"]) else 2
    return "/".join(parts[:depth]) if len(parts) > depth else None


def table(text):
    """[(folders, what the third column allows)] in order."""
    section = text.split("## Folders", 1)[1].split("\n## ", 1)[0]
    result = []
    for line in section.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        folders = re.findall(r"`([^`]+)`", cells[0]) if len(cells) == 3 else []
        if line.startswith("|") and folders:
            result.append((folders, cells[2]))
    return result


def allowed(rows, index):
    """A predicate over folders: what row `index` may include."""
    folders, text = rows[index]
    names = re.findall(r"`([^`]+)`", text)
    if "the ground floor" in text:
        names += [folder for row, _ in rows[:index] for folder in row if folder.startswith("src/") and "bindings" not in folder]
    patterns = [re.escape(name).replace(r"\*", "[^/]+") for name in names + ["include/hpu"]]
    return lambda folder: text == "everything" or folder in folders or any(re.fullmatch(one, folder) for one in patterns)


def main():
    source = os.path.abspath(sys.argv[1])
    read = lambda path: open(os.path.join(source, path), encoding="utf-8").read()
    tracked = subprocess.run(["git", "-C", source, "ls-files", *TOPS], check=True, stdout=subprocess.PIPE, text=True).stdout.split()
    sources = [path for path in tracked if path.endswith((".cpp", ".h", ".hpp", ".c", ".inc"))]
    known, errors = set(sources), []

    rows = table(read("docs/architecture.md"))
    row_of = {}
    for index, (folders, _) in enumerate(rows):
        for folder in folders:
            if folder in row_of:
                errors.append(f"docs/architecture.md: {folder} is in two rows")
            row_of[folder] = index
    folders = {folder_of(path) for path in sources} - {None}
    errors += [f"docs/architecture.md: the table of folders has no row for {folder}" for folder in sorted(folders - set(row_of))]
    errors += [f"docs/architecture.md: the table names {folder}, which is not there" for folder in sorted(set(row_of) - folders)]

    for folder in sorted(folders):
        readme = f"{folder}/README.md"
        if readme not in tracked:
            errors.append(f"{folder} has no README.md")
        elif len(read(readme).splitlines()) > README_LINES:
            errors.append(f"{readme} has more than {README_LINES} lines")

    edges = 0
    for path in sources:
        folder = folder_of(path)
        if folder not in row_of:
            continue
        may = allowed(rows, row_of[folder])
        for header in re.findall(r'#\s*include "([^"]+)"', read(path)):
            candidates = (header, "src/" + header, "include/" + header, "pytorch/include/" + header, os.path.join(os.path.dirname(path), header))
            target = next((folder_of(one) for one in candidates if one in known), None)
            edges += 1
            if target and not may(target):
                errors.append(f"{path} includes {header}: docs/architecture.md does not allow {folder} to depend on {target}")
    print(f"{len(folders)} folders, {len(sources)} files, {edges} includes, {len(errors)} differences")
    print("\n".join(errors))
    sys.exit(2 if errors or edges < 1000 else 0)


if __name__ == "__main__":
    main()
