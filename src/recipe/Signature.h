// SPDX-License-Identifier: Apache-2.0
// Signatures of recipes: who has made one, proven by Ed25519 (ph: of the SHA-512 of the file).
// The one thing to know: a signature covers every byte of the file but itself and the three checksums that depend on
// it; what it is worth is decided by whose keys HPU_RECIPE_KEYS lists.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "hpu/status.h"
#include "recipe/Recipe.h"

namespace hpu::recipe {

/// The section: the algorithm (u32, 1: Ed25519ph), the public key, the signature.
inline constexpr uint32_t kEd25519ph = 1;
inline constexpr uint64_t kPublicKeyBytes = 32, kSignatureOnlyBytes = 64;
inline constexpr uint64_t kSignatureBytes = 4 + kPublicKeyBytes + kSignatureOnlyBytes;

/// Makes a key: the secret one in `path`, for its owner alone, the public one in `path`.pub, which is a line for
/// HPU_RECIPE_KEYS. Errors: kAlreadyExists (either is there), as writing files.
Status makeSigningKey(const std::string& path);

/// Signs the program as it is now. Errors: kPermissionDenied (others may read or write the key), kInvalidArgument (the
/// file is no secret key), as encoding it.
Status signProgram(Program& program, const std::string& secretKeyPath);

/// Whether signProgram would find a secret key in the file. Errors: its own.
Status checkSecretKey(const std::string& path);

/// Whether the container, which has been checked and has a signature, is what its key has signed.
bool signatureMatches(const uint8_t* data, uint64_t bytes);

/// The public key in hexadecimal digits; empty when it is not signed.
std::string signerOf(const Program& program);

/// HPU_RECIPE_KEYS: ok when it is empty or lists the key that has signed the program. Errors: kPermissionDenied (not
/// signed, or by another key; or the list could have been written by others), kInvalidArgument (a line that is no
/// key), as reading the list.
Status checkSigner(const Program& program, std::string_view where);

}  // namespace hpu::recipe
