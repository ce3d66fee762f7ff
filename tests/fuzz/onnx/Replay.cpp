// SPDX-License-Identifier: Apache-2.0
// ONNX's models of single nodes (where Debian's libonnx-testdata is installed) and those of the tests, mutated as bytes
// and as messages: most damage to bytes ends in protobuf's parser.
#include <onnx/onnx_pb.h>

#include "tests/fuzz/Replay.h"

namespace {

using hpu::fuzz::Input;
using hpu::fuzz::Random;

std::vector<std::string> models() {
  std::vector<std::string> out;
  std::error_code error;
  for (const std::string folder : {"/usr/share/libonnx-testdata/data/node", HPU_SOURCE_DIR "/tests/models"})
    for (const auto& entry : std::filesystem::recursive_directory_iterator(folder, error)) {
      if (entry.path().extension() != ".onnx" || entry.file_size(error) > 20000) continue;
      auto bytes = hpu::base::readFile(entry.path().string());
      if (!bytes.ok()) std::abort();
      if (!bytes->empty()) out.emplace_back(bytes->begin(), bytes->end());
    }
  if (out.empty()) std::abort();
  return out;
}

int64_t hardNumber(Random& random) {
  static constexpr int64_t kNumbers[] = {0,         1,         -1,        2,         3,         7,           8,
                                         9,         63,        64,        65,        255,       1024,        INT32_MAX,
                                         INT32_MIN, INT64_MAX, INT64_MIN, 1LL << 40, 1LL << 32, -(1LL << 40)};
  return random() % 4 ? static_cast<int64_t>(random() % 6) - 1 : kNumbers[random() % std::size(kNumbers)];
}

template <typename List>
auto* oneOf(List* list, Random& random) {
  return list->size() ? list->Mutable(static_cast<int>(random() % static_cast<uint64_t>(list->size()))) : nullptr;
}

std::string anyName(const onnx::GraphProto& graph, Random& random) {
  std::vector<std::string> names{""};
  for (const auto& value : graph.input()) names.push_back(value.name());
  for (const auto& tensor : graph.initializer()) names.push_back(tensor.name());
  for (const auto& node : graph.node())
    for (const auto& output : node.output()) names.push_back(output);
  return names[random() % names.size()];
}

void editTensor(onnx::TensorProto& tensor, Random& random) {
  switch (random() % 5) {
    case 0:
      tensor.set_data_type(static_cast<int>(random() % 25));
      break;
    case 1:
      if (tensor.dims_size()) tensor.set_dims(static_cast<int>(random() % tensor.dims_size()), hardNumber(random));
      break;
    case 2:
      tensor.add_dims(random() % 2 ? 1 : hardNumber(random));
      break;
    case 3:
      if (tensor.int64_data_size())
        tensor.set_int64_data(static_cast<int>(random() % tensor.int64_data_size()), hardNumber(random));
      break;
    default:
      if (tensor.raw_data().size() >= 8) {
        const int64_t value = hardNumber(random);
        std::memcpy(tensor.mutable_raw_data()->data() + random() % (tensor.raw_data().size() / 8) * 8, &value, 8);
      }
  }
}

void editType(onnx::ValueInfoProto& info, Random& random) {
  auto* type = info.mutable_type()->mutable_tensor_type();
  auto* dim = oneOf(type->mutable_shape()->mutable_dim(), random);
  switch (random() % 5) {
    case 0:
      type->set_elem_type(static_cast<int>(random() % 18));
      break;
    case 1:
      if (dim) dim->set_dim_value(hardNumber(random));
      break;
    case 2:
      if (dim) dim->set_dim_param(random() % 2 ? "n" : "m");
      break;
    case 3:
      type->mutable_shape()->add_dim()->set_dim_value(1);
      break;
    default:
      type->mutable_shape()->clear_dim();
  }
}

void editAttribute(onnx::AttributeProto& attribute, Random& random) {
  switch (random() % 8) {
    case 0:
      attribute.set_i(hardNumber(random));
      break;
    case 1:
      if (attribute.ints_size())
        attribute.set_ints(static_cast<int>(random() % attribute.ints_size()), hardNumber(random));
      break;
    case 2:
      attribute.add_ints(hardNumber(random));
      break;
    case 3:
      if (attribute.ints_size()) attribute.mutable_ints()->RemoveLast();
      break;
    case 4:
      attribute.set_type(static_cast<onnx::AttributeProto::AttributeType>(random() % 12));
      break;
    case 5:
      attribute.set_f(random() % 2 ? 1e30f : static_cast<float>(hardNumber(random)));
      break;
    case 6:
      attribute.set_s(random() % 2 ? "" : "ij,jk->ik");
      break;
    default:
      if (attribute.has_t()) editTensor(*attribute.mutable_t(), random);
  }
}

void editGraph(onnx::GraphProto& graph, Random& random) {
  auto* node = oneOf(graph.mutable_node(), random);
  switch (random() % 8) {
    case 0:
      if (auto* input = oneOf(graph.mutable_input(), random)) editType(*input, random);
      break;
    case 1:
      if (auto* tensor = oneOf(graph.mutable_initializer(), random)) editTensor(*tensor, random);
      break;
    case 2:
      if (node && node->input_size())
        node->set_input(static_cast<int>(random() % node->input_size()), anyName(graph, random));
      break;
    case 3:
      if (node) node->add_input(anyName(graph, random));
      break;
    case 4:
      if (node && node->input_size()) node->mutable_input()->RemoveLast();
      break;
    case 5:
      if (auto* output = oneOf(graph.mutable_output(), random)) editType(*output, random);
      break;
    default:
      if (auto* attribute = node ? oneOf(node->mutable_attribute(), random) : nullptr) {
        if (attribute->has_g() && random() % 4)
          editGraph(*attribute->mutable_g(), random);
        else
          editAttribute(*attribute, random);
      } else if (node) {
        editAttribute(*node->add_attribute(), random);
      }
  }
}

void editModel(Input& input, Random& random) {
  onnx::ModelProto model;
  if (!model.ParseFromString(input.bytes)) return;
  if (random() % 24 == 0 && model.opset_import_size())
    model.mutable_opset_import(0)->set_version(static_cast<int64_t>(random() % 26));
  else
    editGraph(*model.mutable_graph(), random);
  input.bytes = model.SerializeAsString();
}

/// The nodes of this model with another one's op: attributes and operands that it does not know.
void anotherOp(Input& input, Random& random) {
  static std::vector<std::string>& ops = *new std::vector<std::string>;
  onnx::ModelProto model;
  if (!model.ParseFromString(input.bytes)) return;
  auto* node = oneOf(model.mutable_graph()->mutable_node(), random);
  if (!node) return;
  if (ops.size() < 4096 && ops.size() % 7 != random() % 7) ops.push_back(node->op_type());
  if (!ops.empty()) node->set_op_type(ops[random() % ops.size()]);
  input.bytes = model.SerializeAsString();
}

}  // namespace

int main(int argc, char** argv) {
  using namespace hpu::fuzz;
  return replay(argc, argv,
                {.name = "onnx",
                 .samples = inputsOf(models()),
                 .edits = {editModel, editModel, editModel, editModel, editModel, editModel, anotherOp, anotherByte,
                           repeatPiece}});
}
