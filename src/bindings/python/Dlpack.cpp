// SPDX-License-Identifier: Apache-2.0
// DLPack capsules and numpy arrays over the same memory: what openhpu.from_dlpack and HostTensor.__dlpack__ are made
// of. The one thing to know: a capsule's tensor is taken over only when all of it was understood; until then it stays
// the capsule's, which lets it go by itself.
#include <cstdint>
#include <limits>

#include "src/bindings/python/Core.h"

namespace hpu::python {
namespace {

// The layout of DLPack 0.8 (dlpack.h of that project), which capsules named "dltensor" have.
struct DlDevice {
  int32_t kind, index;
};
struct DlType {
  uint8_t code, bits;
  uint16_t lanes;
};
struct DlTensor {
  void* data;
  DlDevice device;
  int32_t rank;
  DlType type;
  int64_t* shape;
  int64_t* strides;  ///< In elements; null: row-major.
  uint64_t byteOffset;
};
struct DlManagedTensor {
  DlTensor tensor;
  void* context;
  void (*deleter)(DlManagedTensor*);
};
constexpr const char* kFresh = "dltensor";
constexpr const char* kUsed = "used_dltensor";

// Of DlDevice::kind: memory that the host reads and writes.
constexpr int32_t kHost = 1, kCudaPinned = 3, kRocmPinned = 11;
constexpr int kMostDimensions = 32;  // numpy's.

struct TypeRow {
  uint8_t code, bits;
  ElementType type;
  const char* bitsType;  ///< The numpy type of its bits.
};
constexpr TypeRow kTypes[] = {
    {2, 32, ElementType::kF32, "f4"},  {2, 16, ElementType::kF16, "f2"}, {2, 64, ElementType::kF64, "f8"},
    {4, 16, ElementType::kBF16, "u2"}, {0, 8, ElementType::kI8, "i1"},   {0, 16, ElementType::kI16, "i2"},
    {0, 32, ElementType::kI32, "i4"},  {0, 64, ElementType::kI64, "i8"}, {1, 8, ElementType::kU8, "u1"},
    {1, 16, ElementType::kU16, "u2"},  {1, 32, ElementType::kU32, "u4"}, {1, 64, ElementType::kU64, "u8"},
    {6, 8, ElementType::kBool, "?"},
};

StatusOr<const TypeRow*> understood(const DlTensor& tensor) {
  if (tensor.device.kind != kHost && tensor.device.kind != kCudaPinned && tensor.device.kind != kRocmPinned)
    return unimplemented("from_dlpack: the tensor is not in host memory (DLPack device type " +
                         std::to_string(tensor.device.kind) + "); copy it to the CPU first");
  if (tensor.rank < 0 || tensor.rank > kMostDimensions || (tensor.rank > 0 && !tensor.shape))
    return invalidArgument("from_dlpack: a tensor of " + std::to_string(tensor.rank) +
                           " dimensions; there may be 0 to " + std::to_string(kMostDimensions));
  if (tensor.type.lanes != 1)
    return invalidArgument("from_dlpack: elements are vectors of " + std::to_string(tensor.type.lanes) +
                           " numbers; they must be single ones");
  const TypeRow* row = nullptr;
  for (const TypeRow& one : kTypes)
    if (one.code == tensor.type.code && one.bits == tensor.type.bits) row = &one;
  if (!row)
    return unimplemented("from_dlpack: OpenHPU has no element type for DLPack's code " +
                         std::to_string(tensor.type.code) + " with " + std::to_string(tensor.type.bits) + " bits");
  // The bytes between the first and the last element, either way, must be a size of memory.
  int64_t reach = elementSize(row->type), dense = reach;
  bool isEmpty = false, fits = tensor.byteOffset <= static_cast<uint64_t>(std::numeric_limits<int64_t>::max());
  for (int i = tensor.rank - 1; i >= 0; --i) {
    const int64_t size = tensor.shape[i];
    if (size < 0)
      return invalidArgument("from_dlpack: dimension " + std::to_string(i) + " has the size " + std::to_string(size));
    isEmpty |= size == 0;
    int64_t stride = dense, span = 0;
    if (tensor.strides) fits &= !__builtin_mul_overflow(tensor.strides[i], elementSize(row->type), &stride);
    fits &= stride != std::numeric_limits<int64_t>::min();
    if (size > 0 && fits) {
      fits &= !__builtin_mul_overflow(stride < 0 ? -stride : stride, size - 1, &span);
      fits &= !__builtin_add_overflow(reach, span, &reach);
    }
    fits &= !__builtin_mul_overflow(dense, std::max<int64_t>(size, 1), &dense);
  }
  if (!fits) return invalidArgument("from_dlpack: the sizes of the tensor overflow");
  if (!tensor.data && !isEmpty) return invalidArgument("from_dlpack: the tensor has elements and no memory");
  return row;
}

/// (element type, array of the bits over the tensor's memory) of a capsule, which is used up.
py::tuple takeCapsule(const py::object& capsule) {
  if (PyCapsule_IsValid(capsule.ptr(), kUsed))
    throw StatusError(invalidArgument("from_dlpack: the capsule has been used; each can be taken once"));
  if (!PyCapsule_IsValid(capsule.ptr(), kFresh))
    throw StatusError(invalidArgument("from_dlpack: __dlpack__() gave no capsule named 'dltensor'"));
  auto* managed = static_cast<DlManagedTensor*>(PyCapsule_GetPointer(capsule.ptr(), kFresh));
  const DlTensor& tensor = managed->tensor;
  const TypeRow* row = take(understood(tensor));
  std::vector<py::ssize_t> shape(tensor.shape, tensor.shape + tensor.rank), strides;
  const auto bytes = static_cast<py::ssize_t>(elementSize(row->type));
  for (int i = 0; tensor.strides && i < tensor.rank; ++i) strides.push_back(tensor.strides[i] * bytes);
  // Some libraries' empty tensors have no memory; numpy's arrays do.
  char* data =
      tensor.data ? static_cast<char*>(tensor.data) + tensor.byteOffset : reinterpret_cast<char*>(&managed->tensor);
  PyCapsule_SetName(capsule.ptr(), kUsed);
  py::capsule owner(managed, [](void* taken) {
    auto* one = static_cast<DlManagedTensor*>(taken);
    if (one->deleter) one->deleter(one);
  });
  return py::make_tuple(std::string(elementTypeName(row->type)),
                        py::array(py::dtype(row->bitsType), std::move(shape), std::move(strides), data, owner));
}

struct Given {
  DlManagedTensor managed{};
  std::vector<int64_t> shape, strides;
  PyObject* array = nullptr;
};

void letGo(DlManagedTensor* managed) {
  auto* given = static_cast<Given*>(managed->context);
  if (Py_IsInitialized()) {  // Else the array went with the interpreter.
    PyGILState_STATE state = PyGILState_Ensure();
    Py_DECREF(given->array);
    PyGILState_Release(state);
  }
  delete given;
}

/// A capsule over an array's memory, which has elements of the type named `dtype`.
py::object giveCapsule(const py::array& array, const std::string& dtype) {
  const ElementType type = elementTypeOf(dtype);
  const TypeRow* row = nullptr;
  for (const TypeRow& one : kTypes)
    if (one.type == type) row = &one;
  if (!row)
    throw StatusError(unimplemented("__dlpack__: DLPack has no element type " + dtype + "; share its bits as u8"));
  if (!array.writeable())
    throw StatusError(invalidArgument("__dlpack__: the array is read-only, which DLPack cannot say; copy it"));
  auto given = std::make_unique<Given>();
  for (py::ssize_t i = 0; i < array.ndim(); ++i) {
    if (array.strides(i) % elementSize(type) != 0)
      throw StatusError(invalidArgument("__dlpack__: the array's strides are no multiples of its elements; copy it"));
    given->shape.push_back(array.shape(i));
    given->strides.push_back(array.strides(i) / elementSize(type));
  }
  given->managed.tensor = {const_cast<void*>(array.data()),
                           {kHost, 0},
                           static_cast<int32_t>(array.ndim()),
                           {row->code, row->bits, 1},
                           given->shape.data(),
                           given->strides.data(),
                           0};
  given->managed.context = given.get();
  given->managed.deleter = &letGo;
  PyObject* capsule = PyCapsule_New(&given->managed, kFresh, [](PyObject* unused) {
    if (PyCapsule_IsValid(unused, kFresh)) letGo(static_cast<DlManagedTensor*>(PyCapsule_GetPointer(unused, kFresh)));
  });
  if (!capsule) throw py::error_already_set();
  given->array = array.ptr();
  Py_INCREF(given->array);
  given.release();  // The capsule's, or whose deleter() it is to call.
  return py::reinterpret_steal<py::object>(capsule);
}

}  // namespace

void bindDlpack(py::module_& module) {
  module.def("take_capsule", &takeCapsule);
  module.def("give_capsule", &giveCapsule);
}

}  // namespace hpu::python
