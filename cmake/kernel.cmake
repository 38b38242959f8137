# cmake -DNVCC= -DFLAGS= -DROOT= -DSOURCE= -DINPUTS= -DOUT= -DCACHE= -P kernel.cmake: one .cu to a
# fatbin.
# Kernels are compiled once for all presets: the result is kept in CACHE under the hash of
# everything it is made of (compiler, flags, contents), and copied from there.  ROOT, the folder of
# the sources, is no part of it: the bytes are the same from every folder.
execute_process(COMMAND ${NVCC} --version OUTPUT_VARIABLE text COMMAND_ERROR_IS_FATAL ANY)
string(REPLACE "${ROOT}" "." flags_anywhere "${FLAGS}")
string(APPEND text "${flags_anywhere}")
foreach(file IN LISTS SOURCE INPUTS)
    file(SHA256 ${file} sum)
    string(APPEND text " ${sum}")
endforeach()
string(SHA256 key "${text}")
set(kept ${CACHE}/${key}.fatbin)
if(NOT EXISTS ${kept})
    file(MAKE_DIRECTORY ${CACHE})
    execute_process(COMMAND ${NVCC} -fatbin ${FLAGS} -o ${OUT} ${SOURCE} RESULT_VARIABLE failed)
    if(failed)
        file(REMOVE ${OUT})
        message(FATAL_ERROR "nvcc failed on ${SOURCE}")
    endif()
    # Renamed into place, so that another build never finds half of it.
    string(RANDOM LENGTH 8 mine)
    file(COPY_FILE ${OUT} ${kept}.${mine})
    file(RENAME ${kept}.${mine} ${kept})
else()
    file(COPY_FILE ${kept} ${OUT})
endif()
