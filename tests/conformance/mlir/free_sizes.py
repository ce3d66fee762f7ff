# SPDX-License-Identifier: Apache-2.0
"""Functions of tosa and linalg with free sizes ('?'): one recipe with bounds, and recipes of single sizes, give what the
function with these sizes written out gives.

    PYTHONPATH=build/python /usr/bin/python3 tests/conformance/mlir/free_sizes.py
"""
import sys
import tempfile
from pathlib import Path

import numpy as np
import openhpu

sys.path.insert(0, str(Path(__file__).parent))
from cases import ZEROS, F1, shape  # noqa: E402

FILL = """
  %c0 = arith.constant 0 : index
  %n = tensor.dim %x, %c0 : tensor<BxCONSTxf32>
""".replace("CONST", "8")

FUNCTIONS = {
    # A product, a bias that broadcasts, a sum of each row.
    "linalg": ("tensor<Bx8xf32>", [(8, 5), (5,)], "tensor<Bxf32>", FILL + """
  %z = arith.constant 0.0 : f32
  %e = tensor.empty(DYN) : tensor<Bx5xf32>
  %f = linalg.fill ins(%z : f32) outs(%e : tensor<Bx5xf32>) -> tensor<Bx5xf32>
  %m = linalg.matmul ins(%x, %a0 : tensor<Bx8xf32>, tensor<8x5xf32>) outs(%f : tensor<Bx5xf32>) -> tensor<Bx5xf32>
  %b = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (j)>, affine_map<(i, j) -> (i, j)>],
      iterator_types = ["parallel", "parallel"]} ins(%m, %a1 : tensor<Bx5xf32>, tensor<5xf32>) outs(%e : tensor<Bx5xf32>) {
  ^bb0(%p: f32, %q: f32, %o: f32):
    %s = arith.addf %p, %q : f32
    %t = math.tanh %s : f32
    linalg.yield %t : f32
  } -> tensor<Bx5xf32>
  %e1 = tensor.empty(DYN) : tensor<Bxf32>
  %f1 = linalg.fill ins(%z : f32) outs(%e1 : tensor<Bxf32>) -> tensor<Bxf32>
  %y = linalg.reduce {arith.addf} ins(%b : tensor<Bx5xf32>) outs(%f1 : tensor<Bxf32>) dimensions = [1]
"""),
    # Two dimensions become one and two again.
    "shapes": ("tensor<Bx4x6xf32>", [], "tensor<Bx6x4xf32>", """
  %c0 = arith.constant 0 : index
  %n = tensor.dim %x, %c0 : tensor<Bx4x6xf32>
  %c = tensor.collapse_shape %x [[0, 1], [2]] : tensor<Bx4x6xf32> into tensor<PRODUCTx6xf32>
  %s = math.absf %c : tensor<PRODUCTx6xf32>
  %w = tensor.expand_shape %s [[0, 1], [2]] output_shape [SIZE, 4, 6] : tensor<PRODUCTx6xf32> into tensor<Bx4x6xf32>
  %e = tensor.empty(DYN) : tensor<Bx6x4xf32>
  %y = linalg.transpose ins(%w : tensor<Bx4x6xf32>) outs(%e : tensor<Bx6x4xf32>) permutation = [0, 2, 1]
"""),
    "tosa": ("tensor<Bx6x6x3xf32>", [(4, 3, 3, 3), (4,)], "tensor<Bx36x4xf32>", ZEROS + shape("s", -1, 36, 4) + f"""
  %c = tosa.conv2d %x, %a0, %a1, %z, %z {{acc_type = f32, pad = array<i64: 1, 1, 1, 1>, stride = array<i64: 1, 1>, dilation = array<i64: 1, 1>}}
      : (tensor<Bx6x6x3xf32>, tensor<4x3x3x3xf32>, tensor<4xf32>, {F1}, {F1}) -> tensor<Bx6x6x4xf32>
  %t = tosa.sigmoid %c : (tensor<Bx6x6x4xf32>) -> tensor<Bx6x6x4xf32>
  %y = tosa.reshape %t, %s : (tensor<Bx6x6x4xf32>, !tosa.shape<3>) -> tensor<Bx36x4xf32>
"""),
}


def module(name, size):
    """With `size`, or None for a free one."""
    argument, constants, result, body = FUNCTIONS[name]
    arguments = "".join(f", %a{i}: tensor<{'x'.join(map(str, s))}xf32>" for i, s in enumerate(constants))
    rank = argument.count("x") - 1
    dims = ", ".join(['"batch"'] + ['""'] * (rank - 1))
    text = (f"func.func @main(%x: {argument} {{hpu.dims = [{dims}]}}{arguments}) -> {result} {{\n{body}"
            f"  return %y : {result}\n}}\n")
    text = text.replace("(DYN)", "()" if size else "(%n)").replace("SIZE", str(size) if size else "%n")
    return text.replace("PRODUCT", str(4 * size) if size else "?").replace("tensor<B", f"tensor<{size or '?'}")


def main():
    random = np.random.default_rng(3)
    failures = 0
    with tempfile.TemporaryDirectory() as folder:
        def compiled(name, size, **options):
            path = Path(folder) / f"{name}.mlir"
            path.write_text(module(name, size))
            return openhpu.Session(openhpu.compile(str(path), **options))

        for name, (argument, constants, _, _) in FUNCTIONS.items():
            rest = [int(d) for d in argument[len("tensor<Bx"):].split("x")[:-1]]
            others = [random.standard_normal(s, dtype=np.float32) for s in constants]
            bounded = compiled(name, None, dims={"batch": (1, 64)})
            for size in 1, 2, 7, 33:
                inputs = [random.standard_normal((size, *rest), dtype=np.float32), *others]
                [want] = compiled(name, size).run(*inputs)
                for how, session in (("bounds", bounded), ("a size", compiled(name, None, dims={"batch": size}))):
                    [have] = session.run(*inputs)
                    if have.shape != want.shape or not np.allclose(have, want, rtol=1e-5, atol=1e-5):
                        failures += 1
                        print(f"FAILED {name}: batch {size}, given as {how}")
    print(f"{len(FUNCTIONS)} functions at 4 sizes, {failures} failures")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
