// SPDX-License-Identifier: Apache-2.0
// Checks of calls of the C API, with the library's words in the output.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "habanalabs/hpu_synapse_ext.h"
#include "habanalabs/synapse_api.h"

/// Success, or the words of the error.
#define EXPECT_SYN(call) EXPECT_EQ(call, synSuccess) << hpuSynLastError()
#define ASSERT_SYN(call) ASSERT_EQ(call, synSuccess) << hpuSynLastError()
/// A failure of the call with a status and words that contain `text`.
#define EXPECT_SYN_ERROR(call, status, text)                                 \
  do {                                                                       \
    EXPECT_EQ(call, status) << hpuSynLastError();                            \
    EXPECT_THAT(std::string(hpuSynLastError()), ::testing::HasSubstr(text)); \
  } while (false)
