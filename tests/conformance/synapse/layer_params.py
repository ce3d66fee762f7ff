# SPDX-License-Identifier: Apache-2.0
"""Parameter structures for the cases, laid out as the public C header says.

    params("ns_Softmax_Params", dim=1)                 bytes; members that are not given are zero
    params("ns_PadKernelEx_Params", pads=[1, 2], value=0.5, mode="PAD_MODE_REFLECT")
"""

import ctypes
import os
import re

_include = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../../include/habanalabs")


class _Fint(ctypes.Union):
    _fields_ = [("f", ctypes.c_float), ("i", ctypes.c_int)]


_types = {
    "bool": ctypes.c_bool, "int": ctypes.c_int, "unsigned int": ctypes.c_uint, "float": ctypes.c_float,
    "double": ctypes.c_double, "fint_t": _Fint, "unsigned char": ctypes.c_ubyte, "char": ctypes.c_char,
    "short": ctypes.c_short, "unsigned short": ctypes.c_ushort,
}
_constants = {}


def _without_comments(path):
    with open(os.path.join(_include, path)) as file:
        return re.sub(r"/\*.*?\*/|//[^\n]*", "", file.read(), flags=re.S)


def _read():
    text = _without_comments("perf_lib_enums.h")
    for body, name in re.findall(r"enum\s*\w*\s*\{([^}]*)\}\s*(\w*)", text):
        value = -1
        for entry in filter(None, (e.strip() for e in body.split(","))):
            label, _, given = entry.partition("=")
            value = eval(given) if given else value + 1
            _constants[label.strip()] = value
        if name:
            _types[name] = ctypes.c_int
    _types["EPoolingConvention"] = ctypes.c_int
    text = _without_comments("perf_lib_layer_params_c.h")
    for body, name in re.findall(r"typedef struct \{([^}]*)\}\s*(\w+);", text):
        fields = []
        for declaration in filter(None, (d.strip() for d in body.split(";"))):
            if "__attribute__" in declaration:
                break
            kind, names = re.match(r"((?:unsigned )?\w+) (.*)", declaration, re.S).groups()
            for member in names.split(","):
                label, count = re.match(r"(\w+)(?:\[(\d+)\])?", member.strip()).groups()
                fields.append((label, _types[kind] * int(count) if count else _types[kind]))
        _types[name] = type(name, (ctypes.Structure,), {"_fields_": fields})


_read()


def _assign(target, name, value):
    current = getattr(target, name)
    if isinstance(current, _Fint):
        setattr(current, "f" if isinstance(value, float) else "i", value)
    elif isinstance(current, ctypes.Array):
        for i, item in enumerate(value):
            current[i] = item
    elif isinstance(current, ctypes.Structure):
        for key, item in value.items():
            _assign(current, key, item)
    else:
        setattr(target, name, _constants[value] if isinstance(value, str) else value)


def params(structure, **members):
    """A float given for a fint_t is a float, an int is an int."""
    result = _types[structure]()
    for name, value in members.items():
        _assign(result, name, value)
    return bytes(result)
