/* model/descriptor_gguf.c - describes a GGUF model: one file, or a set of parts named
 * "...-00001-of-00003.gguf" of which the first is the primary one. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/file.h"
#include "llm-router/engine.h"
#include "model/descriptor_build.h"
#include "model/gguf.h"
#include "model/map.h"

enum { PARTS_MAX = 1000, NUMBER_DIGITS = 5 };

static bool read_number(const char *p, unsigned *out)
{
    *out = 0;
    for (int i = 0; i < NUMBER_DIGITS; i++) {
        if (p[i] < '0' || p[i] > '9')
            return false;
        *out = *out * 10 + (unsigned)(p[i] - '0');
    }
    return true;
}

/* The stem before "-00001-of-00003.gguf" and both numbers; false for an unsplit file. */
static bool is_part(struct lr_str name, struct lr_str *stem, unsigned *part, unsigned *parts)
{
    enum { TAIL = sizeof("-00001-of-00003.gguf") - 1 };
    if (name.len <= TAIL)
        return false;
    const char *p = name.ptr + name.len - TAIL;
    if (p[0] != '-' || memcmp(p + 6, "-of-", 4) != 0 || !read_number(p + 1, part) ||
        !read_number(p + 10, parts))
        return false;
    *stem = lr_str(name.ptr, name.len - TAIL);
    return true;
}

/* Finds the only GGUF in the root folder; later parts of a set do not count. */
static lr_code pick(struct model_build *b, struct lr_str *out)
{
    struct lr_str *names = lr_arena_array(b->scratch, b->folder.count + 1, sizeof(*names)),
                  stem;
    unsigned part, parts;
    size_t count = 0;
    if (names == NULL)
        return lr_fail(b->err, LR_OUT_OF_RAM, "%s: no memory for the file list", b->dir);
    for (size_t i = 0; i < b->folder.count; i++) {
        struct lr_str name = b->folder.names[i];
        bool later = is_part(name, &stem, &part, &parts) && part > 1;
        if (lr_str_ends(name, ".gguf") && !later && model_gguf_is_main(name))
            names[count++] = name;
    }
    if (count == 0) {
        const struct lr_str wanted = LR_STR_LIT("a .gguf file");
        return model_build_missing(b, &wanted, 1);
    }
    if (count > 1) {
        struct lr_buf list;
        lr_buf_init(&list, 1024);
        model_list_names(&list, names, count);
        lr_code code = lr_fail(b->err, LR_INVALID_ARGUMENT,
                               "%s: several GGUF files, name one with filename: %s", b->dir,
                               lr_buf_z(&list));
        lr_buf_free(&list);
        return code;
    }
    *out = names[0];
    return LR_OK;
}

static bool is_there(struct model_build *b, struct lr_str name)
{
    char path[LR_PATH_MAX];
    return model_path(path, b->dir, name, NULL) == LR_OK && lr_file_exists(path);
}

/* Adds the file, or every part of its set; the error names all missing parts. */
static lr_code list_parts(struct model_build *b, struct lr_str name, struct lr_str *primary)
{
    struct lr_str stem;
    unsigned part, parts;
    *primary = name;
    if (!is_part(name, &stem, &part, &parts))
        return is_there(b, name) ? model_build_file(b, name, true)
                                 : model_build_missing(b, &name, 1);
    if (parts == 0 || parts > PARTS_MAX || part == 0 || part > parts)
        return lr_fail(b->err, LR_INVALID_ARGUMENT,
                       "%s: \"%.*s\" is part %u of %u; at most %d parts are allowed", b->dir,
                       MODEL_QUOTE(name), part, parts, PARTS_MAX);
    struct lr_str *missing = lr_arena_array(b->scratch, parts, sizeof(*missing));
    size_t count = 0;
    lr_code code = LR_OK;
    for (unsigned i = 1; i <= parts && code == LR_OK; i++) {
        char *text = lr_arena_printf(b->scratch, "%.*s-%05u-of-%05u.gguf", (int)stem.len,
                                     stem.ptr, i, parts);
        if (text == NULL || missing == NULL)
            return lr_fail(b->err, LR_OUT_OF_RAM, "%s: no memory for %u parts", b->dir, parts);
        if (i == 1)
            *primary = lr_str_z(text);
        if (!is_there(b, lr_str_z(text)))
            missing[count++] = lr_str_z(text);
        else
            code = model_build_file(b, lr_str_z(text), true);
    }
    if (code == LR_OK && count != 0)
        return model_build_missing(b, missing, count);
    return code;
}

