/* LINK: chat jinja base */
/* Any JSON as the input of templates, of the repair and of the default templates: no crash, and
 * no byte of the data is trusted. */
#include <stdint.h>
#include <stdlib.h>

#include "base/json.h"
#include "chat/harmony/template.h"
#include "chat/template/chatml.h"
#include "chat/template/render.h"
#include "chat/template/repair.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* These templates write no text of their own, so only roles in their output may be trusted, and
 * roles stand alone. */
static const char *const sources[] = {
    "{% for k, v in d.items() %}{{ k }}{{ v }}{{ v|string|upper }}{{ k|tojson }}{% endfor %}",
    "{{ d|tojson(indent=none) }}{{ d|string }}{{ d.values()|list|string }}",
    "{% for m in messages %}{{ m.content }}{{ (m.content or s)|trim|title|replace(s, s) }}"
    "{% for c in m.tool_calls or [] %}{{ c|tojson }}{% endfor %}{% endfor %}",
    /* fails on null and on arguments that are no text: chat/template/render.h */
    "{% for m in messages %}{{ m.content.strip() }}"
    "{% for c in m.tool_calls or [] %}{{ c.arguments.strip() }}{{ c.function.arguments.strip() "
    "}}{% endfor %}{% endfor %}",
    "{% macro walk(v) %}{% if v is mapping %}{% for k in v %}{{ k }}{{ walk(v[k]) }}{% endfor "
    "%}"
    "{% elif v is string %}{{ v }}{% elif v is iterable %}{% for x in v %}{{ walk(x) }}{% "
    "endfor %}"
    "{% else %}{{ v }}{% endif %}{% endmacro %}{{ walk(d) }}{{ walk(messages) }}",
    "{{ l|map('string')|sort|unique|join(s) }}{{ l|select('number')|sum }}{{ l|max }}{{ l|min "
    "}}"
    "{{ l|groupby('k') }}{{ l|batch(2)|list }}{{ s[1:] }}{{ s[::-1] }}{{ s.split() }}"
    "{{ s|wordwrap(5) }}{{ s|indent }}{{ s|truncate(9) }}{{ s % l }}{{ s.format(l, **d) }}",
};

static void check(const struct jinja_output *out, bool trusted_is_possible)
{
    size_t total = 0;
    for (size_t i = 0; i < out->count; i++) {
        if (out->segments[i].text.len == 0 ||
            out->segments[i].text.ptr != out->text.ptr + total)
            abort();
        total += out->segments[i].text.len;
        for (size_t k = 0;
             !trusted_is_possible && out->segments[i].control && k < out->segments[i].text.len;
             k++)
            if (out->segments[i].text.ptr[k] == '<')
                abort();
    }
    if (total != out->text.len)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct jinja_template *compiled[sizeof(sources) / sizeof(sources[0])];
    struct tm now = {.tm_year = 126, .tm_mon = 10, .tm_mday = 15};
    struct jinja_output out;
    struct lr_arena arena;
    const struct lr_json *json;
    lr_arena_init(&arena, 64 << 20);
    if (lr_json_parse(&arena, lr_str((const char *)data, size), NULL, &json, NULL) != LR_OK) {
        lr_arena_free(&arena);
        return 0;
    }
    for (size_t i = 0; i < sizeof(sources) / sizeof(sources[0]); i++) {
        struct jinja_input input = {
            .context = json, .now = &now, .limits = {.max_steps = 100000, .max_cpu_ms = 2000}};
        if (compiled[i] == NULL &&
            jinja_compile(lr_str_z(sources[i]), &compiled[i], NULL) != LR_OK)
            abort();
        if (chat_template_render(compiled[i], &input, &arena, &out, NULL) == LR_OK)
            check(&out, false);
        jinja_output_free(&out);
    }
    if (json->type == LR_JSON_OBJECT) {
        for (int repaired = 0; repaired < 2; repaired++) {
            if (chat_harmony_render(json, &now, &out, NULL) == LR_OK)
                check(&out, true);
            jinja_output_free(&out);
            if (chat_chatml_render(json, &out, NULL) == LR_OK)
                check(&out, true);
            jinja_output_free(&out);
            if (chat_repair(&arena, json, true, &json, NULL) != LR_OK)
                break;
        }
    }
    lr_arena_free(&arena);
    return 0;
}
