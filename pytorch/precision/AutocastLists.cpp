// SPDX-License-Identifier: Apache-2.0
#include "pytorch/precision/AutocastLists.h"

#include <c10/util/Exception.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <sstream>

namespace hpu_torch {
namespace {

// As PyTorch's autocast for CUDA has them. Gaudi's bridge has norms, softmaxes, dropout and means among the lower ones.
constexpr const char* kLower =
    "_convolution _scaled_dot_product_attention addbmm addmm addmv addr baddbmm bmm chain_matmul conv1d conv2d conv3d "
    "conv_tbc conv_transpose1d conv_transpose2d conv_transpose3d convolution einsum gru_cell linalg_multi_dot linear "
    "lstm_cell matmul mm mv prelu rnn_relu_cell rnn_tanh_cell";
constexpr const char* kFp32 =
    "acos asin binary_cross_entropy binary_cross_entropy_with_logits cdist cosh cosine_embedding_loss "
    "cosine_similarity cross_entropy_loss cumprod cumsum dist erfinv exp expm1 frobenius_norm group_norm "
    "hinge_embedding_loss huber_loss kl_div l1_loss layer_norm log log10 log1p log2 log_softmax logsumexp "
    "margin_ranking_loss mse_loss multi_margin_loss multilabel_margin_loss native_layer_norm nll_loss nll_loss2d "
    "nll_loss_nd norm nuclear_norm pdist poisson_nll_loss pow prod reciprocal renorm rsqrt sinh smooth_l1_loss "
    "soft_margin_loss softmax softplus sum tan triplet_margin_loss";
constexpr const char* kPromote =
    "addcdiv addcmul atan2 bilinear cat cross dot grid_sampler index_put scatter_add stack tensordot vdot";

std::vector<std::string> words(const std::string& text) {
  std::vector<std::string> list;
  std::string word;
  for (char c : text + " ") {
    const bool isBetween = c == ',' || c == ' ' || c == '\t' || c == '\n' || c == '\r';
    if (!isBetween) {
      word += c;
    } else if (!word.empty()) {
      if (std::find(list.begin(), list.end(), word) == list.end()) list.push_back(word);
      word.clear();
    }
  }
  return list;
}

/// The list that one of the variables names; `otherwise` where none is set.
std::vector<std::string> listOf(std::initializer_list<const char*> variables, const char* otherwise) {
  for (const char* variable : variables)
    if (const char* setting = std::getenv(variable))
      if (*setting) return readOpList(setting, variable);
  return words(otherwise);
}

}  // namespace

std::vector<std::string> readOpList(const std::string& setting, const char* variable) {
  std::ifstream file(setting);
  std::stringstream text;
  if (file && text << file.rdbuf()) {
    // '#' begins a remark.
    std::string all;
    for (std::string line; std::getline(text, line);) all += line.substr(0, line.find('#')) + "\n";
    return words(all);
  }
  TORCH_CHECK_VALUE(setting.find('/') == std::string::npos && setting.find(".txt") == std::string::npos, variable, "=",
                    setting,
                    " is no file that can be read; it is a file with a name of an op in each line, or names "
                    "with commas between");
  return words(setting);
}

AutocastLists listsOfEnvironment() {
  AutocastLists lists;
  lists.lower = listOf({"PT_HPU_AUTOCAST_LOWER_PRECISION_OPS_LIST", "LOWER_LIST"}, kLower);
  lists.fp32 = listOf({"PT_HPU_AUTOCAST_FP32_OPS_LIST", "FP32_LIST"}, kFp32);
  lists.promote = words(kPromote);
  return lists;
}

}  // namespace hpu_torch
