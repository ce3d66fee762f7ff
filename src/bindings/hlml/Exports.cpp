// SPDX-License-Identifier: Apache-2.0
// A shared library needs a source of its own; the exported functions are in the parts.
