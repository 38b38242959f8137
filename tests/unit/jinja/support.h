/* tests/unit/jinja/support.h - compiles and renders in one call. */
#ifndef JINJA_TEST_SUPPORT_H
#define JINJA_TEST_SUPPORT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/arena.h"
#include "base/json.h"
#include "jinja/jinja.h"

/* A JSON text and its tree. */
struct document {
    struct lr_arena arena;
    const struct lr_json *json;
};

static inline void document_parse(struct document *d, struct lr_str text)
{
    struct lr_error err = {0};
    lr_arena_init(&d->arena, (size_t)1 << 30);
    if (lr_json_parse(&d->arena, text, NULL, &d->json, &err) != LR_OK)
        fail_msg("%s", err.text);
}

static inline void document_free(struct document *d)
{
    lr_arena_free(&d->arena);
}

static inline lr_code render_with(const char *source, const struct jinja_input *input,
                                  struct jinja_output *out, struct lr_error *err)
{
    struct jinja_template *tmpl = NULL;
    *out = (struct jinja_output){0};
    lr_code rc = jinja_compile(lr_str_z(source), &tmpl, err);
    if (rc == LR_OK)
        rc = jinja_render(tmpl, input, out, err);
    jinja_template_destroy(tmpl);
    return rc;
}

/* Sunday 2026-11-15 09:30:05, the time of all expected texts. */
static inline struct tm test_time(void)
{
    struct tm now;
    if (jinja_parse_time(LR_STR_LIT("2026-11-15T09:30:05"), &now, NULL) != LR_OK)
        abort();
    return now;
}

/* The whole file, or an empty string if it is missing; the caller frees it. */
static inline struct lr_str read_file(const char *path)
{
    FILE *file = fopen(path, "rb");
    if (file == NULL)
        return lr_str(NULL, 0);
    (void)fseek(file, 0, SEEK_END);
    long size = ftell(file);
    rewind(file);
    char *bytes = malloc((size_t)size + 1);
    size_t got = bytes != NULL ? fread(bytes, 1, (size_t)size, file) : 0;
    (void)fclose(file);
    return lr_str(bytes, got);
}

/* Empty if the reference material is not beside the source. */
static inline struct lr_str read_shared(const char *name)
{
    char path[1024];
    (void)snprintf(path, sizeof(path), "%s/../shared/%s", LR_SOURCE_DIR, name);
    return read_file(path);
}

#endif
