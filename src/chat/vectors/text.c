/* chat/vectors/text.c - see chat/vectors/vectors.h. */
#include "chat/vectors/vectors.h"

#include "base/errors.h"

#include <stdio.h>

/* ---- requests ---- */

lr_code chat_vectors_check_text(struct chat_parse *p, const char *param, struct lr_str text)
{
    if (text.len <= CHAT_INPUT_BYTES_MAX)
        return LR_OK;
    return chat_parse_fail(p, param, "invalid_value", LR_INVALID_ARGUMENT,
                           "'%s' has %zu bytes, the limit is %d.", param, text.len,
                           CHAT_INPUT_BYTES_MAX);
}

lr_code chat_vectors_input(struct chat_parse *p, const char *name, const struct lr_json *value)
{
    lr_code code = chat_parse_prompts(p, name, value, CHAT_INPUTS_MAX);
    for (uint32_t i = 0; code == LR_OK && i < p->req->prompt_count; i++) {
        char param[32];
        (void)snprintf(param, sizeof(param), "%.16s[%u]", name, i);
        code = chat_vectors_check_text(p, param, p->req->prompts[i].text);
    }
    return code;
}

lr_code chat_vectors_dimensions(struct chat_parse *p, const char *name,
                                const struct lr_json *value)
{
    return chat_parse_u32(p, name, value, 1, WIRE_VECTOR_MAX, &p->req->dimensions);
}

/* ---- answers ---- */

void chat_vectors_number(struct lr_buf *out, float value)
{
    char text[32];
    lr_buf_add(out, text, (size_t)snprintf(text, sizeof(text), "%.9g", (double)value));
}

void chat_vectors_numbers(struct lr_buf *out, const struct wire_vector *v)
{
    for (uint32_t i = 0; i < v->count; i++) {
        lr_buf_add_char(out, i == 0 ? '[' : ',');
        chat_vectors_number(out, wire_vector_value(v, i));
    }
    lr_buf_add_char(out, ']');
}

void chat_vectors_no_text(struct chat_choice *c, enum chat_delta_kind kind, uint32_t tool,
                          struct lr_str text)
{
    (void)c;
    (void)kind;
    (void)tool;
    (void)text;
}

void chat_vectors_no_call(struct chat_choice *c, uint32_t tool, struct lr_str name)
{
    (void)c;
    (void)tool;
    (void)name;
}

bool chat_vectors_are_whole(struct chat_response *r)
{
    struct lr_error error;
    for (uint32_t i = 0; i < r->choice_count; i++) {
        if (r->choices[i].content.len != 0 && !r->choices[i].content.failed)
            continue;
        r->status = lr_fail_as(&error, text_without_result, i);
        r->writer->fail(r, &error);
        return false;
    }
    return true;
}

void chat_vectors_usage(const struct chat_response *r, struct lr_buf *out)
{
    unsigned long long tokens = chat_response_totals(r).prompt_tokens;
    lr_buf_addf(out, "\"usage\":{\"prompt_tokens\":%llu,\"total_tokens\":%llu}", tokens,
                tokens);
}

/* ---- documentation ---- */

void chat_vectors_fields_markdown(const struct chat_fields *fields, struct lr_buf *out)
{
    static const struct {
        enum chat_field_list list;
        const char *title;
    } lists[] = {{CHAT_FIELD_HONOURED, "Honoured"}, {CHAT_FIELD_NO_EFFECT, "Ignored"}};
    for (size_t k = 0; k < sizeof(lists) / sizeof(lists[0]); k++) {
        lr_buf_addf(out, "%s### %s\n\n| field | values |\n|---|---|\n", k > 0 ? "\n" : "",
                    lists[k].title);
        for (size_t i = 0; i < fields->count; i++)
            if (fields->rows[i].row.list == lists[k].list)
                lr_buf_addf(out, "| `%s` | %s |\n", fields->rows[i].row.name,
                            fields->rows[i].row.note);
    }
}
