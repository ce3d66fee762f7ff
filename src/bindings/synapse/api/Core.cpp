// SPDX-License-Identifier: Apache-2.0
// Entry points of the library itself: life, statuses, configuration, versions.
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <optional>

#include "base/AtFork.h"
#include "base/Format.h"
#include "base/Settings.h"
#include "bindings/synapse/api/ConfigurationNames.h"
#include "bindings/synapse/api/EntryPoint.h"
#include "bindings/synapse/api/Library.h"
#include "hpu/version.h"

namespace hpu::synapse {
namespace {

/// Names of SynapseAI's configuration that mean nothing here, with the values that programs gave them.
struct OtherNames {
  std::mutex mutex;
  std::map<std::string, std::string> values;
};
OtherNames& otherNames();
std::mutex& otherNamesMutex() {
  return otherNames().mutex;
}
OtherNames& otherNames() {
  static auto* instance = [] {
    hpu::base::atFork(hpu::base::ForkRank::kOtherSettings, hpu::base::forkHandlersOf<otherNamesMutex>());
    return new OtherNames;
  }();
  return *instance;
}

/// A name is one of an environment variable: what SynapseAI's all are.
bool isName(std::string_view name) {
  if (name.empty() || name.size() > 128 || (name[0] >= '0' && name[0] <= '9')) return false;
  for (char c : name)
    if (!((c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_')) return false;
  return true;
}

/// What a name has been given, by synConfigurationSet or the environment, or has without that; none: nobody knows it.
std::optional<std::string> configured(const char* name) {
  if (StatusOr<Setting> setting = settings::find(name); setting.ok()) return settings::rawText(*setting);
  if (!isName(name)) return std::nullopt;
  {
    std::lock_guard lock(otherNames().mutex);
    auto found = otherNames().values.find(name);
    if (found != otherNames().values.end()) return found->second;
  }
  // As SynapseAI, whose configuration the environment gives too.
  if (const char* text = std::getenv(name)) return text;
  // What it steers is not there: off.
  if (isConfigurationOfSynapse(name)) return "0";
  return std::nullopt;
}

}  // namespace
}  // namespace hpu::synapse

using namespace hpu::synapse;

synStatus synInitialize(void) {
  return guarded("synInitialize", [&]() -> Result { return Library::get().initialize(); }, Needs::kNothing);
}

synStatus synDestroy(void) {
  return guarded("synDestroy", [&]() -> Result { return Library::get().destroy(); }, Needs::kNothing);
}

synStatus synStatusGetBriefDescription(synStatus status, char* statusDescription, uint64_t len) {
  return guarded(
      "synStatusGetBriefDescription",
      [&]() -> Result {
        SYN_REQUIRE(statusDescription);
        if (len == 0) return badArgument("len is 0: there is no room for the text");
        const char* text = describe(status);
        if (!text) return badArgument(hpu::base::strCat("there is no status ", static_cast<int>(status)));
        size_t count = std::min<size_t>(std::strlen(text), len - 1);
        std::memcpy(statusDescription, text, count);
        statusDescription[count] = '\0';
        return {};
      },
      Needs::kNothing);
}

synStatus synConfigurationSet(const char* configurationName, const char* configurationValue) {
  return guarded(
      "synConfigurationSet",
      [&]() -> Result {
        SYN_REQUIRE(configurationName);
        SYN_REQUIRE(configurationValue);
        if (!isName(configurationName))
          return badArgument(hpu::base::strCat("'", configurationName, "' is not the name of a setting"));
        hpu::StatusOr<hpu::Setting> setting = hpu::settings::find(configurationName);
        if (setting.ok()) return hpu::settings::set(*setting, configurationValue);
        if (std::strncmp(configurationName, "HPU_", 4) == 0)
          return badArgument(hpu::base::strCat("OpenHPU has no setting ", configurationName,
                                               "; the end of 'hpu-run --help' lists those it has"));
        std::lock_guard lock(otherNames().mutex);
        otherNames().values[configurationName] = configurationValue;
        return {};
      },
      Needs::kNothing);
}

synStatus synConfigurationGet(const char* configurationName, char* configurationValue, uint64_t size) {
  return guarded(
      "synConfigurationGet",
      [&]() -> Result {
        SYN_REQUIRE(configurationValue);
        // Programs read the buffer whatever the status is.
        if (size > 0) *configurationValue = '\0';
        SYN_REQUIRE(configurationName);
        std::optional<std::string> text = configured(configurationName);
        if (text) {
          Result copied =
              copyText(*text, configurationValue, static_cast<int64_t>(std::min<uint64_t>(size, INT64_MAX)));
          if (!copied.ok() && size > 0) {
            text->copy(configurationValue, size - 1);
            configurationValue[size - 1] = '\0';
          }
          return copied;
        }
        return {synUnavailable,
                hpu::base::strCat("'", configurationName, "' is neither a setting of OpenHPU nor one that was set")};
      },
      Needs::kNothing);
}

synStatus synDriverGetVersion(char* pDriverVersion, const int len) {
  return guarded(
      "synDriverGetVersion",
      [&]() -> Result {
        SYN_REQUIRE(pDriverVersion);
        if (len <= 0) return badArgument(hpu::base::strCat("len is ", len));
        return copyText(HPU_VERSION_STRING " (OpenHPU, simulated devices)", pDriverVersion, len);
      },
      Needs::kNothing);
}

// The kernels are part of the compiler, which is of this library's version.
static const char* const kKernelLibrary = "libhpu_synapse_compiler.so";

synStatus synTPCLibraryGetVersionSize(uint32_t* size) {
  return guarded("synTPCLibraryGetVersionSize", [&]() -> Result {
    SYN_REQUIRE(size);
    *size = 1;
    return {};
  });
}

synStatus synTPCLibraryGetVersions(const char** libs, uint32_t* versions) {
  return guarded("synTPCLibraryGetVersions", [&]() -> Result {
    SYN_REQUIRE(libs);
    SYN_REQUIRE(versions);
    libs[0] = kKernelLibrary;
    versions[0] = HPU_VERSION_MAJOR * 10000 + HPU_VERSION_MINOR * 100 + HPU_VERSION_PATCH;
    return {};
  });
}
