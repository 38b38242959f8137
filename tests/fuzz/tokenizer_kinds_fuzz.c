/* LINK: tokenizer base */
/* tests/fuzz/tokenizer_kinds_fuzz.c - any text for every normalizer, pre-tokenizer, model and
 * decoder.
 *
 * The first byte of an input chooses a normalizer, the second a pre-tokenizer, the third a
 * model and a decoder; the rest is the text, whose first half is trusted.  Nothing may crash,
 * ids are in the vocabulary, untrusted text has no control token, a stream gives what decoding
 * at once gives, and a text in two segments has the ids of the whole.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"
#include "tokenizer/tokenizer.h"

#define MARK              "\xE2\x96\x81"
#define REPLACE(FROM, TO) "{\"type\":\"Replace\",\"pattern\":" FROM ",\"content\":\"" TO "\"}"
#define SPLIT(FROM, HOW, INVERT)                                                               \
    "{\"type\":\"Split\",\"pattern\":" FROM ",\"behavior\":\"" HOW "\",\"invert\":" INVERT "}"

static const char *const normalizers[] = {
    "null",
    "{\"type\":\"NFC\"}",
    "{\"type\":\"NFD\"}",
    "{\"type\":\"NFKC\"}",
    "{\"type\":\"NFKD\"}",
    "{\"type\":\"Lowercase\"}",
    "{\"type\":\"StripAccents\"}",
    "{\"type\":\"Strip\",\"strip_left\":true,\"strip_right\":true}",
    "{\"type\":\"Sequence\",\"normalizers\":[{\"type\":\"Prepend\",\"prepend\":\"" MARK
    "\"}," REPLACE("{\"String\":\" \"}", MARK) "]}",
    REPLACE("{\"Regex\":\" {2,}|\\\\p{L}*\"}", "-"),
    "{\"type\":\"BertNormalizer\",\"clean_text\":true,\"handle_chinese_chars\":true,"
    "\"strip_accents\":true,\"lowercase\":true}",
    /* A map of "a" to "<", "b" to "b". */
    "{\"type\":\"Precompiled\",\"precompiled_charsmap\":"
    "\"CAAAAAAEAAAAAAAAPAAA\"}",
};

static const char *const pre_tokenizers[] = {
    "null",
    "{\"type\":\"Sequence\",\"pretokenizers\":[" SPLIT(
        "{\"Regex\":\"\\\\p{Lu}*\"}", "Isolated",
        "false") "," SPLIT("{\"String\":\",\"}", "MergedWithPrevious", "false") "]}",
    SPLIT("{\"Regex\":\"[a-z]+|\"}", "MergedWithNext", "true"),
    SPLIT("{\"Regex\":\"[0-9]\"}", "Contiguous", "false"),
    SPLIT("{\"Regex\":\"\\\\s+\"}", "Removed", "false"),
    "{\"type\":\"Digits\",\"individual_digits\":false}",
    "{\"type\":\"Punctuation\",\"behavior\":\"MergedWithNext\"}",
    "{\"type\":\"Metaspace\",\"replacement\":\"" MARK "\",\"prepend_scheme\":\"first\"}",
    "{\"type\":\"Metaspace\",\"replacement\":\"" MARK
    "\",\"add_prefix_space\":true,\"split\":false}",
    "{\"type\":\"Whitespace\"}",
    "{\"type\":\"WhitespaceSplit\"}",
    "{\"type\":\"BertPreTokenizer\"}",
    "{\"type\":\"CharDelimiterSplit\",\"delimiter\":\"|\"}",
    "{\"type\":\"UnicodeScripts\"}",
    "{\"type\":\"ByteLevel\",\"add_prefix_space\":true,\"use_regex\":true}",
    "{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"ByteLevel\",\"add_prefix_space\":"
    "false},"
    "{\"type\":\"Digits\",\"individual_digits\":true}]}",
};

