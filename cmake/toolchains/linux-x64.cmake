# Linux on x64 with glibc 2.31 or later, with the libraries that tools/cross builds.  The system's name is
# not set: what is built runs on this machine.
set(LR_TARGET linux-x64)
include(${CMAKE_CURRENT_LIST_DIR}/zig.cmake)
