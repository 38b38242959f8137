/* LINK: tokenizer base */
/* tests/fuzz/tokenizer_source_fuzz.c - any tokenizer.model, tekken.json, vocab.json with
 * merges.txt, and vocab.txt.
 *
 * The first byte of an input chooses the form; the rest is the file, and what follows a byte
 * 0xFE is the second file.  Nothing may crash, and what is converted either opens or is refused
 * with a message.
 */
#include <stdlib.h>
#include <string.h>

#include "tokenizer/source.h"
#include "tokenizer/tokenizer.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static tokenizer_convert *const converters[] = {
        tokenizer_from_sentencepiece, tokenizer_from_tekken, tokenizer_from_merges,
        tokenizer_from_words};
    if (size == 0)
        return 0;
    struct lr_str first = lr_str((const char *)data + 1, size - 1), second = {"", 0};
    const char *mark = first.len != 0 ? memchr(first.ptr, 0xFE, first.len) : NULL;
    if (mark != NULL && data[0] % 4 == 2) {
        second = lr_str_sub(first, (size_t)(mark - first.ptr) + 1, first.len);
        first.len = (size_t)(mark - first.ptr);
    }
    struct lr_buf json;
    struct lr_error err = {0};
    struct tokenizer *t = NULL;
    struct tokenizer_ids ids;
    lr_buf_init(&json, 64 << 20);
    tokenizer_ids_init(&ids, 1 << 16);
    lr_code rc = converters[data[0] % 4](first, second, NULL, &json, &err);
    if (rc == LR_OK && !json.failed)
        rc = tokenizer_open_text(lr_buf_str(&json), &t, &err);
    if (rc != LR_OK && err.text[0] == '\0')
        abort();
    if (t != NULL)
        (void)!tokenizer_encode(t, lr_str((const char *)data, size < 64 ? size : 64), true,
                                &ids, &err);
    tokenizer_ids_free(&ids);
    tokenizer_free(t);
    lr_buf_free(&json);
    return 0;
}
