// SPDX-License-Identifier: Apache-2.0
#include "compiler/kernels/ImageLinker.h"

#include <cstring>
#include <map>
#include <optional>

#include "llvm/BinaryFormat/ELF.h"
#include "llvm/Object/ELFObjectFile.h"
#include "llvm/Support/MemoryBuffer.h"

namespace hpu::kernels {
namespace {

using namespace llvm::object;

constexpr uint64_t kSectionAlignment = 64;

template <typename T>
T valueOr(llvm::Expected<T> value, T otherwise) {
  if (value) return *value;
  llvm::consumeError(value.takeError());
  return otherwise;
}

std::string nameOf(const SectionRef& section) {
  return valueOr(section.getName(), llvm::StringRef("?")).str();
}

class Linker {
 public:
  Status add(const LinkObject& object, llvm::StringRef entryName) {
    native_.reset();
    if (!object.native.empty()) {
      StatusOr<uint64_t> entry = addFile(object.native, object.nativeEntry);
      if (!entry.ok()) return entry.status();
      native_ = *entry;
    }
    StatusOr<uint64_t> entry = addFile(llvm::StringRef(object.elf.data(), object.elf.size()), entryName);
    if (!entry.ok()) return entry.status();
    image_.entries.push_back(*entry);
    return okStatus();
  }
  LinkedImage take() { return std::move(image_); }

 private:
  /// The offset of a function of the file in the image.
  StatusOr<uint64_t> addFile(llvm::StringRef bytes, llvm::StringRef entryName) {
    auto file = ObjectFile::createELFObjectFile(llvm::MemoryBufferRef(bytes, "kernel"));
    if (!file) return internalError("a kernel's object file: " + llvm::toString(file.takeError()));
    auto* elf = llvm::dyn_cast<ELF64LEObjectFile>(file->get());
    if (!elf || elf->getELFFile().getHeader().e_machine != llvm::ELF::EM_X86_64 ||
        elf->getELFFile().getHeader().e_type != llvm::ELF::ET_REL)
      return internalError("a kernel's object file is no relocatable file for x86-64");
    std::map<uint64_t, uint64_t> placed;  // Section index -> offset in the image.
    for (const SectionRef& section : elf->sections())
      if (Status status = place(section, placed); !status.ok()) return status;
    for (const SectionRef& section : elf->sections()) {
      auto target = section.getRelocatedSection();
      if (!target) {
        llvm::consumeError(target.takeError());
        continue;
      }
      if (*target == elf->section_end() || !placed.count((*target)->getIndex())) continue;
      for (const RelocationRef& relocation : section.relocations())
        if (Status status = relocate(*elf, relocation, placed[(*target)->getIndex()], placed); !status.ok())
          return status;
    }
    for (const SymbolRef& symbol : elf->symbols()) {
      if (valueOr(symbol.getName(), llvm::StringRef()) != entryName) continue;
      auto section = valueOr(symbol.getSection(), section_iterator(elf->section_end()));
      const uint64_t value = valueOr(symbol.getValue(), uint64_t{0});
      if (section == elf->section_end() || !placed.count(section->getIndex()) || value >= section->getSize()) break;
      return placed[section->getIndex()] + value;
    }
    return internalError("a kernel's object file has no function " + entryName.str());
  }

  Status place(const SectionRef& section, std::map<uint64_t, uint64_t>& placed) {
    ELFSectionRef elf(section);
    if (!(elf.getFlags() & llvm::ELF::SHF_ALLOC) || section.getSize() == 0) return okStatus();
    if (nameOf(section) == ".eh_frame") return okStatus();  // Nothing unwinds through a kernel.
    if ((elf.getFlags() & (llvm::ELF::SHF_WRITE | llvm::ELF::SHF_TLS)) || section.isBSS())
      return internalError("a kernel has writable data (section " + nameOf(section) + ")");
    if (section.getAlignment().value() > kSectionAlignment)
      return internalError("section " + nameOf(section) + " of a kernel needs too large an alignment");
    auto contents = section.getContents();
    if (!contents) return internalError("a kernel's object file: " + llvm::toString(contents.takeError()));
    uint64_t offset = (image_.bytes.size() + kSectionAlignment - 1) / kSectionAlignment * kSectionAlignment;
    image_.bytes.resize(offset + contents->size());
    std::memcpy(image_.bytes.data() + offset, contents->data(), contents->size());
    placed[section.getIndex()] = offset;
    return okStatus();
  }

  Status relocate(const ELF64LEObjectFile& elf, const RelocationRef& relocation, uint64_t base,
                  const std::map<uint64_t, uint64_t>& placed) {
    symbol_iterator symbol = relocation.getSymbol();
    if (symbol == elf.symbol_end()) return internalError("a kernel has a relocation without a symbol");
    std::string name = valueOr(symbol->getName(), llvm::StringRef("?")).str();
    auto section = valueOr(symbol->getSection(), section_iterator(elf.section_end()));
    const bool isNative = native_ && name == kNativeName;
    if (!isNative && (section == elf.section_end() || !placed.count(section->getIndex())))
      return internalError("a kernel refers to the symbol '" + name + "', which it does not hold");
    if (relocation.getType() != llvm::ELF::R_X86_64_PC32 && relocation.getType() != llvm::ELF::R_X86_64_PLT32)
      return internalError("a kernel refers to '" + name + "' by its address (relocation type " +
                           std::to_string(relocation.getType()) + ")");
    int64_t addend = valueOr(ELFRelocationRef(relocation).getAddend(), int64_t{0});
    uint64_t place = base + relocation.getOffset();
    const uint64_t to = isNative ? *native_ : placed.at(section->getIndex()) + valueOr(symbol->getValue(), uint64_t{0});
    int64_t value = static_cast<int64_t>(to) + addend - static_cast<int64_t>(place);
    if (value != static_cast<int32_t>(value) || place + 4 > image_.bytes.size())
      return internalError("a kernel's reference to '" + name + "' is out of range");
    auto narrow = static_cast<int32_t>(value);
    std::memcpy(image_.bytes.data() + place, &narrow, sizeof narrow);
    return okStatus();
  }

  LinkedImage image_;
  std::optional<uint64_t> native_;  ///< Where the object's native function is, while it is added.
};

}  // namespace

StatusOr<LinkedImage> linkImage(llvm::ArrayRef<LinkObject> objects, llvm::StringRef entryName) {
  Linker linker;
  for (const LinkObject& object : objects)
    if (Status status = linker.add(object, entryName); !status.ok()) return status;
  return linker.take();
}

}  // namespace hpu::kernels
