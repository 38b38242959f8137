/* tokenizer/from_tekken.c - tekken.json: Mistral's byte-level BPE, tokens by rank.
 *
 * Special tokens have the first ids, ranks follow.  A token merges from every pair of tokens
 * that makes its bytes, in the order of ranks; the loader keeps the pair that really occurs.
 */
#include <stdio.h>
#include <stdlib.h>

#include "base/base64.h"
#include "tokenizer/internal.h"
#include "tokenizer/reader.h"
#include "tokenizer/source.h"

enum { TREE_MAX = 1 << 30 };

struct tekken {
    struct vocab ranks; /* id = rank */
    uint64_t special;   /* ids before the ranks */
    uint64_t count;     /* ranks that are used */
    const struct lr_json *root;
    struct lr_buf *out;
    struct lr_error *err;
};

/* Standard base64 by the reader of the other alphabet; `room` has letters and bytes. */
static bool read_bytes(struct lr_str text, struct lr_buf *room, struct lr_str *out)
{
    size_t len = 0;
    lr_buf_clear(room);
    while (text.len > 0 && text.ptr[text.len - 1] == '=')
        text.len--;
    char *letters = lr_buf_reserve(room, text.len + lr_base64url_room(text.len));
    if (letters == NULL)
        return false;
    for (size_t i = 0; i < text.len; i++)
        letters[i] = (char)(text.ptr[i] == '+' ? '-' : text.ptr[i] == '/' ? '_' : text.ptr[i]);
    unsigned char *bytes = (unsigned char *)letters + text.len;
    if (!lr_base64url_read(lr_str(letters, text.len), bytes, &len))
        return false;
    *out = lr_str((const char *)bytes, len);
    return len != 0;
}

static lr_code read_ranks(struct tekken *k)
{
    const struct lr_json *list = lr_json_get(k->root, "vocab");
    struct lr_buf room;
    lr_code rc = LR_OK;
    if (!lr_json_is(list, LR_JSON_ARRAY) || list->count < k->count)
        return lr_fail(k->err, LR_MODEL_CORRUPT,
                       "tekken.json: \"vocab\" must have at least %llu entries",
                       (unsigned long long)k->count);
    lr_buf_init(&room, 1 << 20);
    for (uint32_t i = 0; rc == LR_OK && i < k->count; i++) {
        struct lr_str letters, bytes;
        uint64_t rank;
        if (!lr_json_u64(lr_json_get(&list->items[i], "rank"), &rank) || rank != i ||
            !lr_json_str(lr_json_get(&list->items[i], "token_bytes"), &letters) ||
            !read_bytes(letters, &room, &bytes))
            rc = lr_fail(
                k->err, LR_MODEL_CORRUPT,
                "tekken.json: vocab[%u] needs \"rank\" %u and \"token_bytes\" in base64", i, i);
        else
            rc = tokenizer_vocab_add(&k->ranks, rank, bytes, TOKEN_INDEXED, k->err);
    }
    lr_buf_free(&room);
    return rc == LR_OK ? tokenizer_vocab_index(&k->ranks, k->err) : rc;
}

static void quote_letters(struct tekken *k, const char *bytes, size_t len, struct lr_buf *room)
{
    lr_buf_clear(room);
    tokenizer_alphabet_letters(lr_str(bytes, len), room);
    lr_json_quote(k->out, lr_buf_str(room));
}

static void write_merges(struct tekken *k, struct lr_buf *room)
{
    const struct vocab *v = &k->ranks;
    bool first = true;
    for (uint32_t id = 0; id < k->count; id++) {
        const char *bytes = vocab_bytes(v, id);
        size_t len = v->tokens[id].len;
        for (size_t at = 1; at < len; at++) {
            const struct vocab_slot *left = tokenizer_vocab_find(v, bytes, at);
            const struct vocab_slot *right = tokenizer_vocab_find(v, bytes + at, len - at);
            if (left == NULL || right == NULL || left->id >= id || right->id >= id)
                continue;
            lr_buf_add_z(k->out, first ? "[" : ",[");
            quote_letters(k, bytes, at, room);
            lr_buf_add_char(k->out, ',');
            quote_letters(k, bytes + at, len - at, room);
            lr_buf_add_char(k->out, ']');
            first = false;
        }
    }
}

