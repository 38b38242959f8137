# Kernels in GLSL become numbers (SPIR-V, for Vulkan) and texts (MSL, for Metal) in one header.
# Each set of kernels is a folder with kernels.def, push.h, *.comp and *.glsl; the arrays are
# called <prefix>_spirv_<kernel> and <prefix>_msl_<kernel>, and the file <source> includes the header.

# The lines of kernels.def as lists "name;file;define", in ${out}; matrix kernels only if wanted.
function(lr_kernels_of shaders regex out)
    get_filename_component(shaders ${shaders} ABSOLUTE) # one name for a folder
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${shaders}/kernels.def)
    file(STRINGS ${shaders}/kernels.def lines REGEX "${regex}")
    set(${out} "${lines}" PARENT_SCOPE)
    file(GLOB headers CONFIGURE_DEPENDS ${shaders}/*.glsl)
    set(${out}_headers ${headers} ${shaders}/push.h PARENT_SCOPE)
endfunction()

# spirv.h in the current build folder.
function(lr_spirv prefix shaders source)
    set(text "/* Made by the build from kernels.def. */\n#include <stdint.h>\n")
    set(files)
    lr_kernels_of(${shaders} "^(MATRIX_)?KERNEL\\(" kernels)
    foreach(line IN LISTS kernels)
        set(compile ${LR_GLSLC} --target-env=vulkan1.1 -O -mfmt=num)
        if(line MATCHES "^MATRIX_")
            if(NOT LR_GLSLANG)
                continue()
            endif()
            set(compile ${LR_GLSLANG} --quiet -x --target-env vulkan1.1 "-P#extension GL_GOOGLE_include_directive : require")
        endif()
        string(REGEX REPLACE "^[A-Z_]*KERNEL\\((.*)\\)$" "\\1" line "${line}")
        string(REPLACE ", " ";" line "${line}")
        list(GET line 0 name)
        list(GET line 1 file)
        list(GET line 2 define)
        set(out ${CMAKE_CURRENT_BINARY_DIR}/${name}.inc)
        add_custom_command(
            OUTPUT ${out}
            COMMAND ${compile} -D${define} -o ${out} ${shaders}/${file}.comp
            DEPENDS ${shaders}/${file}.comp ${kernels_headers}
            COMMENT "GLSL ${prefix} ${name}"
            VERBATIM)
        list(APPEND files ${out})
        string(APPEND text "static const uint32_t ${prefix}_spirv_${name}[] = {\n#include \"${name}.inc\"\n};\n")
    endforeach()
    file(CONFIGURE OUTPUT ${CMAKE_CURRENT_BINARY_DIR}/spirv.h CONTENT "${text}" @ONLY)
    set_source_files_properties(${source} PROPERTIES OBJECT_DEPENDS "${files}")
endfunction()

# msl.h, the same way.
function(lr_msl prefix shaders source)
    set(text "/* Made by the build from kernels.def. */\n#pragma GCC diagnostic ignored \"-Woverlength-strings\"\n")
    set(files)
    set(script ${PROJECT_SOURCE_DIR}/cmake/msl.cmake)
    lr_kernels_of(${shaders} "^KERNEL\\(" kernels)
    foreach(line IN LISTS kernels)
        string(REGEX REPLACE "^KERNEL\\((.*)\\)$" "\\1" line "${line}")
        string(REPLACE ", " ";" line "${line}")
        list(GET line 0 name)
        list(GET line 1 file)
        list(GET line 2 define)
        set(out ${CMAKE_CURRENT_BINARY_DIR}/${name})
        add_custom_command(
            OUTPUT ${out}.msl.inc
            COMMAND ${LR_GLSLC} --target-env=vulkan1.1 -O -D${define} -o ${out}.spv ${shaders}/${file}.comp
            COMMAND ${LR_SPIRV_CROSS} --msl --msl-version 20300 --msl-decoration-binding ${out}.spv --output ${out}.metal
            COMMAND ${CMAKE_COMMAND} -DNAME=${name} -DIN=${out}.metal -DOUT=${out}.msl.inc -P ${script}
            DEPENDS ${shaders}/${file}.comp ${kernels_headers} ${script}
            COMMENT "MSL ${prefix} ${name}"
            VERBATIM)
        list(APPEND files ${out}.msl.inc)
        string(APPEND text "static const char ${prefix}_msl_${name}[] =\n#include \"${name}.msl.inc\"\n;\n")
    endforeach()
    file(CONFIGURE OUTPUT ${CMAKE_CURRENT_BINARY_DIR}/msl.h CONTENT "${text}" @ONLY)
    set_source_files_properties(${source} PROPERTIES OBJECT_DEPENDS "${files}")
endfunction()

# A stand-in for Metal (tests/fake_metal), whose kernels run by the Vulkan host; its objc_msgSend is for
# x86-64.
if(LR_SPIRV_CROSS AND CMAKE_SYSTEM_NAME STREQUAL Linux AND CMAKE_SYSTEM_PROCESSOR STREQUAL x86_64)
    set(LR_FAKE_METAL ON)
endif()

# lr_fake_metal(<name> <programs> <library> <test>...): testing/<name>.so for an engine's kernels; the tests
# find its path in LR_FAKE_METAL.
function(lr_fake_metal name programs library)
    set(fake ${PROJECT_SOURCE_DIR}/tests/fake_metal)
    add_library(${name} MODULE ${fake}/objc.c ${fake}/texts.c ${fake}/kernels.c ${fake}/commands.c ${fake}/device.c)
    target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR} ${PROJECT_SOURCE_DIR}/src ${PROJECT_SOURCE_DIR}/include)
    target_include_directories(${name} SYSTEM PRIVATE ${LR_VULKAN_INCLUDE})
    target_compile_definitions(${name} PRIVATE FAKE_PROGRAMS=${programs})
    target_link_libraries(${name} PRIVATE ${library})
    target_link_options(${name} PRIVATE -Wl,--exclude-libs,ALL)
    set_target_properties(${name} PROPERTIES PREFIX "" C_VISIBILITY_PRESET hidden LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/testing)
    foreach(test IN LISTS ARGN)
        target_compile_definitions(${test} PRIVATE LR_FAKE_METAL="${CMAKE_BINARY_DIR}/testing/${name}.so")
        add_dependencies(${test} ${name})
    endforeach()
endfunction()
