// SPDX-License-Identifier: Apache-2.0
#include "collectives/bootstrap/Values.h"

#include <algorithm>
#include <optional>
#include <string_view>
#include <unordered_map>

#include "base/Format.h"
#include "base/StatusMacros.h"

namespace hpu::collectives {
namespace {

/// So much alike is worth two numbers.
constexpr size_t kWorthwhile = 4;

size_t alikeFrom(std::string_view value, std::string_view before, size_t at) {
  size_t count = 0;
  while (at + count < value.size() && at + count < before.size() && value[at + count] == before[at + count]) ++count;
  return count;
}

/// Its size, then by turns how many bytes are those of the one before and how many follow here.
void encodeDifference(std::string_view value, std::string_view before, wire::Writer& out) {
  out.varint(value.size());
  for (size_t at = 0; at < value.size();) {
    const size_t alike = alikeFrom(value, before, at);
    size_t end = at + alike;
    while (end < value.size() && alikeFrom(value, before, end) < kWorthwhile) ++end;
    out.varint(alike);
    out.varint(end - at - alike);
    out.raw(value.substr(at + alike, end - at - alike));
    at = end;
  }
}

/// A value of that size. Not ok when it makes no sense.
std::string decodeDifference(std::string_view before, uint64_t size, wire::Reader& in) {
  std::string value;
  while (in.ok() && value.size() < size) {
    const uint64_t alike = in.varint(), own = in.varint();
    const size_t at = value.size();
    const bool fits = alike <= size - at && own <= size - at - alike && alike + own > 0 &&
                      (alike == 0 || (at <= before.size() && alike <= before.size() - at));
    if (!fits || !in.ok()) {
      in.fail();
      break;
    }
    value += before.substr(std::min(at, before.size()), alike);
    value += in.raw(own);
  }
  return value;
}

void encodePlaced(const PlacedValues& values, wire::Writer& out) {
  std::vector<const std::pair<int32_t, std::string>*> sorted;
  sorted.reserve(values.size());
  for (const auto& one : values) sorted.push_back(&one);
  std::sort(sorted.begin(), sorted.end(), [](const auto* a, const auto* b) { return a->first < b->first; });
  std::vector<int32_t> places, which;
  std::vector<std::string_view> distinct;
  std::unordered_map<std::string_view, int32_t> known;
  for (const auto* one : sorted) {
    const auto [it, added] = known.try_emplace(one->second, static_cast<int32_t>(distinct.size()));
    if (added) distinct.push_back(one->second);
    places.push_back(one->first);
    which.push_back(it->second);
  }
  encodeRuns(places, out);
  encodeRuns(which, out);
  out.varint(distinct.size());
  for (size_t i = 0; i < distinct.size(); ++i)
    encodeDifference(distinct[i], i ? distinct[i - 1] : std::string_view(), out);
}

/// How many times each distinct value is named; nothing: not as encodePlaced numbers them, by who names them first.
/// So there is none that nobody names.
std::optional<std::vector<uint32_t>> timesNamed(const std::vector<int32_t>& which, uint64_t distinct) {
  std::vector<uint32_t> times;
  for (const int32_t one : which) {
    if (one < 0 || static_cast<size_t>(one) > times.size()) return std::nullopt;
    if (static_cast<size_t>(one) == times.size()) times.push_back(0);
    ++times[static_cast<size_t>(one)];
  }
  if (times.size() != distinct) return std::nullopt;
  return times;
}

/// So many bytes may the values have, all copies together: `most`. Each is counted before it is made: a few bytes of a
/// message can stand for many.
Status decodePlaced(wire::Reader& in, size_t places, uint64_t most, PlacedValues& values) {
  const Status malformed = internalError("a malformed gathering message");
  const std::vector<int32_t> where = decodeRuns(in, places), which = decodeRuns(in, places);
  const uint64_t count = in.varint();
  if (!in.ok() || where.size() != which.size()) return malformed;
  for (size_t i = 0; i < where.size(); ++i) {
    const bool ascending = where[i] >= 0 && (i == 0 || where[i] > where[i - 1]);
    if (!ascending || static_cast<size_t>(where[i]) >= places) return malformed;
  }
  auto times = timesNamed(which, count);
  if (!times) return malformed;
  std::vector<std::string> distinct;
  uint64_t bytes = 0;
  for (const uint32_t copies : *times) {
    const uint64_t size = in.varint();
    if (!in.ok() || size > wire::kMaxValueBytes) return malformed;
    if (size * copies > most - bytes)
      return resourceExhausted(base::strCat("the values that ranks gather have more than ", most, " bytes together"));
    bytes += size * copies;
    distinct.push_back(decodeDifference(distinct.empty() ? std::string_view() : distinct.back(), size, in));
    if (!in.ok()) return malformed;
  }
  values.reserve(where.size());
  for (size_t i = 0; i < where.size(); ++i) {
    std::string& value = distinct[static_cast<size_t>(which[i])];
    const bool last = --(*times)[static_cast<size_t>(which[i])] == 0;
    values.emplace_back(where[i], last ? std::move(value) : value);
  }
  return okStatus();
}

}  // namespace

void encodeRuns(const std::vector<int32_t>& numbers, wire::Writer& out) {
  struct Run {
    int32_t first, step;
    uint32_t count;
  };
  std::vector<Run> runs;
  for (const int32_t number : numbers) {
    if (!runs.empty()) {
      Run& last = runs.back();
      if (last.count == 1) last.step = number - last.first;
      // A pair that a longer sequence begins with is not held on to.
      const auto next = int64_t{last.first} + int64_t{last.step} * last.count;
      if (next == number) {
        ++last.count;
        continue;
      }
      if (last.count == 2) {
        const int32_t second = last.first + last.step;
        last.count = 1;
        runs.push_back({second, number - second, 2});
        continue;
      }
    }
    runs.push_back({number, 0, 1});
  }
  out.varint(runs.size());
  for (const Run& run : runs) {
    out.i32(run.first);
    if (run.count == 1) {
      out.varint(1);
      continue;
    }
    out.varint(run.count);
    out.i32(run.step);
  }
}

std::vector<int32_t> decodeRuns(wire::Reader& in, size_t limit) {
  std::vector<int32_t> numbers;
  const uint64_t runs = in.varint();
  for (uint64_t i = 0; i < runs && in.ok(); ++i) {
    const int64_t first = in.i32();
    const uint64_t count = in.varint();
    const int64_t step = count > 1 ? in.i32() : 0;
    if (count < 1 || count > limit || numbers.size() > limit - count) {
      in.fail();
      break;
    }
    for (uint64_t n = 0; n < count; ++n) {
      const int64_t number = first + step * static_cast<int64_t>(n);
      if (number < INT32_MIN || number > INT32_MAX) in.fail();
      numbers.push_back(static_cast<int32_t>(number));
    }
  }
  return numbers;
}

std::string encodePart(const Part& part) {
  wire::Writer out;
  out.status(part.status);
  if (!part.status.ok()) return out.take();
  encodePlaced(part.values, out);
  encodePlaced(part.processes, out);
  return out.take();
}

StatusOr<Part> decodePart(std::string_view bytes, size_t places, uint64_t most) {
  wire::Reader in(bytes);
  Part part;
  part.status = in.status();
  if (in.ok() && !part.status.ok()) return part;
  HPU_RETURN_IF_ERROR(decodePlaced(in, places, most, part.values));
  HPU_RETURN_IF_ERROR(decodePlaced(in, places, places * kMaxProcessBytes, part.processes));
  if (!in.done()) return internalError("a malformed gathering message");
  return part;
}

size_t mostPartBytes(size_t members) {
  // Of each member a value and a process's text, the numbers before them, and its runs; a name or a status.
  constexpr size_t kOfEach = wire::kMaxValueBytes + kMaxProcessBytes + 128, kOfAll = 16384;
  return std::min(wire::kMaxPayloadBytes, members * kOfEach + kOfAll);
}

std::string encodeRoster(const Roster& roster) {
  wire::Writer out;
  encodeRuns(roster.processOf, out);
  return out.take();
}

StatusOr<Roster> decodeRoster(std::string_view bytes, size_t ranks) {
  wire::Reader in(bytes);
  Roster roster{decodeRuns(in, ranks)};
  if (!in.done() || roster.processOf.size() != ranks)
    return invalidArgument("a malformed list of the ranks' processes");
  return roster;
}

}  // namespace hpu::collectives
