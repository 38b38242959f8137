/* serving/pair.c - a query and a document as the ids of one text: RERANK. */
#include <string.h>

#include "base/fail.h"
#include "engines/serving/model.h"

enum { PARTS = 5 };

/* The tokenizer's form of two texts; *second: ids before the second one. */
static lr_code encode_wrapped(const struct tokenizer *t, const struct lr_engine_request *r,
                              struct tokenizer_ids *ids, uint32_t *second, struct lr_error *err)
{
    tokenizer_add_wrapping(t, true, ids);
    lr_code code = tokenizer_encode_segments(t, r->segments, r->segment_count, ids, err);
    if (code != LR_OK)
        return code;
    tokenizer_add_between(t, ids);
    *second = (uint32_t)ids->count;
    code = tokenizer_encode_segments(t, r->document, r->document_count, ids, err);
    tokenizer_add_wrapping(t, false, ids);
    return code;
}

/* All segments of a text as one, without control tokens.  The buffer keeps it. */
static struct lr_segment whole(const struct lr_segment *segments, size_t count,
                               struct lr_buf *text)
{
    size_t from = text->len;

    for (size_t i = 0; i < count; i++)
        lr_buf_add(text, segments[i].text, segments[i].len);
    return (struct lr_segment){.text = text->data + from, .len = text->len - from};
}

static struct lr_segment trusted(const char *text)
{
    return (struct lr_segment){.text = text, .len = strlen(text), .control = 1};
}

/* A prompt that asks whether the document answers the query. */
static lr_code encode_question(const struct tokenizer *t, const struct serving_pair *form,
                               const struct lr_engine_request *r, struct tokenizer_ids *ids,
                               struct lr_error *err)
{
    struct lr_buf query, document;

    lr_buf_init(&query, TOKENIZER_MAX_TEXT);
    lr_buf_init(&document, TOKENIZER_MAX_TEXT);
    const struct lr_segment parts[PARTS] = {
        trusted(form->before), whole(r->segments, r->segment_count, &query),
        trusted(form->between), whole(r->document, r->document_count, &document),
        trusted(form->after)};
    lr_code code = query.failed || document.failed
                       ? lr_fail(err, LR_OUT_OF_RAM, "no memory for a query and its document")
                       : tokenizer_encode_segments(t, parts, PARTS, ids, err);
    lr_buf_free(&query);
    lr_buf_free(&document);
    return code;
}

lr_code serving_pair_submit(struct lr_engine_model *m, const struct lr_engine_request *r,
                            struct lr_error *err)
{
    const struct tokenizer *t = m->vocabulary.tokenizer;
    struct tokenizer_ids ids;
    uint32_t second = 0;

    if (t == NULL)
        return lr_fail(err, LR_UNSUPPORTED, "the model has no tokenizer: it ranks no texts");
    tokenizer_ids_init(&ids, TOKENIZER_MAX_TEXT);
    lr_code code = m->pair.before != NULL ? encode_question(t, &m->pair, r, &ids, err)
                                          : encode_wrapped(t, r, &ids, &second, err);
    if (code == LR_OK && ids.failed)
        code = lr_fail(err, LR_OUT_OF_RAM, "no memory for the ids of a query and its document");
    if (code == LR_OK)
        code = engine_session_submit(&m->session, r, ids.items, ids.count, err);
    if (code == LR_OK)
        engine_queue_find(m->session.queue, r->id)->second = second;
    tokenizer_ids_free(&ids);
    return code;
}
