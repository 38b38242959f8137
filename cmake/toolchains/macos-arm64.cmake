# macOS 11 or later on Apple's processors, with the libraries that tools/cross builds.
set(CMAKE_SYSTEM_NAME Darwin)
set(CMAKE_SYSTEM_PROCESSOR arm64)
set(CMAKE_OSX_DEPLOYMENT_TARGET 11.0 CACHE STRING "")
set(CMAKE_OSX_SYSROOT "" CACHE STRING "")
set(LR_TARGET macos-arm64)
include(${CMAKE_CURRENT_LIST_DIR}/zig.cmake)
