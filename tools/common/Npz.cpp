// SPDX-License-Identifier: Apache-2.0
// .npz archives: zip files of .npy files, read through the central directory (zip64 too).
#include <zlib.h>

#include <cstring>

#include "base/File.h"
#include "base/Format.h"
#include "base/StatusMacros.h"
#include "tools/common/Npy.h"

namespace hpu::tools {
namespace {

constexpr uint32_t kLocalHeader = 0x04034b50, kCentralHeader = 0x02014b50, kEndRecord = 0x06054b50;
constexpr uint32_t kEnd64Record = 0x06064b50, kEnd64Locator = 0x07064b50;
constexpr size_t kEndSize = 22, kCentralSize = 46, kLocalSize = 30;

/// Bounds-checked little-endian reads; a read outside is remembered and gives 0.
class Bytes {
 public:
  Bytes(const uint8_t* data, size_t size) : data_(data), size_(size) {}
  uint64_t get(uint64_t offset, int width) {
    if (offset > size_ || size_ - offset < static_cast<uint64_t>(width)) {
      failed_ = true;
      return 0;
    }
    uint64_t value = 0;
    memcpy(&value, data_ + offset, width);
    return value;
  }
  bool failed() const { return failed_; }
  const uint8_t* at(uint64_t offset, uint64_t length) {
    if (offset > size_ || size_ - offset < length) {
      failed_ = true;
      return nullptr;
    }
    return data_ + offset;
  }

