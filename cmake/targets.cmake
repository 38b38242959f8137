# One function per kind of thing we build.  Sources are found, not listed: a file in
# src/<folder> or in a folder of that belongs to <folder>.

# docs/layers.txt says which folder of src/ may include which; a folder is linked with what it may
# include.
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/docs/layers.txt)

# lr_layer(<folder> <variable>): the folders on its line.
function(lr_layer name variable)
    file(STRINGS ${PROJECT_SOURCE_DIR}/docs/layers.txt line REGEX "^src/${name}:")
    if(NOT line)
        message(FATAL_ERROR "docs/layers.txt has no line for src/${name}")
    endif()
    string(REGEX REPLACE "^[^:]*:" "" line "${line}")
    string(REGEX MATCHALL "src/[a-z]+" folders "${line}")
    list(TRANSFORM folders REPLACE "^src/" "")
    set(${variable} ${folders} PARENT_SCOPE)
endfunction()

# Folders of src/base/os that are compiled for the target (docs/adr/0064).
if(WIN32)
    set(LR_OS windows absent)
    set(LR_OS_LIBRARIES ws2_32 bcrypt psapi shell32 advapi32)
elseif(APPLE)
    set(LR_OS posix darwin absent)
    if(LR_ZIG) # its linker makes no bundles, and engines can be opened in this form too
        set(CMAKE_SHARED_MODULE_CREATE_C_FLAGS -dynamiclib)
    endif()
else()
    set(LR_OS posix linux)
endif()

