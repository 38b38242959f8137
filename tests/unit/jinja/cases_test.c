/* tests/unit/jinja/cases_test.c - whole templates: our own small ones, and the reference cases
 * if they are beside the source. */
#include "tests/unit/jinja/support.h"

static bool case_is_right(struct lr_str source, const struct lr_json *input,
                          const struct lr_json *expect, const struct tm *now, const char *name)
{
    struct jinja_template *tmpl = NULL;
    struct jinja_output out = {0};
    struct lr_error err = {0};
    struct jinja_input in = {.context = input, .now = now, .limits = {.max_cpu_ms = 10000}};
    lr_code rc = jinja_compile(source, &tmpl, &err);
    if (rc == LR_OK)
        rc = jinja_render(tmpl, &in, &out, &err);
    struct lr_str want;
    bool right =
        lr_json_str(expect, &want) ? rc == LR_OK && lr_str_eq(out.text, want) : rc != LR_OK;
    if (!right)
        print_error("%s: %s\n  got %.*s\n", name, err.text, (int)out.text.len,
                    out.text.len > 0 ? out.text.ptr : "");
    jinja_output_free(&out);
    jinja_template_destroy(tmpl);
    return right;
}

/* {"now", "inputs": {name: context}, "cases": [{"template", "input", "expect"}]}; the
 * template is looked up in `templates` or is a file of that name. */
static size_t check_cases(const struct lr_json *doc, struct lr_str (*load)(const char *name))
{
    const struct lr_json *list = lr_json_get(doc, "cases");
    struct lr_str now_text, name, input;
    struct tm now;
    size_t wrong = 0;
    assert_true(lr_json_str(lr_json_get(doc, "now"), &now_text));
    assert_int_equal(jinja_parse_time(now_text, &now, NULL), LR_OK);
    assert_true(list->count > 0);
    for (uint32_t i = 0; i < list->count; i++) {
        const struct lr_json *c = &list->items[i];
        char file[256];
        assert_true(lr_json_str(lr_json_get(c, "template"), &name));
        assert_true(lr_json_str(lr_json_get(c, "input"), &input));
        (void)snprintf(file, sizeof(file), "%.*s.jinja", (int)name.len, name.ptr);
        struct lr_str source = load(file);
        const struct lr_json *context = lr_json_get_str(lr_json_get(doc, "inputs"), input);
        assert_non_null(context);
        wrong += !case_is_right(source, context, lr_json_get(c, "expect"), &now, file);
        free((void *)(uintptr_t)source.ptr);
    }
    return wrong;
}

static struct lr_str load_from(const char *folder, const char *name)
{
    char path[1024];
    (void)snprintf(path, sizeof(path), "%s/tests/fixtures/%s/%s", LR_SOURCE_DIR, folder, name);
    return read_file(path);
}

static struct lr_str load_fixture(const char *name)
{
    return load_from("templates", name);
}

/* Templates in the style of published models, written by us. */
static struct lr_str load_own(const char *name)
{
    return load_from("templates-own", name);
}

static struct lr_str load_shared(const char *name)
{
    char path[512];
    (void)snprintf(path, sizeof(path), "templates/%s", name);
    return read_shared(path);
}

static void check_folder(struct lr_str (*load)(const char *name))
{
    struct lr_str text = load("cases.json");
    struct document d;
    assert_true(text.len > 0);
    document_parse(&d, text);
    assert_int_equal(check_cases(d.json, load), 0);
    document_free(&d);
    free((void *)(uintptr_t)text.ptr);
}

static void our_templates_render_as_jinja2_renders_them(void **state)
{
    (void)state;
    check_folder(load_fixture);
}

static void templates_like_those_of_models_render_as_jinja2_renders_them(void **state)
{
    (void)state;
    check_folder(load_own);
}

static void reference_templates_render_as_jinja2_renders_them(void **state)
{
    (void)state;
    struct lr_str text = read_shared("templates/cases.json");
    struct document d;
    if (text.len == 0)
        return;
    document_parse(&d, text);
    assert_int_equal(check_cases(d.json, load_shared), 0);
    document_free(&d);
    free((void *)(uintptr_t)text.ptr);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(our_templates_render_as_jinja2_renders_them),
        cmocka_unit_test(templates_like_those_of_models_render_as_jinja2_renders_them),
        cmocka_unit_test(reference_templates_render_as_jinja2_renders_them),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
