/* llamacpp/engine_vector.c - embeddings and scores: the ids of their texts, and their results.
 *
 * The texts get the same special tokens as in llama.cpp's own server.  Text of a client never
 * becomes a control token.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/fail.h"
#include "engines/llamacpp/model.h"

/* ---- ids ---- */

/* Appends ids, then the special tokens of `ends` that the vocabulary has; frees `from`. */
static bool engine_vector_append(struct llamacpp_ids *to, struct llamacpp_ids *from,
                                 size_t skip, const int32_t *ends, size_t end_count)
{
    size_t room = to->count + from->count + end_count + 1;
    uint32_t *items = realloc(to->items, room * sizeof(*items));

    if (items != NULL) {
        to->items = items;
        to->capacity = room;
        if (from->count > skip)
            memcpy(items + to->count, from->items + skip,
                   (from->count - skip) * sizeof(*items));
        to->count += from->count > skip ? from->count - skip : 0;
        for (size_t i = 0; i < end_count; i++)
            if (ends[i] >= 0)
                items[to->count++] = (uint32_t)ends[i];
    }
    free(from->items);
    *from = (struct llamacpp_ids){0};
    return items != NULL;
}

static lr_code engine_vector_no_memory(struct llamacpp_ids *ids, struct lr_error *err)
{
    free(ids->items);
    *ids = (struct llamacpp_ids){0};
    return lr_fail(err, LR_OUT_OF_RAM, "no memory for the tokens of a text");
}

/* "<bos> text <eos>", with <sep> for <eos> where the vocabulary ends texts with it. */
static lr_code embed_ids(const struct llamacpp_vocabulary *v, const struct lr_engine_request *r,
                         size_t max_bytes, struct llamacpp_ids *out, struct lr_error *err)
{
    struct llamacpp_ids text;
    int32_t end = v->eos >= 0 ? v->eos : v->sep;
    lr_code code = llamacpp_tokenize(v, r->segments, r->segment_count, max_bytes, &text, err);

    if (code != LR_OK || text.count == 0)
        return code;
    return engine_vector_append(out, &text, 0, &end, 1) ? LR_OK
                                                        : engine_vector_no_memory(out, err);
}

/* "<bos> query <eos> <sep> document <eos>". */
static lr_code pair_ids(const struct llamacpp_vocabulary *v, const struct lr_engine_request *r,
                        size_t max_bytes, struct llamacpp_ids *out, struct lr_error *err)
{
    const int32_t between[] = {v->eos, v->sep}, end = v->eos >= 0 ? v->eos : v->sep;
    struct llamacpp_ids query, document;
    lr_code code = llamacpp_tokenize(v, r->segments, r->segment_count, max_bytes, &query, err);

    if (code != LR_OK)
        return code;
    if (!engine_vector_append(out, &query, 0, between, 2))
        return engine_vector_no_memory(out, err);
    code = llamacpp_tokenize(v, r->document, r->document_count, max_bytes, &document, err);
    if (code != LR_OK) {
        free(out->items);
        *out = (struct llamacpp_ids){0};
        return code;
    }
    size_t skip = v->bos >= 0 && document.count > 0 && document.items[0] == (uint32_t)v->bos;
    return engine_vector_append(out, &document, skip, &end, 1)
               ? LR_OK
               : engine_vector_no_memory(out, err);
}

/* The prompt of a model that has one for ranking: its "{query}" and "{document}" are replaced,
 * and control tokens are recognised in the rest. */
static lr_code prompt_ids(const struct llamacpp_vocabulary *v, const char *prompt,
                          const struct lr_engine_request *r, size_t max_bytes,
                          struct llamacpp_ids *out, struct lr_error *err)
{
    enum { PLACES_MAX = 8 };
    size_t most = PLACES_MAX * (r->segment_count + r->document_count + 1) + 1, count = 0;
    struct lr_segment *all = calloc(most, sizeof(*all));
    struct lr_str rest = lr_str_z(prompt);
    size_t bytes = rest.len;

    if (all == NULL)
        return engine_vector_no_memory(out, err);
    for (int places = 0; rest.len != 0; places++) {
        const char *q = strstr(rest.ptr, "{query}"), *d = strstr(rest.ptr, "{document}");
        bool is_query = q != NULL && (d == NULL || q < d);
        const char *at = places == PLACES_MAX ? NULL : is_query ? q : d;
        size_t len = at != NULL ? (size_t)(at - rest.ptr) : rest.len;
        const struct lr_segment *put = is_query ? r->segments : r->document;
        size_t put_count = at == NULL ? 0 : is_query ? r->segment_count : r->document_count;
        all[count++] = (struct lr_segment){.text = rest.ptr, .len = len, .control = 1};
        for (size_t i = 0; i < put_count; i++) {
            all[count] = put[i];
            all[count++].control = 0;
            bytes += put[i].len;
        }
        rest = at == NULL ? lr_str("", 0)
                          : lr_str_z(at + strlen(is_query ? "{query}" : "{document}"));
    }
    lr_code code = llamacpp_tokenize(v, all, count, bytes + max_bytes, out, err);
    free(all);
    return code;
}

lr_code llamacpp_vector_ids(const struct lr_engine_model *m, const struct lr_engine_request *r,
                            size_t max_bytes, struct llamacpp_ids *out, struct lr_error *err)
{
    const struct llamacpp_vocabulary *v = &m->vocabulary;

    *out = (struct llamacpp_ids){0};
    if (r->kind == LR_REQUEST_EMBED)
        return embed_ids(v, r, max_bytes, out, err);
    const char *prompt = m->lib->llama_model_chat_template(m->llama, "rerank");
    return prompt != NULL ? prompt_ids(v, prompt, r, max_bytes, out, err)
                          : pair_ids(v, r, max_bytes, out, err);
}

/* ---- results ---- */

/* A head with one output gives a logit.  A head with several gives a logit for each class, or
 * their probabilities; the first class is "relevant". */
static float score_of(const float *values, uint32_t count)
{
    double sum = 0, exponents = 0;
    bool is_share = true;

    if (count == 1)
        return (float)(1.0 / (1.0 + exp(-(double)values[0])));
    for (uint32_t i = 0; i < count; i++) {
        is_share = is_share && values[i] >= 0 && values[i] <= 1;
        sum += (double)values[i];
        exponents += exp((double)values[i] - (double)values[0]);
    }
    return is_share && fabs(sum - 1) < 1e-3 ? values[0] : (float)(1.0 / exponents);
}

void llamacpp_vector_tell(struct lr_engine_model *m, struct engine_sequence *seq)
{
    const float *values = m->lib->llama_get_embeddings_seq(m->context, (llama_seq_id)seq->slot);
    struct lr_error error;

    if (values == NULL) {
        lr_fail(&error, LR_INTERNAL, "libllama gives no vector for a sequence");
        engine_session_finish(&m->session, seq, LR_FINISH_ERROR, &error);
    } else if (seq->kind == LR_REQUEST_RERANK) {
        float score = score_of(values, m->lib->llama_model_n_cls_out(m->llama));
        engine_session_tell_vector(&m->session, seq, &score, 1);
    } else {
        engine_session_tell_vector(&m->session, seq, values, m->session.dimensions);
    }
}
