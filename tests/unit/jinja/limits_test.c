/* tests/unit/jinja/limits_test.c - templates that try to exceed the limits. */
#include <pthread.h>
#include <time.h>

#include "tests/unit/jinja/support.h"

static const char *const bombs[] = {
    "{{ range(10**9)|list }}",
    "{% for i in range(10**9) %}{% endfor %}",
    "{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}",
    "{% for i in range(99999) %}{% for j in range(99999) %}x{% endfor %}{% endfor %}",
    "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}",
    "{% macro m() %}{{ m() }}{{ m() }}{% endmacro %}{{ m() }}",
    "{% macro m(n) %}{% if n > 0 %}{{ m(n-1) }}{{ m(n-1) }}{% endif %}{% endmacro %}{{ m(60) "
    "}}",
    "{% for i in range(99999) recursive %}{{ loop(range(99999)) }}{% endfor %}",
    "{{ 'a' * 10**9 }}",
    "{{ [1] * 10**9 }}",
    "{{ 'x'.center(10**9) }}",
    "{{ 'x'.zfill(10**9) }}",
    "{{ 'x'|indent(10**9) }}",
    "{{ [1]|batch(10**9, 0)|list }}",
    "{{ [1]|slice(10**9)|list }}",
    "{{ [1]|tojson(indent=10**9) }}",
    "{{ '%99999999d' % 5 }}",
    "{{ '{:99999999}'.format(5) }}",
    "{{ range(99999)|join('x' * 10000) }}",
    "{{ ('a' * 10**6)|join('b' * 1000) }}",
    "{% for i in range(99999) %}{{ 'a' * 100000 }}{% endfor %}",
    "{% set n = namespace(a=[1]) %}{% for i in range(60) %}{% set n.a = [n.a, n.a] %}"
    "{% endfor %}{{ n.a }}",
    "{% set n = namespace(a=[1]) %}{% for i in range(60) %}{% set n.a = [n.a, n.a] %}"
    "{% endfor %}{{ n.a|tojson }}",
    "{% set n = namespace(a=[1], b=[1]) %}{% for i in range(60) %}{% set n.a = [n.a, n.a] %}"
    "{% set n.b = [n.b, n.b] %}{% endfor %}{{ n.a == n.b }}",
    "{% set n = namespace(a='x') %}{% for i in range(60) %}{% set n.a = n.a + n.a %}{% endfor "
    "%}",
    "{% set n = namespace(a='x') %}{% for i in range(60) %}{% set n.a = n.a ~ n.a %}{% endfor "
    "%}",
    "{% set n = namespace(a='x') %}{% for i in range(60) %}"
    "{% set n.a = n.a|replace('x', 'xx') %}{% endfor %}",
    "{% set n = namespace(x=none) %}{% set n.x = n %}{{ n }}",
    "{% set n = namespace(d=dict()) %}{% for i in range(99999) %}{% set n.d = dict(n.d, "
    "**{i|string: i}) %}"
    "{% endfor %}",
    "{% set x = 'a' * 4000000 %}{% for i in range(99999) %}{{ x|upper|length }}{% endfor %}",
    "{% set x = 'a' * 4000000 %}{% for i in range(99999) %}{% if 'b' in x %}{% endif %}"
    "{% endfor %}",
    "{% set x = 'a' * 1000000 %}{% set y = 'a' * 500000 ~ 'b' %}{% for i in range(9999) %}"
    "{{ x.rfind(y) }}{{ x.find(y) }}{{ x.count(y) }}{{ y in x }}{% endfor %}",
    "{% set n = namespace(l=[]) %}{% for i in range(99999) %}{% set n.l = n.l + [i] %}"
    "{% endfor %}{% for i in range(99999) %}{% if i in n.l %}{% endif %}{% endfor %}",
};

