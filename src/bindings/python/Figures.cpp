// SPDX-License-Identifier: Apache-2.0
// Comparison, summaries of traces, reproducible inputs and small floats: the code of the tools, for arrays.
#include "hpu/trace.h"
#include "numerics/Convert.h"
#include "runtime/trace/Reader.h"
#include "src/bindings/python/Runs.h"
#include "tools/common/Compare.h"
#include "tools/common/Inputs.h"
#include "tools/hpu-trace/Report.h"

namespace hpu::python {
namespace {

tools::HostTensor hostTensor(const std::string& dtype, const py::array& array) {
  tools::HostTensor tensor;
  tensor.type = tensorTypeOf(dtype, Shape(array.shape(), array.shape() + array.ndim()));
  const auto* bytes = static_cast<const uint8_t*>(array.data());
  if (static_cast<int64_t>(array.nbytes()) != tensor.type.bytes() || (array.flags() & py::array::c_style) == 0)
    throw py::value_error("the array is not dense memory of its type");
  tensor.bytes.assign(bytes, bytes + array.nbytes());
  return tensor;
}

std::string compareArrays(const std::string& name, const std::string& dtype, const py::array& actual,
                          const std::string& expectedDtype, const py::array& expected, double rtol, double atol,
                          const std::string& precision) {
  tools::Tolerance tolerance = take(tools::toleranceFrom(rtol, atol, take(parsePrecision(precision))));
  tools::HostTensor a = hostTensor(dtype, actual), b = hostTensor(expectedDtype, expected);
  GilReleased released;
  return tools::toJson(name, tools::compare(a, b, tolerance)).dump(-1);
}

py::bytes randomBytes(const std::string& dtype, const Shape& shape, uint64_t seed,
                      std::optional<std::pair<double, double>> range) {
  tools::HostTensor tensor = take(tools::randomTensor(tensorTypeOf(dtype, shape), seed, range));
  return {reinterpret_cast<const char*>(tensor.bytes.data()), tensor.bytes.size()};
}

/// f32 to the bit patterns of a small float.
py::bytes encode(const py::array_t<float, py::array::c_style>& values, const std::string& dtype) {
  ElementType type = elementTypeOf(dtype);
  auto count = static_cast<size_t>(values.size());
  std::string bits(count * elementSize(type), '\0');
  if (type == ElementType::kBF16)
    numerics::f32ToBf16(values.data(), reinterpret_cast<uint16_t*>(bits.data()), count);
  else if (numerics::isFp8(type))
    numerics::f32ToFp8(numerics::fp8Format(type), values.data(), reinterpret_cast<uint8_t*>(bits.data()), count,
                       numerics::Overflow::kSaturate);
  else
    throw py::value_error("'" + dtype + "' is not bf16 or an fp8 type");
  return {bits.data(), bits.size()};
}

/// Exact.
void decode(const py::array& bits, const std::string& dtype, py::array_t<float, py::array::c_style>& values) {
  ElementType type = elementTypeOf(dtype);
  auto count = static_cast<size_t>(values.size());
  if (static_cast<size_t>(bits.nbytes()) != count * elementSize(type) || (bits.flags() & py::array::c_style) == 0)
    throw py::value_error("the array does not have the bits of " + dtype);
  if (type == ElementType::kBF16)
    numerics::bf16ToF32(static_cast<const uint16_t*>(bits.data()), values.mutable_data(), count);
  else if (numerics::isFp8(type))
    numerics::fp8ToF32(numerics::fp8Format(type), static_cast<const uint8_t*>(bits.data()), values.mutable_data(),
                       count);
  else
    throw py::value_error("'" + dtype + "' is not bf16 or an fp8 type");
}

}  // namespace

tools::Json summaryOf(trace::Recording recording, int top) {
  auto kept = std::make_shared<trace::Recording>(std::move(recording));
  trace::TraceData data = take(trace::readTrace(kept->bytes.data(), kept->bytes.size(), kept, "the recording"));
  tools::Analysis analysis = tools::analyse(data);
  tools::Json json = tools::Json::object();
  tools::summaryJson(json, data, analysis, tools::topRows(data, tools::GroupBy::kOperation),
                     static_cast<size_t>(std::max(top, 0)), tools::advise(data, analysis, base::Reader::kPython));
  return json;
}

void bindFigures(py::module_& module) {
  module.def("compare", &compareArrays);
  module.def("random", &randomBytes);
  module.def("encode", &encode);
  module.def("decode", &decode);
}

}  // namespace hpu::python
