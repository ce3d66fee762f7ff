// SPDX-License-Identifier: Apache-2.0
// Parts fit their holder: their memory lies in its sections in every iteration, what is read has been written, and each
// is a program by itself.
#include <algorithm>
#include <cstring>
#include <map>
#include <optional>
#include <utility>

#include "base/Format.h"
#include "base/StatusMacros.h"
#include "recipe/Parts.h"
#include "recipe/RecipeVerifier.h"
#include "recipe/VerifierParts.h"

namespace hpu::recipe {

using base::strCat;

namespace {

using Wide = __int128;  // Products of two 64-bit numbers fit.

/// Constants of all parts together: each part has a list of its own of what it reads.
constexpr size_t kMaxPartConstants = size_t{1} << 22;

std::string_view kindName(SectionKind kind) {
  static constexpr std::string_view kNames[] = {"an input", "an output", "constants", "workspace", "SRAM", "a state"};
  return kNames[static_cast<size_t>(kind)];
}

/// Whether a section of a part may lie in one of the holder.
bool mayLieIn(SectionKind own, SectionKind holder) {
  if (holder == SectionKind::kSram) return false;
  switch (own) {
    case SectionKind::kInput:
      return true;
    case SectionKind::kOutput:
      return holder == SectionKind::kOutput || holder == SectionKind::kWorkspace || holder == SectionKind::kPersistent;
    default:
      return own == holder;
  }
}

bool writes(SectionKind kind) {
  return kind == SectionKind::kOutput || kind == SectionKind::kWorkspace || kind == SectionKind::kPersistent;
}

/// Whether low <= first + k * step <= high for some 0 <= k < count.
bool anyWithin(Wide first, Wide step, Wide count, Wide low, Wide high) {
  if (step < 0) return anyWithin(-first, -step, count, -high, -low);
  if (low > high || count <= 0) return false;
  if (step == 0) return first >= low && first <= high;
  const Wide least = first >= low ? 0 : (low - first + step - 1) / step;
  return least < count && first + least * step <= high;
}

/// Bytes of sections, by section, that something may have written: merged [begin, end).
class Written {
 public:
  void add(uint32_t section, uint64_t begin, uint64_t end) {
    if (begin >= end) return;
    std::map<uint64_t, uint64_t>& spans = spans_[section];
    auto at = spans.upper_bound(begin);
    if (at != spans.begin() && std::prev(at)->second >= begin) --at;
    while (at != spans.end() && at->first <= end) {
      begin = std::min(begin, at->first);
      end = std::max(end, at->second);
      at = spans.erase(at);
    }
    spans.emplace(begin, end);
  }
  bool has(uint32_t section, uint64_t begin, uint64_t end) const {
    if (begin >= end) return true;
    auto spans = spans_.find(section);
    if (spans == spans_.end()) return false;
    auto at = spans->second.upper_bound(begin);
    return at != spans->second.begin() && std::prev(at)->second >= end;
  }

 private:
  std::map<uint32_t, std::map<uint64_t, uint64_t>> spans_;
};

class PartVerifier {
 public:
  PartVerifier(const Program& holder, uint32_t index, Written& written)
      : holder_(holder), index_(index), part_(holder.parts[index]), written_(written), where_(strCat("part ", index)) {}

  Status run() {
    if (!part_.program) return dataLoss(where_ + " has no program");
    const Program& program = *part_.program;
    if (!program.name.empty()) where_ += strCat(" '", program.name, "'");
    if (program.target != holder_.target) return dataLoss(where_ + " has another target than its program");
    if (program.dynamic || !program.variants.empty() || !program.states.empty() || !program.dataSizes.empty() ||
        !program.defaults.empty())
      return dataLoss(where_ +
                      " has free dimensions, variants, states, defaults or sizes that depend on data, which "
                      "parts cannot have yet");
    if (part_.trips < 1 || part_.trips > kMaxPartTrips)
      return dataLoss(strCat(where_, " runs at most ", part_.trips, " times; it must be 1 to ", kMaxPartTrips));
    if (part_.sections.size() != program.sections.size() || part_.sections.size() > kMaxPartSections)
      return dataLoss(strCat(where_, " has places for ", part_.sections.size(), " sections, and its program ",
                             program.sections.size(), " (at most ", kMaxPartSections, ")"));
    // Kinds and bindings are looked at from here on.
    HPU_RETURN_IF_ERROR(verifyProgram(program).withContext(where_));
    for (uint32_t s = 0; s < part_.sections.size(); ++s) HPU_RETURN_IF_ERROR(verifySection(s));
    HPU_RETURN_IF_ERROR(verifyValue(part_.count, sizeof(int64_t), "count", /*perIteration=*/false));
    HPU_RETURN_IF_ERROR(verifyValue(part_.condition, 1, "condition", /*perIteration=*/true));
    if (part_.conditionInverted && part_.condition.section == kNone)
      return dataLoss(where_ + " inverts its condition, but has none");
    HPU_RETURN_IF_ERROR(verifyConstants());
    HPU_RETURN_IF_ERROR(verifyOverlaps());
    return verifyReads();
  }

