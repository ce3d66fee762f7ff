#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds the kernel of the lab in which endpoints meet Linux' own RoCE (rdma_rxe): User Mode Linux, an ordinary program,
# from Debian's linux-source-6.1. No root is needed but for installing packages. Takes some 12 minutes of a core, once.
#   tests/interop/rxe/build_lab.sh [--install]     --install: the packages that it needs, first
# The result is $HPU_LAB/linux; HPU_LAB is ~/.cache/openhpu/rxe-lab unless it is set.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
lab=${HPU_LAB:-${HOME:-/root}/.cache/openhpu/rxe-lab}
packages=(make flex bison bc gcc libelf-dev xz-utils ibverbs-providers ibverbs-utils libibverbs-dev rdma-core iproute2 busybox-static)
if [ "${1:-}" = --install ]; then apt-get install -y --no-install-recommends "${packages[@]}"; fi

# The same kernel for the same configuration and package.
if [ -x "$lab/linux" ] && cmp -s "$here/kernel.config" "$lab/kernel.config"; then
  echo "build_lab: $lab/linux is up to date"
  exit 0
fi
mkdir -p "$lab/source" "$lab/build"
cd "$lab"
if ! ls linux-source-6.1_*.deb >/dev/null 2>&1; then apt-get -o APT::Sandbox::User=root download linux-source-6.1; fi
if [ ! -d source/linux-source-6.1 ]; then
  dpkg-deb --fsys-tarfile linux-source-6.1_*.deb | tar -x -O ./usr/src/linux-source-6.1.tar.xz | tar -x -J -C source
fi
cd source/linux-source-6.1
make -s ARCH=um O="$lab/build" allnoconfig
scripts/kconfig/merge_config.sh -m -O "$lab/build" "$lab/build/.config" "$here/kernel.config" >/dev/null
make -s ARCH=um O="$lab/build" olddefconfig
for option in RDMA_RXE INFINIBAND_USER_ACCESS HOSTFS UML_NET_VECTOR NET_SCH_NETEM IPV6; do
  grep -q "^CONFIG_$option=y" "$lab/build/.config" || { echo "build_lab: the kernel would lack $option" >&2; exit 1; }
done
make -s ARCH=um O="$lab/build" -j"${JOBS:-$(nproc)}" linux
cp "$lab/build/linux" "$lab/linux"
cp "$here/kernel.config" "$lab/kernel.config"
rm -rf "$lab/build" "$lab/source"
echo "build_lab: $lab/linux"
