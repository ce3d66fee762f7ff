#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The rules of check_abi.py, on headers that are changed as a careless or a careful hand would."""

import os
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import check_abi  # noqa: E402

HEADER = """
#include <cstdint>
#include <string>
namespace hpu {
enum class Kind : uint8_t { kOne, kTwo };
struct SomeOptions { std::string name; int32_t size = 0; int32_t more = 0; };
struct Record { int64_t a = 0, b = 0; };
class Work { public: virtual ~Work(); virtual void start(); virtual int name() const; };
inline SomeOptions options; inline Record record; inline Work* work; inline size_t used = sizeof(Work);
}
"""


def entries(header):
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "header.cpp")
        with open(path, "w", encoding="utf-8") as file:
            file.write(header)
        found = check_abi.records(check_abi.clang(), ["-std=c++17"], path)
        found.update(check_abi.declarations(check_abi.clang(), ["-std=c++17"], path))
        return found


class Rules(unittest.TestCase):
    def changes(self, *edits):
        header = HEADER
        for old, new in edits:
            self.assertIn(old, header)
            header = header.replace(old, new)
        return list(check_abi.differences(entries(HEADER), entries(header)))

    def test_nothing_differs(self):
        self.assertEqual(self.changes(), [])
        self.assertEqual(set(entries(HEADER)), {"hpu::Kind enum", "hpu::SomeOptions", "hpu::Record", "hpu::Work", "hpu::Work virtual"})

    def test_a_field_that_is_inserted(self):
        [(text, compatible)] = self.changes(("int32_t size = 0;", "int64_t inserted = 0; int32_t size = 0;"))
        self.assertIn("hpu::SomeOptions", text)
        self.assertFalse(compatible)

    def test_options_grow_at_their_end(self):
        [(_, compatible)] = self.changes(("int32_t more = 0;", "int32_t more = 0; int64_t last = 0;"))
        self.assertTrue(compatible)

    def test_not_in_padding_of_the_old_one(self):
        before = entries(HEADER.replace("int32_t more = 0;", ""))
        [(_, compatible)] = check_abi.differences(before, entries(HEADER))
        self.assertFalse(compatible)

    def test_other_records_do_not_grow(self):
        [(_, compatible)] = self.changes(("int64_t a = 0, b = 0;", "int64_t a = 0, b = 0, c = 0;"))
        self.assertFalse(compatible)

    def test_virtual_functions_keep_their_order(self):
        [(_, compatible)] = self.changes(("virtual void start();", ""), ("const; };", "const; virtual void start(); };"))
        self.assertFalse(compatible)

    def test_enumerators_are_added_at_the_end(self):
        [(_, compatible)] = self.changes(("kTwo }", "kTwo, kThree }"))
        self.assertTrue(compatible)
        [(_, compatible)] = self.changes(("kOne, kTwo", "kZero, kOne, kTwo"))
        self.assertFalse(compatible)

    def test_symbols(self):
        self.assertEqual([ok for _, ok in check_abi.differences({"l a": "symbol l a"}, {"l b": "symbol l b"})], [False, True])


if __name__ == "__main__":
    unittest.main()
