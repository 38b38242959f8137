# For targets that zig's clang compiles (tools/setup-zig), after LR_TARGET is set.
get_filename_component(LR_ZIG ${CMAKE_CURRENT_LIST_DIR}/../../.cache/zig/bin ABSOLUTE)
set(CMAKE_C_COMPILER ${LR_ZIG}/${LR_TARGET}-cc)
set(CMAKE_ASM_COMPILER ${LR_ZIG}/${LR_TARGET}-cc)
set(CMAKE_AR ${LR_ZIG}/ar CACHE FILEPATH "")
set(CMAKE_RANLIB ${LR_ZIG}/ranlib CACHE FILEPATH "")
include(${CMAKE_CURRENT_LIST_DIR}/cross.cmake)
