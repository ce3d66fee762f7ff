// SPDX-License-Identifier: Apache-2.0
#include "tests/random/OrtReference.h"

#include <algorithm>

#include "base/StatusMacros.h"

namespace hpu::randomtest {
namespace {

class OrtNode final : public NodeRunner {
 public:
  OrtNode(std::unique_ptr<OrtSession> session, const Node& node) : session_(std::move(session)) {
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      if (node.inputs[i].empty()) continue;
      bool again = std::find(names_.begin(), names_.end(), node.inputs[i]) != names_.end();
      keep_.push_back(!again);
      if (!again) names_.push_back(node.inputs[i]);
    }
    for (const std::string& name : node.outputs)
      if (!name.empty()) outputs_.push_back(name);
  }
  StatusOr<std::vector<HostTensor>> run(const std::vector<const HostTensor*>& operands) override {
    std::vector<const HostTensor*> given;
    for (size_t i = 0; i < operands.size(); ++i)
      if (keep_[i]) given.push_back(operands[i]);
    return session_->run(names_, given, outputs_);
  }

 private:
  std::unique_ptr<OrtSession> session_;
  std::vector<std::string> names_, outputs_;
  std::vector<bool> keep_;
};

class OrtReference final : public Reference {
 public:
  explicit OrtReference(Ort& ort) : ort_(ort) {}
  StatusOr<std::unique_ptr<NodeRunner>> open(const Node& node, int64_t opset,
                                             const std::vector<const HostTensor*>& operands,
                                             const std::vector<bool>&) override {
    std::vector<const HostTensor*> placed(node.inputs.size());
    for (size_t i = 0, next = 0; i < node.inputs.size(); ++i)
      if (!node.inputs[i].empty()) placed[i] = operands[next++];
    HPU_ASSIGN(std::unique_ptr<OrtSession> session,
               ort_.open(serializeNode(node, opset, placed, std::vector<bool>(node.inputs.size(), false))));
    return StatusOr<std::unique_ptr<NodeRunner>>(std::make_unique<OrtNode>(std::move(session), node));
  }

 private:
  Ort& ort_;
};

}  // namespace

std::unique_ptr<Reference> ortReference(Ort& ort) {
  return std::make_unique<OrtReference>(ort);
}

}  // namespace hpu::randomtest
