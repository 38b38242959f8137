/* LINK: chat base */
/* A body of POST /v1/responses. */
#include "codec_fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    fuzz_codec(&chat_responses, LR_STR_LIT("{\"input\": \"a\\"),
               lr_str((const char *)data, size));
    return 0;
}