#define WORDS                                                                                  \
    "\"[UNK]\":0,\"<s>\":1,\"a\":2,\"b\":3,\"ab\":4,\"" MARK "\":5,\"" MARK                    \
    "a\":6,\"<\":7,\"s\":8,"                                                                   \
    "\">\":9,\"##b\":10,\"<0x0A>\":11,\"<0xC3>\":12,\"<0xA9>\":13,\"a</w>\":14,\"b</w>\":15"
#define SCORED(ID) "[\"" ID "\",-1.5]"

static const char *const models[] = {
    "{\"type\":\"BPE\",\"vocab\":{" WORDS "},\"merges\":[\"a b\",\"" MARK " a\"]}",
    "{\"type\":\"BPE\",\"unk_token\":\"[UNK]\",\"fuse_unk\":true,\"byte_"
    "fallback\":true,\"vocab\":{" WORDS "},\"merges\":[\"a b\",\"" MARK " a\"]}",
    "{\"type\":\"BPE\",\"unk_token\":\"[UNK]\",\"ignore_merges\":true,"
    "\"vocab\":{" WORDS "},\"merges\":[\"a b\"]}",
    "{\"type\":\"BPE\",\"unk_token\":\"[UNK]\",\"end_of_word_suffix\":\"</"
    "w>\",\"vocab\":{" WORDS "},\"merges\":[]}",
    "{\"type\":\"BPE\",\"vocab\":{\"<s>\":1,\"a\":2,\"b\":3,\"ab\":4,\"\xC4\xA0\":5},"
    "\"merges\":["
    "\"a b\"]}",
    "{\"type\":\"WordPiece\",\"unk_token\":\"[UNK]\",\"vocab\":{" WORDS "}}",
    "{\"type\":\"Unigram\",\"unk_id\":0,\"byte_fallback\":true,\"vocab\":"
    "[" SCORED("[UNK]") "," SCORED("<s>") "," SCORED("a") "," SCORED("ab") "," SCORED(
        "ba") "," SCORED(MARK) "," SCORED("<0xC3>") "," SCORED("<0xA9>") "]}",
};

static const char *const decoders[] = {
    "null",
    "{\"type\":\"ByteLevel\"}",
    "{\"type\":\"Sequence\",\"decoders\":[" REPLACE(
        "{\"String\":\"" MARK "\"}", " ") ",{\"type\":\"ByteFallback\"},{\"type\":"
                                          "\"Fuse\"},{\"type\":\"Strip\","
                                          "\"content\":\" \",\"start\":1,\"stop\":0}]}",
    "{\"type\":\"Sequence\",\"decoders\":[{\"type\":\"Fuse\"}," REPLACE(
        "{\"Regex\":\"a+\"}",
        "x") ",{\"type\":\"Strip\",\"content\":\" \",\"start\":2,\"stop\":2}]}",
    "{\"type\":\"Metaspace\",\"replacement\":\"" MARK "\",\"prepend_scheme\":\"always\"}",
    "{\"type\":\"WordPiece\",\"prefix\":\"##\",\"cleanup\":true}",
    "{\"type\":\"BPEDecoder\",\"suffix\":\"</w>\"}",
};

#define COUNT(list) (sizeof(list) / sizeof((list)[0]))

static void require(bool good, const char *what)
{
    if (good)
        return;
    (void)fprintf(stderr, "tokenizer_kinds_fuzz: %s\n", what);
    abort();
}

static struct tokenizer *open_kind(const uint8_t *choice)
{
    struct lr_buf json;
    struct lr_error err = {0};
    struct tokenizer *t = NULL;
    lr_buf_init(&json, 1 << 16);
    lr_buf_addf(
        &json,
        "{\"added_tokens\":[{\"id\":1,\"content\":\"<s>\",\"special\":true,\"normalized\":%s},"
        "{\"id\":99,\"content\":\"<t>\",\"lstrip\":true,\"rstrip\":true,\"single_word\":true}],"
        "\"normalizer\":%s,\"pre_tokenizer\":%s,\"decoder\":%s,\"model\":%s}",
        choice[0] % 2 != 0 ? "true" : "false", normalizers[choice[0] / 2 % COUNT(normalizers)],
        pre_tokenizers[choice[1] % COUNT(pre_tokenizers)],
        decoders[choice[2] / COUNT(models) % COUNT(decoders)],
        models[choice[2] % COUNT(models)]);
    lr_code rc = tokenizer_open_text(lr_buf_str(&json), &t, &err);
    /* ByteLevel refuses merges that are not in its alphabet. */
    require(rc == LR_OK || rc == LR_MODEL_CORRUPT, "a file of the tables is refused");
    lr_buf_free(&json);
    return t;
}