 private:
  const uint8_t* data_;
  uint64_t size_;
  bool failed_ = false;
};

struct Entry {
  std::string name;
  uint64_t method = 0, crc = 0, packed = 0, unpacked = 0, offset = 0;
};

/// Replaces the fields that are all ones by those of the zip64 extra field.
void readZip64(Bytes& file, uint64_t extra, uint64_t extraSize, Entry& entry) {
  uint64_t at = extra, end = extra + extraSize;
  while (at + 4 <= end) {
    uint64_t id = file.get(at, 2), size = file.get(at + 2, 2), field = at + 4;
    if (id == 1)
      for (uint64_t* value : {&entry.unpacked, &entry.packed, &entry.offset})
        if (*value == 0xFFFFFFFF && field + 8 <= at + 4 + size) {
          *value = file.get(field, 8);
          field += 8;
        }
    at += 4 + size;
  }
}

StatusOr<std::vector<Entry>> readDirectory(Bytes& file, size_t size) {
  // The end record is the last thing but a comment of up to 65,535 bytes.
  uint64_t end = 0;
  bool found = false;
  for (uint64_t back = kEndSize; back <= size && back <= kEndSize + 65535 && !found; ++back)
    if (file.get(size - back, 4) == kEndRecord) end = size - back, found = true;
  if (!found) return dataLoss("not a .npz file (no zip directory)");
  uint64_t count = file.get(end + 10, 2), at = file.get(end + 16, 4);
  if (end >= 20 && file.get(end - 20, 4) == kEnd64Locator) {
    uint64_t end64 = file.get(end - 12, 8);
    if (file.get(end64, 4) != kEnd64Record) return dataLoss("the zip64 directory is damaged");
    count = file.get(end64 + 32, 8);
    at = file.get(end64 + 48, 8);
  }
  std::vector<Entry> entries;
  for (uint64_t i = 0; i < count && !file.failed(); ++i) {
    if (file.get(at, 4) != kCentralHeader) return dataLoss("the zip directory is damaged");
    Entry entry;
    entry.method = file.get(at + 10, 2);
    entry.crc = file.get(at + 16, 4);
    entry.packed = file.get(at + 20, 4);
    entry.unpacked = file.get(at + 24, 4);
    entry.offset = file.get(at + 42, 4);
    uint64_t nameSize = file.get(at + 28, 2), extraSize = file.get(at + 30, 2), comment = file.get(at + 32, 2);
    if (const uint8_t* name = file.at(at + kCentralSize, nameSize))
      entry.name.assign(reinterpret_cast<const char*>(name), nameSize);
    readZip64(file, at + kCentralSize + nameSize, extraSize, entry);
    at += kCentralSize + nameSize + extraSize + comment;
    entries.push_back(std::move(entry));
  }
  if (file.failed()) return dataLoss("the file ends in its zip directory");
  return entries;
}

StatusOr<std::vector<uint8_t>> unpack(Bytes& file, const Entry& entry) {
  if (file.get(entry.offset, 4) != kLocalHeader) return dataLoss("has no local header");
  uint64_t data = entry.offset + kLocalSize + file.get(entry.offset + 26, 2) + file.get(entry.offset + 28, 2);
  const uint8_t* packed = file.at(data, entry.packed);
  if (!packed || file.failed()) return dataLoss("lies outside of the file");
  std::vector<uint8_t> out;
  if (entry.method == 0) {
    out.assign(packed, packed + entry.packed);
  } else if (entry.method == 8) {
    // Deflate packs at most about 1032 to 1; a larger claim is not believed before it is allocated.
    if (entry.unpacked > 1100 * (entry.packed + 64)) return dataLoss("claims an impossible size");
    out.resize(entry.unpacked);
    z_stream stream = {};
    if (inflateInit2(&stream, -MAX_WBITS) != Z_OK) return resourceExhausted("cannot start zlib");
    uint64_t in = 0, written = 0;
    int result = Z_OK;
    while (result == Z_OK) {
      constexpr uint64_t kChunk = 1u << 30;  // zlib counts in 32 bits.
      stream.next_in = const_cast<uint8_t*>(packed + in);
      stream.avail_in = static_cast<uInt>(std::min(kChunk, entry.packed - in));
      stream.next_out = out.data() + written;
      stream.avail_out = static_cast<uInt>(std::min(kChunk, entry.unpacked - written));
      uInt before = stream.avail_in, space = stream.avail_out;
      result = inflate(&stream, Z_NO_FLUSH);
      in += before - stream.avail_in;
      written += space - stream.avail_out;
      if (before == stream.avail_in && space == stream.avail_out && result == Z_OK) result = Z_BUF_ERROR;
    }
    inflateEnd(&stream);
    if (result != Z_STREAM_END || written != entry.unpacked) return dataLoss("cannot be decompressed");
  } else {
    return unimplemented("is packed with method " + std::to_string(entry.method) +
                         "; only stored and deflate are read");
  }
  if (crc32_z(0, out.data(), out.size()) != entry.crc) return dataLoss("has a wrong checksum");
  return out;
}

void put(std::vector<uint8_t>& out, uint64_t value, int width) {
  for (int i = 0; i < width; ++i) out.push_back(static_cast<uint8_t>(value >> (8 * i)));
}

/// The fields that the local and the central header share.
void putHeader(std::vector<uint8_t>& out, uint64_t crc, uint64_t size, const std::string& name) {
  put(out, 20, 2);    // version 2.0
  put(out, 0, 2);     // no flags
  put(out, 0, 2);     // stored
  put(out, 0, 2);     // midnight
  put(out, 0x21, 2);  // of 1980-01-01, so that equal arrays give equal files
  put(out, crc, 4);
  put(out, size, 4);
  put(out, size, 4);
  put(out, name.size(), 2);
  put(out, 0, 2);
}

}  // namespace

StatusOr<std::vector<HostTensor>> readNpz(const std::string& path) {
  HPU_ASSIGN(std::vector<uint8_t> data, base::readFile(path));
  return parseNpz(data.data(), data.size(), path);
}

StatusOr<std::vector<HostTensor>> parseNpz(const uint8_t* data, size_t size, const std::string& path) {
  Bytes file(data, size);
  StatusOr<std::vector<Entry>> entries = readDirectory(file, size);
  if (!entries.ok()) return entries.status().withContext("'" + path + "'");
  std::vector<HostTensor> tensors;
  for (const Entry& entry : *entries) {
    std::string where = "'" + path + "': '" + entry.name + "'";
    StatusOr<std::vector<uint8_t>> bytes = unpack(file, entry);
    if (!bytes.ok()) return Status(bytes.status().code(), where + " " + bytes.status().message());
    StatusOr<HostTensor> tensor = parseNpy(bytes->data(), bytes->size());
    if (!tensor.ok()) return tensor.status().withContext(where);
    tensor->name = entry.name;
    if (tensor->name.size() > 4 && tensor->name.substr(tensor->name.size() - 4) == ".npy")
      tensor->name.resize(tensor->name.size() - 4);
    tensors.push_back(std::move(*tensor));
  }
  return tensors;
}

Status writeNpz(const std::string& path, const std::vector<HostTensor>& tensors) {
  std::vector<uint8_t> out, directory;
  for (const HostTensor& tensor : tensors) {
    std::vector<uint8_t> bytes = serializeNpy(tensor);
    if (out.size() + bytes.size() > 0xFFF00000u) return invalidArgument("'" + path + "' would exceed 4 GiB");
    std::string name = tensor.name + ".npy";
    uint64_t crc = crc32_z(0, bytes.data(), bytes.size()), offset = out.size();
    put(out, kLocalHeader, 4);
    putHeader(out, crc, bytes.size(), name);
    out.insert(out.end(), name.begin(), name.end());
    out.insert(out.end(), bytes.begin(), bytes.end());
    put(directory, kCentralHeader, 4);
    put(directory, 20, 2);
    putHeader(directory, crc, bytes.size(), name);
    put(directory, 0, 6);  // comment, disk, internal attributes
    put(directory, 0, 4);  // external attributes
    put(directory, offset, 4);
    directory.insert(directory.end(), name.begin(), name.end());
  }
  uint64_t start = out.size();
  out.insert(out.end(), directory.begin(), directory.end());
  put(out, kEndRecord, 4);
  put(out, 0, 4);
  put(out, tensors.size(), 2);
  put(out, tensors.size(), 2);
  put(out, directory.size(), 4);
  put(out, start, 4);
  put(out, 0, 2);
  return base::writeFileAtomic(path, out.data(), out.size());
}

}  // namespace hpu::tools
