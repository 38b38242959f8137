/* tests/unit/gptoss/support.h - shared by the engine's tests: models, golden cases, a recording
 * host.  Header only: each test is one program. */
#ifndef TESTS_GPTOSS_SUPPORT_H
#define TESTS_GPTOSS_SUPPORT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/file.h"
#include "base/json.h"
#include "engines/gptoss/engine.h"
#include "tests/unit/engine_recorder.h"

#define DEMO_MODEL  LR_SOURCE_DIR "/models/demo"
#define DEMO_GOLDEN LR_SOURCE_DIR "/tests/fixtures/golden/demo"
#define ODD_MODEL   LR_SOURCE_DIR "/tests/fixtures/golden/odd/model"
#define ODD_GOLDEN  LR_SOURCE_DIR "/tests/fixtures/golden/odd/golden"

/* ---- golden cases ---- */

struct golden_case {
    const char *name;
    uint32_t *ids;
    size_t count;
    uint32_t *greedy;
    size_t greedy_count;
    const float *logits; /* every position, or the last one */
    size_t logit_count;
};

struct golden {
    struct lr_arena arena;
    struct golden_case cases[32];
    size_t count;
};

static inline uint32_t *golden_ids(struct lr_arena *arena, const struct lr_json *list,
                                   size_t *count)
{
    uint32_t *ids = lr_arena_array(arena, list->count, sizeof(*ids));

    assert_non_null(ids);
    for (uint32_t i = 0; i < list->count; i++) {
        uint64_t id;
        assert_true(lr_json_u64(&list->items[i], &id));
        ids[i] = (uint32_t)id;
    }
    *count = list->count;
    return ids;
}

static inline void golden_load(struct golden *g, const char *folder)
{
    char path[LR_PATH_MAX];
    const struct lr_json *root, *cases;
    struct lr_str text;

    memset(g, 0, sizeof(*g));
    lr_arena_init(&g->arena, 256u << 20);
    snprintf(path, sizeof(path), "%s/golden.json", folder);
    assert_int_equal(lr_file_read(&g->arena, path, 64u << 20, &text, NULL), LR_OK);
    assert_int_equal(lr_json_parse(&g->arena, text, NULL, &root, NULL), LR_OK);
    cases = lr_json_get(root, "cases");
    assert_true(cases != NULL && cases->count <= 32);
    for (; g->count < cases->count; g->count++) {
        const struct lr_json *v = &cases->members[g->count].value;
        struct golden_case *c = &g->cases[g->count];
        struct lr_str file, bytes;
        c->name = lr_arena_copy(&g->arena, cases->members[g->count].key);
        c->ids = golden_ids(&g->arena, lr_json_get(v, "ids"), &c->count);
        c->greedy = golden_ids(&g->arena, lr_json_get(v, "greedy"), &c->greedy_count);
        assert_true(lr_json_str(lr_json_get(v, "logits_file"), &file));
        snprintf(path, sizeof(path), "%s/" LR_STR_FMT, folder, LR_STR_ARG(file));
        assert_int_equal(lr_file_read(&g->arena, path, 64u << 20, &bytes, NULL), LR_OK);
        c->logits = (const float *)(const void *)bytes.ptr;
        c->logit_count = bytes.len / sizeof(float);
    }
}

static inline const struct lr_engine_api *recorder_api(void)
{
    return gptoss_engine_api();
}

#endif
