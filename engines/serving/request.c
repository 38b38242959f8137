/* serving/request.c - tokenizing and submitting requests. */
#include <string.h>

#include "base/errors.h"
#include "base/fail.h"
#include "base/file.h"
#include "engines/serving/model.h"

/* ---- tokenizing ---- */

lr_code serving_engine_encode(const struct tokenizer *tokenizer,
                              const struct lr_segment *segments, size_t count,
                              struct tokenizer_ids *ids, struct lr_error *err)
{
    size_t bytes = 0;

    if (tokenizer == NULL)
        return lr_fail(
            err, LR_UNSUPPORTED,
            "the model has no tokenizer.json or other tokenizer: it takes token ids only");
    for (size_t i = 0; i < count; i++)
        bytes += segments[i].len;
    if (bytes > TOKENIZER_MAX_TEXT)
        return lr_fail(err, LR_INVALID_ARGUMENT, "the prompt has %zu bytes; the limit is %d",
                       bytes, TOKENIZER_MAX_TEXT);
    /* A normalizer may make several tokens of a byte. */
    tokenizer_ids_init(ids, TOKENIZER_MAX_TEXT);
    lr_code code = tokenizer_encode_prompt(tokenizer, segments, count, ids, err);
    if (code != LR_OK)
        tokenizer_ids_free(ids);
    return code;
}

lr_code serving_engine_tokenize(const struct lr_engine_model *m,
                                const struct lr_segment *segments, size_t segment_count,
                                uint32_t *ids, size_t capacity, size_t *count,
                                struct lr_error *err)
{
    struct tokenizer_ids list;
    lr_code code =
        serving_engine_encode(m->vocabulary.tokenizer, segments, segment_count, &list, err);

    *count = 0;
    if (code != LR_OK)
        return code;
    *count = list.count;
    size_t n = list.count < capacity ? list.count : capacity;
    if (n > 0)
        memcpy(ids, list.items, n * sizeof(*ids));
    tokenizer_ids_free(&list);
    return LR_OK;
}

/* What was counted with last: a process counts for one model, again and again, and its end
 * frees the tokenizer. */
static struct {
    struct tokenizer *tokenizer; /* owned */
    char dir[LR_PATH_MAX];
} request_counted;

static lr_code read_counted(const char *dir, struct lr_error *err)
{
    if (request_counted.tokenizer != NULL && strcmp(request_counted.dir, dir) == 0)
        return LR_OK;
    tokenizer_free(request_counted.tokenizer);
    request_counted.tokenizer = NULL;
    LR_COPY(request_counted.dir, lr_str_z(dir));
    return serving_tokenizer_open(dir, &request_counted.tokenizer, err);
}

lr_code serving_engine_count(const char *dir, const struct lr_engine_options *options,
                             const struct lr_segment *segments, size_t segment_count,
                             uint64_t *count, struct lr_error *err)
{
    struct tokenizer_ids list;
    lr_code code = read_counted(dir, err);

    (void)options;
    *count = 0;
    if (code == LR_OK)
        code = serving_engine_encode(request_counted.tokenizer, segments, segment_count, &list,
                                     err);
    if (code != LR_OK)
        return code;
    *count = list.count;
    tokenizer_ids_free(&list);
    return LR_OK;
}

/* ---- submit, cancel ---- */

/* True: the thread tokenizes the prompt, and a step goes on with it.  *code: an error. */
static bool read_beside(struct lr_engine_model *m, const struct lr_engine_request *r,
                        lr_code *code, struct lr_error *err)
{
    struct engine_sequence *seq;
    size_t bytes = 0;

    for (size_t i = 0; i < r->segment_count; i++)
        bytes += r->segments[i].len;
    if (bytes <= SERVING_READING_LEAST || bytes > TOKENIZER_MAX_TEXT ||
        m->vocabulary.tokenizer == NULL)
        return false;
    *code = engine_session_await(&m->session, r, &seq, err);
    if (*code != LR_OK)
        return true;
    if (serving_reading_begin(&m->reading, seq->arrival, r->segments, r->segment_count))
        return true;
    engine_queue_end(&m->scheduler.queue, seq);
    engine_sequence_destroy(seq);
    return false;
}

static lr_code serving_submit(struct lr_engine_model *m,
                              const struct lr_engine_request *request, struct lr_error *err)
{
    struct lr_engine_request r;
    struct tokenizer_ids list;

    ENGINE_COPY_SIZED(&r, request);
    lr_code code = engine_session_accept(&m->session, &r, err);
    if (code != LR_OK)
        return code;
    if (r.prompt_ids != NULL)
        return engine_session_submit(&m->session, &r, r.prompt_ids, r.prompt_id_count, err);
    if (r.kind == LR_REQUEST_RERANK)
        return serving_pair_submit(m, &r, err);
    if (read_beside(m, &r, &code, err))
        return code;
    code =
        serving_engine_encode(m->vocabulary.tokenizer, r.segments, r.segment_count, &list, err);
    if (code != LR_OK)
        return code;
    code = engine_session_submit(&m->session, &r, list.items, list.count, err);
    tokenizer_ids_free(&list);
    return code;
}

lr_code serving_engine_submit(struct lr_engine_model *m,
                              const struct lr_engine_request *request, struct lr_error *err)
{
    lr_code code = serving_submit(m, request, err);
    if (code != LR_OK)
        lr_error_tell(&m->session.host, err);
    return code;
}

void serving_engine_cancel(struct lr_engine_model *m, uint64_t id)
{
    engine_session_cancel(&m->session, id);
    if (!m->session.stepping)
        serving_scheduler_settle(&m->scheduler);
}
