// SPDX-License-Identifier: Apache-2.0
#include "collectives/roce/udp/Faults.h"

#include <charconv>

#include "base/Format.h"

namespace hpu::roce {
namespace {

// SplitMix64: each number's own random bits.
uint64_t mix(uint64_t value) {
  value += 0x9E3779B97F4A7C15;
  value = (value ^ (value >> 30)) * 0xBF58476D1CE4E5B9;
  value = (value ^ (value >> 27)) * 0x94D049BB133111EB;
  return value ^ (value >> 31);
}

double share(uint64_t bits) {
  return static_cast<double>(bits >> 11) * 0x1p-53;
}

}  // namespace

StatusOr<FaultOptions> parseFaults(std::string_view text) {
  using base::strCat;
  FaultOptions options;
  for (std::string_view rest = text; !rest.empty();) {
    const size_t comma = rest.find(',');
    const std::string_view item = rest.substr(0, comma);
    rest = comma == std::string_view::npos ? std::string_view() : rest.substr(comma + 1);
    const size_t equals = item.find('=');
    const std::string_view name = item.substr(0, equals);
    const std::string_view value = equals == std::string_view::npos ? std::string_view() : item.substr(equals + 1);
    const char* end = value.data() + value.size();
    if (name == "seed") {
      auto [at, error] = std::from_chars(value.data(), end, options.seed);
      if (value.empty() || error != std::errc() || at != end)
        return invalidArgument(strCat("faults '", text, "': seed '", value, "' is not a number"));
      continue;
    }
    double* target = name == "drop" ? &options.drop : name == "duplicate" ? &options.duplicate : nullptr;
    if (name == "corrupt") target = &options.corrupt;
    if (!target)
      return invalidArgument(
          strCat("faults '", text, "': there is no '", name, "'; there are drop, duplicate, corrupt (shares), seed"));
    auto [at, error] = std::from_chars(value.data(), end, *target);
    if (value.empty() || error != std::errc() || at != end || !(*target >= 0 && *target <= 1))
      return invalidArgument(strCat("faults '", text, "': ", name, " is a share of datagrams, 0 to 1"));
  }
  return options;
}

Faults::Fate Faults::next() {
  const uint64_t base = mix(options_.seed) ^ count_++;
  Fate fate;
  const uint64_t first = mix(base), second = mix(first), third = mix(second), fourth = mix(third);
  fate.drop = share(first) < options_.drop;
  fate.duplicate = share(second) < options_.duplicate;
  fate.corrupt = share(third) < options_.corrupt;
  fate.bit = fourth;
  return fate;
}

}  // namespace hpu::roce
