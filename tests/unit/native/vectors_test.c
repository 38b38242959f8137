/* Embedders of the native engine give the vectors of Hugging Face transformers, with the same
 * bits alone, among other texts and in any chunk; and refuse to generate text. */
#include "tests/unit/engine_recorder.h"

#include <math.h>

#include "engines/native/engine.h"
#include "tests/unit/native/support.h"

enum { ARENA = 16 << 20, OTHERS = 7, SAME = 70 /* ids: two pages */ };

/* Causal with the last token; both ways with the mean and dense layers; both ways with the
 * first token; windows that look both ways; positions behind the padding's id (the golden data
 * of this one are by make.py in its folder). */
static const char *const embedders[] = {"qwen3-embedding", "embeddinggemma", "bert",
                                        "modernbert", "xlm-roberta"};
enum { EMBEDDERS_COUNT = sizeof(embedders) / sizeof(embedders[0]) };

static inline const struct lr_engine_api *recorder_api(void)
{
    return native_engine_api();
}

static struct recorder *open_embedder(const char *family, uint32_t chunk)
{
    const struct lr_engine_options options = {.size = sizeof(options),
                                              .max_context = 224,
                                              .max_sequences = 1 + OTHERS,
                                              .prefill_chunk = chunk,
                                              .threads = 2};
    char dir[512];

    (void)snprintf(dir, sizeof(dir), FAMILIES "%s", family);
    return recorder_open(dir, &options);
}

static void submit(struct recorder *r, uint64_t id, const uint32_t *ids, uint32_t count)
{
    struct lr_engine_request q = plain_request(id, ids, count, 0);

    q.kind = LR_REQUEST_EMBED;
    q.cache_scope = "all";
    must_submit(r, &q);
}

/* Texts of other lengths with the same beginning: one is over before, the others are computed
 * beside the text. */
static const struct record *embed_among(struct recorder *r, const uint32_t *ids, uint32_t count,
                                        uint32_t others)
{
    uint32_t other[224];

    for (uint32_t i = 0; i < count; i++)
        other[i] = ids[i];
    for (uint32_t i = 0; i < others; i++) {
        uint32_t n = 1 + (i * 37 + 140) % 150;
        for (uint32_t k = count < SAME ? count : SAME; k < n; k++)
            other[k] = 3 + (k * 31 + i) % 90;
        if (i == others / 2)
            submit(r, 1, ids, count);
        submit(r, 2 + i, other, n);
        if (i == 0)
            recorder_run(r); /* what it leaves behind must not be found */
    }
    if (others == 0)
        submit(r, 1, ids, count);
    recorder_run(r);
    assert_int_equal(record_of(r, 1)->vectors, 1);
    return record_of(r, 1);
}

static void check_vector(struct lr_arena *arena, const char *family, const struct lr_json *c,
                         const struct record *got)
{
    struct lr_str name;
    double difference = 0, norm = 0;

    assert_true(lr_json_str(lr_json_get(c, "pooled"), &name));
    struct lr_str text = family_file(arena, family, lr_arena_copy(arena, name));
    assert_int_equal(text.len, got->vector_count * sizeof(float));
    for (uint32_t i = 0; i < got->vector_count; i++) {
        float wanted;
        memcpy(&wanted, text.ptr + i * sizeof(wanted), sizeof(wanted));
        difference += pow((double)got->vector[i] - (double)wanted, 2);
        norm += pow((double)wanted, 2);
    }
    if (!(sqrt(difference / norm) <= 1e-5))
        fail_msg("%s: relative error %g", family, sqrt(difference / norm));
}

static void check_text(struct lr_arena *arena, const char *family, const struct lr_json *c)
{
    static const struct {
        uint32_t chunk, others;
    } ways[] = {{0, 0}, {16, 0}, {0, OTHERS}, {64, OTHERS}};
    float first[256];
    uint32_t count;
    uint32_t *ids = json_ids(arena, lr_json_get(c, "ids"), &count);

    for (size_t i = 0; i < sizeof(ways) / sizeof(ways[0]); i++) {
        struct recorder *r = open_embedder(family, ways[i].chunk);
        const struct record *got = embed_among(r, ids, count, ways[i].others);
        if (i == 0) {
            check_vector(arena, family, c, got);
            memcpy(first, got->vector, sizeof(first));
        } else if (memcmp(first, got->vector, got->vector_count * sizeof(*first)) != 0) {
            fail_msg("%s: way %zu of %u tokens gives other bits", family, i, count);
        }
        assert_int_equal(recorder_stats(r).kv_bytes_in_use, 0);
        recorder_close(r);
    }
}

static void embedders_give_the_vectors_of_transformers_alone_and_among_others(void **state)
{
    (void)state;
    for (size_t f = 0; f < EMBEDDERS_COUNT; f++) {
        struct lr_arena arena;
        lr_arena_init(&arena, ARENA);
        const struct lr_json *cases =
            lr_json_get(family_json(&arena, embedders[f], "golden.json"), "cases");
        assert_true(lr_json_is(cases, LR_JSON_OBJECT) && cases->count > 0);
        for (uint32_t i = 0; i < cases->count; i++)
            check_text(&arena, embedders[f], &cases->members[i].value);
        lr_arena_free(&arena);
    }
}

static void an_embedder_says_that_it_gives_vectors_and_refuses_to_generate(void **state)
{
    const uint32_t ids[] = {1, 2, 3};
    struct recorder *r = open_embedder("bert", 0);
    struct lr_engine_need need = {.size = sizeof(need)};
    struct lr_engine_request q = plain_request(1, ids, 3, 5);
    struct lr_error err = {0};

    (void)state;
    assert_int_equal(native_engine_api()->probe(FAMILIES "bert", NULL, &need, &err), LR_OK);
    assert_int_equal(need.requests, 1u << LR_REQUEST_EMBED);
    assert_int_equal(need.dimensions, 48);
    assert_int_equal(native_engine_api()->submit(r->model, &q, &err), LR_UNSUPPORTED);
    q.kind = LR_REQUEST_EMBED;
    q.dimensions = 49;
    assert_int_equal(native_engine_api()->submit(r->model, &q, &err), LR_INVALID_ARGUMENT);
    recorder_close(r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(embedders_give_the_vectors_of_transformers_alone_and_among_others),
        cmocka_unit_test(an_embedder_says_that_it_gives_vectors_and_refuses_to_generate),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
