# Linux on arm64, with Debian's cross compiler (tools/setup platforms) and the libraries that
# tools/cross builds.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc)
set(CMAKE_CROSSCOMPILING_EMULATOR qemu-aarch64;-L;/usr/aarch64-linux-gnu)
set(LR_TARGET linux-arm64)
include(${CMAKE_CURRENT_LIST_DIR}/cross.cmake)
