/* tokenizer/load.c - opens a tokenizer.json.
 *
 * First separates the members of the file and of "model".  The two large members are streamed
 * (vocab.c, merges.c), the small ones are parsed into a temporary tree.
 */
#include <stdlib.h>

#include "base/file.h"
#include "tokenizer/bpe.h"
#include "tokenizer/model.h"
#include "tokenizer/reader.h"

/* Memory limit for the trees of all small members. */
enum { TREE_BYTES = 256 << 20 };

enum {
    ADDED_TOKENS,
    NORMALIZER,
    PRE_TOKENIZER,
    POST_PROCESSOR,
    DECODER,
    MODEL,
    FILE_MEMBERS,
};

struct opening {
    struct tokenizer *t;
    struct lr_arena arena;
    struct lr_str whole;
    struct member file[FILE_MEMBERS];
    struct member model[MODEL_MEMBERS];
    const struct lr_json *config; /* tokenizer_config.json, or NULL */
    struct lr_error *err;
};

static struct member *find_member(struct member *members, size_t count, struct lr_str name)
{
    for (size_t i = 0; i < count; i++)
        if (lr_str_eq_z(name, members[i].name))
            return &members[i];
    return NULL;
}

static lr_code read_members(struct opening *o, struct reader *r, struct member *members,
                            size_t count);

/* Parses a small value, also of an unknown member: anything that is not JSON is a damaged
 * file. */
static lr_code read_tree(struct opening *o, struct lr_str text, const struct lr_json **tree)
{
    lr_code rc = lr_json_parse(&o->arena, text, NULL, tree, o->err);
    if (rc == LR_OK)
        return rc;
    rc = rc == LR_INVALID_ARGUMENT ? LR_MODEL_CORRUPT : LR_OUT_OF_RAM;
    if (o->err != NULL) {
        o->err->code = rc;
        (void)lr_fail_prefix(o->err, "in the value that starts at byte %zu",
                             (size_t)(text.ptr - o->whole.ptr));
    }
    return rc;
}

/* Records one "name": value. */
static lr_code read_member(struct opening *o, struct reader *r, struct member *members,
                           size_t count)
{
    struct lr_str name;
    lr_code rc = tokenizer_reader_string(r, &name);
    if (rc != LR_OK)
        return rc;
    struct member other = {0}, *member = find_member(members, count, name);
    if (member != NULL && member->text.len != 0)
        return tokenizer_reader_fail(r, "this member occurs twice");
    if (member == NULL)
        member = &other;
    rc = tokenizer_reader_expect(r, ':', "':' is expected");
    if (rc == LR_OK && member == &o->file[MODEL]) {
        member->text = o->whole; /* present; its members are recorded, not its text */
        return read_members(o, r, o->model, MODEL_MEMBERS);
    }
    if (rc == LR_OK)
        rc = tokenizer_reader_skip(r, &member->text);
    if (rc == LR_OK && !member->is_big)
        rc = read_tree(o, member->text, &member->tree);
    return rc;
}

static lr_code read_members(struct opening *o, struct reader *r, struct member *members,
                            size_t count)
{
    lr_code rc = tokenizer_reader_expect(r, '{', "an object is expected");
    bool more = rc == LR_OK && !tokenizer_reader_take(r, '}');
    while (rc == LR_OK && more) {
        rc = read_member(o, r, members, count);
        if (rc != LR_OK)
            break;
        more = tokenizer_reader_take(r, ',');
        if (!more)
            rc = tokenizer_reader_expect(r, '}', "',' or '}' is expected");
    }
    return rc;
}

static lr_code read_file(struct opening *o)
{
    struct reader r;
    tokenizer_reader_init(&r, o->whole, o->whole, o->err);
    lr_code rc = read_members(o, &r, o->file, FILE_MEMBERS);
    if (rc == LR_OK)
        rc = tokenizer_reader_done(&r);
    tokenizer_reader_free(&r);
    return rc;
}

static lr_code build(struct opening *o)
{
    struct tokenizer *t = o->t;
    const struct lr_json *pre_tokenizer = o->file[PRE_TOKENIZER].tree;
    struct model_source source = {
        .whole = o->whole,
        .model = o->model,
        .added_tokens = o->file[ADDED_TOKENS].tree,
        .has_bytes = tokenizer_split_has_bytes(pre_tokenizer),
        .err = o->err,
    };
    if (o->file[MODEL].text.len == 0)
        return lr_fail(o->err, LR_MODEL_CORRUPT, "the file has no \"model\"");
    lr_code rc = tokenizer_config_added(&o->arena, o->config, &source.added_tokens, o->err);
    if (rc == LR_OK)
        rc = tokenizer_model_kind(&source, &t->kind);
    if (rc == LR_OK)
        rc = tokenizer_normal_read(&t->normalizer, o->file[NORMALIZER].tree, o->err);
    if (rc == LR_OK)
        rc = tokenizer_split_read(&t->splitter, t->kind != MODEL_BPE, pre_tokenizer, o->err);
    if (rc == LR_OK)
        rc = tokenizer_decoder_read(&t->decoder, o->file[DECODER].tree, o->err);
    if (rc == LR_OK)
        rc = tokenizer_wrapping_read(&t->wrapping, o->file[POST_PROCESSOR].tree, o->err);
    if (rc == LR_OK)
        rc = tokenizer_model_read(t, &source);
    if (rc == LR_OK)
        rc = tokenizer_added_normalize(&t->added, &t->normalizer, o->err);
    if (rc == LR_OK)
        rc = tokenizer_config_wrapping(t, o->config, o->err);
    return rc == LR_OK ? tokenizer_shown_make(t, o->err) : rc;
}

