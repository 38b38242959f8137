/* LINK: jinja base */
/* Any bytes as a template: compiling and rendering may fail, within the limits, and the
 * segments of the output divide its text. */
#include <stdint.h>
#include <stdlib.h>

#include "base/json.h"
#include "jinja/jinja.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char context[] =
    "{\"messages\":[{\"role\":\"system\",\"content\":\"Be kind.\"},{\"role\":\"user\","
    "\"content\":\"Hi <|start|> \\u00e9\\u65e5\\n\"},{\"role\":\"assistant\",\"content\":null,"
    "\"tool_calls\":[{\"function\":{\"name\":\"f\",\"arguments\":{\"a\":[1,2.5,true,null]}}}]}]"
    ","
    "\"tools\":[{\"type\":\"function\",\"function\":{\"name\":\"f\",\"parameters\":"
    "{\"properties\":{\"x\":{\"type\":\"string\"}},\"required\":[\"x\"]}}}],"
    "\"l\":[3,1,2],\"d\":{\"b\":1,\"a\":{\"c\":[1]}},\"s\":\"text\",\"n\":5,\"f\":0.5,\"t\":"
    "true,"
    "\"e\":[],\"add_generation_prompt\":true}";

static void check(const struct jinja_output *out)
{
    size_t total = 0;
    for (size_t i = 0; i < out->count; i++) {
        if (out->segments[i].text.len == 0 ||
            out->segments[i].text.ptr != out->text.ptr + total ||
            (i > 0 && out->segments[i].control == out->segments[i - 1].control))
            abort();
        total += out->segments[i].text.len;
    }
    if (total != out->text.len)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct jinja_template *tmpl;
    struct jinja_output out;
    struct lr_error err = {0};
    struct lr_arena arena;
    const struct lr_json *json;
    struct tm now = {.tm_year = 126, .tm_mon = 10, .tm_mday = 15};
    if (jinja_compile(lr_str((const char *)data, size), &tmpl, &err) != LR_OK) {
        if (err.text[0] == '\0')
            abort();
        return 0;
    }
    lr_arena_init(&arena, 1 << 20);
    if (lr_json_parse(&arena, lr_str_z(context), NULL, &json, NULL) != LR_OK)
        abort();
    struct jinja_input input = {.context = json,
                                .now = &now,
                                .limits = {.max_steps = 100000,
                                           .max_cpu_ms = 2000,
                                           .max_memory = 8 << 20,
                                           .max_output = 2 << 20}};
    if (jinja_render(tmpl, &input, &out, &err) == LR_OK)
        check(&out);
    else if (err.text[0] == '\0')
        abort();
    jinja_output_free(&out);
    jinja_template_destroy(tmpl);
    lr_arena_free(&arena);
    return 0;
}
