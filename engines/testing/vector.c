/* engines/testing/vector.c - embeddings and scores: counts of tokens, scaled to length 1. */
#include <math.h>
#include <stdlib.h>

#include "base/fail.h"
#include "engines/testing/testing.h"

/* Counts how often tokens of each sixteenth of the vocabulary occur. */
static void count_ids(const uint32_t *ids, size_t count, float sums[TESTING_DIMENSIONS])
{
    for (size_t i = 0; i < count; i++)
        sums[ids[i] % TESTING_DIMENSIONS] += 1;
}

static lr_code count_segments(const struct lr_engine_model *model,
                              const struct lr_segment *segments, size_t segment_count,
                              float sums[TESTING_DIMENSIONS], size_t *tokens,
                              struct lr_error *err)
{
    size_t count = 0;
    lr_code code = testing_tokenize(model, segments, segment_count, NULL, 0, &count, err);
    uint32_t *ids = code == LR_OK ? calloc(count + 1, sizeof(*ids)) : NULL;
    if (code == LR_OK && ids == NULL)
        code = lr_fail(err, LR_OUT_OF_RAM, "no memory for %zu tokens", count);
    if (code == LR_OK)
        code = testing_tokenize(model, segments, segment_count, ids, count, &count, err);
    if (code == LR_OK)
        count_ids(ids, count, sums);
    free(ids);
    *tokens += count;
    return code;
}

static void scale(float *values, uint32_t count)
{
    double squares = 0;
    for (uint32_t i = 0; i < count; i++)
        squares += (double)values[i] * (double)values[i];
    if (squares == 0) { /* no tokens: the first unit vector */
        values[0] = 1;
        return;
    }
    for (uint32_t i = 0; i < count; i++)
        values[i] = (float)((double)values[i] / sqrt(squares));
}

static float likeness(float *a, float *b)
{
    double sum = 0;
    scale(a, TESTING_DIMENSIONS);
    scale(b, TESTING_DIMENSIONS);
    for (uint32_t i = 0; i < TESTING_DIMENSIONS; i++)
        sum += (double)a[i] * (double)b[i];
    return sum < 1 ? (float)sum : 1.0f;
}

lr_code testing_vector(const struct lr_engine_model *model,
                       const struct lr_engine_request *request, struct testing_sequence *s,
                       struct lr_error *err)
{
    bool reranks = request->kind == LR_REQUEST_RERANK,
         whole =
             request->size >= sizeof(*request); /* else the host has no such members: zero */
    uint32_t dimensions =
        whole && request->dimensions != 0 ? request->dimensions : (uint32_t)TESTING_DIMENSIONS;
    float document[TESTING_DIMENSIONS] = {0};
    size_t tokens = 0;
    lr_code code = LR_OK;

    if (request->prompt_ids != NULL) {
        count_ids(request->prompt_ids, request->prompt_id_count, s->vector);
        tokens = request->prompt_id_count;
    } else {
        code = count_segments(model, request->segments, request->segment_count, s->vector,
                              &tokens, err);
    }
    if (code == LR_OK && reranks && whole)
        code = count_segments(model, request->document, request->document_count, document,
                              &tokens, err);
    if (code != LR_OK)
        return code;
    if (!reranks && dimensions > TESTING_DIMENSIONS)
        return lr_fail(err, LR_INVALID_ARGUMENT, "dimensions is %u: an embedding has %d",
                       dimensions, TESTING_DIMENSIONS);
    if (tokens > model->max_context)
        return lr_fail(err, LR_INVALID_ARGUMENT,
                       "the text has %zu tokens: the context holds %u", tokens,
                       model->max_context);
    s->prompt_tokens = (uint32_t)tokens;
    s->vector_count = reranks ? 1 : dimensions;
    if (reranks)
        s->vector[0] = likeness(s->vector, document);
    else
        scale(s->vector, s->vector_count);
    return LR_OK;
}
