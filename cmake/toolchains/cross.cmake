# For every cross build, after LR_TARGET is set: libraries come from .cache/cross/<target>, and never from this machine.
get_filename_component(LR_CROSS_ROOT ${CMAKE_CURRENT_LIST_DIR}/../../.cache/cross/${LR_TARGET} ABSOLUTE)
set(CMAKE_FIND_ROOT_PATH ${LR_CROSS_ROOT})
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE ONLY)
set(ENV{PKG_CONFIG_LIBDIR} ${LR_CROSS_ROOT}/lib/pkgconfig)
set(ENV{PKG_CONFIG_PATH} "")
