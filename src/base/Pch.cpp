// SPDX-License-Identifier: Apache-2.0
// Exists so that the precompiled headers have targets to live in.
int main() {
  return 0;
}
