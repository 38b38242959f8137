/* LINK: chat base */
/* A body of POST /api/embed, and the same of POST /api/embeddings. */
#include "vectors_fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct lr_str body = lr_str((const char *)data, size);
    fuzz_vectors(&chat_ollama_embed, body);
    fuzz_vectors(&chat_ollama_embeddings, body);
    return 0;
}
