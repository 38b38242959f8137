/* LINK: chat base */
/* A body of POST /v1/messages. */
#include "codec_fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    fuzz_codec(&chat_anthropic, LR_STR_LIT("{\"a\": \"b"), lr_str((const char *)data, size));
    return 0;
}
