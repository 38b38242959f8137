/* cmake/llama_version.c - run at configure time: prints the version of a libllama.
 *
 *   llama_version LIBRARY
 *
 * It is compiled with the engine's headers, so it also checks that these are the expected
 * generation.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#include <llama.h>

int main(int argc, char **argv)
{
    struct llama_model_params model = {.load_mode = LLAMA_LOAD_MODE_AUTO};
    struct llama_context_params context = {.n_outputs_max = 1, .n_outputs_max_per_seq = 1};
    const char *(*version)(void);
    void *handle = argc == 2 ? dlopen(argv[1], RTLD_NOW | RTLD_LOCAL) : NULL;
    void *symbol = handle != NULL ? dlsym(handle, "llama_version") : NULL;

    if (symbol == NULL || model.vocab_only || context.n_outputs_max != 1)
        return 1;
    memcpy(&version, &symbol, sizeof(version));
    return puts(version()) < 0;
}
