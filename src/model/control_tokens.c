/* model/control_tokens.c - the tokens with a meaning of their own, from a model's files.
 *
 * Whoever needs more than a few tokens reads the tokenizer (src/tokenizer). Here is what a node
 * must know without one: whether a vocabulary has the marks of a form of prompts, and the
 * number of the token that ends an answer.  A list that cannot be read is no error: it is
 * empty.
 */
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "base/json.h"
#include "model/descriptor_build.h"
#include "model/map.h"

enum { CONTROLS_MAX = 8192, LIST_BYTES_MAX = 4 << 20, TRIES_MAX = 16 };

static bool model_is_blank(char c)
{
    return c == ' ' || c == '\n' || c == '\t' || c == '\r';
}

static lr_code control_tokens_add(struct model_build *b, struct model_control *list,
                                  struct lr_str text, uint64_t id)
{
    if (text.len == 0 || id > UINT32_MAX || b->d->control_count == CONTROLS_MAX)
        return LR_OK;
    struct model_control *one = &list[b->d->control_count];
    one->id = (uint32_t)id;
    lr_code code = model_build_text(b, text, &one->text);
    if (code == LR_OK)
        b->d->control_count++;
    return code;
}

static struct model_control *begin_list(struct model_build *b, uint64_t count)
{
    size_t room = b->d->control_count + (count < CONTROLS_MAX ? (size_t)count : CONTROLS_MAX);
    struct model_control *list = lr_arena_array(b->keep, room + 1, sizeof(*list));
    if (list != NULL && b->d->control_count != 0)
        memcpy(list, b->d->control, b->d->control_count * sizeof(*list));
    b->d->control = list;
    return list;
}

/* {"128000": {"content": "<|begin_of_text|>", ...}, ...} */
lr_code model_build_added_tokens(struct model_build *b, const struct lr_json *root)
{
    const struct lr_json *tokens = lr_json_get(root, "added_tokens_decoder");
    if (!lr_json_is(tokens, LR_JSON_OBJECT))
        return LR_OK;
    struct model_control *list = begin_list(b, tokens->count);
    lr_code code =
        list != NULL ? LR_OK : lr_fail(b->err, LR_OUT_OF_RAM, "no memory for the tokens");
    for (uint32_t i = 0; code == LR_OK && i < tokens->count; i++) {
        struct lr_str text;
        uint64_t id;
        if (lr_str_u64(tokens->members[i].key, &id) &&
            lr_json_str(lr_json_get(&tokens->members[i].value, "content"), &text))
            code = control_tokens_add(b, list, text, id);
    }
    return code;
}

/* The array behind a key, without parsing what is before it; empty: there is none. */
static struct lr_str array_of(struct lr_str text, struct lr_str key)
{
    for (int tries = 0; tries < TRIES_MAX; tries++) {
        size_t at = lr_str_find(text, key);
        if (at == LR_STR_NONE)
            break;
        text = lr_str_sub(text, at + key.len, text.len);
        size_t i = 0, depth = 0;
        while (i < text.len && (text.ptr[i] == ':' || model_is_blank(text.ptr[i])))
            i++;
        struct lr_str list = lr_str_sub(text, i, i + LIST_BYTES_MAX);
        bool is_string = false;
        for (i = 0; list.len != 0 && list.ptr[0] == '[' && i < list.len; i++) {
            char c = list.ptr[i];
            if (is_string && c == '\\')
                i++;
            else if (c == '"')
                is_string = !is_string;
            else if (!is_string && (c == '[' || c == '{'))
                depth++;
            else if (!is_string && (c == ']' || c == '}') && --depth == 0)
                return lr_str_sub(list, 0, i + 1);
        }
    }
    return (struct lr_str){0};
}

/* [{"id": 128000, "content": "<|begin_of_text|>", ...}, ...] */
static lr_code take_array(struct model_build *b, struct lr_str text, const char *id_key,
                          const char *text_key)
{
    const struct lr_json *tokens;
    if (text.len == 0 || lr_json_parse(b->scratch, text, NULL, &tokens, NULL) != LR_OK)
        return LR_OK;
    struct model_control *list = begin_list(b, tokens->count);
    lr_code code =
        list != NULL ? LR_OK : lr_fail(b->err, LR_OUT_OF_RAM, "no memory for the tokens");
    for (uint32_t i = 0; code == LR_OK && i < tokens->count; i++) {
        struct lr_str content;
        uint64_t id;
        if (lr_json_u64(lr_json_get(&tokens->items[i], id_key), &id) &&
            lr_json_str(lr_json_get(&tokens->items[i], text_key), &content))
            code = control_tokens_add(b, list, content, id);
    }
    return code;
}

