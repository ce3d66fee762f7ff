# SPDX-License-Identifier: Apache-2.0
# Writes OUTPUT: one string literal, a hash of every source under ROOT that decides what a model compiles to. Run at build
# time, so that a recipe cache never gives back what another state of the compiler made.
file(GLOB_RECURSE sources RELATIVE ${ROOT}
     ${ROOT}/compiler/*.cpp ${ROOT}/compiler/*.h ${ROOT}/compiler/*.td ${ROOT}/compiler/*.def
     ${ROOT}/src/*.cpp ${ROOT}/src/*.h ${ROOT}/src/*.def ${ROOT}/src/*.inc)
list(SORT sources)
set(all "${TOOLCHAIN}")
foreach(source IN LISTS sources)
  file(SHA256 ${ROOT}/${source} hash)
  string(APPEND all "${source} ${hash}\n")
endforeach()
string(SHA256 id "${all}")
string(SUBSTRING ${id} 0 32 id)
file(WRITE ${OUTPUT} "\"${id}\"\n")