static double cpu_ms(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

/* Sanitizers slow down the steps between two reads of the clock. */
#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define IS_SANITIZED 1
#endif
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || defined(IS_SANITIZED)
static const double most_ms = 2000;
#else
static const double most_ms = 50;
#endif

/* CPU time of a rendering that must fail; *rc is its result. */
static double time_bomb(const char *bomb, const struct lr_json *context, lr_code *rc)
{
    struct jinja_input input = {.context = context};
    struct jinja_output out;
    struct lr_error err = {0};
    double start = cpu_ms();
    *rc = render_with(bomb, &input, &out, &err);
    double took = cpu_ms() - start;
    jinja_output_free(&out);
    return took;
}

/* The best of three, because another program on the same core costs CPU time too. */
static void bombs_end_with_an_error_in_50_ms(void **state)
{
    (void)state;
    struct document d;
    size_t wrong = 0;
    document_parse(&d, LR_STR_LIT("{}"));
    for (size_t i = 0; i < sizeof(bombs) / sizeof(bombs[0]); i++) {
        lr_code rc = LR_OK;
        double took = time_bomb(bombs[i], d.json, &rc);
        for (int again = 0; again < 2 && took > most_ms; again++)
            took = time_bomb(bombs[i], d.json, &rc);
        if (rc == LR_OK || took > most_ms) {
            wrong++;
            print_error("%s: code %d after %.1f ms\n", bombs[i], (int)rc, took);
        }
    }
    document_free(&d);
    assert_int_equal(wrong, 0);
}

static void large_sources_are_refused_at_once(void **state)
{
    (void)state;
    static const char *const pieces[] = {"(", "[", "{% if 1 %}", "{{ x }}", "1 + ", ".a"};
    for (size_t k = 0; k < sizeof(pieces) / sizeof(pieces[0]); k++) {
        for (size_t size = 120 * 1024; size <= 1024 * 1024; size *= 8) {
            struct lr_buf source;
            struct jinja_template *tmpl;
            struct lr_error err = {0};
            lr_buf_init(&source, (size_t)4 << 20);
            lr_buf_add_z(&source, pieces[k][0] == '{' ? "" : "{{ x");
            while (source.len < size)
                lr_buf_add_z(&source, pieces[k]);
            double start = cpu_ms();
            lr_code rc = jinja_compile(lr_buf_str(&source), &tmpl, &err);
            assert_true(cpu_ms() - start < most_ms);
            /* Only the flat template compiles, and only below the size limit. */
            assert_int_equal(rc == LR_OK, k == 3 && size <= JINJA_MAX_SOURCE);
            jinja_template_destroy(tmpl);
            lr_buf_free(&source);
        }
    }
}

static void limits_of_the_caller_are_kept(void **state)
{
    (void)state;
    struct document d;
    struct jinja_output out;
    document_parse(&d, LR_STR_LIT("{}"));
    const struct {
        const char *source;
        struct jinja_limits limits;
        lr_code code;
    } rows[] = {
        {"{{ 'a' * 100 }}", {.max_output = 99}, LR_TOO_LARGE},
        {"{{ 'a' * 100 }}", {.max_output = 100}, LR_OK},
        {"{% for i in range(100) %}{% endfor %}", {.max_steps = 50}, LR_TOO_LARGE},
        {"{{ ((((1)))) }}", {.max_depth = 2}, LR_OK},
        {"{{ 1 + (2 * (3 + (4 * 5))) }}", {.max_depth = 2}, LR_TOO_LARGE},
        {"{{ ['a' * 10000, 'b' * 10000]|length }}", {.max_memory = 8000}, LR_TOO_LARGE},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct jinja_input input = {.context = d.json, .limits = rows[i].limits};
        struct lr_error err = {0};
        lr_code rc = render_with(rows[i].source, &input, &out, &err);
        if (rc != rows[i].code)
            fail_msg("%s: %d (%s), not %d", rows[i].source, (int)rc, err.text,
                     (int)rows[i].code);
        jinja_output_free(&out);
    }
    document_free(&d);
}

static void *render_many(void *arg)
{
    const struct jinja_template *tmpl = arg;
    struct document d;
    document_parse(&d, LR_STR_LIT("{\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}]}"));
    for (int i = 0; i < 200; i++) {
        struct jinja_input input = {.context = d.json, .limits = {.max_cpu_ms = 10000}};
        struct jinja_output out;
        if (jinja_render(tmpl, &input, &out, NULL) != LR_OK ||
            !lr_str_eq_z(out.text, "user:hi;42|['a', 1]"))
            abort();
        jinja_output_free(&out);
    }
    document_free(&d);
    return NULL;
}

static void one_template_serves_many_threads(void **state)
{
    (void)state;
    struct jinja_template *tmpl;
    assert_int_equal(
        jinja_compile(
            LR_STR_LIT("{% macro m(x) %}{{ x.role }}:{{ x['content'] }};{% endmacro %}"
                       "{% for x in messages %}{{ m(x) }}{% endfor %}"
                       "{{ {'k': 42}.k }}|{{ ['a', 1] }}"),
            &tmpl, NULL),
        LR_OK);
    pthread_t threads[4];
    for (size_t i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, render_many, tmpl), 0);
    for (size_t i = 0; i < 4; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    jinja_template_destroy(tmpl);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bombs_end_with_an_error_in_50_ms),
        cmocka_unit_test(large_sources_are_refused_at_once),
        cmocka_unit_test(limits_of_the_caller_are_kept),
        cmocka_unit_test(one_template_serves_many_threads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
