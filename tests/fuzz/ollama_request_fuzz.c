/* LINK: chat base */
/* A body of POST /api/chat, and the same of POST /api/generate. */
#include "codec_fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct lr_str body = lr_str((const char *)data, size);
    fuzz_codec(&chat_ollama_chat, LR_STR_LIT("{\"a\":\n \"b\"}"), body);
    fuzz_codec(&chat_ollama_generate, LR_STR_LIT("{\"a\": \"b"), body);
    return 0;
}
