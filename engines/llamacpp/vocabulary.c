/* llamacpp/vocabulary.c - see vocabulary.h. */
#include "engines/llamacpp/vocabulary.h"

#include <stdlib.h>
#include <string.h>

#include "base/fail.h"
#include "model/gguf.h"

enum { PIECE_MAX = 1 << 16, TEXT_MAX = 1 << 30, GGUF_CONTROL = 3 };

static uint8_t flags_of(const struct llamacpp_vocabulary *v, int32_t id)
{
    enum llama_token_attr attr = v->lib->llama_vocab_get_attr(v->vocab, id);
    unsigned flags = v->flags[id]; /* of the file */

    if ((attr & (LLAMA_TOKEN_ATTR_CONTROL | LLAMA_TOKEN_ATTR_UNKNOWN)) != 0)
        flags |= LR_VOCAB_SPECIAL;
    if ((attr & LLAMA_TOKEN_ATTR_UNUSED) != 0)
        flags |= LR_VOCAB_UNUSED;
    if (v->lib->llama_vocab_is_eog(v->vocab, id))
        flags |= LR_VOCAB_STOP;
    return (uint8_t)flags;
}

/* Appends a token's bytes; false when libllama gives more than any token should have. */
static bool add_piece(struct llamacpp_vocabulary *v, int32_t id)
{
    int32_t room = 64;

    for (;;) {
        char *to = lr_buf_reserve(&v->text, (size_t)room);
        if (to == NULL)
            return false;
        int32_t n = v->lib->llama_token_to_piece(v->vocab, id, to, room, 0, true);
        if (n >= 0) {
            lr_buf_commit(&v->text, (size_t)n);
            v->longest = (uint32_t)n > v->longest ? (uint32_t)n : v->longest;
            return true;
        }
        if (n < -PIECE_MAX)
            return false;
        room = -n;
    }
}

/* The control tokens that the file names; header.c has checked the list's type. */
static lr_code read_controls(struct llamacpp_vocabulary *v, const char *path,
                             struct lr_error *err)
{
    struct model_gguf *g;
    lr_code code = model_gguf_open(path, &g, err);
    if (code != LR_OK)
        return code;
    const struct model_gguf_value *types = model_gguf_get(g, "tokenizer.ggml.token_type");
    size_t room = types != NULL ? types->raw.len / sizeof(uint32_t) : 0;
    for (uint32_t id = 0; id < v->count && id < room; id++) {
        uint32_t type;
        memcpy(&type, types->raw.ptr + id * sizeof(type), sizeof(type));
        v->flags[id] = type == GGUF_CONTROL ? LR_VOCAB_SPECIAL : 0;
    }
    model_gguf_close(g);
    return LR_OK;
}

static int by_first_byte(const void *a, const void *b)
{
    const struct llamacpp_control *x = a, *y = b;
    int difference = (unsigned char)x->text.ptr[0] - (unsigned char)y->text.ptr[0];

    if (difference != 0)
        return difference;
    return (x->text.len < y->text.len) - (x->text.len > y->text.len);
}

static bool list_controls(struct llamacpp_vocabulary *v)
{
    uint32_t count = 0, at = 0;

    for (uint32_t id = 0; id < v->count; id++)
        count += (v->flags[id] & LR_VOCAB_SPECIAL) != 0;
    v->controls = calloc(count + 1, sizeof(*v->controls));
    if (v->controls == NULL)
        return false;
    count = 0;
    for (uint32_t id = 0; id < v->count; id++) {
        /* The text in the vocabulary, which is what a template writes. */
        const char *text = v->lib->llama_vocab_get_text(v->vocab, (int32_t)id);
        unsigned attr = (unsigned)v->lib->llama_vocab_get_attr(v->vocab, (int32_t)id);
        if ((v->flags[id] & LR_VOCAB_SPECIAL) == 0 || text == NULL || text[0] == '\0')
            continue;
        v->controls[count++] = (struct llamacpp_control){
            .id = id,
            .text = lr_str_z(text),
            .strips_left = (attr & LLAMA_TOKEN_ATTR_LSTRIP) != 0,
            .strips_right = (attr & LLAMA_TOKEN_ATTR_RSTRIP) != 0,
            .is_loose = (attr & LLAMA_TOKEN_ATTR_USER_DEFINED) != 0,
        };
        v->has_loose = v->has_loose || (attr & LLAMA_TOKEN_ATTR_USER_DEFINED) != 0;
    }
    qsort(v->controls, count, sizeof(*v->controls), by_first_byte);
    for (unsigned b = 0; b < 256; b++) {
        v->first[b] = at;
        while (at < count && (unsigned char)v->controls[at].text.ptr[0] == b)
            at++;
    }
    v->first[256] = count;
    return true;
}

static bool allocate(struct llamacpp_vocabulary *v)
{
    size_t words = ((size_t)v->count + 31) / 32;

    v->offsets = calloc((size_t)v->count + 1, sizeof(*v->offsets));
    v->flags = calloc(v->count, sizeof(*v->flags));
    v->usable = calloc(words, sizeof(*v->usable));
    return v->offsets != NULL && v->flags != NULL && v->usable != NULL;
}

static bool llamacpp_vocabulary_fill(struct llamacpp_vocabulary *v)
{
    for (uint32_t id = 0; id < v->count; id++) {
        v->flags[id] = flags_of(v, (int32_t)id);
        if ((v->flags[id] & LR_VOCAB_UNUSED) == 0)
            v->usable[id >> 5] |= 1u << (id & 31);
        if (!add_piece(v, (int32_t)id))
            return false;
        v->offsets[id + 1] = (uint32_t)v->text.len;
    }
    return list_controls(v);
}

lr_code llamacpp_vocabulary_open(const struct llamacpp_library *lib,
                                 const struct llama_model *model, const char *path,
                                 struct llamacpp_vocabulary *out, struct lr_error *err)
{
    *out = (struct llamacpp_vocabulary){.lib = lib, .bos = -1, .eos = -1, .sep = -1};
    out->vocab = lib->llama_model_get_vocab(model);
    if (lib->llama_vocab_type(out->vocab) == LLAMA_VOCAB_TYPE_NONE)
        return lr_fail(err, LR_UNSUPPORTED, "the GGUF has no tokenizer");
    out->count = (uint32_t)lib->llama_vocab_n_tokens(out->vocab);
    if (lib->llama_vocab_get_add_bos(out->vocab))
        out->bos = lib->llama_vocab_bos(out->vocab);
    if (lib->llama_vocab_get_add_eos(out->vocab))
        out->eos = lib->llama_vocab_eos(out->vocab);
    if (lib->llama_vocab_get_add_sep(out->vocab))
        out->sep = lib->llama_vocab_sep(out->vocab);
    lr_buf_init(&out->text, TEXT_MAX);
    bool has_room = allocate(out);
    lr_code code = has_room ? read_controls(out, path, err) : LR_OUT_OF_RAM;
    if (code == LR_OK && !llamacpp_vocabulary_fill(out))
        has_room = false;
    if (!has_room)
        code =
            lr_fail(err, LR_OUT_OF_RAM, "no memory for a vocabulary of %u tokens", out->count);
    if (code != LR_OK)
        llamacpp_vocabulary_close(out);
    return code;
}

void llamacpp_vocabulary_close(struct llamacpp_vocabulary *v)
{
    free(v->offsets);
    free(v->flags);
    free(v->usable);
    free(v->controls);
    lr_buf_free(&v->text);
    *v = (struct llamacpp_vocabulary){0};
}
