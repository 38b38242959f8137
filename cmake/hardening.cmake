# What an optimised build adds so that a fault in our code is harder to use (docs/adr/0030).
# _FORTIFY_SOURCE needs an optimising compiler, and sanitizers want the plain functions: only the
# release presets come here.
include(CheckPIESupported)
check_pie_supported(LANGUAGES C)
# Debian's compilers may bring a level of their own; -U keeps the redefinition silent.
add_compile_options($<$<COMPILE_LANGUAGE:C>:-U_FORTIFY_SOURCE> $<$<COMPILE_LANGUAGE:C>:-D_FORTIFY_SOURCE=3>)
add_compile_options(-fstack-protector-strong)
# The clang that compiles for arm64 warns that it ignores this option.
include(CheckCCompilerFlag)
check_c_compiler_flag("-Werror -fstack-clash-protection" LR_STACK_CLASH)
if(LR_STACK_CLASH)
    add_compile_options(-fstack-clash-protection)
endif()
if(NOT APPLE OR LR_ZIG) # Apple's linker knows no -z
    add_link_options(-Wl,-z,relro,-z,now -Wl,-z,noexecstack)
endif()
if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
    add_compile_options(-fcf-protection=full)
    # The linker marks a file for shadow stacks only when every object says that it can use them,
    # and the start files of Debian's C library do not say so.  Shadow stacks ask nothing of code
    # that returns where it was called from, so the mark is true.  It is not set for IBT: the start
    # files lack the instructions that IBT demands.
    if(NOT LR_ZIG) # its linker does not know the mark
        add_link_options(-Wl,-z,shstk)
    endif()
endif()
