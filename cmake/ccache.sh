#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# ccache.sh CCACHE COMPILER ARGUMENTS...: the compiler through ccache, but precompiled headers without.
#
# Paths below the source tree are told relatively (CCACHE_BASEDIR), and the folder of the build is not looked at, so that
# a second clone finds what a first one compiled.
#
# GCC keeps the times of a precompiled header's headers in it, and takes a header whose time differs for another one:
# one that ccache made in another clone has every definition twice; Clang keeps their paths. So each tree makes its own,
# and what is compiled with it is found in the cache by a sum of the preprocessed text and macros, which is the same in
# all trees.
ccache=$1
shift
source=$(cd "$(dirname "$0")/.." && pwd)
case " $* " in
  *" -x c++-header "*) through=no ;;
  *) through=yes ;;
esac
if [ $through = yes ]; then
  # What -Xclang hands on, ccache takes literally: paths of precompiled headers among it are told relatively here.
  case " $* " in
    *" -Xclang $source/"*)
      for word; do
        shift
        case "$word" in "$source"/*.hxx | "$source"/*.pch) word=$(realpath -s --relative-to=. "$word") ;; esac
        set -- "$@" "$word"
      done ;;
  esac
  export CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime CCACHE_PCH_EXTSUM=1
  export CCACHE_BASEDIR="$source" CCACHE_NOHASHDIR=1
  exec "$ccache" "$@"
fi
# The same command, for the preprocessor's output without places in files (-P), and without the files that it writes.
out= drop=
for word; do
  case "$drop$word" in
    -o* | -MF* | -MT*) if [ -n "$drop" ]; then [ "$drop" = -o ] && out=$word; drop=; else drop=$word; fi ;;
  esac
done
preprocess() {
  drop= count=$#
  while [ $count -gt 0 ]; do
    word=$1
    shift
    count=$((count - 1))
    case "$drop$word" in
      -o* | -MF* | -MT*) if [ -n "$drop" ]; then drop=; else drop=$word; fi ;;
      -MD | -c | -Xclang | -emit-pch | -fno-pch-timestamp) ;;
      *) set -- "$@" "$word" ;;
    esac
  done
  "$@" -E -P -dD -o "$out.sum.i"
}
# The preprocessor would take an old one in place of the headers.
rm -f "$out" "$out.sum"
preprocess "$@" && md5sum <"$out.sum.i" >"$out.sum"
rm -f "$out.sum.i"
exec "$@"
