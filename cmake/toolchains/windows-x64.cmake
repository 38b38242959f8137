# Windows on x64, with Debian's MinGW-w64 and POSIX threads (tools/setup platforms) and the
# libraries that tools/cross builds.
set(CMAKE_SYSTEM_NAME Windows)
set(CMAKE_SYSTEM_PROCESSOR AMD64)
set(CMAKE_C_COMPILER x86_64-w64-mingw32-gcc-posix)
set(CMAKE_RC_COMPILER x86_64-w64-mingw32-windres)
set(CMAKE_CROSSCOMPILING_EMULATOR wine)
add_link_options(-Wl,--no-insert-timestamp) # two builds have the same bytes
set(LR_TARGET windows-x64)
include(${CMAKE_CURRENT_LIST_DIR}/cross.cmake)
