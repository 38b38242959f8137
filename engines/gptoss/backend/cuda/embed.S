/* gptoss/backend/cuda/embed.S - the compiled kernels, one fatbin a module. */
#ifdef __CET__
#include <cet.h> /* the linker's note that nothing here stands in the way of CET */
#endif
#define MODULE(symbol, file) \
    .globl symbol;           \
    .hidden symbol;          \
    .balign 16;              \
    symbol:                  \
    .incbin file

    .section .rodata
    MODULE(gptoss_cuda_skinny, "skinny.fatbin")
    MODULE(gptoss_cuda_expert_stream, "expert_stream.fatbin")
    MODULE(gptoss_cuda_wide, "wide.fatbin")
    MODULE(gptoss_cuda_tile, "tile.fatbin")
    MODULE(gptoss_cuda_prompt, "prompt.fatbin")
    MODULE(gptoss_cuda_prompt_dense, "prompt_dense.fatbin")
    MODULE(gptoss_cuda_attention, "attention.fatbin")
    MODULE(gptoss_cuda_prompt_attention, "prompt_attention.fatbin")
    MODULE(gptoss_cuda_elementwise, "elementwise.fatbin")
    MODULE(gptoss_cuda_route, "route.fatbin")
    MODULE(gptoss_cuda_sample, "sample.fatbin")
    MODULE(gptoss_cuda_sample_filtered, "sample_filtered.fatbin")
    MODULE(gptoss_cuda_repack, "repack.fatbin")
    MODULE(gptoss_cuda_token, "token.fatbin")
    .section .note.GNU-stack, "", @progbits
