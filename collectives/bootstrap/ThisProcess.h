// SPDX-License-Identifier: Apache-2.0
// ThisProcess: what this process tells of itself to the ranks of others.
// The one thing to know: a token tells which ranks are of one process; the rest is for errors.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace hpu::collectives {

std::string hostName();
/// HPU_NODE when it is set: on one machine, nodes are told apart by it. Else empty.
std::string nodeName();
/// Random, made anew in a child; never 0.
uint64_t processToken();
/// "process 123 on host-a", "process 123 on host-a, node b".
std::string processText(int64_t pid, std::string_view host, std::string_view node);
/// Of this one.
std::string processText();

}  // namespace hpu::collectives
