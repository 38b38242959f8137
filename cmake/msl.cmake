# cmake -DNAME=kernel -DIN=kernel.metal -DOUT=kernel.msl.inc -P msl.cmake
#
# The text of a kernel as a C string.  spirv-cross gives the push constants index 0, which is the
# index of the first buffer, too: they move to index 8 (METAL_PUSH_INDEX).
file(READ ${IN} text)
string(REGEX MATCHALL "constant [_A-Za-z0-9]+& [_A-Za-z0-9]+ \\[\\[buffer\\(0\\)\\]\\]" pushes "${text}")
list(LENGTH pushes count)
if(NOT count EQUAL 1)
    message(FATAL_ERROR "${NAME}: ${count} blocks of push constants, 1 expected: does this spirv-cross number them otherwise?")
endif()
string(REGEX REPLACE "(constant [_A-Za-z0-9]+& [_A-Za-z0-9]+ \\[\\[buffer\\()0(\\)\\]\\])" "\\18\\2" text "${text}")
string(PREPEND text "// kernel ${NAME}\n")
string(REPLACE "\\" "\\\\" text "${text}")
string(REPLACE "\"" "\\\"" text "${text}")
string(REPLACE "\n" "\\n\"\n\"" text "${text}")
file(WRITE ${OUT} "\"${text}\"\n")