 private:
  uint64_t bytesOf(uint32_t s) const { return usableBytes(*part_.program, part_.program->sections[s]); }
  /// How many iterations have the parity.
  Wide iterationsOf(uint64_t parity) const {
    return part_.trips > parity ? static_cast<Wide>((part_.trips - 1 - parity) / 2 + 1) : 0;
  }
  /// The parities that a number of turns can have beside an iteration of parity `own`: {0}, {1} or both.
  std::vector<uint64_t> parities(const PartPlace& place, uint64_t own) const {
    if (place.turns == kNone) return {0};
    if (place.turns == index_) return {own};
    const Part& other = holder_.parts[place.turns];
    if (!isDecided(other)) return {other.trips & 1};
    return {0, 1};
  }

  Status verifyRange(const std::string& what, const PartPlace& place, uint64_t parity, uint64_t bytes,
                     uint64_t alignment) const {
    const uint32_t section = parity ? place.oddSection : place.section;
    const uint64_t offset = parity ? place.oddOffset : place.offset;
    if (section >= holder_.sections.size())
      return dataLoss(
          strCat(where_, " has ", what, " in section ", section, ", and its program has ", holder_.sections.size()));
    if (offset % alignment || place.step % static_cast<int64_t>(alignment))
      return dataLoss(strCat(where_, " has ", what, " at byte ", offset, " in steps of ", place.step,
                             ", which are no multiples of ", alignment));
    // Of places that are not reached the first one.
    const bool isOwn = place.turns == index_;
    const Wide first = isOwn && part_.trips > parity ? static_cast<Wide>(parity) : 0;
    const Wide last = isOwn ? (part_.trips > parity ? first + 2 * (iterationsOf(parity) - 1) : 0)
                            : static_cast<Wide>(part_.trips - 1);
    const Wide a = Wide{offset} + Wide{place.step} * first, b = Wide{offset} + Wide{place.step} * last;
    const Wide usable = usableBytes(holder_, holder_.sections[section]);
    if (std::min(a, b) < 0 || std::max(a, b) + Wide{bytes} > usable)
      return dataLoss(strCat(where_, " has ", what, ", ", bytes, " bytes, at byte ", offset, " of section ", section,
                             " in ", part_.trips, " steps of ", place.step, ", which leave its ",
                             static_cast<uint64_t>(usable), " bytes"));
    return okStatus();
  }

  Status verifyPlace(const std::string& what, const PartPlace& place, uint64_t bytes, uint64_t alignment) const {
    if (place.turns == kNone) {
      if (place.oddSection != kNone || place.oddOffset != 0)
        return dataLoss(strCat(where_, " has ", what, " at a second place, and no part that takes turns"));
    } else if (place.turns > index_) {
      return dataLoss(
          strCat(where_, " has ", what, " where the turns of part ", place.turns, " say, which is not before it"));
    }
    HPU_RETURN_IF_ERROR(verifyRange(what, place, 0, bytes, alignment));
    return place.turns == kNone ? okStatus() : verifyRange(what, place, 1, bytes, alignment);
  }

  Status verifySection(uint32_t s) const {
    const Section& section = part_.program->sections[s];
    const PartPlace& place = part_.sections[s];
    const std::string what = strCat("section ", s, " (", kindName(section.kind), ")");
    if (section.kind == SectionKind::kSram) {
      if (place == PartPlace{}) return okStatus();
      return dataLoss(strCat(where_, " has a place for ", what, ", which it has for itself"));
    }
    uint64_t alignment = kAlignment;
    if (section.kind == SectionKind::kInput || section.kind == SectionKind::kOutput) {
      const auto& tensors = section.kind == SectionKind::kInput ? part_.program->inputs : part_.program->outputs;
      alignment = static_cast<uint64_t>(elementSize(tensors[section.binding].type.element));
    }
    HPU_RETURN_IF_ERROR(verifyPlace(what, place, bytesOf(s), alignment));
    for (uint32_t in : {place.section, place.oddSection})
      if (in != kNone && !mayLieIn(section.kind, holder_.sections[in].kind))
        return dataLoss(strCat(where_, " has ", what, " in section ", in, " of its program (",
                               kindName(holder_.sections[in].kind), ")"));
    const bool stays = section.kind == SectionKind::kConst || section.kind == SectionKind::kPersistent;
    if (stays && (place.step != 0 || place.turns != kNone))
      return dataLoss(strCat(where_, " has ", what, " at places that change"));
    return okStatus();
  }

