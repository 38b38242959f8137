/* llamacpp/engine_request.c - tokenizing and submitting requests. */
#include <stdlib.h>
#include <string.h>

#include "base/errors.h"
#include "base/fail.h"
#include "engines/llamacpp/model.h"

/* ---- tokenizing ---- */

/* A longer text can never fit the context, so it is refused before tokenizing: this limits the
 * time of a submit. */
static size_t text_limit(const struct lr_engine_model *m)
{
    uint64_t bytes = (uint64_t)m->plan.max_context * m->vocabulary.longest;

    return bytes < INT32_MAX / 4 ? (size_t)bytes : INT32_MAX / 4;
}

lr_code llamacpp_engine_tokenize(const struct lr_engine_model *m,
                                 const struct lr_segment *segments, size_t segment_count,
                                 uint32_t *ids, size_t capacity, size_t *count,
                                 struct lr_error *err)
{
    struct llamacpp_ids list;
    lr_code code =
        llamacpp_tokenize(&m->vocabulary, segments, segment_count, INT32_MAX / 4, &list, err);

    *count = 0;
    if (code != LR_OK)
        return code;
    *count = list.count;
    size_t n = list.count < capacity ? list.count : capacity;
    if (n > 0)
        memcpy(ids, list.items, n * sizeof(*ids));
    free(list.items);
    return LR_OK;
}

/* ---- submit, cancel ---- */

static lr_code submit_text(struct lr_engine_model *m, const struct lr_engine_request *r,
                           struct lr_error *err)
{
    struct llamacpp_ids list;
    uint64_t bytes = 0;

    for (size_t i = 0; i < r->segment_count; i++)
        bytes += r->segments[i].len;
    for (size_t i = 0; r->kind == LR_REQUEST_RERANK && i < r->document_count; i++)
        bytes += r->document[i].len;
    if (bytes > text_limit(m))
        return engine_session_too_long(&m->session, bytes, "bytes", err);
    lr_code code = r->kind == LR_REQUEST_GENERATE
                       ? llamacpp_tokenize(&m->vocabulary, r->segments, r->segment_count,
                                           text_limit(m), &list, err)
                       : llamacpp_vector_ids(m, r, text_limit(m), &list, err);
    if (code != LR_OK)
        return code;
    code = engine_session_submit(&m->session, r, list.items, list.count, err);
    free(list.items);
    return code;
}

lr_code llamacpp_engine_submit(struct lr_engine_model *m,
                               const struct lr_engine_request *request, struct lr_error *err)
{
    struct lr_engine_request r;

    ENGINE_COPY_SIZED(&r, request);
    lr_code code = engine_session_accept(&m->session, &r, err);
    if (code != LR_OK)
        return code;
    code = r.prompt_ids != NULL
               ? engine_session_submit(&m->session, &r, r.prompt_ids, r.prompt_id_count, err)
               : submit_text(m, &r, err);
    if (code != LR_OK)
        lr_error_tell(&m->session.host, err);
    return code;
}

void llamacpp_engine_cancel(struct lr_engine_model *m, uint64_t id)
{
    engine_session_cancel(&m->session, id);
}