lr_code tokenizer_open_text(struct lr_str json, struct tokenizer **out, struct lr_error *err)
{
    return tokenizer_open_with(json, NULL, out, err);
}

lr_code tokenizer_open_with(struct lr_str json, const struct lr_json *config,
                            struct tokenizer **out, struct lr_error *err)
{
    *out = NULL;
    if (json.len > 4 * (size_t)TOKENIZER_MAX_FILE)
        return lr_fail(err, LR_MODEL_CORRUPT, "a tokenizer of %zu bytes; the limit is %d",
                       json.len, TOKENIZER_MAX_FILE);
    struct opening o = {
        .whole = json,
        .config = config,
        .err = err,
        .file = {[ADDED_TOKENS] = {.name = "added_tokens"},
                 [NORMALIZER] = {.name = "normalizer"},
                 [PRE_TOKENIZER] = {.name = "pre_tokenizer"},
                 [POST_PROCESSOR] = {.name = "post_processor"},
                 [DECODER] = {.name = "decoder"},
                 [MODEL] = {.name = "model"}},
        .model = {[MODEL_TYPE] = {.name = "type"},
                  [MODEL_DROPOUT] = {.name = "dropout"},
                  [MODEL_UNK_TOKEN] = {.name = "unk_token"},
                  [MODEL_PREFIX] = {.name = "continuing_subword_prefix"},
                  [MODEL_SUFFIX] = {.name = "end_of_word_suffix"},
                  [MODEL_IGNORE_MERGES] = {.name = "ignore_merges"},
                  [MODEL_BYTE_FALLBACK] = {.name = "byte_fallback"},
                  [MODEL_FUSE_UNK] = {.name = "fuse_unk"},
                  [MODEL_UNK_ID] = {.name = "unk_id"},
                  [MODEL_MAX_CHARS] = {.name = "max_input_chars_per_word"},
                  [MODEL_VOCAB] = {.name = "vocab", .is_big = true},
                  [MODEL_MERGES] = {.name = "merges", .is_big = true}},
    };
    o.t = calloc(1, sizeof(*o.t));
    if (o.t == NULL)
        return lr_fail(err, LR_OUT_OF_RAM, "no memory for a tokenizer");
    lr_buf_init(&o.t->vocab.bytes, json.len + 16);
    lr_arena_init(&o.arena, TREE_BYTES);
    lr_code rc = read_file(&o);
    if (rc == LR_OK)
        rc = build(&o);
    lr_arena_free(&o.arena);
    if (rc == LR_INVALID_ARGUMENT) { /* an added token cannot be normalized, for example */
        rc = LR_MODEL_CORRUPT;
        if (err != NULL)
            err->code = rc;
    }
    if (rc != LR_OK) {
        tokenizer_free(o.t);
        return rc;
    }
    *out = o.t;
    return LR_OK;
}

lr_code tokenizer_open_file(const char *path, struct tokenizer **out, struct lr_error *err)
{
    *out = NULL;
    struct lr_buf text;
    lr_buf_init(&text, TOKENIZER_MAX_FILE);
    lr_code rc = lr_file_read_buf(path, &text, err);
    if (rc != LR_OK) {
        /* Engines use this too and may only return the ten ABI codes. */
        bool is_system = rc == LR_IO || rc == LR_PERMISSION_DENIED;
        rc = rc == LR_OUT_OF_RAM ? rc : is_system ? LR_INTERNAL : LR_MODEL_CORRUPT;
        if (err != NULL)
            err->code = rc;
    } else {
        rc = tokenizer_open_text(lr_buf_str(&text), out, err);
        if (rc != LR_OK && err != NULL)
            (void)lr_fail_prefix(err, "%s", path);
    }
    lr_buf_free(&text);
    return rc;
}

void tokenizer_free(struct tokenizer *t)
{
    if (t == NULL)
        return;
    tokenizer_vocab_free(&t->vocab);
    tokenizer_merges_free(&t->merges);
    tokenizer_added_free(&t->added);
    tokenizer_normal_free(&t->normalizer);
    tokenizer_split_free(&t->splitter);
    tokenizer_decoder_free(&t->decoder);
    tokenizer_wrapping_free(&t->wrapping);
    tokenizer_trie_free(&t->trie);
    free(t->unigram.scores);
    tokenizer_copy_free(t->wordpiece.prefix);
    tokenizer_copy_free(t->suffix);
    free(t->characters);
    free(t->shown);
    lr_buf_free(&t->shown_bytes);
    free(t);
}
