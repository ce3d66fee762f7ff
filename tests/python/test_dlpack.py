# SPDX-License-Identifier: Apache-2.0
"""Host memory that openhpu shares with numpy and PyTorch (DLPack)."""

import ctypes
import gc
import unittest
import weakref

import numpy as np
import torch
import torch.utils.dlpack
from onnx import TensorProto, helper

from openhpu_cases import openhpu


def address(array):
    return array.__array_interface__["data"][0]


def add_recipe(kind):
    values = [helper.make_tensor_value_info(name, kind, (2, 3)) for name in "abc"]
    graph = helper.make_graph([helper.make_node("Add", ["a", "b"], ["c"])], "g", values[:2], values[2:])
    return openhpu.compile(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8))


class DlManagedTensor(ctypes.Structure):
    """As dlpack.h 0.8 has it."""
    _fields_ = [("data", ctypes.c_void_p), ("device_type", ctypes.c_int32), ("device_id", ctypes.c_int32), ("ndim", ctypes.c_int32),
                ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16),
                ("shape", ctypes.POINTER(ctypes.c_int64)), ("strides", ctypes.POINTER(ctypes.c_int64)),
                ("byte_offset", ctypes.c_uint64), ("manager_ctx", ctypes.c_void_p), ("deleter", ctypes.c_void_p)]


def capsule_of(shape, strides=None, **fields):
    """A capsule of a library that fills its tensor in as it likes, and what must stay alive."""
    memory = (ctypes.c_float * 16)(*range(16))
    sizes = (ctypes.c_int64 * max(len(shape), 1))(*shape)
    steps = None if strides is None else (ctypes.c_int64 * len(strides))(*strides)
    values = dict(data=ctypes.addressof(memory), device_type=1, ndim=len(shape), code=2, bits=32, lanes=1)
    tensor = DlManagedTensor(**(values | fields))
    tensor.shape = ctypes.cast(sizes, ctypes.POINTER(ctypes.c_int64))
    if steps is not None:
        tensor.strides = ctypes.cast(steps, ctypes.POINTER(ctypes.c_int64))
    make = ctypes.pythonapi.PyCapsule_New
    make.restype, make.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
    return make(ctypes.addressof(tensor), b"dltensor", None), (memory, sizes, steps, tensor)