  Status verifyValue(const PartPlace& place, uint64_t bytes, const char* what, bool perIteration) const {
    if (place.section == kNone) {
      if (place == PartPlace{}) return okStatus();
      return dataLoss(strCat(where_, " has a ", what, " that is nowhere"));
    }
    HPU_RETURN_IF_ERROR(verifyPlace(strCat("its ", what), place, bytes, bytes));
    for (uint32_t in : {place.section, place.oddSection})
      if (in != kNone && holder_.sections[in].kind == SectionKind::kSram)
        return dataLoss(strCat(where_, " has its ", what, " in SRAM"));
    if (!perIteration && (place.step != 0 || place.turns == index_))
      return dataLoss(strCat(where_, " has a ", what, " that changes from iteration to iteration"));
    return okStatus();
  }

  /// They are the holder's, whether they were read from a file or made by the compiler.
  Status verifyConstants() const {
    const std::vector<ConstantBlob> wanted = partConstants(holder_, part_);
    const std::vector<ConstantBlob>& own = part_.program->constants;
    bool same = own.size() == wanted.size();
    for (size_t i = 0; same && i < own.size(); ++i)
      same = own[i].section == wanted[i].section && own[i].offset == wanted[i].offset &&
             own[i].bytes == wanted[i].bytes &&
             (own[i].data == wanted[i].data || std::memcmp(own[i].data, wanted[i].data, own[i].bytes) == 0);
    return same ? okStatus() : dataLoss(where_ + " has other constants than its program has at their places");
  }

  /// What an iteration writes, nothing else that it has lies there.
  Status verifyOverlaps() const {
    const std::vector<Section>& sections = part_.program->sections;
    for (uint32_t p = 0; p < sections.size(); ++p) {
      if (!writes(sections[p].kind)) continue;
      for (uint32_t q = 0; q < sections.size(); ++q) {
        if (q == p || sections[q].kind == SectionKind::kSram || (q < p && writes(sections[q].kind))) continue;
        if (overlap(part_.sections[p], bytesOf(p), part_.sections[q], bytesOf(q)))
          return dataLoss(strCat(where_, " writes section ", p, " where it has section ", q, ", in one iteration"));
      }
    }
    return okStatus();
  }

  bool overlap(const PartPlace& p, uint64_t pBytes, const PartPlace& q, uint64_t qBytes) const {
    if (pBytes == 0 || qBytes == 0) return false;
    for (uint64_t own : {0, 1})
      for (uint64_t forP : parities(p, own))
        for (uint64_t forQ : parities(q, own)) {
          if (p.turns == q.turns && forP != forQ) continue;
          if ((forP ? p.oddSection : p.section) != (forQ ? q.oddSection : q.section)) continue;
          const Wide distance = Wide{forP ? p.oddOffset : p.offset} - Wide{forQ ? q.oddOffset : q.offset};
          const Wide step = Wide{p.step} - Wide{q.step};
          if (anyWithin(distance + step * Wide{own}, 2 * step, iterationsOf(own), 1 - Wide{pBytes}, Wide{qBytes} - 1))
            return true;
        }
    return false;
  }

  using Range = std::pair<uint32_t, std::pair<uint64_t, uint64_t>>;
  /// Where `place` is in an iteration, for all turns that are possible.
  std::vector<Range> rangesAt(const PartPlace& place, uint64_t iteration, uint64_t bytes) const {
    std::vector<Range> ranges;
    for (uint64_t parity : parities(place, iteration & 1)) {
      const uint64_t begin = (parity ? place.oddOffset : place.offset) + static_cast<uint64_t>(place.step) * iteration;
      ranges.push_back({parity ? place.oddSection : place.section, {begin, begin + bytes}});
    }
    return ranges;
  }

  /// What parts before this one may have written is taken as written, and in later iterations what this one has. Looked
  /// at are the first and the last iterations.
  Status verifyReads() {
    HPU_RETURN_IF_ERROR(verifyReadsAt(0));
    for (uint32_t s = 0; s < part_.sections.size(); ++s) {
      if (!writes(part_.program->sections[s].kind)) continue;
      if (part_.program->sections[s].kind == SectionKind::kWorkspace) continue;
      for (uint64_t own : {0, 1}) {
        if (iterationsOf(own) == 0) continue;
        const uint64_t last = own + 2 * static_cast<uint64_t>(iterationsOf(own) - 1);
        const std::vector<Range> first = rangesAt(part_.sections[s], own, bytesOf(s));
        const std::vector<Range> end = rangesAt(part_.sections[s], last, bytesOf(s));
        for (size_t i = 0; i < first.size(); ++i)
          written_.add(first[i].first, std::min(first[i].second.first, end[i].second.first),
                       std::max(first[i].second.second, end[i].second.second));
      }
    }
    const uint64_t last = part_.trips - 1;
    for (uint64_t iteration : {uint64_t{1}, last - std::min<uint64_t>(last, 1), last})
      if (iteration > 0 && iteration <= last) HPU_RETURN_IF_ERROR(verifyReadsAt(iteration));
    return okStatus();
  }