# lr_library(<folder> [LINK <libraries>])
function(lr_library name)
    cmake_parse_arguments(A "" "" "LINK" ${ARGN})
    set(folders ${PROJECT_SOURCE_DIR}/src/${name}/*.c ${PROJECT_SOURCE_DIR}/src/${name}/*/*.c)
    foreach(os IN LISTS LR_OS)
        list(APPEND folders ${PROJECT_SOURCE_DIR}/src/${name}/os/${os}/*.c)
    endforeach()
    file(GLOB sources CONFIGURE_DEPENDS ${folders})
    add_library(${name} STATIC ${sources} ${PROJECT_SOURCE_DIR}/cmake/empty.c)
    set_target_properties(${name} PROPERTIES OUTPUT_NAME lr_${name})
    target_include_directories(${name} PUBLIC ${PROJECT_SOURCE_DIR}/src ${PROJECT_SOURCE_DIR}/include)
    lr_layer(${name} lower)
    target_link_libraries(${name} PUBLIC ${lower} ${A_LINK} Threads::Threads)
endfunction()

# lr_version_header(<library>): it may include build_version.h, made at build time.
function(lr_version_header name)
    set(folder ${CMAKE_BINARY_DIR}/generated)
    add_custom_target(version_header
        COMMAND ${CMAKE_COMMAND} -DOUT=${folder}/build_version.h -DSOURCE=${PROJECT_SOURCE_DIR}
                -DVERSION=${PROJECT_VERSION} -P ${PROJECT_SOURCE_DIR}/cmake/version.cmake
        BYPRODUCTS ${folder}/build_version.h VERBATIM)
    add_dependencies(${name} version_header)
    target_include_directories(${name} PRIVATE ${folder})
endfunction()

# lr_executable(<program> <library with main>)
function(lr_executable name library)
    if(NOT EXISTS ${PROJECT_SOURCE_DIR}/src/${library}/main.c)
        return()
    endif()
    add_executable(${name} $<TARGET_OBJECTS:${library}>)
    target_link_libraries(${name} PRIVATE ${library})
    set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bin)
    if(LR_TRACE) # engines find its functions in the program
        target_sources(${name} PRIVATE ${PROJECT_SOURCE_DIR}/tests/walk/trace.c)
        target_link_options(${name} PRIVATE -Wl,--export-dynamic-symbol=__cyg_profile_func_enter)
    endif()
endfunction()

# lr_hide_libraries(<engine>): it exports its entry, and nothing of the libraries that are linked into it.
# Linkers have different options for this: GNU's hides the libraries, Apple's takes a list of what is
# exported, zig's takes such a list on Linux only.  For zig on macOS tools/cross compiles the libraries
# so that they export nothing.
function(lr_hide_libraries target)
    if(APPLE AND NOT LR_ZIG)
        target_link_options(${target} PRIVATE -Wl,-exported_symbol,_lr_engine_entry)
    elseif(NOT LR_ZIG)
        target_link_options(${target} PRIVATE -Wl,--exclude-libs,ALL)
    elseif(NOT APPLE)
        target_link_options(${target} PRIVATE -Wl,--version-script=${PROJECT_SOURCE_DIR}/cmake/engine.map)
    endif()
endfunction()

# lr_engine(<id> SOURCES ... [LINK ...] [TESTING]): engines/<id>/{manifest.json,library}.  An engine
# for tests goes to testing/engines instead, which nobody looks into unless told to, and is never
# installed.  The others have a link there, so that tests find every engine in one folder.
function(lr_engine id)
    cmake_parse_arguments(A "TESTING" "FOLDER" "SOURCES;LINK" ${ARGN})
    if(NOT A_FOLDER)
        set(A_FOLDER engines)
    endif()
    set(tests ${CMAKE_BINARY_DIR}/testing/${A_FOLDER})
    set(folder ${CMAKE_BINARY_DIR}/engines/${id})
    file(MAKE_DIRECTORY ${tests})
    if(A_TESTING)
        file(REMOVE_RECURSE ${folder}) # where an earlier build put it
        set(folder ${tests}/${id})
    else()
        file(CREATE_LINK ../../engines/${id} ${tests}/${id} SYMBOLIC)
        set_property(GLOBAL APPEND PROPERTY LR_ENGINES ${id})
    endif()
    add_library(engine_${id} MODULE ${A_SOURCES})
    target_include_directories(engine_${id} PRIVATE ${PROJECT_SOURCE_DIR}/src
                               ${PROJECT_SOURCE_DIR}/include ${PROJECT_SOURCE_DIR})
    target_link_libraries(engine_${id} PRIVATE ${A_LINK} Threads::Threads)
    lr_hide_libraries(engine_${id})
    set_target_properties(engine_${id} PROPERTIES PREFIX "" OUTPUT_NAME ${id}
                          LIBRARY_OUTPUT_DIRECTORY ${folder})
    set(LR_ENGINE_LIBRARY ${id}${CMAKE_SHARED_MODULE_SUFFIX})
    configure_file(${CMAKE_CURRENT_SOURCE_DIR}/${id}.manifest.json.in
                   ${folder}/manifest.json @ONLY)
endfunction()

# lr_vector_files(<target> <files> <options>): files that may use a processor's vectors, compiled for
# speed in every build type.  gcc for Windows places vectors of 32 bytes on a stack that is aligned to
# 16 bytes, so clang compiles them there.
function(lr_vector_files target files options)
    if(NOT (WIN32 AND CMAKE_C_COMPILER_ID STREQUAL "GNU"))
        target_sources(${target} PRIVATE ${files})
        set_source_files_properties(${files} PROPERTIES COMPILE_OPTIONS "-O3;${options}")
        return()
    endif()
    find_program(LR_CLANG clang REQUIRED)
    foreach(file IN LISTS files)
        get_filename_component(name ${file} NAME)
        set(object ${CMAKE_CURRENT_BINARY_DIR}/${name}.obj)
        add_custom_command(OUTPUT ${object}
            COMMAND ${LR_CLANG} --target=x86_64-w64-windows-gnu -std=c17 -O3 -ffp-contract=off ${options} -D_GNU_SOURCE -I${PROJECT_SOURCE_DIR}
                    -I${PROJECT_SOURCE_DIR}/src -I${PROJECT_SOURCE_DIR}/include -ffile-prefix-map=${PROJECT_SOURCE_DIR}=.
                    -c ${file} -o ${object}
            DEPENDS ${file} VERBATIM)
        set_source_files_properties(${object} PROPERTIES EXTERNAL_OBJECT ON GENERATED ON)
        target_sources(${target} PRIVATE ${object})
    endforeach()
endfunction()

# lr_subdirectories(<folders>): those that have a CMakeLists.txt
function(lr_subdirectories)
    foreach(folder IN LISTS ARGN)
        if(EXISTS ${PROJECT_SOURCE_DIR}/${folder}/CMakeLists.txt)
            add_subdirectory(${PROJECT_SOURCE_DIR}/${folder} ${CMAKE_BINARY_DIR}/cmake/${folder})
        endif()
    endforeach()
endfunction()

# Every tests/unit/<folder>/<name>_test.c is one cmocka program, linked with <folder>.
function(lr_unit_tests)
    pkg_check_modules(CMOCKA REQUIRED cmocka)
    file(GLOB files CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/tests/unit/*/*_test.c)
    foreach(file IN LISTS files)
        get_filename_component(name ${file} NAME_WE)
        get_filename_component(folder ${file} DIRECTORY)
        get_filename_component(folder ${folder} NAME)
        if(NOT TARGET ${folder})
            continue() # an engine's tests are added by its own CMakeLists.txt
        endif()
        lr_test_is_foreign(${file} foreign)
        if(foreign)
            continue()
        endif()
        lr_unit_test(unit_${folder}_${name} ${file} ${folder})
    endforeach()
