/* tokenizer/load.c - opens a tokenizer.json.
 *
 * First separates the members of the file and of "model".  The two large members are streamed
 * (vocab.c, merges.c), the small ones are parsed into a temporary tree.
 */
#include <stdlib.h>

#include "base/file.h"
#include "tokenizer/bpe.h"
#include "tokenizer/internal.h"
#include "tokenizer/reader.h"

/* Memory limit for the trees of all small members. */
enum { TREE_BYTES = 256 << 20 };

struct member {
    const char *name;
    struct lr_str text;         /* as written; empty when absent */
    const struct lr_json *tree; /* NULL for the large ones */
    bool is_big;
};

enum { ADDED_TOKENS, NORMALIZER, PRE_TOKENIZER, DECODER, MODEL, FILE_MEMBERS };
enum {
    TYPE,
    DROPOUT,
    UNK_TOKEN,
    PREFIX,
    SUFFIX,
    IGNORE_MERGES,
    VOCAB,
    MERGES,
    MODEL_MEMBERS,
};

struct opening {
    struct tokenizer *t;
    struct lr_arena arena;
    struct lr_str whole;
    struct member file[FILE_MEMBERS];
    struct member model[MODEL_MEMBERS];
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

static bool is_null(const struct lr_json *value)
{
    return value == NULL || value->type == LR_JSON_NULL;
}

static lr_code unsupported_type(struct opening *o, const char *field,
                                const struct lr_json *value, const char *known)
{
    struct lr_str type = LR_STR_LIT("(no type)");
    (void)lr_json_str(lr_json_get(value, "type"), &type);
    return lr_fail(o->err, LR_UNSUPPORTED, "%s of type \"%.*s\" is not supported; use %s",
                   field, (int)(type.len < 80 ? type.len : 80), type.ptr, known);
}

static lr_code check_file(struct opening *o)
{
    struct lr_str type;
    if (!is_null(o->file[NORMALIZER].tree))
        return unsupported_type(o, "normalizer", o->file[NORMALIZER].tree, "null");
    const struct lr_json *decoder = o->file[DECODER].tree;
    if (!is_null(decoder) &&
        !(lr_json_str(lr_json_get(decoder, "type"), &type) && lr_str_eq_z(type, "ByteLevel")))
        return unsupported_type(o, "decoder", decoder, "ByteLevel");
    if (o->file[MODEL].text.len == 0)
        return lr_fail(o->err, LR_MODEL_CORRUPT, "the file has no \"model\"");
    return LR_OK;
}

/* Refuses options that would change ids and are not supported. unk_token and byte_fallback are
 * for bytes outside of the vocabulary, which cannot occur (vocab.c). */
static lr_code check_model(struct opening *o)
{
    const struct member *m = o->model;
    struct lr_str text;
    double dropout = 0;
    if (!is_null(m[TYPE].tree) &&
        !(lr_json_str(m[TYPE].tree, &text) && lr_str_eq_z(text, "BPE")))
        return lr_fail(o->err, LR_UNSUPPORTED, "model.type is not \"BPE\", the only one known");
    if (!is_null(m[DROPOUT].tree) &&
        !(lr_json_double(m[DROPOUT].tree, &dropout) && dropout == 0))
        return lr_fail(o->err, LR_UNSUPPORTED, "model.dropout is set; it is not supported");
    for (int i = PREFIX; i <= SUFFIX; i++)
        if (!is_null(m[i].tree) && !(lr_json_str(m[i].tree, &text) && text.len == 0))
            return lr_fail(o->err, LR_UNSUPPORTED, "model.%s is set; it is not supported",
                           m[i].name);
    if (!is_null(m[IGNORE_MERGES].tree) &&
        !lr_json_bool(m[IGNORE_MERGES].tree, &o->t->ignore_merges))
        return lr_fail(o->err, LR_MODEL_CORRUPT, "model.ignore_merges must be true or false");
    if (m[VOCAB].text.len == 0 || m[MERGES].text.len == 0)
        return lr_fail(o->err, LR_MODEL_CORRUPT, "model has no \"%s\"",
                       m[VOCAB].text.len == 0 ? "vocab" : "merges");
    return LR_OK;
}

static lr_code build(struct opening *o)
{
    struct tokenizer *t = o->t;
    lr_code rc = tokenizer_vocab_read(&t->vocab, o->whole, o->model[VOCAB].text, o->err);
    if (rc == LR_OK)
        rc = tokenizer_vocab_index(&t->vocab, o->err);
    if (rc == LR_OK)
        rc = tokenizer_added_read(&t->added, &t->vocab, o->file[ADDED_TOKENS].tree, o->err);
    if (rc == LR_OK)
        rc = tokenizer_vocab_find_bytes(&t->vocab, o->err);
    if (rc == LR_OK)
        rc = tokenizer_merges_read(&t->merges, &t->vocab, o->whole, o->model[MERGES].text,
                                   o->err);
    if (rc == LR_OK)
        rc = tokenizer_prune(t, o->err);
    if (rc == LR_OK)
        rc = tokenizer_closed_find(t, o->err);
    if (rc == LR_OK)
        rc = tokenizer_split_read(&t->splitter, o->file[PRE_TOKENIZER].tree, o->err);
    return rc == LR_OK ? tokenizer_bpe_mark_direct(t, o->err) : rc;
}

lr_code tokenizer_open_text(struct lr_str json, struct tokenizer **out, struct lr_error *err)
{
    *out = NULL;
    if (json.len > TOKENIZER_MAX_FILE)
        return lr_fail(err, LR_MODEL_CORRUPT, "a tokenizer of %zu bytes; the limit is %d",
                       json.len, TOKENIZER_MAX_FILE);
    struct opening o = {
        .whole = json,
        .err = err,
        .file = {[ADDED_TOKENS] = {.name = "added_tokens"},
                 [NORMALIZER] = {.name = "normalizer"},
                 [PRE_TOKENIZER] = {.name = "pre_tokenizer"},
                 [DECODER] = {.name = "decoder"},
                 [MODEL] = {.name = "model"}},
        .model = {[TYPE] = {.name = "type"},
                  [DROPOUT] = {.name = "dropout"},
                  [UNK_TOKEN] = {.name = "unk_token"},
                  [PREFIX] = {.name = "continuing_subword_prefix"},
                  [SUFFIX] = {.name = "end_of_word_suffix"},
                  [IGNORE_MERGES] = {.name = "ignore_merges"},
                  [VOCAB] = {.name = "vocab", .is_big = true},
                  [MERGES] = {.name = "merges", .is_big = true}},
    };
    o.t = calloc(1, sizeof(*o.t));
    if (o.t == NULL)
        return lr_fail(err, LR_OUT_OF_RAM, "no memory for a tokenizer");
    lr_buf_init(&o.t->vocab.bytes, json.len + 16);
    lr_arena_init(&o.arena, TREE_BYTES);
    lr_code rc = read_file(&o);
    if (rc == LR_OK)
        rc = check_file(&o);
    if (rc == LR_OK)
        rc = check_model(&o);
    if (rc == LR_OK)
        rc = build(&o);
    lr_arena_free(&o.arena);
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
    tokenizer_split_free(&t->splitter);
    free(t->characters);
    free(t);
}
