#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Models as exporters write them, and arguments as people misspell them: what the tools say."""

import json
import os
import re
import sys
import tempfile
import unittest

import numpy as np

from cli import DIGITS, MODEL, on_terminal, onnx, ROOT, run


@unittest.skipUnless(onnx, "needs Python's onnx")
class Models(unittest.TestCase):
    """Models as exporters write them: with free dimensions, with what is not supported, with names that say nothing."""

    def setUp(self):
        work = tempfile.TemporaryDirectory(prefix="hpu-cli-")
        self.addCleanup(work.cleanup)
        self.work = work.name

    def path(self, *names):
        return os.path.join(self.work, *names)

    def tool(self, code, tool, *arguments):
        result = run(tool, *arguments, "--quiet", cwd=self.work)
        self.assertEqual(result.returncode, code, result.stderr)
        return result

    @staticmethod
    def node(op, inputs, output, **attributes):
        return onnx.helper.make_node(op, inputs.split(), [output], name=output + "_node", **attributes)

    def save(self, name, nodes, inputs, outputs, constants, graph="torch_jit", values=(), **options):
        info = onnx.helper.make_tensor_value_info
        tensors = [onnx.numpy_helper.from_array(np.asarray(value), key) for key, value in constants.items()]
        model = onnx.helper.make_model(
            onnx.helper.make_graph(nodes, graph, [info(*value) for value in inputs], [info(*value) for value in outputs],
                                   tensors, value_info=[info(*value) for value in values]),
            opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=8)
        onnx.save(model, self.path(name), **options)
        return self.path(name)

    def decoder(self):
        """Positions come from a Range over the length, the mask is cut out of a constant one."""
        node, rng = self.node, np.random.default_rng(3)
        self.weights = {"emb": rng.random((50, 8), np.float32), "pos": rng.random((64, 8), np.float32),
                        "mask": np.triu(np.full((64, 64), -1e9, np.float32), 1)}
        nodes = [node("Shape", "ids", "s"), node("Gather", "s one", "len", axis=0), node("Range", "zero len one", "r"),
                 node("Gather", "pos r", "p"), node("Gather", "emb ids", "e"), node("Add", "e p", "x"),
                 node("Transpose", "x", "xt", perm=[0, 2, 1]), node("MatMul", "x xt", "scores"),
                 node("Unsqueeze", "len first", "len1"), node("Concat", "len1 len1", "ends", axis=0),
                 node("Slice", "mask starts ends axes", "m"), node("Add", "scores m", "masked"),
                 node("Softmax", "masked", "a", axis=-1), node("MatMul", "a x", "y")]
        integers = {"one": 1, "zero": 0, "first": [0], "starts": [0, 0], "axes": [0, 1]}
        constants = self.weights | {name: np.array(value, np.int64) for name, value in integers.items()}
        return self.save("decoder.onnx", nodes, [("ids", onnx.TensorProto.INT64, ["batch", "seq"])],
                         [("y", onnx.TensorProto.FLOAT, ["batch", "seq", 8])], constants, "main_graph")

    def decoded(self, ids):
        x = self.weights["emb"][ids].astype(np.float64) + self.weights["pos"][:ids.shape[1]]
        scores = x @ x.transpose(0, 2, 1) + self.weights["mask"][:ids.shape[1], :ids.shape[1]]
        scores = np.exp(scores - scores.max(-1, keepdims=True))
        return (scores / scores.sum(-1, keepdims=True) @ x).astype(np.float32)

    def data(self, ids):
        os.makedirs(self.path("data"), exist_ok=True)
        for name, array in (("input_0", ids), ("output_0", self.decoded(ids))):
            with open(self.path("data", name + ".pb"), "wb") as file:
                file.write(onnx.numpy_helper.from_array(array, "ids" if name == "input_0" else "y").SerializeToString())

    def test_sizes_come_from_data_also_when_some_are_named_and_ranges_depend_on_them(self):
        model = self.decoder()
        ids = np.random.default_rng(4).integers(0, 50, (2, 12))
        self.data(ids)
        np.save(self.path("ids.npy"), ids)
        for sizes in ((), ("--dim", "seq=12"), ("--dim", "batch=2"), ("--dim", "batch=2", "--dim", "seq=12"),
                      ("--shape", "ids=2x12")):
            self.assertIn("y: passed", self.tool(0, "hpu-run", model, "--data", "data", *sizes).stdout)
            self.assertIn("passed ", self.tool(0, "hpu-verify", model, "--data", "data", *sizes).stdout)
        for sizes in ((), ("--dim", "seq=12")):
            self.tool(0, "hpu-run", model, "--input", "ids=@ids.npy", "--output", "out", *sizes)
            np.testing.assert_allclose(np.load(self.path("out", "output_0.npy")), self.decoded(ids), rtol=1e-4)
        # With bounds the recipe is open, and takes the sizes when it runs.
        bounds = ("--dim", "batch=1:4", "--dim", "seq=1:16")
        self.assertIn("y: passed", self.tool(0, "hpu-run", model, "--data", "data", *bounds).stdout)
        self.tool(0, "hpu-run", model, "--input", "ids=@ids.npy", "--output", "open", *bounds)
        np.testing.assert_allclose(np.load(self.path("open", "output_0.npy")), self.decoded(ids), rtol=1e-4)
        error = self.tool(1, "hpu-run", model, "--input", "ids=@ids.npy", "--dim", "batch=1:4", "--dim", "seq=1:9").stderr
        self.assertIn("'seq' is 12 by input 'ids'", error)
        np.savez(self.path("in.npz"), ids=ids)
        np.savez(self.path("out.npz"), y=self.decoded(ids))
        self.tool(0, "hpu-verify", model, "--npz", "in.npz", "out.npz", "--dim", "batch=2")
        # Data that disagrees with an option is told with both.
        error = self.tool(1, "hpu-verify", model, "--data", "data", "--dim", "seq=9").stderr
        self.assertEqual(error, "error: --dim seq=9, but 'data' has 2x12xi64 for the input 'ids' [batch, seq]\n")
        error = self.tool(1, "hpu-run", model, "--data", "data", "--shape", "ids=2x9").stderr
        self.assertEqual(error, "error: --shape ids=2x9, but 'data' has 2x12xi64\n")

    def test_missing_sizes_are_asked_for_by_the_models_own_names_and_only_those(self):
        float32, weight = onnx.TensorProto.FLOAT, np.ones((8, 8), np.float32)
        model = self.save("free.onnx", [self.node("MatMul", "x w", "y")], [("x", float32, ["batch", "seq len", 8])],
                          [("y", float32, None)], {"w": weight})
        for tool, more in (("hpu-compile", ()), ("hpu-run", ()), ("hpu-verify", ("--ref", "interp"))):
            for path, second in ((model, "'seq len'"), (self.decoder(), "seq")):
                error = self.tool(1, tool, path, *more).stderr
                self.assertIn(f"sizes: --dim batch=SIZE --dim {second}=SIZE", error)
                error = self.tool(1, tool, path, "--dim", "batch=2", *more).stderr
                self.assertIn(f"sizes: --dim {second}=SIZE", error)
                self.assertNotIn("batch=", error)
                self.tool(0, tool, path, "--dim", "batch=2", "--dim", second.strip("'") + "=3", *more)

    def test_sizes_that_do_not_fit_a_recipe_of_bounds_are_told_in_one_line_and_nothing_is_launched(self):
        float32 = onnx.TensorProto.FLOAT
        self.save("cache.onnx", [self.node("Concat", "past new", "all", axis=1), self.node("Relu", "all", "y")],
                  [("past", float32, ["batch", "past", 4]), ("new", float32, ["batch", "seq", 4])], [("y", float32, None)], {})
        self.tool(0, "hpu-compile", "cache.onnx", "-o", "cache.recipe", "--dim", "batch=1:4", "--dim", "seq=1:8", "--dim", "past=0:16")
        for name, shape in (("past", (2, 0, 4)), ("new", (2, 3, 4)), ("more", (3, 3, 4)), ("long", (2, 9, 4)), ("wide", (2, 3, 5))):
            np.save(self.path(name + ".npy"), np.ones(shape, np.float32))
        files = lambda past, new: ("--input", f"past=@{past}.npy", "--input", f"new=@{new}.npy")
        self.tool(0, "hpu-run", "cache.recipe", *files("past", "new"), "--output", "out")
        self.assertEqual(np.load(self.path("out", "output_0.npy")).shape, (2, 3, 4))
        for sizes, words in ((files("past", "long"), ("'seq' is 9 by input 'new'", "1 to 8")),
                             (files("past", "more"), ("'new'", "'past'", "batch", " 2", " 3")),
                             (files("past", "wide"), ("'new'", "x4xf32", "'wide.npy' holds 2x3x5xf32")),
                             (("--dim", "batch=5", "--dim", "seq=1", "--dim", "past=0"), ("'batch' is 5", "1 to 4")),
                             (("--dim", "batch=1", "--dim", "seq=1", "--dim", "past=17"), ("'past' is 17", "0 to 16")),
                             (("--dim", "batch=1", "--dim", "seq=1"), ("'past'", "--dim past=SIZE between 0 and 16"))):
            error = self.tool(1, "hpu-run", "cache.recipe", *sizes, "--output", "refused").stderr
            self.assertRegex(error, r"\Aerror: [^\n]*\n\Z")
            for word in words:
                self.assertIn(word, error)
            self.assertFalse(os.path.exists(self.path("refused", "output_0.npy")), error)

    def test_every_node_that_cannot_be_compiled_is_in_one_report(self):
        node, float32, int64 = self.node, onnx.TensorProto.FLOAT, onnx.TensorProto.INT64
        nodes = [node("Frobnicate", "x", "a"),
                 node("StringNormalizer", "a", "b"),  # Behind what is not supported.
                 node("Cast", "b", "c", to=float32),
                 node("StringNormalizer", "x", "d"),
                 node("Glorp", "x", "typed"),  # The file declares the type of its result.
                 node("Cast", "k", "count", to=int64),  # Data are no sizes.
                 onnx.helper.make_node("TopK", ["typed", "count"], ["f", "f_at"], name="f_node"),
                 node("Unsqueeze", "x seven", "deep"), node("Relu", "deep", "g")]  # Nine dimensions: no engine has them.
        outputs = [(name, kind, None) for name, kind in (("c", float32), ("d", int64), ("f", float32), ("g", float32))]
        inputs = [("x", float32, [4, 8]), ("k", float32, [1])]
        model = self.save("many.onnx", nodes, inputs, outputs, {"seven": np.arange(7)}, values=[("typed", float32, [4, 8])])
        result = run("hpu-compile", model, "--json", "--target", "gaudi2")
        self.assertEqual(result.returncode, 1)
        found = {entry["node"]: entry["op"] for entry in json.loads(result.stdout)["unsupported"]}
        self.assertEqual(found, {"a_node": "Frobnicate", "b_node": "StringNormalizer", "d_node": "StringNormalizer", "typed_node": "Glorp",
                                 "f_node": "TopK", "deep_node": "Unsqueeze"} | {k: v for k, v in found.items() if k == "g_node"})
        for name in found:
            self.assertIn(name, result.stderr)
        self.assertIn(f"{len(found)} nodes are not supported", result.stderr)
        for entry in json.loads(result.stdout)["unsupported"]:
            self.assertTrue(entry["help"] and entry["reason"] and entry["inputs"] and entry["outputs"], entry)
            self.assertEqual((entry["domain"], entry["opset"]), ("ai.onnx", 17), entry)
        typed = next(entry for entry in json.loads(result.stdout)["unsupported"] if entry["node"] == "typed_node")
        self.assertEqual((typed["inputs"], typed["outputs"]), ([{"name": "x", "type": "4x8xf32"}], [{"name": "typed", "type": "4x8xf32"}]))
        self.assertIn("inputs:  x: 4x8xf32", result.stderr)

    def test_initializers_options_and_bodies_hide_no_node(self):
        float32, string = onnx.TensorProto.FLOAT, onnx.TensorProto.STRING
        body = onnx.helper.make_graph([onnx.helper.make_node("Frobnicate", ["x"], ["out"], name="inner")], "body", [],
                                      [onnx.helper.make_tensor_value_info("out", float32, [4])])
        nodes = [onnx.helper.make_node("If", ["c"], ["a"], name="branch", then_branch=body, else_branch=body), self.node("Zork", "x", "b")]
        model = onnx.load(self.save("hidden.onnx", nodes, [("x", float32, [4]), ("c", onnx.TensorProto.BOOL, []), ("words", string, ["n"])],
                                    [("a", float32, None), ("b", float32, None)], {}))
        model.graph.initializer.append(onnx.helper.make_tensor("table", string, [1], [b"word"]))
        sparse = onnx.helper.make_sparse_tensor(onnx.helper.make_tensor("few", float32, [1], [2.0]),
                                                onnx.helper.make_tensor("at", onnx.TensorProto.INT64, [1], [3]), [4])
        model.graph.sparse_initializer.append(sparse)
        onnx.save(model, self.path("hidden.onnx"))
        result = run("hpu-compile", self.path("hidden.onnx"), "--dim", "nowhere=3", "--json", "--target", "gaudi2")
        self.assertEqual(result.returncode, 1)
        found = {(entry["op"], entry["node"]) for entry in json.loads(result.stdout)["unsupported"]}
        self.assertEqual(found, {("input", "words"), ("initializer", "table"), ("initializer", "few"), ("Zork", "b_node"),
                                 ("Frobnicate", "inner")})
        self.assertIn("no free dimension has this name", result.stderr)

    def test_programs_are_named_after_the_file_where_the_graphs_name_says_nothing(self):
        float32 = onnx.TensorProto.FLOAT
        for graph, name in (("torch_jit", "tiny"), ("torch-jit-export", "tiny"), ("main_graph", "tiny"), ("MobileNet", "MobileNet")):
            model = self.save("tiny.onnx", [self.node("Relu", "x", "y")], [("x", float32, [4])], [("y", float32, [4])], {}, graph)
            self.tool(0, "hpu-run", model, "--trace", "t.hputrace")
            self.tool(0, "hpu-trace", "export", "t.hputrace", "--format", "chrome", "-o", "t.json")
            with open(self.path("t.json"), encoding="utf-8") as file:
                text = file.read()
            self.assertIn(name, text)
            self.assertNotIn("torch", text.replace(model, ""))
            self.tool(0, "hpu-compile", model, "-o", "t.recipe")
            with open(self.path("t.recipe"), "rb") as file:
                recipe = file.read()
            self.assertIn(name.encode(), recipe)
            self.assertEqual(graph.encode() in recipe, graph == name)

    def test_dumps_have_every_phase_and_no_large_constants_unless_asked_for(self):
        float32, weight = onnx.TensorProto.FLOAT, np.random.default_rng(5).random((256, 256), np.float32)
        model = self.save("large.onnx", [self.node("MatMul", "x w", "y")], [("x", float32, [4, 256])], [("y", float32, [4, 256])],
                          {"w": weight})
        self.tool(0, "hpu-compile", model, "-o", "a.recipe", "--dump-phases", "small")
        self.tool(0, "hpu-compile", model, "-o", "a.recipe", "--dump-phases", "whole", "--dump-constants")
        phases = [f"{i:02}-{name}.mlir" for i, name in enumerate(self.tool(0, "hpu-compile", "--list-phases").stdout.split())]
        self.assertEqual(sorted(os.listdir(self.path("small"))), phases)
        for phase in phases:
            self.assertLess(os.path.getsize(self.path("small", phase)), 30000, phase)
            self.assertGreater(os.path.getsize(self.path("whole", phase)), 2 * weight.nbytes, phase)
        self.tool(0, "hpu-compile", self.path("whole", phases[0]), "-o", "b.recipe")
        self.assertIn("write it with --dump-constants", self.tool(1, "hpu-compile", self.path("small", phases[0])).stderr)
        # On a terminal, too, nobody wants the digits.
        code, lines, error = on_terminal(80, "hpu-compile", model, "--stop-after", "normalize", errors_too=False)
        self.assertEqual(code, 0, error)
        self.assertLess(sum(map(len, lines)), 30000)


