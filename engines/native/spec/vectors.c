/* native/spec/vectors.c - the end of a model of vectors: pooling and dense layers, as the files
 * of sentence-transformers say.
 *
 * modules.json lists what follows the transformer; each part has a folder with its config.json,
 * a dense layer also with its weights.  The last part scales to length 1: the serving part does
 * that for every vector (session_vector.c), with or without this entry.
 */
#include <string.h>

#include "base/os/file.h"
#include "engines/native/spec/build.h"
#include "engines/serving/vocabulary.h"
#include "model/fields.h"
#include "model/map.h"

enum { VECTORS_ARENA_MAX = 4 << 20, VECTORS_FILE_MAX = 1 << 20 };

/* *config is absent (NULL) without the file. */
static lr_code read_json(const char *dir, struct lr_str folder, const char *file,
                         struct lr_arena *arena, const struct lr_json **config,
                         struct lr_error *err)
{
    char path[LR_PATH_MAX];
    struct lr_stat st;
    struct lr_str text;
    const char *below = lr_arena_printf(arena, "%.*s%s%s", (int)folder.len, folder.ptr,
                                        folder.len > 0 ? "/" : "", file);

    *config = NULL;
    if (below == NULL)
        return lr_fail(err, LR_OUT_OF_RAM, "no memory for %s", file);
    lr_code code = model_path(path, dir, lr_str_z(below), err);
    if (code != LR_OK || !lr_stat(path, &st))
        return code;
    code = model_read_text(arena, path, VECTORS_FILE_MAX, &text, err);
    if (code == LR_OK && lr_json_parse(arena, text, NULL, config, err) != LR_OK) {
        lr_fail_prefix(err, "%s", below);
        code = err->code = LR_MODEL_CORRUPT;
    }
    return code;
}

static bool is_on(const struct lr_json *config, const char *key)
{
    bool on = false;

    return lr_json_bool(lr_json_get(config, key), &on) && on;
}

/* 1_Pooling/config.json: one flag for each way, or the name of the way. */
static lr_code read_pooling(const struct lr_json *config, struct native_vectors *out,
                            struct lr_error *err)
{
    static const struct {
        const char *flag, *word;
        enum native_pool pool; /* NO_POOL: this engine has no code for it */
    } ways[] = {
        {"pooling_mode_cls_token", "cls", NATIVE_POOL_FIRST},
        {"pooling_mode_mean_tokens", "mean", NATIVE_POOL_MEAN},
        {"pooling_mode_lasttoken", "lasttoken", NATIVE_POOL_LAST},
        {"pooling_mode_max_tokens", "max", NATIVE_NO_POOL},
        {"pooling_mode_mean_sqrt_len_tokens", "mean_sqrt_len_tokens", NATIVE_NO_POOL},
        {"pooling_mode_weightedmean_tokens", "weightedmean", NATIVE_NO_POOL},
    };
    struct lr_str word = LR_STR_LIT("");
    int chosen = 0;

    (void)lr_json_str(lr_json_get(config, "pooling_mode"), &word);
    for (size_t i = 0; i < sizeof(ways) / sizeof(ways[0]); i++) {
        if (!is_on(config, ways[i].flag) && !lr_str_eq_z(word, ways[i].word))
            continue;
        out->pool = ways[i].pool;
        chosen++;
    }
    if (chosen == 1 && out->pool != NATIVE_NO_POOL)
        return LR_OK;
    return lr_fail(err, LR_UNSUPPORTED,
                   "the pooling's config.json: this engine pools by cls, mean or the last "
                   "token, one of them");
}

static lr_code read_dense(const struct lr_json *config, struct native_dense *out,
                          struct lr_error *err)
{
    struct lr_str act = LR_STR_LIT("");
    uint64_t in = 0, rows = 0;

    (void)lr_json_str(lr_json_get(config, "activation_function"), &act);
    if (!lr_json_u64(lr_json_get(config, "in_features"), &in) || in == 0 || in > 1 << 20 ||
        !lr_json_u64(lr_json_get(config, "out_features"), &rows) || rows == 0 || rows > 1 << 20)
        return lr_fail(err, LR_MODEL_CORRUPT,
                       "a dense layer's config.json: in_features and out_features must lie in "
                       "1 to %d",
                       1 << 20);
    if (!lr_str_ends(act, ".Identity"))
        return lr_fail(err, LR_UNSUPPORTED,
                       "a dense layer's activation_function is \"%.*s\"; this engine computes "
                       "torch.nn.modules.linear.Identity",
                       MODEL_QUOTE(act));
    *out = (struct native_dense){.columns = (uint32_t)in,
                                 .rows = (uint32_t)rows,
                                 .bias = lr_json_get(config, "bias") == NULL ||
                                         is_on(config, "bias")};
    return LR_OK;
}

