/* Errors and their identity: made, copied, carried as text, read again. */
#include "base/errors.h"
#include "tests/unit/base/support.h"

static const char *hole_of(const struct lr_error *err, const char *name)
{
    static char out[128];
    struct lr_str value = {0};
    assert_true(lr_error_hole(err, name, &value));
    lr_str_copy(out, sizeof(out), value);
    return out;
}

static void an_error_has_its_sentence_its_code_and_what_stands_in_the_holes(void **state)
{
    (void)state;
    struct lr_error err;
    assert_int_equal(lr_fail_as(&err, node_busy, 4u, "m"), LR_RATE_LIMITED);
    assert_string_equal(err.text, "busy: all 4 slots of model \"m\" are taken");
    assert_true(lr_error_is(&err, LR_ERROR_node_busy));
    assert_string_equal(hole_of(&err, "slots"), "4");
    assert_string_equal(hole_of(&err, "model"), "m");
    struct lr_str value;
    assert_false(lr_error_hole(&err, "seconds", &value));
    assert_int_equal(lr_fail_plain(NULL, node_stops), LR_UNAVAILABLE);
}

static void the_identity_stays_with_copies_and_behind_prefixes(void **state)
{
    (void)state;
    struct lr_error err, copy;
    (void)lr_fail_as(&err, text_too_long, 402, "tokens", 128);
    copy = err;
    (void)lr_fail_prefix(&copy, "input[%d]", 1);
    assert_string_equal(copy.text, "input[1]: the text has 402 tokens; the context holds 128 "
                                   "tokens: send a shorter text");
    assert_string_equal(hole_of(&copy, "limit"), "128");
    char text[200], small[60];
    lr_error_copy_text(text, sizeof(text), err.text, sizeof(err.text));
    struct lr_identity identity;
    assert_true(lr_error_read_text(text, sizeof(text), &identity));
    assert_int_equal(identity.error.id, LR_ERROR_text_too_long);
    lr_error_copy_text(small, sizeof(small), err.text, sizeof(err.text)); /* no room */
    assert_false(lr_error_read_text(small, sizeof(small), &identity));
}

static void an_error_that_is_written_over_has_no_identity(void **state)
{
    (void)state;
    struct lr_error err;
    struct lr_identity identity;
    (void)lr_fail_as(&err, node_busy, 4, "m");
    (void)lr_fail(&err, LR_INTERNAL, "busy: all 4 slots of model \"m\" are taken");
    assert_false(lr_error_read(&err, &identity));
    (void)lr_fail_as(&err, node_busy, 4, "m");
    err.text[0] = 'B'; /* by somebody who knows nothing of identities */
    assert_false(lr_error_read(&err, &identity));
    memset(&err, 0xff, sizeof(err));
    assert_false(lr_error_read(&err, &identity));
}

static void a_cause_keeps_its_own_identity_within_the_error(void **state)
{
    (void)state;
    struct lr_error cause, err;
    struct lr_identity identity;
    (void)lr_fail_as(&cause, node_quiet, 5000);
    (void)lr_fail_as(&err, attempts_failed, 3, &cause);
    assert_string_equal(
        err.text, "3 attempts in a row failed; the last: no event of the node in 5000 ms");
    assert_true(lr_error_read(&err, &identity));
    assert_int_equal(identity.cause.id, LR_ERROR_node_quiet);
    assert_memory_equal(err.text + identity.cause.holes[0].at, "5000", 4);
}

static void an_identity_travels_as_text_and_a_malformed_one_is_left_out(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "no_such_error 1+2",    "node_busy 9+1",
        "node_busy 10+1,22+",   "node_busy 10+1,22+999",
        "node_busy 99999+1,1",  "node_busy 1+1,2+2,",
        "node_busy  10+1,22+1", ",;",
    };
    struct lr_error err, copy;
    struct lr_identity identity;
    (void)lr_fail_as(&err, node_busy, 4, "m");
    struct lr_str text = lr_error_identity_of(&err);
    assert_int_equal(text.len, strlen("node_busy 10+1,28+1"));
    assert_memory_equal(text.ptr, "node_busy 10+1,28+1", text.len);
    lr_error_restore(&copy, err.code, lr_str_z(err.text), text);
    assert_string_equal(hole_of(&copy, "model"), "m");
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        lr_error_restore(&copy, err.code, lr_str_z(err.text), lr_str_z(bad[i]));
        assert_string_equal(copy.text, err.text);
        assert_false(lr_error_read(&copy, &identity));
    }
}

static void a_sentence_that_is_too_long_is_cut_and_keeps_its_id(void **state)
{
    (void)state;
    struct lr_error err;
    char name[600];
    memset(name, 'x', sizeof(name) - 1);
    name[sizeof(name) - 1] = '\0';
    (void)lr_fail_as(&err, node_queue, 1, name);
    assert_int_equal(strlen(err.text), sizeof(err.text) - 1);
    (void)lr_fail_as(&err, no_model, name);
    assert_non_null(strstr(err.text, "x\"; GET /v1/models lists them"));
    assert_true(lr_error_is(&err, LR_ERROR_no_model));
    assert_int_equal(strlen(hole_of(&err, "model")), 100);
}

static void every_row_has_its_number_of_holes_and_a_word_of_its_own(void **state)
{
    (void)state;
    static const unsigned holes[] = {
        0,
#define LR_ERROR(id, code, holes, sentence) holes,
#include "base/errors.def"
    };
    struct lr_str names[LR_ERROR_HOLES];
    char word[LR_ERROR_WORD];
    for (unsigned i = LR_ERROR_NONE + 1; i < LR_ERROR_COUNT; i++) {
        const struct lr_error_row *row = &lr_error_rows[i];
        if (lr_error_holes((enum lr_error_id)i, names) != holes[i])
            fail_msg("%s has another number of holes", row->id);
        if (lr_error_find(lr_str_z(row->id)) != (enum lr_error_id)i)
            fail_msg("%s is there twice", row->id);
        assert_true(strlen(row->id) < LR_ERROR_WORD);
    }
#define X(name, number, http, type, meaning)                                                   \
    assert_int_equal(                                                                          \
        lr_error_find(lr_str_z(lr_error_word(&(struct lr_error){.code = LR_##name}, word))),   \
        LR_ERROR_NONE);
    LR_CODE_MAP(X)
#undef X
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_error_has_its_sentence_its_code_and_what_stands_in_the_holes),
        cmocka_unit_test(the_identity_stays_with_copies_and_behind_prefixes),
        cmocka_unit_test(an_error_that_is_written_over_has_no_identity),
        cmocka_unit_test(a_cause_keeps_its_own_identity_within_the_error),
        cmocka_unit_test(an_identity_travels_as_text_and_a_malformed_one_is_left_out),
        cmocka_unit_test(a_sentence_that_is_too_long_is_cut_and_keeps_its_id),
        cmocka_unit_test(every_row_has_its_number_of_holes_and_a_word_of_its_own),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