static void write_special(struct tekken *k)
{
    const struct lr_json *list = lr_json_get(k->root, "special_tokens");
    static const char *const oldest[] = {"<unk>", "<s>", "</s>"};
    uint64_t rank;
    bool first = true;
    for (uint32_t i = 0; i < k->special; i++) {
        struct lr_str name;
        char filler[32];
        const struct lr_json *item =
            lr_json_is(list, LR_JSON_ARRAY) && i < list->count ? &list->items[i] : NULL;
        (void)snprintf(filler, sizeof(filler), "<SPECIAL_%u>", i);
        if (!lr_json_str(lr_json_get(item, "token_str"), &name))
            name = lr_str_z(list == NULL && i < 3 ? oldest[i] : filler);
        uint32_t id = lr_json_u64(lr_json_get(item, "rank"), &rank) && rank < k->special
                          ? (uint32_t)rank
                          : i;
        tokenizer_write_added(k->out, first, id, name, true);
        first = false;
    }
}

static lr_code write_all(struct tekken *k)
{
    struct lr_str pattern;
    struct lr_buf room;
    if (!lr_json_str(lr_json_get(lr_json_get(k->root, "config"), "pattern"), &pattern))
        return lr_fail(k->err, LR_MODEL_CORRUPT, "tekken.json: config has no \"pattern\"");
    lr_buf_init(&room, 1 << 20);
    lr_buf_add_z(k->out, "{\"added_tokens\":[");
    write_special(k);
    lr_buf_add_z(k->out, "],\"pre_tokenizer\":{\"type\":\"Sequence\",\"pretokenizers\":[{"
                         "\"type\":\"Split\",\"pattern\":{\"Regex\":");
    lr_json_quote(k->out, pattern);
    lr_buf_addf(
        k->out,
        "},\"behavior\":\"Isolated\",\"invert\":false},{\"type\":\"ByteLevel\","
        "\"add_prefix_space\":false,\"use_regex\":false}]},\"decoder\":{\"type\":"
        "\"ByteLevel\"},\"post_processor\":{\"type\":\"TemplateProcessing\",\"single\":["
        "{\"SpecialToken\":{\"id\":\"<s>\"}},{\"Sequence\":{\"id\":\"A\"}}],"
        "\"special_tokens\":{\"<s>\":{\"ids\":[%d]}}},\"model\":{\"type\":\"BPE\","
        "\"ignore_merges\":true,\"vocab\":{",
        1);
    for (uint32_t id = 0; id < k->count; id++) {
        lr_buf_add_z(k->out, id == 0 ? "" : ",");
        quote_letters(k, vocab_bytes(&k->ranks, id), k->ranks.tokens[id].len, &room);
        lr_buf_addf(k->out, ":%llu", (unsigned long long)id + k->special);
    }
    lr_buf_add_z(k->out, "},\"merges\":[");
    write_merges(k, &room);
    lr_buf_add_z(k->out, "]}}");
    lr_buf_free(&room);
    return LR_OK;
}

lr_code tokenizer_from_tekken(struct lr_str first, struct lr_str second,
                              const struct lr_json *config, struct lr_buf *out,
                              struct lr_error *err)
{
    struct tekken k = {.out = out, .err = err};
    struct lr_arena arena;
    uint64_t size = 0;
    (void)second;
    (void)config;
    lr_arena_init(&arena, TREE_MAX);
    lr_buf_init(&k.ranks.bytes, first.len + 16);
    lr_code rc = lr_json_parse(&arena, first, NULL, &k.root, err);
    const struct lr_json *settings = lr_json_get(k.root, "config");
    if (rc == LR_OK &&
        (!lr_json_u64(lr_json_get(settings, "default_vocab_size"), &size) ||
         !lr_json_u64(lr_json_get(settings, "default_num_special_tokens"), &k.special) ||
         size > TOKENIZER_MAX_VOCAB || k.special < 3 || k.special >= size))
        rc = lr_fail(err, LR_MODEL_CORRUPT,
                     "tekken.json: config needs default_vocab_size (up to %d) and "
                     "default_num_special_tokens (3 or more)",
                     TOKENIZER_MAX_VOCAB);
    k.count = size - k.special;
    if (rc == LR_OK)
        rc = read_ranks(&k);
    if (rc == LR_OK)
        rc = write_all(&k);
    tokenizer_vocab_free(&k.ranks);
    lr_arena_free(&arena);
    return rc;
}