static lr_code add_dense(const char *dir, struct lr_str folder, const struct lr_json *config,
                         struct native_spec *spec, struct native_vectors *out,
                         struct lr_error *err)
{
    char path[LR_PATH_MAX];

    if (out->dense_count == NATIVE_DENSE_MAX)
        return lr_fail(err, LR_UNSUPPORTED, "modules.json: more than %d dense layers",
                       NATIVE_DENSE_MAX);
    lr_code code = read_dense(config, &out->dense[out->dense_count], err);
    if (code == LR_OK)
        code = model_path(path, dir, folder, err);
    if (code == LR_OK)
        code = model_weights_open(path, &spec->dense[out->dense_count], err);
    out->dense_count += code == LR_OK;
    return code;
}

/* 1_LogitScore/config.json: the score is that of one token against another. */
static lr_code read_answers(const struct lr_json *config, struct native_vectors *out,
                            struct lr_error *err)
{
    uint64_t yes, no;

    if (!lr_json_u64(lr_json_get(config, "true_token_id"), &yes) || yes > UINT32_MAX - 1 ||
        !lr_json_u64(lr_json_get(config, "false_token_id"), &no) || no > UINT32_MAX - 1)
        return lr_fail(err, LR_UNSUPPORTED,
                       "a LogitScore's config.json: this engine needs true_token_id and "
                       "false_token_id");
    out->asks = true;
    out->yes = (uint32_t)yes;
    out->no = (uint32_t)no;
    return LR_OK;
}

/* One entry of modules.json. */
static lr_code read_module(const char *dir, const struct lr_json *module,
                           struct lr_arena *arena, struct native_spec *spec,
                           struct native_vectors *out, struct lr_error *err)
{
    struct lr_str type = LR_STR_LIT(""), folder = LR_STR_LIT("");
    const struct lr_json *config;

    (void)lr_json_str(lr_json_get(module, "type"), &type);
    (void)lr_json_str(lr_json_get(module, "path"), &folder);
    if (lr_str_ends(type, ".Transformer") || lr_str_ends(type, ".Normalize"))
        return LR_OK;
    if (memchr(folder.ptr, '/', folder.len) != NULL || lr_str_starts(folder, "."))
        return lr_fail(err, LR_MODEL_CORRUPT,
                       "modules.json: \"%.*s\" is not the name of a folder",
                       MODEL_QUOTE(folder));
    lr_code code = read_json(dir, folder, "config.json", arena, &config, err);
    if (code == LR_OK && config == NULL)
        code =
            lr_fail(err, LR_MODEL_CORRUPT, "modules.json names %.*s/config.json: no such file",
                    MODEL_QUOTE(folder));
    if (code != LR_OK)
        return code;
    if (lr_str_ends(type, ".Pooling"))
        return read_pooling(config, out, err);
    if (lr_str_ends(type, ".Dense"))
        return add_dense(dir, folder, config, spec, out, err);
    if (lr_str_ends(type, ".LogitScore"))
        return read_answers(config, out, err);
    return lr_fail(err, LR_UNSUPPORTED, "modules.json: this engine has no code for \"%.*s\"",
                   MODEL_QUOTE(type));
}

lr_code native_vectors_read(const char *dir, struct native_spec *spec,
                            struct native_vectors *out, struct lr_error *err)
{
    const struct lr_json *modules = NULL;
    struct lr_arena arena;

    *out = (struct native_vectors){.pool = NATIVE_NO_POOL};
    lr_arena_init(&arena, VECTORS_ARENA_MAX);
    lr_code code = read_json(dir, LR_STR_LIT(""), "modules.json", &arena, &modules, err);
    if (code == LR_OK && modules != NULL && !lr_json_is(modules, LR_JSON_ARRAY))
        code = lr_fail(err, LR_MODEL_CORRUPT, "modules.json: expected an array");
    for (uint32_t i = 0; code == LR_OK && modules != NULL && i < modules->count; i++)
        code = read_module(dir, &modules->items[i], &arena, spec, out, err);
    lr_arena_free(&arena);
    return code;
}

