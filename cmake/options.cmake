# What a preset may switch.
option(LR_TESTS "Build the C tests (needs cmocka and jansson); the release presets leave them out" ON)
option(LR_WERROR "Warnings are errors (CI)" OFF)
option(LR_FUZZ "Build libFuzzer programs instead of corpus replays (clang)" OFF)
option(LR_STATIC_DEPS "Link third-party libraries statically (preset portable)" OFF)
option(LR_FAILPOINTS "Compile named failpoints in (tests that stop a process at a stage)" OFF)
option(LR_TRACE "The program notes which functions it enters (tools/walk)" OFF)
option(LR_CUDA "Build the CUDA backend where nvcc is found" ON)
option(LR_VULKAN "Build the Vulkan backend where glslc is found" ON)
# Elsewhere only a test uses it, with a stand-in for Metal.
option(LR_METAL "Build the Metal backend where glslc and spirv-cross are found" ${APPLE})
option(LR_WITH_DASHBOARD "Embed the web page where npm is there" ON)
set(LR_SANITIZE "" CACHE STRING "Sanitizers, as -fsanitize takes them")
set(LR_CUDA_ARCHS "90a;80-virtual;90-virtual" CACHE STRING "CUDA code to embed: 90a = sm_90a, 80-virtual = compute_80 PTX, 90-virtual for GPUs newer than Hopper")
set(LR_KERNEL_CACHE "${CMAKE_BINARY_DIR}/kernels" CACHE PATH "Compiled CUDA kernels, kept by content; the presets share one")

set(CMAKE_C_STANDARD 17)
set(CMAKE_C_STANDARD_REQUIRED ON)
set(CMAKE_C_EXTENSIONS OFF)
set(CMAKE_C_VISIBILITY_PRESET hidden)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)

add_compile_definitions(_GNU_SOURCE)
add_compile_options(-Wall -Wextra -Wpedantic -Wshadow -Wundef -Wvla -Wcast-qual -Wformat=2
                    -Wwrite-strings -Wimplicit-fallthrough)
add_compile_options($<$<COMPILE_LANGUAGE:C>:-Wconversion> $<$<COMPILE_LANGUAGE:C>:-Wstrict-prototypes>
                    $<$<COMPILE_LANGUAGE:C>:-Wmissing-prototypes>)
# gcc guesses at lengths here, and differently at each level: a message may be cut, and paths are
# built with base/file.h, which refuses instead of cutting.
if(CMAKE_C_COMPILER_ID STREQUAL "GNU")
    add_compile_options(-Wno-format-truncation)
endif()
# On arm64 compilers join a multiplication and an addition to one operation that rounds once, and clang
# does so for every processor that has it.  Then a fleet of both would not compute the same bits; where
# one rounding is wanted, the code says so.
if(CMAKE_SYSTEM_PROCESSOR MATCHES "aarch64|arm64|ARM64" OR CMAKE_C_COMPILER_ID MATCHES "Clang")
    add_compile_options(-ffp-contract=off)
endif()
if(APPLE AND CMAKE_CROSSCOMPILING)
    # zig's linker crashed while it wrote the tables of unwinding, at a certain number of functions.  C needs none.
    add_compile_options(-fno-unwind-tables -fno-asynchronous-unwind-tables)
endif()
if(WIN32)
    # Windows 10; printf of ISO C; files above 2 GB; functions that its C library lacks.  One program
    # file without libraries of the compiler.
    add_compile_definitions(_WIN32_WINNT=0x0A00 __USE_MINGW_ANSI_STDIO=1 _FILE_OFFSET_BITS=64 WIN32_LEAN_AND_MEAN)
    add_compile_options(-include ${PROJECT_SOURCE_DIR}/src/base/os/windows/libc.h -Wno-format -Wno-pedantic-ms-format)
    # Its read() and write() count in unsigned, a socket is wider than an int, and isnan() is a macro that
    # converts: the compilers for other systems check the same lines.
    add_compile_options($<$<COMPILE_LANGUAGE:C>:-Wno-conversion> $<$<COMPILE_LANGUAGE:C>:-Wno-sign-conversion>
                        $<$<COMPILE_LANGUAGE:C>:-Wno-float-conversion>)
    add_link_options(-static)
endif()
if(APPLE)
    add_compile_options(-include ${PROJECT_SOURCE_DIR}/src/base/os/darwin/libc.h)
endif()
if(LR_WERROR)
    add_compile_options(-Werror)
endif()
if(LR_SANITIZE)
    add_compile_options(-fsanitize=${LR_SANITIZE} -fno-omit-frame-pointer)
    add_link_options(-fsanitize=${LR_SANITIZE})
    if(LR_SANITIZE MATCHES "undefined")
        add_compile_options(-fno-sanitize-recover=undefined)
    endif()
elseif(CMAKE_BUILD_TYPE STREQUAL "Release" AND NOT WIN32 AND NOT APPLE)
    include(hardening)
endif()
# No folder of the machine that builds is in what it builds, and two folders give the same bytes.
# The later option wins where both fit; the first is for a build folder outside the sources.
add_compile_options(-ffile-prefix-map=${CMAKE_BINARY_DIR}=./build -ffile-prefix-map=${PROJECT_SOURCE_DIR}=.)
if(LR_FUZZ)
    add_compile_options(-fsanitize=fuzzer-no-link)
endif()
if(LR_FAILPOINTS)
    add_compile_definitions(LR_FAILPOINTS=1)
endif()
