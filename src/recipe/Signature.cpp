// SPDX-License-Identifier: Apache-2.0
#include "recipe/Signature.h"

#include <fcntl.h>
#include <sodium.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <vector>

#include "base/File.h"
#include "base/Format.h"
#include "base/OptionNames.h"
#include "base/Settings.h"
#include "base/StatusMacros.h"
#include "base/TrustedFile.h"
#include "recipe/Container.h"
#include "recipe/LittleEndian.h"

namespace hpu::recipe {
namespace {

using base::strCat;

static_assert(kPublicKeyBytes == crypto_sign_ed25519_PUBLICKEYBYTES);
static_assert(kSignatureOnlyBytes == crypto_sign_ed25519_BYTES);

constexpr std::string_view kSecretTitle = "openhpu-ed25519-secret ";
constexpr std::string_view kPublicTitle = "openhpu-ed25519 ";
constexpr int64_t kMaxKeyFile = 1 << 20;

Status ready() {
  return ::sodium_init() >= 0 ? okStatus() : internalError("the cryptographic library does not start");
}

std::string hexOf(const uint8_t* data, size_t bytes) {
  std::string text(bytes * 2 + 1, '\0');
  ::sodium_bin2hex(text.data(), text.size(), data, bytes);
  text.pop_back();
  return text;
}

/// So many bytes in hexadecimal digits, and nothing else.
bool fromHex(std::string_view text, uint8_t* data, size_t bytes) {
  size_t got = 0;
  const char* end = nullptr;
  return text.size() == 2 * bytes &&
         ::sodium_hex2bin(data, bytes, text.data(), text.size(), nullptr, &got, &end) == 0 && got == bytes &&
         end == text.data() + text.size();
}

std::string_view trimmed(std::string_view line) {
  while (!line.empty() && (line.back() == ' ' || line.back() == '\r' || line.back() == '\n')) line.remove_suffix(1);
  return line;
}

/// What is signed of a container, piece by piece in the order of the file.
class Message {
 public:
  Message() { ::crypto_sign_init(&state_); }
  void add(const uint8_t* data, uint64_t bytes) { ::crypto_sign_update(&state_, data, bytes); }
  void addZeros(uint64_t bytes) {
    static constexpr uint8_t kZeros[kPageBytes] = {};
    for (; bytes > 0; bytes -= std::min(bytes, kPageBytes)) add(kZeros, std::min(bytes, kPageBytes));
  }
  /// The header, the table and the metadata: with zeros for the signature and the checksums that depend on it. `bytes`
  /// covers the signature's section. False: there is none.
  bool addHead(const uint8_t* data, uint64_t bytes) {
    const uint64_t sections = loadLe<uint32_t>(data + kAtNumSections);
    std::vector<uint8_t> table(data, data + kHeaderBytes + sections * kEntryBytes);
    std::memset(table.data() + kAtTableHash, 0, 8);
    std::memset(table.data() + kAtHeaderHash, 0, 8);
    uint64_t signature = 0;
    for (uint64_t i = 0; i < sections; ++i) {
      uint8_t* at = table.data() + kHeaderBytes + i * kEntryBytes;
      const SectionEntry entry = readEntry(at);
      if (entry.id != SectionId::kSignature) continue;
      if (entry.bytes != kSignatureBytes || entry.offset > bytes || entry.bytes > bytes - entry.offset) return false;
      std::memset(at + 24, 0, 8);
      signature = entry.offset + kSignatureBytes - kSignatureOnlyBytes;
    }
    if (signature < table.size()) return false;
    add(table.data(), table.size());
    add(data + table.size(), signature - table.size());
    addZeros(kSignatureOnlyBytes);
    add(data + signature + kSignatureOnlyBytes, bytes - signature - kSignatureOnlyBytes);
    return true;
  }
  crypto_sign_state& state() { return state_; }

 private:
  crypto_sign_state state_;
};

/// Of a checked container; null when it is not signed.
const uint8_t* sectionOf(const uint8_t* data) {
  const uint64_t sections = loadLe<uint32_t>(data + kAtNumSections);
  for (uint64_t i = 0; i < sections; ++i) {
    const SectionEntry entry = readEntry(data + kHeaderBytes + i * kEntryBytes);
    if (entry.id == SectionId::kSignature && entry.bytes == kSignatureBytes) return data + entry.offset;
  }
  return nullptr;
}

struct SecretKey {
  std::array<uint8_t, crypto_sign_ed25519_SECRETKEYBYTES> bytes = {};
  ~SecretKey() { ::sodium_memzero(bytes.data(), bytes.size()); }
};

/// The text of a file of keys.
StatusOr<std::string> readKeys(const base::TrustedFile& file, const std::string& path) {
  if (file.size() > kMaxKeyFile)
    return Status(StatusCode::kResourceExhausted,
                  strCat("'", path, "' is larger than the limit of ", base::formatBytes(kMaxKeyFile)));
  HPU_ASSIGN(auto bytes, file.read());
  return std::string(reinterpret_cast<const char*>(bytes->data()), bytes->size());
}

Status readSecretKey(const std::string& path, SecretKey& key) {
  HPU_ASSIGN(base::TrustedFile file, base::TrustedFile::open(path));
  if (file.mode() & (S_IRWXG | S_IRWXO))
    return {StatusCode::kPermissionDenied,
            strCat("others may read the secret key '", path, "' (chmod 600 '", path, "'; and make a new one)")};
  HPU_ASSIGN(std::string text, readKeys(file, path));
  std::string_view line = trimmed(text);
  std::array<uint8_t, crypto_sign_ed25519_SEEDBYTES> seed = {};
  const bool good =
      line.starts_with(kSecretTitle) && fromHex(line.substr(kSecretTitle.size()), seed.data(), seed.size());
  std::array<uint8_t, kPublicKeyBytes> publicKey;
  if (good) ::crypto_sign_seed_keypair(publicKey.data(), key.bytes.data(), seed.data());
  ::sodium_memzero(seed.data(), seed.size());
  ::sodium_memzero(text.data(), text.size());
  if (!good)
    return invalidArgument(strCat("'", path, "' is no secret key for recipes; hpu-compile --make-key FILE makes one"));
  return okStatus();
}

Status writeNew(const std::string& path, const std::string& text, mode_t mode) {
  int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, mode);
  if (fd < 0) return base::errnoStatus(errno, "create", path);
  const bool written = ::write(fd, text.data(), text.size()) == static_cast<ssize_t>(text.size()) && ::fsync(fd) == 0;
  const int error = errno;
  ::close(fd);
  if (written) return okStatus();
  ::unlink(path.c_str());
  return base::errnoStatus(error, "write", path);
}

}  // namespace