/* False: the text cannot be tokenized (no token for unknown text). */
static bool encode(const struct tokenizer *t, struct lr_str text, size_t cut, bool first,
                   bool second, struct tokenizer_ids *ids)
{
    struct lr_error err;
    const struct lr_segment parts[] = {
        {.text = text.ptr, .len = cut, .control = first},
        {.text = text.ptr + cut, .len = text.len - cut, .control = second}};
    ids->count = 0;
    return tokenizer_encode_segments(t, parts, 2, ids, &err) == LR_OK;
}

static void check_decoding(const struct tokenizer *t, const struct tokenizer_ids *ids)
{
    struct lr_buf whole, parts;
    struct lr_error err;
    lr_buf_init(&whole, 1 << 24);
    lr_buf_init(&parts, 1 << 24);
    require(tokenizer_decode(t, ids->items, ids->count, false, &whole, &err) == LR_OK,
            "ids cannot be decoded");
    struct tokenizer_stream *s = tokenizer_stream_new(t, false, &parts);
    require(s != NULL, "no memory");
    for (size_t i = 0; i < ids->count; i++) {
        size_t before = parts.len;
        require(tokenizer_stream_add(s, ids->items[i], &err) == LR_OK, "a stream fails");
        require(parts.len >= before, "a stream takes text back");
    }
    require(tokenizer_stream_end(s, &err) == LR_OK, "the end of a stream fails");
    require(lr_str_eq(lr_buf_str(&whole), lr_buf_str(&parts)), "a stream is another text");
    tokenizer_stream_free(s);
    lr_buf_free(&whole);
    lr_buf_free(&parts);
}

static void check(const struct tokenizer *t, struct lr_str text)
{
    struct tokenizer_ids ids, again;
    tokenizer_ids_init(&ids, 1 << 22);
    tokenizer_ids_init(&again, 1 << 22);
    if (encode(t, text, text.len / 2, true, true, &ids)) {
        for (size_t i = 0; i < ids.count; i++)
            require(ids.items[i] < tokenizer_vocab_size(t), "an id beyond the vocabulary");
        check_decoding(t, &ids);
        require(encode(t, text, text.len / 3, true, true, &again) && again.count == ids.count,
                "segments have other ids");
    }
    if (encode(t, text, text.len / 2, false, false, &ids))
        for (size_t i = 0; i < ids.count; i++)
            require(ids.items[i] != 1, "a control token from untrusted text");
    (void)encode(t, text, text.len / 2, true, false, &ids);
    tokenizer_ids_free(&ids);
    tokenizer_ids_free(&again);
}

/* Opening takes much longer than a text: the last ones stay open. */
static const struct tokenizer *kind(const uint8_t *choice)
{
    enum { OPEN = 64 };
    static struct tokenizer *open[OPEN];
    static uint8_t choices[OPEN][3];
    static bool used[OPEN];
    size_t slot = (choice[0] + 7u * choice[1] + 31u * choice[2]) % OPEN;
    if (!used[slot] || memcmp(choices[slot], choice, 3) != 0) {
        tokenizer_free(open[slot]);
        open[slot] = open_kind(choice);
        memcpy(choices[slot], choice, 3);
        used[slot] = true;
    }
    return open[slot];
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 3)
        return 0;
    const struct tokenizer *t = kind(data);
    if (t != NULL)
        check(t, lr_str((const char *)data + 3, size - 3));
    return 0;
}
