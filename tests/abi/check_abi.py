#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares what programs are linked with (public records, virtual functions, enumerators, exported symbols) with the baseline.

    tests/abi/check_abi.py build            # what CI runs; 2 when something differs
    tests/abi/check_abi.py build --update   # a deliberate change: writes the baseline and says which line CHANGELOG.md needs

Layouts come from clang's own record layouts of every header in include/, so a field in any public struct counts. A change is
*compatible* when programs that were compiled before still work: new symbols, records and enumerators, and fields behind
the old end of an option struct (docs/versioning.md). Anything else is *incompatible* and counts up the first number of
the revision. Exit codes: 0 ok, 1 user error, 2 differs, 3 a program failed.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
SOURCE = os.path.dirname(os.path.dirname(HERE))
BASELINE = os.path.join(HERE, "baseline.txt")
LIBRARIES = ("libhpu_runtime.so", "libhpu_collectives.so", "libhpu_compiler.so", "libSynapse.so", "libhlml.so")
# Ours, and what the C headers declare.
OURS = re.compile(r"(hpu::|syn|_?hccl|_?hlml|ns_|HpuSyn|hpuSyn)")
# Programs pass these by a pointer and their own size, so they may grow at the end.
OPTION_STRUCT = re.compile(r"hpu::(\w+::)*\w*(Options|Arguments)$")
C_ONLY = ("synapse_c_params.h", "perf_lib_layer_params_c.h")
CLANG = ("clang++-22", "clang++")


class Failed(Exception):
    """A program ended with an error, or is not there."""


def run(*command):
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except FileNotFoundError as error:
        raise Failed(f"{command[0]} is not installed") from error
    if done.returncode != 0:
        lines = done.stderr.strip().splitlines()
        raise Failed(f"{command[0]}: exit code {done.returncode}: {lines[0] if lines else 'no message'}")
    return done.stdout


def clang():
    for name in CLANG:
        if subprocess.run(["which", name], capture_output=True, check=False).returncode == 0:
            return name
    raise Failed(f"none of {', '.join(CLANG)} is installed")


def every_header(include):
    text = ""
    for folder in ("hpu", "habanalabs"):
        for name in sorted(os.listdir(os.path.join(include, folder))):
            # C programs have these in place of the C++ ones, with the same names.
            if name.endswith((".h", ".hpp")) and name not in C_ONLY:
                text += f'#include "{folder}/{name}"\n'
    return text


def simple(text):
    """A type's name without what depends on the standard library's version or on where it is installed."""
    text = re.sub(r"\(anonymous at [^)]*\)", "(anonymous)", text)
    text = re.sub(r"\(unnamed (struct|union|enum|class)? ?at [^)]*\)", "(unnamed)", text)
    return re.sub(r"\b(class|struct|enum|union) ", "", text).strip()


def records(compiler, flags, source):
    """One line a record: its size and alignment, and each field's offset, type and name."""
    found = {}
    name, fields = None, []
    for line in run(compiler, *flags, "-fsyntax-only", "-Xclang", "-fdump-record-layouts-complete", source).splitlines():
        head = re.match(r"^ +0 \| (?:struct|class|union) (.*)$", line)
        if head:
            name, fields = simple(head[1].removesuffix(" (empty)")), []
            continue
        end = re.match(r"^ +\| \[sizeof=(\d+), .*align=(\d+)", line)
        if end and name:
            if OURS.match(name) and "(unnamed)" not in name and "<" not in name:
                found[name] = f"record {name}: {end[1]} bytes, aligned to {end[2]}" + "".join("; " + f for f in fields)
            name = None
            continue
        field = re.match(r"^ *(\d+(?::\d+-\d+|:-)?) \|   (\S.*)$", line)
        if field and name:
            fields.append(f"{field[1]} {simple(field[2])}")
    return found


def declarations(compiler, flags, source):
    """Virtual functions by class in the order of declaration, and enumerators with their values."""
    found = {}

    def value_of(node, after):
        for inner in node.get("inner", []):
            while inner.get("kind") in ("ConstantExpr", "ImplicitCastExpr"):
                if "value" in inner:
                    return int(inner["value"])
                inner = inner["inner"][0]
            if inner.get("kind") == "IntegerLiteral":
                return int(inner["value"])
        return after + 1

    def walk(node, scope):
        kind, name = node.get("kind"), node.get("name")
        if kind == "NamespaceDecl" or (kind == "CXXRecordDecl" and node.get("completeDefinition")):
            inside = scope + [name] if name else scope
            virtual = []
            for inner in node.get("inner", []):
                if inner.get("virtual") and inner.get("kind") in ("CXXMethodDecl", "CXXDestructorDecl"):
                    virtual.append(f"{inner['name']}: {inner['type']['qualType']}")
                walk(inner, inside)
            if virtual:
                full = "::".join(inside)
                found[full + " virtual"] = f"virtual {full}: " + "; ".join(virtual)
        elif kind == "EnumDecl" and name:
            full, values, last = "::".join(scope + [name]), [], -1
            for inner in node.get("inner", []):
                if inner.get("kind") == "EnumConstantDecl":
                    last = value_of(inner, last)
                    values.append(f"{inner['name']}={last}")
            if values:
                found[full + " enum"] = f"enum {full}: " + ", ".join(values)

    text = run(compiler, *flags, "-fsyntax-only", "-Xclang", "-ast-dump=json", "-Xclang", "-ast-dump-filter=hpu", source)
    decoder, at = json.JSONDecoder(), 0
    while True:
        while at < len(text) and text[at].isspace():
            at += 1
        if at == len(text):
            return found
        node, at = decoder.raw_decode(text, at)
        if node.get("kind") == "NamespaceDecl" and node.get("name") == "hpu":
            walk(node, [])


