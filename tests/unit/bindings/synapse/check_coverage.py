# SPDX-License-Identifier: Apache-2.0
"""Every function that libSynapse.so exports has a test that uses it for its purpose (a call that must succeed)
and one that misuses it (a call that must give an error). Arguments: the list of functions, the folder of tests."""
import pathlib
import re
import sys

# They take nothing and cannot fail.
CANNOT_BE_MISUSED = {"hpuSynLastError", "hpuSynLastStatus", "hcclGetLastErrorMessage"}
# They return no status; LifeTest.cpp has a wrong call of each.
OTHER_RESULTS = {"hcclGetErrorString", "hcclCommGetAsyncErrorMessage", "hcclLookupDMABuff"}


def calls(name, text):
    """Yields what stands before and after each call of the function in its statement."""
    for match in re.finditer(r"(?<!\w)" + name + r"\(", text):
        start = max(text.rfind(c, 0, match.start()) for c in ";{}") + 1
        depth, end = 0, match.end() - 1
        while end < len(text):
            depth += {"(": 1, ")": -1}.get(text[end], 0)
            if depth == 0:
                break
            end += 1
        yield text[start:match.start()].strip(), text[end + 1:text.find(";", end)].strip()


def main(listing, folder):
    sources = [p for p in sorted(pathlib.Path(folder).rglob("*")) if p.suffix in (".c", ".cpp", ".h")]
    text = "\n".join(p.read_text() for p in sources)
    names = [line for line in pathlib.Path(listing).read_text().split("\n") if line and line[0] != "#"]
    missing = []
    for name in names:
        used = misused = name in CANNOT_BE_MISUSED or name in OTHER_RESULTS and text.count(name + "(") > 1
        for before, after in calls(name, text):
            used |= bool(re.search(r"(ASSERT_SYN\(|EXPECT_SYN\(|_HCCL\(|^HCCL\(|\bOK\(|\breturn)$", before) or re.match(r"(,|==)\s*synSuccess\b", after))
            misused |= bool(re.search(r"(SYN_ERROR|HCCL_ERROR)\($", before)
                            or re.match(r"(,|==)\s*syn(?!Success)[A-Z]\w+", after)
                            or re.match(r"!=\s*synSuccess\b", after))
        if not used:
            missing.append(f"{name}: no test uses it for its purpose")
        if not misused:
            missing.append(f"{name}: no test misuses it")
    print(f"{len(names)} functions in {len(sources)} sources")
    print("\n".join(missing))
    return 1 if missing or not names else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
