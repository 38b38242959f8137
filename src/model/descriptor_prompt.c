/* model/descriptor_prompt.c - chat template and special-token texts of a snapshot.
 *
 * Looks for the template in the order of the Hugging Face tools: chat_template.jinja,
 * tokenizer_config.json, chat_template.json.  A broken file is an error, because a wrong
 * template would silently give wrong answers.
 */
#include "base/json.h"
#include "model/descriptor_build.h"
#include "model/map.h"

enum { TOKENIZER_CONFIG_MAX = 16 << 20 };

/* *out is NULL when the file is missing. */
static lr_code read_json(struct model_build *b, const char *name, const struct lr_json **out)
{
    char path[LR_PATH_MAX];
    struct lr_str text;
    *out = NULL;
    if (!model_folder_has(&b->folder, lr_str_z(name)))
        return LR_OK;
    lr_code code = model_path(path, b->dir, lr_str_z(name), b->err);
    if (code == LR_OK)
        code = model_read_text(b->scratch, path, TOKENIZER_CONFIG_MAX, &text, b->err);
    if (code != LR_OK)
        return code;
    code = lr_json_parse(b->scratch, text, NULL, out, b->err);
    if (code == LR_OK && (*out)->type == LR_JSON_OBJECT)
        return LR_OK;
    if (code == LR_OK)
        return lr_fail(b->err, LR_MODEL_CORRUPT, "%s is no JSON object", path);
    (void)lr_fail_prefix(b->err, "%s", path);
    code = code == LR_OUT_OF_RAM ? LR_OUT_OF_RAM : LR_MODEL_CORRUPT;
    if (b->err != NULL)
        b->err->code = code;
    return code;
}

static struct lr_str without_newline(struct lr_str text)
{
    return lr_str_ends(text, "\n") ? lr_str_sub(text, 0, text.len - 1) : text;
}

lr_code model_build_template(struct model_build *b, struct lr_str text, struct lr_str tool_use,
                             const char *source)
{
    if (text.len + tool_use.len > MODEL_TEMPLATE_MAX)
        return lr_fail(b->err, LR_MODEL_CORRUPT,
                       "%s/%s: a chat template of %zu bytes, the limit is %d", b->dir, source,
                       text.len + tool_use.len, MODEL_TEMPLATE_MAX);
    b->d->chat_template_source = source;
    if (tool_use.len != 0) {
        /* Jinja drops the last newline of a template, and here the one behind a block. */
        tool_use = without_newline(tool_use);
        text = without_newline(text);
        b->d->chat_template =
            lr_arena_printf(b->keep, "{%% if tools %%}\n%.*s{%% else %%}\n%.*s{%% endif %%}",
                            LR_STR_ARG(tool_use), LR_STR_ARG(text));
        return b->d->chat_template != NULL
                   ? LR_OK
                   : lr_fail(b->err, LR_OUT_OF_RAM, "%s: no memory for the chat template",
                             b->dir);
    }
    return model_build_text(b, text, &b->d->chat_template);
}

/* A string, or a list of {name, template}: "tool_use" is for requests with tools, "default" for
 * all others. */
static lr_code template_of(struct model_build *b, const struct lr_json *root,
                           const char *source)
{
    const struct lr_json *value = lr_json_get(root, "chat_template");
    struct lr_str text, name, usual = {0}, tool_use = {0};
    if (b->d->chat_template != NULL || value == NULL)
        return LR_OK;
    if (lr_json_str(value, &text))
        return model_build_template(b, text, tool_use, source);
    for (uint32_t i = 0; value->type == LR_JSON_ARRAY && i < value->count; i++) {
        const struct lr_json *item = &value->items[i];
        if (!lr_json_str(lr_json_get(item, "name"), &name) ||
            !lr_json_str(lr_json_get(item, "template"), &text))
            continue;
        if (lr_str_eq_z(name, "default"))
            usual = text;
        else if (lr_str_eq_z(name, "tool_use"))
            tool_use = text;
    }
    return usual.len != 0 ? model_build_template(b, usual, tool_use, source) : LR_OK;
}

/* A token is a string or an object with "content". */
static lr_code token_of(struct model_build *b, const struct lr_json *root, const char *key,
                        const char **out)
{
    const struct lr_json *value = lr_json_get(root, key);
    struct lr_str text;
    if (*out != NULL)
        return LR_OK;
    if (lr_json_str(value, &text) || lr_json_str(lr_json_get(value, "content"), &text))
        return model_build_text(b, text, out);
    return LR_OK;
}

static lr_code tokens_of(struct model_build *b, const struct lr_json *root)
{
    lr_code code = token_of(b, root, "bos_token", &b->d->bos_token);
    if (code == LR_OK)
        code = token_of(b, root, "eos_token", &b->d->eos_token);
    if (code == LR_OK)
        code = token_of(b, root, "pad_token", &b->d->pad_token);
    if (code == LR_OK)
        code = token_of(b, root, "unk_token", &b->d->unk_token);
    return code;
}

static lr_code read_jinja(struct model_build *b)
{
    static const char name[] = "chat_template.jinja";
    char path[LR_PATH_MAX];
    struct lr_str text;
    if (!model_folder_has(&b->folder, lr_str_z(name)))
        return LR_OK;
    lr_code code = model_path(path, b->dir, lr_str_z(name), b->err);
    if (code == LR_OK)
        code = model_read_text(b->scratch, path, MODEL_TEMPLATE_MAX, &text, b->err);
    return code == LR_OK ? model_build_template(b, text, (struct lr_str){0}, name) : code;
}

lr_code model_build_prompt(struct model_build *b)
{
    static const char *const files[] = {"tokenizer_config.json", "special_tokens_map.json",
                                        "chat_template.json"};
    lr_code code = read_jinja(b);
    for (size_t i = 0; i < sizeof(files) / sizeof(files[0]) && code == LR_OK; i++) {
        const struct lr_json *root;
        code = read_json(b, files[i], &root);
        if (code == LR_OK && root != NULL)
            code = template_of(b, root, files[i]);
        if (code == LR_OK && root != NULL)
            code = tokens_of(b, root);
        if (code == LR_OK && root != NULL)
            code = model_build_added_tokens(b, root);
    }
    return code;
}
