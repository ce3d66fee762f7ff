# SPDX-License-Identifier: Apache-2.0
"""The table of aten ops that the device computes. `python3 -m hpu_torch.ops` prints it as docs/aten-ops.md."""
from . import _C

HEAD = """# aten ops

Generated from the plug-in's table (`pytorch/record/ops`); `python3 -m hpu_torch.ops` prints this page. Functional and in-place forms of
structured ops use the row of their `.out`, so that they are not listed. Whatever is not here runs on the CPU and is counted
([pytorch.md](pytorch.md)); so does a call that a row refuses. Views, tensors without values, random numbers and copies are no
rows: they are the device layer's. Tensors of float64 and complex numbers are the CPU's.
"""


def ops_table():
    """{"add": {"overloads": ["Tensor", "out"], "refused": "what its rows refuse"}}, sorted; an overload without a name is "". Ops of our own begin
    with hpu::."""
    limits = {op: text for names, text in _C.table_limits().items() for op in names.split()}
    table = {}
    for name in _C.table():
        op, _, overload = name.partition(".")
        table.setdefault(op, {"overloads": [], "refused": limits.get(op, "")})["overloads"].append(overload)
    return dict(sorted(table.items()))


def page():
    table = {op: row for op, row in ops_table().items() if not op.startswith("hpu::")}
    count = sum(len(row["overloads"]) for row in table.values())
    own = [f"`{op[5:]}`" for op in ops_table() if op.startswith("hpu::")]
    lines = [HEAD, f"{len(table)} ops, {count} overloads.", "", "| op | overloads | refused |", "|---|---|---|"]
    for op, row in table.items():
        lines.append(f"| {op} | {' '.join(overload or '(default)' for overload in row['overloads'])} | {row['refused']} |")
    lines += ["", f"Ops of `torch.ops.hpu`: {', '.join(own)}."]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    print(page(), end="")
