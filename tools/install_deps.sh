#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Installs the Debian 12 packages that OpenHPU is built, run and tested with. Does nothing when all are there.
#   tools/install_deps.sh            everything
#   tools/install_deps.sh --runtime  only what the runtime, its tools and their sanitizer builds need (no MLIR)
#   tools/install_deps.sh --torch    also what the PyTorch plug-in and its tests need (libtorch's headers, pytest)
#   tools/install_deps.sh --benchmarks  also what benchmarks compare with (gloo, Open MPI)
#   tools/install_deps.sh --print    prints the list and stops
set -euo pipefail

runtime=(
  g++ cmake ninja-build ccache pkg-config git ca-certificates
  libtbb-dev libspdlog-dev libfmt-dev nlohmann-json3-dev libcli11-dev libzstd-dev zlib1g-dev libxxhash-dev libsodium-dev
  libxsmm-dev libonnx-dev libprotobuf-dev protobuf-compiler libibverbs-dev
  libgtest-dev libgmock-dev libbenchmark-dev
)
# The build with ASan and UBSan, which takes g++ twice as long; so the code is seen by both.
sanitizers=(clang-22 libclang-rt-22-dev llvm-22)
compiler=(
  libmlir-22-dev mlir-22-tools llvm-22-dev llvm-22-tools liblld-22-dev
  libxml2-dev libedit-dev libcurl4-openssl-dev
)
python=(pybind11-dev python3-dev python3-numpy)
tests=(clang-format-22 libonnx-testdata python3 python3-torch python3-torchvision python3-sklearn python3-onnx nodejs npm tshark)
# python3-torch itself is among the tests' packages.
torch=(libtorch-dev python3-pytest)

benchmarks=(libgloo-dev openmpi-bin libopenmpi-dev iproute2)

packages=("${runtime[@]}" "${sanitizers[@]}" "${compiler[@]}" "${python[@]}" "${tests[@]}")
case "${1:-}" in
  "") ;;
  --runtime) packages=("${runtime[@]}" "${sanitizers[@]}" clang-format-22) ;;
  --torch) packages+=("${torch[@]}") ;;
  --benchmarks) packages+=("${benchmarks[@]}") ;;
  --print) printf '%s\n' "${packages[@]}"; exit 0 ;;
  *) echo "usage: tools/install_deps.sh [--runtime|--torch|--benchmarks|--print]" >&2; exit 1 ;;
esac

missing=()
for package in "${packages[@]}"; do
  # node and npm may come from elsewhere than Debian.
  case "$package" in nodejs) command -v node >/dev/null && continue ;; npm) command -v npm >/dev/null && continue ;; esac
  status=$(dpkg-query -W -f='${Status}' "$package" 2>/dev/null || true)
  [ "$status" = "install ok installed" ] || missing+=("$package")
done
[ ${#missing[@]} -eq 0 ] && exit 0

sudo=()
if [ "$(id -u)" -ne 0 ]; then
  command -v sudo >/dev/null || { echo "error: these packages are missing: ${missing[*]}. Run tools/install_deps.sh as root, or install sudo." >&2; exit 1; }
  sudo=(sudo)
fi
echo "installing: ${missing[*]}"
"${sudo[@]}" apt-get update -qq
for package in "${missing[@]}"; do
  candidate=$(apt-cache policy "$package" | sed -n 's/^ *Candidate: //p')
  if [ -z "$candidate" ] || [ "$candidate" = "(none)" ]; then
    echo "error: no package source has '$package'." >&2
    case "$package" in
      *22*) echo "LLVM 22 for Debian 12 comes from the suite 'bookworm-security': add a line for that suite, with your mirror's security archive, to /etc/apt/sources.list." >&2 ;;
      *) echo "OpenHPU is built for Debian 12 (bookworm), component 'main'." >&2 ;;
    esac
    exit 1
  fi
done
"${sudo[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}"