lr_code model_build_control(struct model_build *b)
{
    static const struct {
        const char *file, *id, *text;
        struct lr_str key;
    } sources[] = {
        {"tokenizer.json", "id", "content", {"\"added_tokens\"", 14}},
        {"tekken.json", "rank", "token_str", {"\"special_tokens\"", 16}},
    };
    lr_code code = LR_OK;
    for (size_t i = 0; i < sizeof(sources) / sizeof(sources[0]); i++) {
        char path[LR_PATH_MAX];
        struct lr_file_map map;
        if (code != LR_OK || !model_folder_has(&b->folder, lr_str_z(sources[i].file)) ||
            model_path(path, b->dir, lr_str_z(sources[i].file), NULL) != LR_OK ||
            model_map(path, &map, NULL) != LR_OK)
            continue;
        code = take_array(b, array_of(lr_str((const char *)map.data, map.len), sources[i].key),
                          sources[i].id, sources[i].text);
        lr_file_unmap(&map);
    }
    b->d->has_vocabulary = b->d->control_count != 0 ||
                           model_folder_has(&b->folder, LR_STR_LIT("tokenizer.model")) ||
                           model_folder_has(&b->folder, LR_STR_LIT("vocab.json")) ||
                           model_folder_has(&b->folder, LR_STR_LIT("vocab.txt"));
    return code;
}

/* Tokens of the types "control" and "user defined". */
lr_code model_build_gguf_control(struct model_build *b, const struct model_gguf *g)
{
    enum { CONTROL = 3, USER_DEFINED = 4 };
    const struct model_gguf_value *texts = model_gguf_get(g, "tokenizer.ggml.tokens"),
                                  *types = model_gguf_get(g, "tokenizer.ggml.token_type");
    if (texts == NULL || texts->type != MODEL_GGUF_ARRAY ||
        texts->item_type != MODEL_GGUF_STRING)
        return LR_OK;
    b->d->has_vocabulary = true;
    if (types == NULL || types->type != MODEL_GGUF_ARRAY ||
        types->item_type != MODEL_GGUF_I32 || types->count != texts->count)
        return LR_OK;
    struct model_control *list = begin_list(b, texts->count);
    lr_code code =
        list != NULL ? LR_OK : lr_fail(b->err, LR_OUT_OF_RAM, "no memory for the tokens");
    struct lr_str rest = texts->raw;
    for (uint64_t i = 0; code == LR_OK && i < texts->count && rest.len >= 8; i++) {
        uint64_t len;
        int32_t type;
        memcpy(&len, rest.ptr, sizeof(len));
        memcpy(&type, types->raw.ptr + sizeof(type) * i, sizeof(type));
        if (len > rest.len - 8)
            break;
        if (type == CONTROL || type == USER_DEFINED)
            code = control_tokens_add(b, list, lr_str(rest.ptr + 8, (size_t)len), i);
        rest = lr_str_sub(rest, 8 + (size_t)len, rest.len);
    }
    return code;
}

const struct model_control *model_control_find(const struct model_descriptor *d,
                                               struct lr_str text)
{
    for (size_t i = 0; i < d->control_count; i++)
        if (lr_str_eq_z(text, d->control[i].text))
            return &d->control[i];
    return NULL;
}

const struct model_control *model_control_at(const struct model_descriptor *d,
                                             struct lr_str text)
{
    const struct model_control *best = NULL;
    size_t most = 0;
    for (size_t i = 0; i < d->control_count; i++) {
        struct lr_str token = lr_str_z(d->control[i].text);
        if (token.len > most && lr_str_eq(lr_str_sub(text, 0, token.len), token)) {
            best = &d->control[i];
            most = token.len;
        }
    }
    return best;
}

static bool has_stop(const struct model_descriptor *d, const char *text)
{
    for (size_t i = 0; i < d->stop_count; i++)
        if (strcmp(d->stops[i], text) == 0)
            return true;
    return false;
}

/* The text of an id, or "#id" where it is not known. */
static lr_code add_stop(struct model_build *b, uint32_t id)
{
    char number[16];
    struct model_descriptor *d = b->d;
    struct lr_str text = {0};
    for (size_t i = 0; i < d->control_count && text.len == 0; i++)
        if (d->control[i].id == id)
            text = lr_str_z(d->control[i].text);
    (void)snprintf(number, sizeof(number), "#%u", id);
    if (text.len == 0)
        text = lr_str_z(number);
    if (d->stop_count == MODEL_STOPS_MAX)
        return LR_OK;
    lr_code code = model_build_text(b, text, &d->stops[d->stop_count]);
    if (code == LR_OK && !has_stop(d, d->stops[d->stop_count]))
        d->stop_count++;
    return code;
}

lr_code model_build_stops(struct model_build *b)
{
    lr_code code = LR_OK;
    for (uint32_t i = 0; code == LR_OK && i < b->tokens.eos_count; i++)
        code = add_stop(b, b->tokens.eos[i]);
    if (code == LR_OK && b->d->stop_count == 0 && b->d->eos_token != NULL)
        b->d->stops[b->d->stop_count++] = b->d->eos_token;
    return code;
}
