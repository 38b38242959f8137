# Linux on arm64 with glibc 2.31 or later, with the libraries that tools/cross builds.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_CROSSCOMPILING_EMULATOR qemu-aarch64;-L;/usr/aarch64-linux-gnu)
set(LR_TARGET linux-arm64)
include(${CMAKE_CURRENT_LIST_DIR}/zig.cmake)
