/* A node that has computed the beginning of a prompt is known for it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "prefix/index.h"

static const char one, two; /* nodes are told by their address */

/* A prompt of one control segment and one of text that says `c` over and over. */
struct sample {
    struct lr_segment segments[2];
    struct chat_prompt prompt;
    char text[8000];
};

static const struct chat_prompt *make(struct sample *s, size_t len, size_t fork, char after)
{
    memset(s->text, 'a', len);
    if (fork < len)
        memset(s->text + fork, after, len - fork);
    s->segments[0] = (struct lr_segment){"<|start|>", 9, 1, 0};
    s->segments[1] = (struct lr_segment){s->text, len, 0, 0};
    s->prompt =
        (struct chat_prompt){.segments = s->segments, .segment_count = 2, .bytes = 9 + len};
    return &s->prompt;
}

static struct prefix_hashes marks(const char *model, const char *key, size_t len, size_t fork,
                                  char after)
{
    struct sample s;
    struct prefix_hashes out;
    prefix_hashes_make(&out, lr_str_z(model), lr_str_z(key), make(&s, len, fork, after));
    return out;
}

static void the_share_that_was_computed_is_known_for_that_node_alone(void **state)
{
    struct prefix_index b;
    (void)state;
    prefix_index_init(&b);
    struct prefix_hashes m = marks("m", "k", 6000, 6000, 0);
    assert_true(prefix_index_share(&b, &one, &m) == 0);
    prefix_index_note(&b, &one, &m);
    assert_true(prefix_index_share(&b, &one, &m) > 0.8);
    assert_true(prefix_index_share(&b, &two, &m) == 0);
    /* The next turn: the same and more. */
    struct prefix_hashes longer = marks("m", "k", 8000, 6000, 'b');
    double share = prefix_index_share(&b, &one, &longer);
    assert_true(share > 0.6 && share < 0.76);
    /* Another that forks early. */
    struct prefix_hashes other = marks("m", "k", 6000, 3000, 'c');
    share = prefix_index_share(&b, &one, &other);
    assert_true(share > 0.3 && share < 0.51);
    prefix_index_free(&b);
}

static uint32_t entries_of(const struct prefix_index *b)
{
    uint32_t count = 0;
    for (size_t i = 0; i < PREFIX_ENTRIES; i++)
        count += b->noted[i] != 0;
    return count;
}

/* Another prompt's hash, or a later one of the same prompt, takes the entry. */
static void a_hash_that_lost_its_entry_does_not_hide_those_behind_it(void **state)
{
    struct prefix_index b;
    struct prefix_hashes m;
    char key[] = "a";
    (void)state;
    /* Hashes differ from run to run: two of one prompt may have the same entry already. */
    for (;; key[0]++) {
        prefix_index_init(&b);
        m = marks("m", key, 6000, 6000, 0);
        prefix_index_note(&b, &one, &m);
        if (entries_of(&b) == m.count)
            break;
        prefix_index_free(&b);
    }
    for (size_t i = 0; i < PREFIX_ENTRIES; i++) {
        uint64_t kept = b.noted[i];
        if (kept == 0)
            continue;
        b.noted[i] = 0;
        assert_true(prefix_index_share(&b, &one, &m) > 0.8);
        b.noted[i] = kept;
    }
    prefix_index_free(&b);
}

static void another_key_or_model_has_other_prefix_hashes(void **state)
{
    struct prefix_index b;
    (void)state;
    prefix_index_init(&b);
    struct prefix_hashes m = marks("m", "k", 6000, 6000, 0),
                         key = marks("m", "other", 6000, 6000, 0),
                         model = marks("other", "k", 6000, 6000, 0);
    prefix_index_note(&b, &one, &m);
    assert_true(prefix_index_share(&b, &one, &key) == 0);
    assert_true(prefix_index_share(&b, &one, &model) == 0);
    prefix_index_free(&b);
}

static void control_tokens_are_not_the_text_that_spells_them(void **state)
{
    struct sample s;
    struct prefix_hashes control, text;
    (void)state;
    prefix_hashes_make(&control, lr_str_z("m"), lr_str_z("k"), make(&s, 6000, 6000, 0));
    s.segments[0].control = 0;
    prefix_hashes_make(&text, lr_str_z("m"), lr_str_z("k"), &s.prompt);
    assert_int_equal(control.count, text.count);
    assert_true(control.at[0].digest != text.at[0].digest);
}

static void
the_longest_prompts_keep_within_the_limit_of_hashes_and_short_ones_have_none(void **state)
{
    struct prefix_hashes m;
    uint32_t *ids = calloc(1 << 20, sizeof(*ids));
    struct chat_prompt prompt = {.ids = ids, .id_count = 1 << 20};
    (void)state;
    assert_non_null(ids);
    prefix_hashes_make(&m, lr_str_z("m"), lr_str_z("k"), &prompt);
    assert_int_equal(m.count, PREFIX_HASHES_MAX);
    assert_true(m.at[PREFIX_HASHES_MAX - 1].bytes > 131072 * 4);
    prompt.id_count = 63;
    assert_false(prefix_fits(&prompt));
    prefix_hashes_make(&m, lr_str_z("m"), lr_str_z("k"), &prompt);
    assert_int_equal(m.count, 0);
    free(ids);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_share_that_was_computed_is_known_for_that_node_alone),
        cmocka_unit_test(a_hash_that_lost_its_entry_does_not_hide_those_behind_it),
        cmocka_unit_test(another_key_or_model_has_other_prefix_hashes),
        cmocka_unit_test(control_tokens_are_not_the_text_that_spells_them),
        cmocka_unit_test(
            the_longest_prompts_keep_within_the_limit_of_hashes_and_short_ones_have_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
