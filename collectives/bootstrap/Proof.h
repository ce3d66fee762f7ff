// SPDX-License-Identifier: Apache-2.0
// Proof: how the two ends of a connection show each other that both know a secret, without saying it.
// The one thing to know: each end makes a random number for this one connection, and proves by a hash of both numbers
// and of what is said, keyed with the secret: what one connection shows is worth nothing on another one. What follows
// on the connection is neither encrypted nor proven.
//
//   dialler:   says something, and its challenge          listener:  answers with its own challenge
//   dialler:   prove(secret, Side::kDialler, meeting)     listener:  isProof(...), then prove(secret, Side::kListener,
//   ...)
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "hpu/status.h"

namespace hpu::collectives {

inline constexpr size_t kSecretBytes = 32;
/// All zeros: there is none, and a proof shows nothing.
using Secret = std::array<uint8_t, kSecretBytes>;
using Challenge = std::array<uint8_t, 32>;
using Proof = std::array<uint8_t, 32>;

inline bool isKnown(const Secret& secret) {
  return secret != Secret{};
}
/// Errors: kUnavailable (no random numbers).
StatusOr<Secret> randomSecret();
/// Never twice the same. Errors: kUnavailable (no random numbers).
StatusOr<Challenge> randomChallenge();
/// Of a text that people give; `place` is what it is for: the same text gives another secret elsewhere. A text that
/// can be guessed makes a secret that can be: a hash is no harder to try than the text is.
Secret secretOfText(std::string_view text, std::string_view place);
/// One for another purpose, which says nothing of `secret`; none of none.
Secret derivedSecret(const Secret& secret, std::string_view purpose, uint64_t number);

enum class Side : uint8_t { kDialler = 1, kListener = 2 };
/// What both ends know of a connection when they prove.
struct Meeting {
  std::string_view protocol;  ///< Which one, as a constant of its code.
  uint32_t version = 0;       ///< Of the wire.
  std::string_view said;      ///< By the dialler: who it is and whom it wants.
  Challenge dialler{}, listener{};
};
Proof prove(const Secret& secret, Side side, const Meeting& meeting);
/// In a time that says nothing of where they differ.
bool isProof(const Proof& proof, const Secret& secret, Side side, const Meeting& meeting);

}  // namespace hpu::collectives