static lr_code token_text(struct model_build *b, const struct model_gguf *g, const char *key,
                          const char **out)
{
    struct lr_str text;
    uint32_t id;
    if (!model_gguf_u32(g, key, &id) ||
        !model_gguf_str_at(model_gguf_get(g, "tokenizer.ggml.tokens"), id, &text))
        return LR_OK;
    return model_build_text(b, text, out);
}

/* A model that pools the states of its tokens gives a vector, a score where it has a head for
 * ranking.  A model without causal attention cannot generate. */
static uint32_t requests_of(const struct model_gguf *g, struct lr_str architecture)
{
    enum { POOLING_MEAN = 1, POOLING_RANK = 4 }; /* llama.h's numbers */
    char key[128];
    uint32_t pooling = 0;
    (void)snprintf(key, sizeof(key), "%.*s.pooling_type", MODEL_QUOTE(architecture));
    if (model_gguf_u32(g, key, &pooling) && pooling == POOLING_RANK)
        return 1u << LR_REQUEST_RERANK;
    (void)snprintf(key, sizeof(key), "%.*s.attention.causal", MODEL_QUOTE(architecture));
    const struct model_gguf_value *causal = model_gguf_get(g, key);
    bool is_encoder = causal != NULL && causal->type == MODEL_GGUF_BOOL &&
                      causal->raw.len == 1 && causal->raw.ptr[0] == 0;
    return is_encoder || (pooling >= POOLING_MEAN && pooling < POOLING_RANK)
               ? 1u << LR_REQUEST_EMBED
               : 1u << LR_REQUEST_GENERATE;
}

static lr_code describe(struct model_build *b, const struct model_gguf *g, const char *path)
{
    struct model_descriptor *d = b->d;
    struct lr_str architecture, text;
    char key[128];
    if (!model_gguf_str(g, "general.architecture", &architecture) || architecture.len == 0)
        return lr_fail(b->err, LR_UNSUPPORTED,
                       "%s: general.architecture is missing: the architecture of this model is "
                       "unknown",
                       path);
    lr_code code = model_build_text(b, architecture, &d->architecture);
    (void)snprintf(key, sizeof(key), "%.*s.context_length", MODEL_QUOTE(architecture));
    (void)model_gguf_u64(g, key, &d->context_tokens);
    d->runtime = "llama_cpp";
    d->requests = requests_of(g, architecture);
    if (code == LR_OK && model_gguf_str(g, "tokenizer.chat_template", &text)) {
        struct lr_str tool_use = {0};
        (void)model_gguf_str(g, "tokenizer.chat_template.tool_use", &tool_use);
        code = model_build_template(b, text, tool_use, "tokenizer.chat_template");
    }
    if (code == LR_OK)
        code = token_text(b, g, "tokenizer.ggml.bos_token_id", &d->bos_token);
    if (code == LR_OK)
        code = token_text(b, g, "tokenizer.ggml.eos_token_id", &d->eos_token);
    if (code == LR_OK)
        code = token_text(b, g, "tokenizer.ggml.padding_token_id", &d->pad_token);
    if (code == LR_OK)
        code = token_text(b, g, "tokenizer.ggml.unknown_token_id", &d->unk_token);
    if (code == LR_OK)
        code = model_build_gguf_control(b, g);
    if (code == LR_OK)
        code = model_build_stops(b);
    return code;
}

lr_code model_build_gguf(struct model_build *b)
{
    struct lr_str name = lr_str_z(b->filename), primary;
    char path[LR_PATH_MAX];
    lr_code code = LR_OK;
    if (b->filename == NULL)
        code = pick(b, &name);
    else if (!lr_path_safe(name) || !lr_str_ends(name, ".gguf"))
        code = lr_fail(b->err, LR_INVALID_ARGUMENT,
                       "filename \"%.*s\" must be a relative path below the model folder that "
                       "ends in .gguf",
                       MODEL_QUOTE(name));
    if (code == LR_OK)
        code = list_parts(b, name, &primary);
    if (code == LR_OK)
        code = model_path(path, b->dir, primary, b->err);
    if (code == LR_OK)
        code = model_build_text(b, lr_str_z(path), &b->d->primary);
    if (code != LR_OK)
        return code;
    struct model_gguf *g;
    code = model_gguf_open(path, &g, b->err);
    if (code == LR_OK)
        code = describe(b, g, path);
    model_gguf_close(g);
    return code;
}
