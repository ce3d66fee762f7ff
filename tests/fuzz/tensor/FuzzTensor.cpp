// SPDX-License-Identifier: Apache-2.0
// Fuzz target: any bytes are an error or a tensor, to the reader of the tools and to that of the compiler, which agree
// on the data where they do on the type.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "tools/common/TensorProtoIo.h"
#ifdef HPU_HAS_ONNX_READER
#include "compiler/import/OnnxReader.h"
#endif

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const hpu::StatusOr<hpu::tools::HostTensor> tensor = hpu::tools::parseTensorProto(data, size);
  if (tensor.ok()) {
    if (static_cast<int64_t>(tensor->bytes.size()) != tensor->type.bytes()) std::abort();
    const std::vector<uint8_t> written = hpu::tools::serializeTensorProto(*tensor);
    const hpu::StatusOr<hpu::tools::HostTensor> again = hpu::tools::parseTensorProto(written.data(), written.size());
    if (!again.ok() || again->type.toString() != tensor->type.toString() || again->bytes != tensor->bytes) {
      std::fprintf(stderr, "%s is not read again as it was written\n", tensor->type.toString().c_str());
      std::abort();
    }
  } else if (tensor.status().message().empty()) {
    std::abort();
  }
#ifdef HPU_HAS_ONNX_READER
  const auto other = hpu::importer::parseOnnxTensor({data, size}, "/nonexistent/fuzz.pb");
  if (!other.ok()) {
    if (other.status().message().empty()) std::abort();
    return 0;
  }
  // Reads every byte.
  std::vector<uint8_t> copy(static_cast<size_t>(other->type.bytes()));
  if (!copy.empty()) std::memcpy(copy.data(), other->data, copy.size());
  // Fields of another wire type than they should have are unknown ones to protobuf, and read by the tools.
  if (tensor.ok() && tensor->type.toString() == other->type.toString() && tensor->bytes != copy) {
    std::fprintf(stderr, "the two readers find other data in %s\n", tensor->type.toString().c_str());
    std::abort();
  }
#endif
  return 0;
}
