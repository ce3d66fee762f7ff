// SPDX-License-Identifier: Apache-2.0
// Precompiled for libraries and tools without MLIR: what nearly all of their files include.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <cstring>
#include <deque>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

#include "base/Format.h"
#include "base/StatusMacros.h"
#include "hpu/status.h"
