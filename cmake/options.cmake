# What a preset may switch.
option(LR_TESTS "Build the C tests (needs cmocka and jansson); the release presets leave them out" ON)
option(LR_WERROR "Warnings are errors (CI)" OFF)
option(LR_FUZZ "Build libFuzzer programs instead of corpus replays (clang)" OFF)
option(LR_STATIC_DEPS "Link third-party libraries statically (preset portable)" OFF)
option(LR_FAILPOINTS "Compile named failpoints in (tests that stop a process at a stage)" OFF)
option(LR_WITH_DASHBOARD "Embed the web page where npm is there" ON)
set(LR_SANITIZE "" CACHE STRING "Sanitizers, as -fsanitize takes them")
set(LR_CUDA_ARCHS "90a;80-virtual" CACHE STRING "CUDA code to embed: 90a = sm_90a, 80-virtual = compute_80 PTX")
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
add_compile_options(-Wno-format-truncation)
if(LR_WERROR)
    add_compile_options(-Werror)
endif()
if(LR_SANITIZE)
    add_compile_options(-fsanitize=${LR_SANITIZE} -fno-omit-frame-pointer)
    add_link_options(-fsanitize=${LR_SANITIZE})
    if(LR_SANITIZE MATCHES "undefined")
        add_compile_options(-fno-sanitize-recover=undefined)
    endif()
elseif(CMAKE_BUILD_TYPE STREQUAL "Release")
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
