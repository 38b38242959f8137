/* LINK: tokenizer base */
/* tests/fuzz/tokenizer_fuzz.c - any tokenizer.json and any text.
 *
 * An input is a tokenizer.json, a byte 0xFF (which JSON cannot contain), and a text.  An input
 * that begins with 0xFF is a text for a small built-in tokenizer, so that encoding is reached
 * without inventing a whole file.  Nothing may crash, a file that opens encodes every text, and
 * decoding the ids of valid text gives the text back.
 */
#include <stdio.h>
#include <stdlib.h>

#include "base/utf8.h"
#include "tokenizer/tokenizer.h"

/* 256 bytes, a few merges, control tokens; built once. */
static struct tokenizer *own(void)
{
    static struct tokenizer *t;
    if (t != NULL)
        return t;
    struct lr_buf json;
    lr_buf_init(&json, 1 << 20);
    lr_buf_add_z(&json,
                 "{\"added_tokens\":[{\"id\":300,\"content\":\"<|a|>\",\"special\":true},"
                 "{\"id\":301,\"content\":\"<b>\",\"lstrip\":true,\"single_word\":true}],"
                 "\"pre_tokenizer\":{\"type\":\"ByteLevel\",\"add_prefix_space\":false},"
                 "\"model\":{\"vocab\":{");
    for (uint32_t b = 0; b < 256; b++) {
        uint32_t c = b <= 0x20 ? 0x100 + b : b >= 0x7F && b <= 0xA0 ? 0xA2 + b : b;
        char utf8[4];
        c = b == 0xAD ? 0x143 : c;
        lr_buf_add_z(&json, c == '"' || c == '\\' ? "\"\\" : "\"");
        lr_buf_add(&json, utf8, lr_utf8_encode(c, utf8));
        lr_buf_addf(&json, "\":%u,", b);
    }
    lr_buf_add_z(&json, "\"ab\":256,\"abc\":257,\"aa\":258,\"aaaa\":259},\"merges\":["
                        "\"a b\",\"ab c\",[\"a\",\"a\"],[\"aa\",\"aa\"]]}}");
    struct lr_error err;
    if (tokenizer_open_text(lr_buf_str(&json), &t, &err) != LR_OK) {
        fprintf(stderr, "%s\n", err.text);
        abort();
    }
    lr_buf_free(&json);
    return t;
}

static void encode(const struct tokenizer *t, struct lr_str text, bool round_trip)
{
    struct tokenizer_ids ids;
    struct lr_error err;
    struct lr_buf back;
    size_t half = text.len / 2;
    const struct lr_segment segments[2] = {
        {.text = text.ptr, .len = half, .control = 1},
        {.text = text.ptr + half, .len = text.len - half, .control = 0}};
    tokenizer_ids_init(&ids, 1 << 20);
    lr_buf_init(&back, 64 << 20);
    if (tokenizer_encode_segments(t, segments, 2, &ids, &err) == LR_OK && round_trip) {
        if (tokenizer_decode(t, ids.items, ids.count, false, &back, &err) != LR_OK)
            abort();
        if (lr_utf8_valid(text) && memchr(text.ptr, '<', text.len) == NULL &&
            !lr_str_eq(lr_buf_str(&back), text))
            abort();
    }
    tokenizer_ids_free(&ids);
    lr_buf_free(&back);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0)
        return 0;
    const char *bytes = (const char *)data;
    const char *mark = memchr(bytes, 0xFF, size);
    size_t json_len = mark != NULL ? (size_t)(mark - bytes) : size;
    struct lr_str text = mark != NULL ? lr_str(mark + 1, size - json_len - 1)
                                      : lr_str(bytes, size < 64 ? size : 64);
    if (json_len == 0) {
        encode(own(), text, true);
        return 0;
    }
    struct tokenizer *t = NULL;
    struct lr_error err;
    lr_code rc = tokenizer_open_text(lr_str(bytes, json_len), &t, &err);
    if (rc != LR_OK && rc != LR_MODEL_CORRUPT && rc != LR_UNSUPPORTED && rc != LR_OUT_OF_RAM)
        abort();
    if (t != NULL)
        encode(t, text, false);
    tokenizer_free(t);
    return 0;
}
