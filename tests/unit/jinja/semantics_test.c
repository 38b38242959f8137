/* tests/unit/jinja/semantics_test.c - tables of templates and their rendering by Jinja2. */
#include "tests/unit/jinja/expression_rows.h"
#include "tests/unit/jinja/filter_rows.h"
#include "tests/unit/jinja/statement_rows.h"
#include "tests/unit/jinja/support.h"

static size_t check_rows(const struct row *rows, size_t count, const char *context)
{
    struct document d;
    struct tm now = test_time();
    size_t wrong = 0;
    document_parse(&d, lr_str_z(context));
    for (size_t i = 0; i < count; i++) {
        /* Time limits are not tested here, and a sanitizer is slow. */
        struct jinja_input input = {
            .context = d.json, .now = &now, .limits = {.max_cpu_ms = 10000}};
        struct jinja_output out;
        struct lr_error err = {0};
        lr_code rc = render_with(rows[i].source, &input, &out, &err);
        bool right = rows[i].expected == NULL
                         ? rc != LR_OK && err.text[0] != '\0'
                         : rc == LR_OK && lr_str_eq_z(out.text, rows[i].expected);
        if (!right) {
            wrong++;
            print_error("%s\n  expected %s\n  got      %.*s%s\n", rows[i].source,
                        rows[i].expected != NULL ? rows[i].expected : "an error",
                        (int)out.text.len, out.text.len > 0 ? out.text.ptr : "", err.text);
        }
        jinja_output_free(&out);
    }
    document_free(&d);
    return wrong;
}

static void expressions_mean_what_jinja2_means(void **state)
{
    (void)state;
    assert_int_equal(check_rows(filter_rows, sizeof(filter_rows) / sizeof(filter_rows[0]),
                                expression_context),
                     0);
    assert_int_equal(check_rows(expressions, sizeof(expressions) / sizeof(expressions[0]),
                                expression_context),
                     0);
}

static void statements_mean_what_jinja2_means(void **state)
{
    (void)state;
    assert_int_equal(
        check_rows(statements, sizeof(statements) / sizeof(statements[0]), statement_context),
        0);
}

static void errors_name_the_line(void **state)
{
    (void)state;
    static const struct {
        const char *source;
        const char *line;
    } rows[] = {
        {"a\nb\n{{ 1 + }}", "line 3"},
        {"{% if x %}\n\n{{ undefined_thing.x }}\n{% endif %}{{ y.z }}", "line 4"},
        {"\n\n{% for i in 5 %}{% endfor %}", "line 3"},
        {"{#\n\n#}\n{{ raise_exception('boom') }}", "line 4"},
        {"{% set a = 1 %}\n{% macro m() %}\n{{ none + 1 }}\n{% endmacro %}\n{{ m() }}",
         "line 3"},
        {"x\n{% foo %}", "line 2"},
        {"{{ 'a\nb' }}{{ [1][2].x }}", "line 2"},
    };
    struct document d;
    document_parse(&d, LR_STR_LIT("{}"));
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct jinja_input input = {.context = d.json};
        struct jinja_output out;
        struct lr_error err = {0};
        assert_int_not_equal(render_with(rows[i].source, &input, &out, &err), LR_OK);
        if (strstr(err.text, rows[i].line) == NULL)
            fail_msg("%s: no \"%s\" in \"%s\"", rows[i].source, rows[i].line, err.text);
        jinja_output_free(&out);
    }
    document_free(&d);
}

static void a_message_of_raise_exception_arrives(void **state)
{
    (void)state;
    struct document d;
    document_parse(&d, LR_STR_LIT("{}"));
    struct jinja_input input = {.context = d.json};
    struct jinja_output out;
    struct lr_error err = {0};
    assert_int_equal(
        render_with("{{ raise_exception('Roles must alternate') }}", &input, &out, &err),
        LR_INVALID_ARGUMENT);
    assert_non_null(strstr(err.text, "Roles must alternate"));
    jinja_output_free(&out);
    document_free(&d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(expressions_mean_what_jinja2_means),
        cmocka_unit_test(statements_mean_what_jinja2_means),
        cmocka_unit_test(errors_name_the_line),
        cmocka_unit_test(a_message_of_raise_exception_arrives),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
