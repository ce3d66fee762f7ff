// SPDX-License-Identifier: Apache-2.0
// OutputCheck: whether a file or folder can be written, asked before the work whose result goes there.
// The one thing to know: it tries (a temporary name beside the file, removed again), because rights do not tell of a
// read-only or full file system; nothing that is there is changed.
#pragma once

#include <string>

#include "hpu/status.h"

namespace hpu::tools {

/// A file that will be written at `path` in place of what is there. Errors begin with `option` ("--trace"): the folder
/// is not there, no file can be made in it, the path is a folder.
Status checkWritableFile(const std::string& option, const std::string& path);
/// A folder that will be made, with its parents, if it is not there, and gets files. Errors as above.
Status checkWritableFolder(const std::string& option, const std::string& path);

}  // namespace hpu::tools
