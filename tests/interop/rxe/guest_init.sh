#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The first process of a lab's kernel. The host's files are its root, read only; WORK is a folder of the host that it
# may write to. Runs SCRIPT and turns the machine off.
export PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/run
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t tmpfs tmpfs /run
mount -t devtmpfs dev /dev 2>/dev/null
mkdir -p /dev/shm
mount -t tmpfs tmpfs /dev/shm
ulimit -l unlimited
ip link set lo up
for word in $(cat /proc/cmdline); do
  case $word in OWN=* | OWN4=* | SCRIPT=* | SEED=* | WORK=* | PROGRAMS=* | RXE=* | LOSS=*) export "${word?}" ;; esac
done
mount -t tmpfs tmpfs /tmp
# A build tree of the host's /tmp stays to be seen.
case $PROGRAMS in
  /tmp/*) mkdir -p "$PROGRAMS" && mount -r -t hostfs none "$PROGRAMS" -o "$PROGRAMS" ;;
esac
# A kernel without devices has nothing to gather random numbers from: the host's, as the ioctl that credits them.
/usr/bin/python3 -c "
import fcntl, os, struct
with open('/dev/random', 'wb') as file:
    fcntl.ioctl(file, 0x40085203, struct.pack('ii32s', 256, 32, bytes.fromhex(os.environ['SEED'])))
"
mkdir -p /run/lab
mount -t hostfs none /run/lab -o "$WORK"
# rdma_rxe takes port 4791 of the first network namespace, with a device or without one.
inside=()
if [ "${RXE:-0}" = 0 ]; then
  mkdir -p /run/netns
  ip netns add own
  ip link set vec0 netns own
  inside=(ip netns exec own)
  "${inside[@]}" ip link set lo up
fi
"${inside[@]}" ip link set vec0 mtu 9000 2>/dev/null
"${inside[@]}" ip link set vec0 up
# Without duplicate address detection the address can be used at once.
"${inside[@]}" ip -6 addr add "$OWN/64" dev vec0 nodad
"${inside[@]}" ip addr add "$OWN4/24" dev vec0
if [ -n "${LOSS:-}" ]; then "${inside[@]}" tc qdisc add dev vec0 root netem loss "$LOSS"; fi
if [ "${RXE:-0}" = 1 ]; then rdma link add rxe0 type rxe netdev vec0; fi
"${inside[@]}" bash "/run/lab/$SCRIPT"
echo "$?" >"/run/lab/$SCRIPT.rc"
sync
busybox poweroff -f