  Status verifyReadsAt(uint64_t iteration) const {
    for (uint32_t s = 0; s < part_.sections.size(); ++s)
      if (part_.program->sections[s].kind == SectionKind::kInput)
        HPU_RETURN_IF_ERROR(verifyRead(part_.sections[s], bytesOf(s), iteration, [&] {
          const uint32_t input = part_.program->sections[s].binding;
          return strCat("its input ", input, " '", part_.program->inputs[input].name, "'");
        }));
    if (part_.condition.section != kNone)
      HPU_RETURN_IF_ERROR(verifyRead(part_.condition, 1, iteration, [] { return std::string("its condition"); }));
    if (part_.count.section != kNone && iteration == 0)
      HPU_RETURN_IF_ERROR(verifyRead(part_.count, sizeof(int64_t), 0, [] { return std::string("its count"); }));
    return okStatus();
  }

  template <typename Name>
  Status verifyRead(const PartPlace& place, uint64_t bytes, uint64_t iteration, const Name& name) const {
    for (const auto& [section, range] : rangesAt(place, iteration, bytes)) {
      if (written_.has(section, range.first, range.second)) continue;
      return dataLoss(strCat(where_, " reads ", name(), ", bytes ", range.first, " to ", range.second, " of section ",
                             section, ", in iteration ", iteration, ", and nothing before has written them"));
    }
    return okStatus();
  }

  const Program& holder_;
  const uint32_t index_;
  const Part& part_;
  Written& written_;
  std::string where_;
};

/// What is there before the first part runs.
Written writtenBefore(const Program& program) {
  Written written;
  for (uint32_t s = 0; s < program.sections.size(); ++s) {
    const Section& section = program.sections[s];
    const bool is = section.kind == SectionKind::kInput || section.kind == SectionKind::kPersistent ||
                    stateOf(program, section) != nullptr;
    if (is) written.add(s, 0, usableBytes(program, section));
  }
  for (const ConstantBlob& blob : program.constants) written.add(blob.section, blob.offset, blob.offset + blob.bytes);
  return written;
}

/// Parts, those of parts included; nothing when they are too many or too deep, or one has no program.
std::optional<size_t> countParts(const Program& program, uint32_t depth, size_t& constants) {
  if (program.parts.empty()) return 0;
  if (depth == kMaxPartDepth) return std::nullopt;
  size_t count = program.parts.size();
  for (const Part& part : program.parts) {
    if (!part.program || count > kMaxParts) return std::nullopt;
    constants += part.program->constants.size();
    const std::optional<size_t> own = countParts(*part.program, depth + 1, constants);
    if (!own) return std::nullopt;
    count += *own;
  }
  return count > kMaxParts ? std::nullopt : std::optional(count);
}

}  // namespace

Status verifyParts(const Program& program) {
  if (program.parts.empty()) return okStatus();
  if (program.dynamic)
    return dataLoss("the program has parts and free dimensions, which exclude each other; compile it for fixed sizes");
  if (!program.ops.empty() || !program.kernels.empty() || !program.images.empty() || !program.bundles.empty() ||
      !program.queues.empty() || program.numSignals != 0)
    return dataLoss("the program has parts, and kernels, ops, bundles or queues of its own");
  for (uint32_t s = 0; s < program.sections.size(); ++s)
    if (program.sections[s].kind == SectionKind::kSram)
      return dataLoss(strCat("section ", s, " is SRAM, and the program has parts, each of which has it for itself"));
  size_t constants = 0;
  if (!countParts(program, 0, constants))
    return dataLoss(strCat("a part has no program, or parts are more than ", kMaxParts, ", or nested more than ",
                           kMaxPartDepth, " deep"));
  if (constants > kMaxPartConstants)
    return dataLoss(strCat("parts read ", constants, " constants together, more than ", kMaxPartConstants));
  Written written = writtenBefore(program);
  for (uint32_t p = 0; p < program.parts.size(); ++p) HPU_RETURN_IF_ERROR(PartVerifier(program, p, written).run());
  if (const uint64_t most = mostIterations(program); most > kMaxPartIterations)
    return dataLoss(
        strCat("a launch of the program runs parts up to ", most, " times, more than ", kMaxPartIterations));
  return okStatus();
}

}  // namespace hpu::recipe