Status makeSigningKey(const std::string& path) {
  HPU_RETURN_IF_ERROR(ready());
  std::array<uint8_t, crypto_sign_ed25519_SEEDBYTES> seed;
  ::randombytes_buf(seed.data(), seed.size());
  std::array<uint8_t, kPublicKeyBytes> publicKey;
  SecretKey key;
  ::crypto_sign_seed_keypair(publicKey.data(), key.bytes.data(), seed.data());
  std::string secret = strCat(kSecretTitle, hexOf(seed.data(), seed.size()), "\n");
  Status status = writeNew(path, secret, 0600);
  ::sodium_memzero(seed.data(), seed.size());
  ::sodium_memzero(secret.data(), secret.size());
  if (status.ok()) {
    status = writeNew(path + ".pub", strCat(kPublicTitle, hexOf(publicKey.data(), publicKey.size()), "\n"), 0644);
    if (!status.ok()) ::unlink(path.c_str());
  }
  return status;
}

Status checkSecretKey(const std::string& path) {
  HPU_RETURN_IF_ERROR(ready());
  SecretKey key;
  return readSecretKey(path, key);
}

Status signProgram(Program& program, const std::string& secretKeyPath) {
  HPU_RETURN_IF_ERROR(ready());
  SecretKey key;
  HPU_RETURN_IF_ERROR(readSecretKey(secretKeyPath, key));
  std::vector<uint8_t> section(kSignatureBytes, 0);
  storeLe(section.data(), kEd25519ph);
  ::crypto_sign_ed25519_sk_to_pk(section.data() + 4, key.bytes.data());
  program.signature = section;
  auto encoded = encodeProgram(program);
  if (!encoded.ok()) {
    program.signature.clear();
    return encoded.status();
  }
  Message message;
  message.addHead(encoded->head.data(), encoded->head.size());
  for (const EncodedRecipe::Piece& piece : encoded->pieces) {
    message.addZeros(piece.paddingBefore);
    message.add(piece.data, piece.bytes);
  }
  ::crypto_sign_final_create(&message.state(), section.data() + 4 + kPublicKeyBytes, nullptr, key.bytes.data());
  program.signature = std::move(section);
  return okStatus();
}

bool signatureMatches(const uint8_t* data, uint64_t bytes) {
  const uint8_t* section = ready().ok() ? sectionOf(data) : nullptr;
  if (!section || loadLe<uint32_t>(section) != kEd25519ph) return false;
  Message message;
  if (!message.addHead(data, bytes)) return false;
  // A copy: the library's argument is not const.
  std::array<uint8_t, kSignatureOnlyBytes> signature;
  std::copy_n(section + 4 + kPublicKeyBytes, signature.size(), signature.begin());
  return ::crypto_sign_final_verify(&message.state(), signature.data(), section + 4) == 0;
}

std::string signerOf(const Program& program) {
  return program.signature.size() == kSignatureBytes ? hexOf(program.signature.data() + 4, kPublicKeyBytes)
                                                     : std::string();
}

Status checkSigner(const Program& program, std::string_view where) {
  HPU_ASSIGN(std::string path, settings::getString(Setting::HPU_RECIPE_KEYS));
  if (path.empty()) return okStatus();
  StatusOr<base::TrustedFile> file = base::TrustedFile::open(path);
  if (!file.ok()) return file.status().withContext("HPU_RECIPE_KEYS");
  HPU_ASSIGN(std::string text, readKeys(*file, path));
  const std::string signer = signerOf(program);
  bool known = false;
  int number = 0;
  for (std::string_view rest = text; !rest.empty();) {
    const size_t end = std::min(rest.find('\n'), rest.size());
    std::string_view line = trimmed(rest.substr(0, end));
    rest.remove_prefix(std::min(end + 1, rest.size()));
    ++number;
    if (line.empty() || line.starts_with('#')) continue;
    std::array<uint8_t, kPublicKeyBytes> key;
    if (!line.starts_with(kPublicTitle) || !fromHex(line.substr(kPublicTitle.size()), key.data(), key.size()))
      return invalidArgument(strCat("HPU_RECIPE_KEYS: line ", number, " of '", path, "' is no public key"));
    known |= hexOf(key.data(), key.size()) == signer;
  }
  if (known) return okStatus();
  return {
      StatusCode::kPermissionDenied,
      strCat("recipe '", where, "' is ",
             signer.empty() ? std::string("not signed") : strCat("signed by ", signer, ", a key that is not listed"),
             ", and HPU_RECIPE_KEYS ('", path, "') lets only recipes of its keys be loaded: sign it with ",
             base::signCall())};
}

}  // namespace hpu::recipe
