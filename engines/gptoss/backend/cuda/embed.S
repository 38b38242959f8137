/* gptoss/backend/cuda/embed.S - the compiled kernels: a fatbin of each module in kernels.def. */
#ifdef __CET__
#include <cet.h> /* the linker's note that nothing here stands in the way of CET */
#endif
#define TEXT(x) #x
#ifdef __ELF__
#define HIDDEN(name) .hidden name
#else
#define HIDDEN(name) /* a DLL exports what it is told to */
#endif
#define MODULE(name)                \
    .globl gptoss_cuda_##name;      \
    HIDDEN(gptoss_cuda_##name);     \
    .balign 16;                     \
    gptoss_cuda_##name:             \
    .incbin TEXT(name.fatbin);

#ifdef __ELF__
    .section .rodata
#else
    .section .rdata, "dr"
#endif
#include "engines/gptoss/backend/cuda/kernels.def"
#ifdef __ELF__
    .section .note.GNU-stack, "", @progbits
#endif
