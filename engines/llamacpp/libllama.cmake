# Looks for libllama and finds out its version.  Sets LLAMACPP_FOUND, and then
#   LLAMACPP_INCLUDE       where llama.h is
#   LLAMACPP_DIR           where the library is
#   LLAMACPP_LIBRARY_NAME  its file name
#   LLAMACPP_BUILT_FOR     what llama_version() says
#   LLAMACPP_BUNDLED       copied beside the plugin
#   LLAMACPP_DEVICES       the kinds of GPUs that it has a backend for: cuda, vulkan, metal
# or LLAMACPP_WHY.
set(LLAMACPP_FOUND FALSE)
set(LLAMACPP_BUNDLED FALSE)
set(LLAMACPP_DEVICES "")
set(LLAMACPP_WHY "libllama not found (tools/setup llama fetches it)")
option(LR_LLAMA "Build the llama.cpp engine where libllama is found" ON)
set(LR_LLAMA_DIR "${PROJECT_SOURCE_DIR}/.cache/libllama" CACHE PATH "The pinned libllama: include/ and lib/")

# Sets LLAMACPP_BUILT_FOR when the library answers and its headers are of our generation.
function(llamacpp_ask_version include library)
    try_run(ran compiled ${CMAKE_BINARY_DIR}/cmake/llama_version
            ${PROJECT_SOURCE_DIR}/cmake/llama_version.c
            CMAKE_FLAGS -DINCLUDE_DIRECTORIES=${include} -DCMAKE_BUILD_TYPE=Release
            LINK_LIBRARIES ${CMAKE_DL_LIBS}
            RUN_OUTPUT_VARIABLE output ARGS ${library})
    if(compiled AND ran EQUAL 0)
        string(STRIP "${output}" output)
        set(LLAMACPP_BUILT_FOR ${output} PARENT_SCOPE)
    endif()
    unset(ran CACHE) # asked again at the next configuration: the library may have changed
    unset(compiled CACHE)
endfunction()

# A build for another system runs nothing: the version is read from the library's file.  The name of a
# pinned library has the first part of its version (libllama.v0.5.0.so is "0.5.0" or "0.5.0-dev").
function(llamacpp_read_version library)
    if(library MATCHES "\\.v([0-9]+\\.[0-9]+\\.[0-9]+)\\.[a-z]+$")
        string(REPLACE "." "\\." base ${CMAKE_MATCH_1})
        file(STRINGS ${library} texts REGEX "^${base}(-[a-z0-9]+)?$")
        list(REMOVE_DUPLICATES texts)
        list(LENGTH texts count)
        if(count EQUAL 1)
            set(LLAMACPP_BUILT_FOR ${texts} PARENT_SCOPE)
        endif()
    endif()
endfunction()

# llamacpp_take(<headers> <library> <bundled>): this libllama is used, where its version fits.
macro(llamacpp_take include library bundled)
    set(LLAMACPP_BUILT_FOR "")
    if(CMAKE_CROSSCOMPILING)
        llamacpp_read_version(${library})
    else()
        llamacpp_ask_version(${include} ${library})
    endif()
    if(LLAMACPP_BUILT_FOR)
        set(LLAMACPP_FOUND TRUE)
        set(LLAMACPP_INCLUDE ${include})
        get_filename_component(LLAMACPP_DIR ${library} DIRECTORY)
        get_filename_component(LLAMACPP_LIBRARY_NAME ${library} NAME)
        set(LLAMACPP_BUNDLED ${bundled})
        foreach(kind cuda vulkan metal)
            file(GLOB found CONFIGURE_DEPENDS ${LLAMACPP_DIR}/device-${kind}.* ${LLAMACPP_DIR}/libggml-${kind}*)
            if(found)
                list(APPEND LLAMACPP_DEVICES ${kind})
            endif()
        endforeach()
    else()
        set(LLAMACPP_WHY "${library} is not of the generation this engine is written for")
    endif()
endmacro()

if(NOT LR_LLAMA)
    set(LLAMACPP_WHY "LR_LLAMA is off")
    return()
endif()
pkg_check_modules(LLAMA_PC QUIET llama)
if(LLAMA_PC_FOUND)
    find_library(LLAMA_INSTALLED llama HINTS ${LLAMA_PC_LIBRARY_DIRS} ${LLAMA_PC_LIBDIR})
    pkg_get_variable(llama_include llama includedir)
    if(LLAMA_INSTALLED)
        get_filename_component(library ${LLAMA_INSTALLED} REALPATH)
        llamacpp_take(${llama_include} ${library} FALSE)
    endif()
endif()
if(NOT LLAMACPP_FOUND)
    file(GLOB library ${LR_LLAMA_DIR}/lib/libllama.*.so ${LR_LLAMA_DIR}/lib/libllama.*.dylib
         ${LR_LLAMA_DIR}/lib/llama.*.dll)
    if(library)
        llamacpp_take(${LR_LLAMA_DIR}/include ${library} TRUE)
    endif()
endif()
