// SPDX-License-Identifier: Apache-2.0
// Precompiled for tests without MLIR.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <numeric>
#include <random>
#include <sstream>

#include "base/Pch.h"
