// SPDX-License-Identifier: Apache-2.0
// The network "verbs" over the adapter of FakeVerbs.cpp, and what that one can be told.
#pragma once

#include <dlfcn.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <utility>

#include "collectives/transport/net/VerbsNetwork.h"

namespace hpu::collectives::net {

/// The sysfs of fake0, which has GIDs of 127.0.0.1, 127.0.0.2 and ::1.
inline const std::string& fakeSysfs() {
  static const std::string folder = [] {
    // The same in each process of this user: its contents never change.
    const auto root = std::filesystem::temp_directory_path() / ("hpu-fake-verbs." + std::to_string(::getuid()));
    for (const auto& [what, line] : {std::pair("types", "RoCE v2"), std::pair("ndevs", "lo")}) {
      const auto entries = root / "fake0/ports/1/gid_attrs" / what;
      std::filesystem::create_directories(entries);
      for (int i = 0; i < 3; ++i) std::ofstream(entries / std::to_string(i)) << line << "\n";
    }
    return root.string();
  }();
  return folder;
}

inline VerbsOptions fakeVerbsOptions() {
  VerbsOptions options;
  options.library = HPU_FAKE_VERBS;
  options.sysfs = fakeSysfs();
  return options;
}

inline std::shared_ptr<Network> fakeVerbsAt(const Address& local) {
  auto network = verbsNetwork(local, fakeVerbsOptions());
  EXPECT_TRUE(network.ok()) << network.status().message();
  return *network;
}

/// A function of FakeVerbs.cpp.
template <typename Function>
Function* fakeVerbs(const char* name) {
  void* library = ::dlopen(HPU_FAKE_VERBS, RTLD_NOW | RTLD_LOCAL);
  EXPECT_TRUE(library) << ::dlerror();
  return reinterpret_cast<Function*>(::dlsym(library, name));
}

}  // namespace hpu::collectives::net
