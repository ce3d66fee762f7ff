#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""A model with 2.5 GB of external data: it compiles and computes, offsets beyond 2 GiB are read where they say, and files that are too
large for protobuf are refused by name."""

import os
import tempfile
import unittest

import numpy as np

from cli import onnx, run

ROWS, WIDTH = 610_352, 1024  # 2.5e9 bytes of f32.


@unittest.skipUnless(onnx, "needs onnx")
class Large(unittest.TestCase):
    def setUp(self):
        work = tempfile.TemporaryDirectory(prefix="hpu-cli-")
        self.addCleanup(work.cleanup)
        self.work = work.name

    def model(self, offset=0, rows=ROWS):
        tensor = onnx.TensorProto(name="table", data_type=onnx.TensorProto.FLOAT, dims=[rows, WIDTH], data_location=onnx.TensorProto.EXTERNAL)
        for key, value in (("location", "table.bin"), ("offset", offset), ("length", rows * WIDTH * 4)):
            tensor.external_data.add(key=key, value=str(value))
        info = onnx.helper.make_tensor_value_info
        graph = onnx.helper.make_graph([onnx.helper.make_node("Gather", ["table", "ids"], ["y"])], "large",
                                       [info("ids", onnx.TensorProto.INT64, [4])], [info("y", onnx.TensorProto.FLOAT, [4, WIDTH])], [tensor])
        path = os.path.join(self.work, "large.onnx")
        onnx.save(onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=8), path)
        return path

    def test_external_data_beyond_two_gigabytes(self):
        ids = np.array([0, 7, 540_000, ROWS - 1])  # The third lies beyond 2 GiB.
        want = np.random.default_rng(1).random((4, WIDTH), np.float32)
        with open(os.path.join(self.work, "table.bin"), "wb") as file:
            file.truncate(ROWS * WIDTH * 4)
            for row, values in zip(ids, want):
                file.seek(int(row) * WIDTH * 4)
                file.write(values.tobytes())
        np.save(os.path.join(self.work, "ids.npy"), ids)
        result = run("hpu-run", self.model(), "--input", "ids=@" + os.path.join(self.work, "ids.npy"), "--output", os.path.join(self.work, "out"))
        self.assertEqual(result.returncode, 0, result.stderr)
        np.testing.assert_array_equal(np.load(os.path.join(self.work, "out", "output_0.npy")), want)
        # Part of the file, from an offset beyond 2 GiB.
        result = run("hpu-compile", self.model(offset=540_000 * WIDTH * 4, rows=16), "--inspect", "--json", "--target", "gaudi2")
        self.assertEqual(result.returncode, 0, result.stderr)
        result = run("hpu-compile", self.model(offset=8), "--inspect")
        self.assertEqual(result.returncode, 1)
        self.assertIn("the file is truncated", result.stderr)

    def test_a_file_that_protobuf_cannot_read_is_refused_with_the_mend(self):
        path = os.path.join(self.work, "huge.onnx")
        with open(path, "wb") as file:
            file.truncate((1 << 31) + 1)
        result = run("hpu-compile", path)
        self.assertEqual(result.returncode, 1)
        for part in ("protobuf allows 2 GiB", "save_as_external_data"):
            self.assertIn(part, result.stderr)


if __name__ == "__main__":
    unittest.main()
