# Writes OUT with the version and the commit, touching it only when they change.
# Run at build time: cmake -DOUT=... -DSOURCE=... -DVERSION=... -P version.cmake
execute_process(COMMAND git -C ${SOURCE} rev-parse --short=12 HEAD
                OUTPUT_VARIABLE commit OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
if(NOT commit)
    set(commit unknown)
endif()
set(text "#define LR_VERSION \"${VERSION}\"\n#define LR_COMMIT  \"${commit}\"\n")
set(before "")
if(EXISTS ${OUT})
    file(READ ${OUT} before)
endif()
if(NOT before STREQUAL text)
    file(WRITE ${OUT} "${text}")
endif()