/* ---- operations ---- */

bool native_gives_vectors(const struct native_builder *b)
{
    return b->vectors.pool != NATIVE_NO_POOL;
}

/* A linear layer of a module's own weights. */
static reg dense(struct native_builder *b, reg in, uint32_t n)
{
    const struct native_dense *how = &b->vectors.dense[n];
    const struct model_weights *weights = b->weights;
    struct native_quant quant = b->quant;
    bool *used = b->used;

    b->weights = b->spec->dense[n];
    b->quant.format = NULL;
    b->used = native_build_alloc(b, model_weights_count(b->weights) + 1, sizeof(*b->used));
    if (b->used != NULL)
        in = native_linear(b, in, "linear", how->rows, how->columns, how->bias);
    b->weights = weights;
    b->quant = quant;
    b->used = used;
    return in;
}

void native_end_vector(struct native_builder *b, reg in)
{
    struct native_spec *s = b->spec;

    /* Without modules.json: the mean, as sentence-transformers does. */
    s->pool = native_gives_vectors(b) ? b->vectors.pool : NATIVE_POOL_MEAN;
    s->head_ops = s->op_count;
    reg out = native_register(b, native_width(b, in));
    native_build_op(b, NATIVE_OP_POOL, out, in);
    for (uint32_t i = 0; b->code == LR_OK && i < b->vectors.dense_count; i++)
        out = dense(b, out, i);
    s->result = out;
}

/* ---- ranking ---- */

lr_code native_asks_read(const char *dir, const struct lr_json *config,
                         struct native_vectors *out, struct lr_error *err)
{
    struct lr_str no = LR_STR_LIT("no"), yes = LR_STR_LIT("yes");
    const struct lr_json *words = lr_json_get(config, "classifier_from_token");

    if (out->asks || !model_ranks_by_answer(dir, words != NULL))
        return LR_OK;
    if (words != NULL &&
        (!lr_json_is(words, LR_JSON_ARRAY) || words->count != 2 ||
         !lr_json_str(&words->items[0], &no) || !lr_json_str(&words->items[1], &yes)))
        return lr_fail(err, LR_MODEL_CORRUPT,
                       "config.json: \"classifier_from_token\" must list two words, the one "
                       "against and the one for a document");
    const struct lr_str words_of[] = {no, yes};
    uint32_t ids[2] = {0};
    lr_code code = serving_vocabulary_words(dir, words_of, 2, ids, err);
    out->asks = code == LR_OK;
    out->no = ids[0];
    out->yes = ids[1];
    return code;
}

bool native_asks(const struct native_builder *b)
{
    return b->vectors.asks;
}

bool native_classifies(const struct native_builder *b)
{
    return b->classifies;
}

static reg begin_rank(struct native_builder *b, reg in, enum native_pool pool)
{
    struct native_spec *s = b->spec;

    s->pool = pool;
    s->ranks = true;
    s->head_ops = s->op_count;
    reg out = native_register(b, native_width(b, in));
    native_build_op(b, NATIVE_OP_POOL, out, in);
    return out;
}

void native_end_rank(struct native_builder *b, reg in, const struct native_classifier *how)
{
    uint32_t width = native_width(b, in);
    reg h = begin_rank(b, in, how->pool);

    if (how->dense != NULL)
        h = native_act(b, native_linear(b, h, how->dense, width, width, how->dense_bias),
                       how->act);
    if (how->norm != NULL)
        h = native_layer_norm(b, h, how->norm, how->norm_bias, how->eps);
    h = native_linear(b, h, how->out, 1, width, how->out_bias);
    b->spec->result = native_act(b, h, NATIVE_SIGMOID);
}

/* The softmax of two scores is the sigmoid of their difference. */
void native_end_asks(struct native_builder *b, reg in, const char *head)
{
    uint32_t width = native_width(b, in);
    reg h = begin_rank(b, in, NATIVE_POOL_LAST);
    reg yes =
        native_linear(b, h, native_name(b, "%s[%u:1]", head, b->vectors.yes), 1, width, false);
    reg no =
        native_linear(b, h, native_name(b, "%s[%u:1]", head, b->vectors.no), 1, width, false);

    native_add(b, yes, no, -1);
    b->spec->asks = true;
    b->spec->result = native_act(b, yes, NATIVE_SIGMOID);
}
