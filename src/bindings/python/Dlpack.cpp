// SPDX-License-Identifier: Apache-2.0
// DLPack capsules and numpy arrays over the same memory: what openhpu.from_dlpack and HostTensor.__dlpack__ are made
// of. The one thing to know: tensors are understood and made by hpu/dlpack.h; here they only change hands.
#include "hpu/dlpack.h"

#include "src/bindings/python/Core.h"

namespace hpu::python {
namespace {

// Names of capsules, by DLPack.
constexpr const char* kFresh = "dltensor";
constexpr const char* kUsed = "used_dltensor";

constexpr size_t kMostDimensions = 32;  // numpy's.

/// (element type, array of the bits over the tensor's memory) of a capsule, which is used up, also when it is refused.
/// `bitsType` gives the numpy type of an element type's bits.
py::tuple takeCapsule(const py::object& capsule, const py::function& bitsType) {
  if (PyCapsule_IsValid(capsule.ptr(), kUsed))
    throw StatusError(invalidArgument("from_dlpack: the capsule has been used; each can be taken once"));
  if (!PyCapsule_IsValid(capsule.ptr(), kFresh))
    throw StatusError(invalidArgument("from_dlpack: __dlpack__() gave no capsule named 'dltensor'"));
  auto* managed = static_cast<DLManagedTensor*>(PyCapsule_GetPointer(capsule.ptr(), kFresh));
  PyCapsule_SetName(capsule.ptr(), kUsed);
  auto tensor = std::make_unique<SharedTensor>(take(fromDlpack(managed, DlpackStrides::kAny)));
  const Shape& shape = tensor->shape();
  if (shape.size() > kMostDimensions)
    throw StatusError(invalidArgument("from_dlpack: the tensor has " + std::to_string(shape.size()) +
                                      " dimensions, and arrays of numpy have at most " +
                                      std::to_string(kMostDimensions)));
  if (tensor->onDevice())
    throw StatusError(unimplemented("from_dlpack: the tensor is in a device's memory; copy it to the host first"));
  const std::string name(elementTypeName(tensor->type()));
  const auto bytes = static_cast<py::ssize_t>(elementSize(tensor->type()));
  std::vector<py::ssize_t> sizes(shape.begin(), shape.end()), strides;
  for (int64_t stride : tensor->strides()) strides.push_back(static_cast<py::ssize_t>(stride) * bytes);
  // Some libraries' empty tensors have no memory; numpy's arrays do.
  void* data = tensor->data() ? tensor->data() : tensor.get();
  py::capsule owner(tensor.get(), [](void* kept) { delete static_cast<SharedTensor*>(kept); });
  tensor.release();  // The capsule's.
  return py::make_tuple(
      name, py::array(py::dtype::from_args(bitsType(name)), std::move(sizes), std::move(strides), data, owner));
}

/// A capsule over an array's memory, which has elements of the type named `dtype`.
py::object giveCapsule(const py::array& array, const std::string& dtype) {
  const ElementType type = elementTypeOf(dtype);
  if (!array.writeable())
    throw StatusError(invalidArgument("__dlpack__: the array is read-only, which DLPack cannot say; copy it"));
  Shape shape;
  std::vector<int64_t> strides;
  for (py::ssize_t i = 0; i < array.ndim(); ++i) {
    if (array.strides(i) % elementSize(type) != 0)
      throw StatusError(invalidArgument("__dlpack__: the array's strides are no multiples of its elements; copy it"));
    shape.push_back(array.shape(i));
    strides.push_back(array.strides(i) / elementSize(type));
  }
  PyObject* kept = array.ptr();
  Py_INCREF(kept);
  const auto letGo = [kept] {
    // The array goes with the interpreter.
    if (!Py_IsInitialized() || (GilReleased::isFinalizing() && !PyGILState_Check())) return;
    PyGILState_STATE state = PyGILState_Ensure();
    Py_DECREF(kept);
    PyGILState_Release(state);
  };
  DLManagedTensor* managed =
      take(toDlpack(take(SharedTensor::ofHost(const_cast<void*>(array.data()), type, shape, strides, letGo))));
  PyObject* capsule = PyCapsule_New(managed, kFresh, [](PyObject* unused) {
    // One that nobody took is taken and let go.
    if (PyCapsule_IsValid(unused, kFresh))
      fromDlpack(static_cast<DLManagedTensor*>(PyCapsule_GetPointer(unused, kFresh))).status().ignore();
  });
  if (!capsule) {
    fromDlpack(managed).status().ignore();
    throw py::error_already_set();
  }
  return py::reinterpret_steal<py::object>(capsule);
}

}  // namespace

void bindDlpack(py::module_& module) {
  module.def("take_capsule", &takeCapsule);
  module.def("give_capsule", &giveCapsule);
}

}  // namespace hpu::python
