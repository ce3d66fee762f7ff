// SPDX-License-Identifier: Apache-2.0
// RecipeObject: what a recipe handle stands for: the description of a graph, the program it was compiled to and
// what a launch needs to know of each tensor.
// The one thing to know: a tensor's id is its place in tensors(); ids belong to one recipe and are kept by its
// file. A tensor's launch address is its own: the section starts `offset` bytes before it.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "bindings/synapse/api/Handles.h"
#include "bindings/synapse/graph/GraphDescription.h"
#include "bindings/synapse/recipe/HostBytes.h"
#include "bindings/synapse/recipe/Program.h"
#include "habanalabs/synapse_api.h"
#include "hpu/status.h"

namespace hpu::synapse {

/// A tensor that a launch may name.
struct LaunchTensor {
  uint32_t index = 0;             ///< Into GraphDescription::tensors.
  uint32_t section = kNoSection;  ///< Into GraphDescription::sections; kNoSection: it has no memory.
  uint64_t offset = 0;            ///< In the section.
  bool isInput = false;           ///< No node produces it.
  bool dynamic = false;           ///< Its actual sizes are given by the launch.
  bool isHostValue = false;       ///< Its address is one of host memory.
};

/// The bytes that the user uploads to a const section.
struct ConstSection {
  uint32_t section = 0;  ///< Into GraphDescription::sections.
  uint64_t bytes = 0;
  HostBytes data;
  bool cleared = false;  ///< By synRecipeSectionHostBuffersClear.
};

/// What distinguishes a launch from one of the largest sizes: sizes by launch tensor (empty: inferred), and the
/// values of host-to-device tensors.
struct Specialisation {
  std::vector<std::vector<uint64_t>> sizes;
  std::vector<std::vector<std::byte>> values;
  bool operator==(const Specialisation&) const = default;
};

/// Immutable but for the programs of specialisations and const sections. Any thread may call.
class RecipeObject {
 public:
  /// `graph` has its sizes and types. `usual`: what usual() is where the caller knows it. Errors: kInvalidArgument,
  /// kDataLoss.
  static StatusOr<std::shared_ptr<RecipeObject>> create(GraphDescription graph, std::vector<ConstSection> constants,
                                                        std::shared_ptr<Program> program,
                                                        std::shared_ptr<SizedProgram> usual = nullptr);

  uint64_t id() const { return id_; }  ///< Unique in the process.
  const std::string& name() const { return graph_.name; }
  const GraphDescription& graph() const { return graph_; }
  const std::shared_ptr<Program>& program() const { return program_; }
  const std::vector<LaunchTensor>& tensors() const { return tensors_; }
  /// The first so many of tensors() are in persistent sections.
  uint32_t numPersistent() const { return numPersistent_; }
  /// Whether launches give sizes or values.
  bool isDynamic() const { return dynamic_; }
  const TensorDescription& description(const LaunchTensor& tensor) const { return graph_.tensors[tensor.index]; }
  /// Enough for launches of the largest sizes; one of others that needs more has memory of its own.
  uint64_t workspaceBytes() const { return workspaceBytes_; }

  /// The tensor's place in tensors(); -1 for a name or description index that is none.
  int find(std::string_view name) const;
  int place(int32_t index) const { return places_[static_cast<size_t>(index)]; }
  /// External tensors in the order in which a launch produces them.
  const std::vector<uint32_t>& externals() const { return externals_; }

  /// The section with this synSectionId: its index, or -1.
  int findSection(synSectionId id) const;
  /// The end of its last tensor.
  uint64_t sectionBytes(uint32_t section) const;
  /// `use(ConstSection&)` under the lock; false when the section is not constant.
  template <typename Use>
  bool withConstSection(uint32_t section, Use&& use) const {
    std::lock_guard lock(constMutex_);
    for (ConstSection& entry : constants_)
      if (entry.section == section) {
        use(entry);
        return true;
      }
    return false;
  }
  template <typename Use>
  void withConstSections(Use&& use) const {
    std::lock_guard lock(constMutex_);
    use(constants_);
  }

  /// For the largest sizes, those of all launches where none change; null: the program is free, and has none for these.
  const std::shared_ptr<SizedProgram>& usual() const { return usual_; }
  /// For a launch's sizes and values: the free program, or one that is compiled at the first such launch.
  StatusOr<std::shared_ptr<SizedProgram>> specialise(const Specialisation& wanted);

  /// Where the launch before had its i-th tensor, as a guess for the next one.
  std::atomic<uint32_t>* hints() const { return hints_.get(); }

 private:
  RecipeObject(GraphDescription graph, std::vector<ConstSection> constants, std::shared_ptr<Program> program,
               std::shared_ptr<SizedProgram> usual);
  void listTensors();
  Status orderExternals();
  void sizeUsual();
  bool hasOtherValues(const Specialisation& wanted) const;
  SizesByTensor sizesByTensor(const Specialisation& wanted) const;
  GraphDescription specialised(const Specialisation& wanted) const;

  static constexpr size_t kMaxSpecialisations = 256;

  const uint64_t id_;
  const GraphDescription graph_;
  const std::shared_ptr<Program> program_;
  std::shared_ptr<SizedProgram> usual_;
  uint64_t workspaceBytes_ = 0;
  std::vector<LaunchTensor> tensors_;
  std::vector<int> places_;       ///< By description index.
  std::vector<uint32_t> byName_;  ///< Places in the order of names.
  std::vector<uint32_t> externals_;
  uint32_t numPersistent_ = 0;
  bool dynamic_ = false;
  std::unique_ptr<std::atomic<uint32_t>[]> hints_;

  mutable std::mutex constMutex_;  // Guards constants_.
  mutable std::vector<ConstSection> constants_;

  std::mutex specialMutex_;  // Guards special_; the most recently used first.
  std::list<std::pair<Specialisation, std::shared_ptr<SizedProgram>>> special_;
};

Handles<RecipeObject, synRecipeHandle>& recipes();

/// The compile settings of the process. Errors: a bad setting.
StatusOr<CompileRequest> compileRequest();

}  // namespace hpu::synapse
