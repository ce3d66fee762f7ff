// SPDX-License-Identifier: Apache-2.0
#include "Resources.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>

namespace hpu::collectives::testing {
namespace {

/// Numbers of inodes and processes tell nothing of what it is.
std::string kindOf(std::string name) {
  for (char& c : name)
    if (c >= '0' && c <= '9') c = '#';
  name.erase(std::unique(name.begin(), name.end(), [](char a, char b) { return a == '#' && b == '#'; }), name.end());
  return name;
}

bool atMost(const std::map<std::string, int>& now, const std::map<std::string, int>& before) {
  for (const auto& [name, count] : now) {
    auto found = before.find(name);
    if (count > (found == before.end() ? 0 : found->second)) return false;
  }
  return true;
}

}  // namespace

Resources currentResources() {
  Resources now;
  std::error_code error;
  for (auto it = std::filesystem::directory_iterator("/proc/self/task", error);
       it != std::filesystem::directory_iterator(); it.increment(error)) {
    std::string name;
    std::getline(std::ifstream(it->path() / "comm"), name);
    ++now.threads[kindOf(name)];
  }
  for (auto it = std::filesystem::directory_iterator("/proc/self/fd", error);
       it != std::filesystem::directory_iterator(); it.increment(error))
    ++now.files[kindOf(std::filesystem::read_symlink(it->path(), error).string())];
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    std::istringstream words(line);
    std::string range, permissions, offset, device, inode, name;
    words >> range >> permissions >> offset >> device >> inode;
    std::getline(words, name);
    name.erase(0, name.find_first_not_of(' '));
    // Programs and libraries are loaded when they are first needed; one mapping may be split.
    if (permissions.size() < 4 || permissions[3] != 's') continue;
    ++now.mappings[kindOf(name)];
  }
  return now;
}

Resources settledResources(const std::optional<Resources>& before) {
  Resources now = currentResources();
  for (int i = 0; i < 500; ++i) {
    if (before && atMost(now.threads, before->threads) && atMost(now.files, before->files) &&
        atMost(now.mappings, before->mappings))
      break;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    Resources next = currentResources();
    const bool same = next.threads == now.threads && next.files == now.files && next.mappings == now.mappings;
    now = std::move(next);
    if (!before && same && i >= 5) break;
  }
  return now;
}

std::string difference(const Resources& before, const Resources& after) {
  std::string text;
  auto note = [&](const std::string& what, int was, int is) {
    if (is > was) text += (text.empty() ? "" : "; ") + what + " " + std::to_string(was) + " -> " + std::to_string(is);
  };
  auto each = [&](const char* what, const std::map<std::string, int>& was, const std::map<std::string, int>& is) {
    for (const auto& [name, count] : is) {
      auto found = was.find(name);
      note(what + name, found == was.end() ? 0 : found->second, count);
    }
  };
  each("threads ", before.threads, after.threads);
  each("descriptors of ", before.files, after.files);
  each("mappings of ", before.mappings, after.mappings);
  return text;
}

long residentAnonymousKb() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);)
    if (line.rfind("RssAnon:", 0) == 0) return std::atol(line.c_str() + 8);
  return 0;
}

}  // namespace hpu::collectives::testing