class Dlpack(unittest.TestCase):
    def test_tensors_that_are_filled_in_wrongly_are_refused(self):
        big = 1 << 62
        good, _kept = capsule_of((2, 3), byte_offset=8)
        np.testing.assert_array_equal(openhpu.from_dlpack(good).numpy(), np.arange(2, 8).reshape(2, 3))
        backwards, _kept = capsule_of((3,), (-2,), byte_offset=16)
        np.testing.assert_array_equal(openhpu.from_dlpack(backwards).numpy(), [4, 2, 0])
        pinned, _kept = capsule_of((2,), device_type=3)
        np.testing.assert_array_equal(openhpu.from_dlpack(pinned).numpy(), [0, 1])
        nothing, _kept = capsule_of((0, 3), data=None)
        self.assertEqual(openhpu.from_dlpack(nothing).shape, (0, 3))
        space = "pass the end of the address space"
        for shape, strides, fields, words in (((big, 8), None, {}, "too many bytes"), ((3, 3), (big, 1), {}, space),
                                              ((3,), (-(1 << 63),), {}, space), ((2,), None, {"byte_offset": 1 << 63}, space),
                                              ((2, -1), None, {}, "dimension 1 is -1"), ((), None, {"ndim": -1}, "-1 dimensions"),
                                              ((1,) * 33, None, {}, "33 dimensions"), ((2,), None, {"lanes": 4}, "4 lanes"),
                                              ((2,), None, {"bits": 7}, "no element type float7"), ((2,), None, {"data": None}, "no data"),
                                              ((2,), None, {"device_type": 2}, "is on CUDA 0; copy it")):
            with self.subTest(words=words, shape=shape):
                capsule, _kept = capsule_of(shape, strides, **fields)
                with self.assertRaisesRegex(openhpu.Error, "from_dlpack: .*" + words):
                    openhpu.from_dlpack(capsule)
                with self.assertRaisesRegex(openhpu.InvalidArgumentError, "has been used"):  # Its tensor was let go.
                    openhpu.from_dlpack(capsule)

    def test_round_trips_keep_the_pointer_and_the_numbers(self):
        types = {torch.float32: "f32", torch.float64: "f64", torch.float16: "f16", torch.bfloat16: "bf16", torch.int8: "i8",
                 torch.int16: "i16", torch.int32: "i32", torch.int64: "i64", torch.uint8: "u8"}
        for kind, name in types.items():
            for shape in ((), (5,), (2, 3), (2, 1, 4), (0, 3)):
                with self.subTest(type=name, shape=shape):
                    theirs = torch.arange(int(np.prod(shape)), dtype=torch.float32).reshape(shape).to(kind)
                    ours = openhpu.from_dlpack(theirs)
                    self.assertEqual((ours.dtype, ours.shape, ours.nbytes), (name, shape, theirs.numel() * theirs.element_size()))
                    back = torch.from_dlpack(ours)
                    self.assertEqual(back.dtype, kind)
                    self.assertTrue(torch.equal(back, theirs))
                    np.testing.assert_array_equal(ours.numpy().astype(np.float64), theirs.double().numpy())
                    if theirs.numel():
                        self.assertEqual(address(ours.numpy(raw=True)), theirs.data_ptr())
                        self.assertEqual(back.data_ptr(), theirs.data_ptr())
        for array in (np.arange(6, dtype=np.uint32).reshape(2, 3), np.arange(4, dtype=np.complex64).real):
            ours = openhpu.from_dlpack(array)
            self.assertEqual(address(ours.numpy()), address(array))
            again = np.from_dlpack(ours)
            self.assertEqual((address(again), again.strides), (address(array), array.strides))
            np.testing.assert_array_equal(again, array)
        self.assertEqual(openhpu.HostTensor(np.zeros(2, bool)).dtype, "bool")
        bools = openhpu.HostTensor(np.array([True, False]))
        self.assertEqual(openhpu.from_dlpack(bools).dtype, "bool")

    def test_what_one_library_writes_the_others_see(self):
        theirs = torch.zeros(2, 3)
        ours = openhpu.from_dlpack(theirs)
        ours.numpy()[1, 2] = 7
        self.assertEqual(theirs[1, 2].item(), 7)
        torch.from_dlpack(ours)[0, 0] = 5
        self.assertEqual(theirs[0, 0].item(), 5)
        theirs[0, 1] = 6
        self.assertEqual(np.from_dlpack(ours)[0, 1], 6)  # (numpy's own view is read-only.)

    def test_strides_stay(self):
        theirs = torch.arange(12.0).reshape(3, 4).t()[1:, ::2]
        ours = openhpu.from_dlpack(theirs)
        np.testing.assert_array_equal(ours.numpy(), theirs.numpy())
        self.assertEqual(torch.from_dlpack(ours).stride(), theirs.stride())

    def test_memory_lives_as_long_as_anybody_uses_it_and_no_longer(self):
        class Array(np.ndarray):  # Of which there are weak references.
            pass
        owner = np.arange(1000, dtype=np.float32).view(Array)
        gone = weakref.ref(owner)
        shared = torch.from_dlpack(openhpu.HostTensor(owner))
        del owner
        gc.collect()
        self.assertIsNotNone(gone())
        self.assertEqual(shared[999].item(), 999)
        del shared
        gc.collect()
        self.assertIsNone(gone())
        owner = np.arange(10, dtype=np.float32).view(Array)
        gone = weakref.ref(owner)
        capsule = openhpu.HostTensor(owner).__dlpack__()  # That nobody takes.
        del owner, capsule
        gc.collect()
        self.assertIsNone(gone())
        array = openhpu.from_dlpack(torch.full((1000,), 3.0)).numpy()  # The tensor and the HostTensor are gone.
        gc.collect()
        self.assertTrue((array == 3).all())

    def test_sessions_and_buffers_take_them(self):
        session = openhpu.Session(add_recipe(TensorProto.BFLOAT16))
        a = torch.tensor([[1.5, 2, 3], [4, 5, 6]], dtype=torch.bfloat16)
        [bits] = session.run(openhpu.from_dlpack(a), openhpu.from_dlpack(a), raw=True)
        self.assertTrue(torch.equal(torch.from_dlpack(openhpu.HostTensor(bits, "bf16")), a + a))
        with self.assertRaisesRegex(openhpu.InvalidArgumentError, r"input 'a' is bf16.*HostTensor of f32.*2x3"):
            session.run(openhpu.from_dlpack(a.float()), openhpu.from_dlpack(a))
        buffer = session.device.to_device(openhpu.from_dlpack(a))
        self.assertEqual(buffer.dtype, "bf16")
        np.testing.assert_array_equal(buffer.numpy(), a.float().numpy())
        for use in (buffer.__dlpack__, buffer.__dlpack_device__, lambda: torch.from_dlpack(buffer), lambda: openhpu.from_dlpack(buffer)):
            with self.assertRaisesRegex(openhpu.UnimplementedError, r"memory of device \d is not shared.*buffer\.numpy"):
                use()
        session.close()

    def test_what_cannot_be_shared_is_named(self):
        capsule = torch.utils.dlpack.to_dlpack(torch.ones(3))
        self.assertEqual(openhpu.from_dlpack(capsule).shape, (3,))
        frozen = np.zeros(4, np.float32)
        frozen.flags.writeable = False
        packed = np.zeros(3, np.dtype([("a", np.uint8), ("b", "<f4")]))["b"]

        class Device:
            def __dlpack_device__(self):
                return (2, 0)

            def __dlpack__(self):
                raise AssertionError("it was asked for")

        class NoCapsule:
            def __dlpack__(self):
                return 5

        for use, error, words in (
                (lambda: openhpu.from_dlpack(capsule), openhpu.InvalidArgumentError, "can be taken once"),
                (lambda: openhpu.from_dlpack([1, 2]), openhpu.InvalidArgumentError, "list was given"),
                (lambda: openhpu.from_dlpack(NoCapsule()), openhpu.InvalidArgumentError, "no capsule"),
                (lambda: openhpu.from_dlpack(Device()), openhpu.UnimplementedError, "device type 2.*copy it to the CPU"),
                (lambda: openhpu.from_dlpack(torch.zeros(2, dtype=torch.complex64)), openhpu.UnimplementedError, "complex64"),
                (lambda: openhpu.HostTensor(frozen).__dlpack__(), openhpu.InvalidArgumentError, "read-only"),
                (lambda: openhpu.HostTensor(packed).__dlpack__(), openhpu.InvalidArgumentError, "strides"),
                (lambda: openhpu.HostTensor(np.zeros(2, np.uint8), "f8e5m2").__dlpack__(), openhpu.UnimplementedError, "f8e5m2"),
                (lambda: openhpu.HostTensor(np.zeros(2)).__dlpack__(stream=3), openhpu.InvalidArgumentError, "stream=None"),
                (lambda: openhpu.HostTensor(np.zeros(2), "bf16"), openhpu.InvalidArgumentError, "arrays of uint16"),
                (lambda: openhpu.HostTensor(np.zeros(2, ">f4")), openhpu.InvalidArgumentError, ">f4"),
                (lambda: openhpu.HostTensor([1.0]), openhpu.InvalidArgumentError, "numpy array")):
            with self.assertRaisesRegex(error, words):
                use()


if __name__ == "__main__":
    unittest.main()
