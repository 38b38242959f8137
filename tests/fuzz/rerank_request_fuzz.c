/* LINK: chat base */
/* A body of POST /v1/rerank. */
#include "vectors_fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    fuzz_vectors(&chat_rerank, lr_str((const char *)data, size));
    return 0;
}