def symbols(build):
    found = {}
    for library in LIBRARIES:
        path = os.path.join(build, "lib", library)
        if not os.path.exists(path):
            raise Failed(f"{path} is not there: build it first")
        for line in run("nm", "-D", "--defined-only", path).splitlines():
            kind, name = line.split()[-2:]
            # Weak functions are inline ones, which programs have themselves.
            if kind != "W":
                name = name.split("@")[0]
                found[f"{library} {name}"] = f"symbol {library} {name}"
    return found


def current(build):
    include = os.path.join(SOURCE, "include")
    flags = ["-std=c++17", f"-I{include}", f"-I{include}/habanalabs", f"-I{os.path.join(build, 'include')}"]
    compiler = clang()
    with tempfile.TemporaryDirectory() as folder:
        source = os.path.join(folder, "all.cpp")
        with open(source, "w", encoding="utf-8") as file:
            file.write(every_header(include))
        entries = records(compiler, flags, source)
        entries.update(declarations(compiler, flags, source))
    entries.update(symbols(build))
    return entries


def key_of(line):
    kind, rest = line.split(" ", 1)
    if kind == "symbol":
        return rest
    name = re.match(r"(.*?): ", rest)[1]
    return name if kind == "record" else f"{name} {kind}"


def read_baseline():
    with open(BASELINE, encoding="utf-8") as file:
        lines = file.read().splitlines()
    revision = re.fullmatch(r"ABI (\d+)\.(\d+)", lines[0])
    if not revision:
        raise Failed(f"{BASELINE}:1: not a revision")
    return (int(revision[1]), int(revision[2])), {key_of(line): line for line in lines[1:] if line}


def grows(name, old, new):
    """Whether programs that were compiled with the old record may go on with the new one."""
    if not OPTION_STRUCT.match(name):
        return False
    old_head, *old_fields = old.split("; ")
    new_fields = new.split("; ")[1:]
    old_bytes = int(re.search(r": (\d+) bytes", old_head)[1])
    # In the old one's padding a new field would have no defined value.
    return (new_fields[:len(old_fields)] == old_fields and
            all(int(field.split()[0].split(":")[0]) >= old_bytes for field in new_fields[len(old_fields):]))


def differences(before, now):
    """(text, compatible) of each."""
    for key in sorted(before.keys() | now.keys()):
        old, new = before.get(key), now.get(key)
        if old == new:
            continue
        if old is None:
            yield f"new: {new}", True
        elif new is None:
            yield f"gone: {old}", False
        else:
            kind = old.split(" ", 1)[0]
            compatible = (kind == "record" and grows(key, old, new)) or (kind == "enum" and new.startswith(old + ", "))
            yield f"was: {old}\n  is:  {new}", compatible


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", help="build folder of a Release tree")
    parser.add_argument("--update", action="store_true", help="write the baseline: the change is meant")
    arguments = parser.parse_args()
    now = current(arguments.build)
    revision, before = ((1, 0), {}) if not os.path.exists(BASELINE) else read_baseline()
    changes = list(differences(before, now)) if before else []
    if arguments.update:
        if changes:
            revision = (revision[0], revision[1] + 1) if all(ok for _, ok in changes) else (revision[0] + 1, 0)
        with open(BASELINE, "w", encoding="utf-8") as file:
            file.write(f"ABI {revision[0]}.{revision[1]}\n" + "".join(now[key] + "\n" for key in sorted(now)))
        print(f"{BASELINE}: {len(changes)} changes. CHANGELOG.md needs a line with 'ABI {revision[0]}.{revision[1]}'.")
        return 0
    for text, compatible in changes:
        print(f"{'compatible' if compatible else 'INCOMPATIBLE'}: {text}")
    if changes:
        print(f"\n{len(changes)} changes of the ABI. If they are meant: tests/abi/check_abi.py {arguments.build} --update, and a line in "
              "CHANGELOG.md that names the revision.")
        return 2
    with open(os.path.join(SOURCE, "CHANGELOG.md"), encoding="utf-8") as file:
        if f"ABI {revision[0]}.{revision[1]}" not in file.read():
            print(f"CHANGELOG.md has no line with 'ABI {revision[0]}.{revision[1]}', which is the baseline's revision")
            return 2
    print(f"ABI {revision[0]}.{revision[1]}: {len(now)} entries as in the baseline")
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except Failed as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(3)
