/* gptoss/backend/cuda/embed.S - the compiled kernels: a fatbin of each module in kernels.def. */
#ifdef __CET__
#include <cet.h> /* the linker's note that nothing here stands in the way of CET */
#endif
#define TEXT(x) #x
#define MODULE(name)                \
    .globl gptoss_cuda_##name;      \
    .hidden gptoss_cuda_##name;     \
    .balign 16;                     \
    gptoss_cuda_##name:             \
    .incbin TEXT(name.fatbin);

    .section .rodata
#include "engines/gptoss/backend/cuda/kernels.def"
    .section .note.GNU-stack, "", @progbits