class Arguments(unittest.TestCase):
    def test_what_is_no_model_is_one_line_that_names_it(self):
        with tempfile.TemporaryDirectory(prefix="hpu-cli-") as work:
            for name, data in (("empty.onnx", b""), ("text.onnx", b"hello\n" * 99), ("empty.mlir", b""), ("noise.recipe", bytes(range(256)) * 9),
                               ("t.hputrace", b"\0" * 4096)):
                with open(os.path.join(work, name), "wb") as file:
                    file.write(data)
            result = run("hpu-compile", MODEL, "-o", "good.recipe", "--quiet", cwd=work)
            self.assertEqual(result.returncode, 0, result.stderr)
            for path in ("empty.onnx", "text.onnx", "empty.mlir", "noise.recipe", "t.hputrace", work, "missing", "a" * 5000,
                         "/dev/null", "good.recipe/x"):
                for tool, more in (("hpu-compile", ["--quiet", "-o", os.devnull]), ("hpu-run", ["--quiet"]),
                                   ("hpu-verify", ["--quiet", "--ref", "interp"]), ("hpu-trace", [])):
                    command = [tool, "summary", path] if tool == "hpu-trace" else [tool, path, *more]
                    result = run(*command, cwd=work)
                    self.assertEqual(result.returncode, 1, (command, result.stderr))
                    self.assertRegex(result.stderr, r"\Aerror: [^\n]{1,6000}\n\Z", command)
                    self.assertIn(path[:400], result.stderr, command)
            self.assertIn("is a recipe already", run("hpu-compile", "good.recipe", "-o", "x", "--quiet", cwd=work).stderr)

    def test_values_are_checked_before_anything_is_run(self):
        for command, said in ((("hpu-run", MODEL, "--labels", "none"), "cannot open 'none': No such file"),
                              (("hpu-run", MODEL, "--output", MODEL), "--output: cannot make '"),
                              (("hpu-run", MODEL, "--data", ""), "--data needs the name of a file or folder"),
                              (("hpu-run", MODEL, "--iters", "abc"), "--iters: 'abc' is not a number that it takes"),
                              (("hpu-run", MODEL, "--iters", "9" * 30), "is not a number that it takes"),
                              (("hpu-compile", MODEL, "-O"), "-O needs a value"),
                              (("hccl-perf", "all_reduce", "-b", "1Q"), "error: --min-bytes: '1Q' is not a number of bytes"),
                              (("hpu-verify", MODEL, "--data", DIGITS, "--labels", "none"), "cannot open 'none'")):
            result = run(*command)
            self.assertEqual((result.returncode, result.stdout), (1, ""), command)
            self.assertIn(said, result.stderr)

    def test_hpu_verify_asks_for_something_to_compare_with_before_it_compiles(self):
        for model in (MODEL, os.path.join(ROOT, "tests", "models", "malformed", "unknown_ops.onnx")):
            result = run("hpu-verify", model, "--target", "gaudi2")
            self.assertEqual((result.returncode, result.stdout), (1, ""))
            self.assertRegex(result.stderr, r"\Aerror: nothing to compare with: give --data [^\n]*\n\Z")

    def test_misspelt_words_are_answered_with_those_that_are_near(self):
        for command, meant in ((("hpu-compile", MODEL, "--report", "tabel"), None), (("hpu-compile", MODEL, "--report", "memroy"), "memory"),
                               (("hpu-compile", MODEL, "--stop-after", "fsue"), "fuse"), (("hpu-compile", MODEL, "--start-from", "tiel"), "tile"),
                               (("hpu-compile", MODEL, "--target", "gaudi4"), "gaudi1"), (("hpu-compile", MODEL, "--presicion", "f32"), "--precision"),
                               (("hpu-trace", "sumary", "x"), "summary"), (("hpu-trace", "summary", "a", "--devcie", "1"), "--device"),
                               (("hpu-verify", MODEL, "--ref", "intrep"), "interp"),
                               (("hpu-verify", MODEL, "--ref", "interp", "--input", "imgae=ones"), "image"),
                               (("hpu-smi", "--query-aip", "uuuid"), "uuid"), (("hccl-sim", "all_reduec", "--nodes", "2"), "all_reduce"),
                               (("hccl-sim", "all_reduce", "--nodes", "2", "--algorithm", "ralis"), "rails"),
                               (("hccl-sim", "all_reduce", "--topology", "hsl-2"), "hls-2"),
                               (("hccl-sim", "all_reduce", "--nodes", "2", "--what-if", "slow-nod=1:2"), "slow-node"),
                               (("hpu-smi", "--nic", "lnk"), "link"),
                               (("hccl-perf", "all_gahter"), "all_gather"), (("hpu-run", MODEL, "--input", "imgae=zeros"), "image"),
                               (("hpu-compile", MODEL, "--explain", "/features/features.0/features.0.0/Cnov"),
                                "/features/features.0/features.0.0/Conv")):
            result = run(*command)
            self.assertEqual(result.returncode, 1, command)
            self.assertRegex(result.stderr, r"error: [^\n]+\n\Z", command)
            if meant:
                self.assertRegex(result.stderr, rf"did you mean .*'{re.escape(meant)}'", command)
            else:
                self.assertIn("the reports are", result.stderr)


if __name__ == "__main__":
    sys.exit(unittest.main(verbosity=1))