endfunction()

# lr_test_is_foreign(<file> <variable>): the test uses calls of POSIX, or of Linux, or a server, that the target lacks.
function(lr_test_is_foreign file variable)
    set(${variable} FALSE PARENT_SCOPE)
    set(calls)
    if(WIN32)
        set(calls "#include <(sys/(wait|socket|mman|resource|un|file|time|prctl|statvfs)|netinet/|arpa/|poll|dlfcn|glob|spawn|pwd|semaphore|ucontext|linux/)|[^_a-z](fork|pipe|socketpair|symlink|chmod|fcntl|kill|sigaction|pipe2|usleep|alarm|mkdir|stpcpy|unsetenv|utimensat|futimens)\\(|\"harness\\.h|/(net/harness|worker/support|router/postgres)\\.h\"|[^_a-z]link\\(")
    elseif(APPLE)
        set(calls "#include <(sys/prctl|ucontext)\\.h>")
    endif()
    if(calls)
        file(STRINGS ${file} found REGEX ${calls})
        if(found)
            set(${variable} TRUE PARENT_SCOPE)
        endif()
    endif()
endfunction()

# lr_unit_test(<target> <file> <libraries>): one cmocka program.
function(lr_unit_test target file)
    add_executable(${target} ${file})
    target_include_directories(${target} SYSTEM PRIVATE ${CMOCKA_INCLUDE_DIRS})
    target_include_directories(${target} PRIVATE ${PROJECT_SOURCE_DIR} ${PROJECT_SOURCE_DIR}/src)
    target_compile_definitions(${target} PRIVATE LR_SOURCE_DIR="${PROJECT_SOURCE_DIR}"
                               LR_BINARY_DIR="${CMAKE_BINARY_DIR}")
    target_link_directories(${target} PRIVATE ${CMOCKA_LIBRARY_DIRS})
    target_link_libraries(${target} PRIVATE ${ARGN} ${CMOCKA_LIBRARIES} Threads::Threads)
    if(WIN32)
        target_compile_definitions(${target} PRIVATE PCRE2_STATIC UTF8PROC_STATIC)
    endif()
    set_target_properties(${target} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
    add_test(NAME ${target} COMMAND ${target})
    set_tests_properties(${target} PROPERTIES LABELS unit)
endfunction()

# tests/fuzz/<name>_fuzz.c defines LLVMFuzzerTestOneInput; its first line names the
# libraries: // LINK: base jansson.  Without LR_FUZZ it is linked with a replay of
# tests/fuzz/corpus/<name>/ and becomes a test.
function(lr_fuzz_targets)
    file(GLOB files CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/tests/fuzz/*_fuzz.c)
    foreach(file IN LISTS files)
        get_filename_component(name ${file} NAME_WE)
        string(REGEX REPLACE "_fuzz$" "" short ${name})
        file(STRINGS ${file} line LIMIT_COUNT 1)
        string(REGEX REPLACE "^.*LINK:" "" links "${line}")
        string(REGEX REPLACE "[*/]" "" links "${links}")
        separate_arguments(links)
        if(CMAKE_CROSSCOMPILING AND "jansson" IN_LIST links)
            continue() # compared with another JSON library, which cross builds do not have
        endif()
        add_executable(${name} ${file})
        target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR} ${PROJECT_SOURCE_DIR}/src)
        target_link_libraries(${name} PRIVATE ${links})
        set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/fuzz)
        if(LR_FUZZ)
            target_link_options(${name} PRIVATE -fsanitize=fuzzer)
        else()
            target_sources(${name} PRIVATE ${PROJECT_SOURCE_DIR}/tests/fuzz/replay.c)
            add_test(NAME fuzz_${short} COMMAND ${name} ${PROJECT_SOURCE_DIR}/tests/fuzz/corpus/${short})
            set_tests_properties(fuzz_${short} PROPERTIES LABELS fuzz)
        endif()
    endforeach()
endfunction()
