// SPDX-License-Identifier: Apache-2.0
// Resources: what this process holds of the kernel's things.
// The one thing to know: anonymous memory is the allocator's business and is not counted; mappings
// of files and shared memory are.
#pragma once

#include <map>
#include <optional>
#include <string>

namespace hpu::collectives::testing {

struct Resources {
  std::map<std::string, int> threads;   ///< By name.
  std::map<std::string, int> files;     ///< Open descriptors by what they are.
  std::map<std::string, int> mappings;  ///< Shared mappings and those of files.
};
Resources currentResources();
/// As soon as no more than `before` is held, and after some seconds whatever is: threads and
/// descriptors of something that ends go a moment later. Without `before`: when nothing changes
/// any more.
Resources settledResources(const std::optional<Resources>& before);
/// What `after` has more; empty when nothing.
std::string difference(const Resources& before, const Resources& after);
/// Resident bytes of this process that no file backs.
long residentAnonymousKb();

}  // namespace hpu::collectives::testing
