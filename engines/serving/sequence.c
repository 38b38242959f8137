/* serving/sequence.c - see sequence.h. */
#include "engines/serving/sequence.h"

#include <stdlib.h>
#include <string.h>

#include "base/fail.h"
#include "base/sha256.h"

static void *copy_array(const void *from, size_t count, size_t size)
{
    void *to = calloc(count + 1, size);

    if (to != NULL && count > 0)
        memcpy(to, from, count * size);
    return to;
}

/* Most ids of the sequence: the request's max_tokens, within the context. */
static uint32_t common_sequence_limit_of(const struct lr_engine_request *r, size_t prompt,
                                         uint32_t context)
{
    uint64_t asked = r->max_tokens != 0 ? (uint64_t)prompt + r->max_tokens : context;

    return asked < context ? (uint32_t)asked : context;
}

/* The scope's number, from SHA-256: a client cannot choose a scope that collides with another.
 */
static uint64_t scope_of(const char *scope)
{
    unsigned char digest[LR_SHA256_LEN];
    uint64_t number = 0;

    if (scope == NULL)
        return 0;
    lr_sha256_of(lr_str_z(scope), digest);
    memcpy(&number, digest, sizeof(number));
    return (number | 2) & ~(uint64_t)1;
}

lr_code engine_sequence_create(const struct lr_engine_request *r, const uint32_t *ids,
                               size_t count, uint32_t context, uint32_t vocab,
                               struct engine_sequence **out, struct lr_error *err)
{
    struct engine_sequence *seq = calloc(1, sizeof(*seq));
    size_t words = ((size_t)vocab + 31) / 32;
    bool ok = seq != NULL;

    *out = NULL;
    if (ok) {
        seq->id = r->id;
        seq->kind = r->kind;
        seq->dimensions = r->dimensions;
        seq->priority = r->priority;
        seq->prompt_count = (uint32_t)count;
        seq->count = (uint32_t)(count + r->generated_count);
        seq->capacity = seq->count + 64;
        seq->limit = common_sequence_limit_of(r, count, context);
        seq->ignore_stop = r->ignore_stop != 0;
        seq->cache_scope = scope_of(r->cache_scope);
        seq->sampling = r->sampling;
        seq->sampling.logit_bias =
            copy_array(r->sampling.logit_bias, r->sampling.logit_bias_count,
                       sizeof(*r->sampling.logit_bias));
        seq->stop_ids = copy_array(r->stop_ids, r->stop_id_count, sizeof(*r->stop_ids));
        seq->stop_id_count = r->stop_id_count;
        seq->mask = r->constrained ? calloc(words, sizeof(*seq->mask)) : NULL;
        seq->ids = calloc(seq->capacity, sizeof(*seq->ids));
        ok = seq->sampling.logit_bias != NULL && seq->stop_ids != NULL && seq->ids != NULL &&
             (seq->mask != NULL || !r->constrained);
    }
    if (!ok) {
        engine_sequence_destroy(seq);
        return lr_fail(err, LR_OUT_OF_RAM, "no memory for a request of %zu tokens", count);
    }
    if (count > 0)
        memcpy(seq->ids, ids, count * sizeof(*ids));
    if (r->generated_count > 0)
        memcpy(seq->ids + count, r->generated, r->generated_count * sizeof(*ids));
    *out = seq;
    return LR_OK;
}

bool engine_sequence_prompt(struct engine_sequence *seq, const uint32_t *ids, size_t count,
                            uint32_t context)
{
    uint32_t total = (uint32_t)count + seq->count;
    uint32_t *list = calloc((size_t)total + 64, sizeof(*list));

    if (list == NULL)
        return false;
    memcpy(list, ids, count * sizeof(*ids));
    memcpy(list + count, seq->ids, seq->count * sizeof(*ids));
    free(seq->ids);
    seq->ids = list;
    seq->count = total;
    seq->capacity = total + 64;
    seq->prompt_count = (uint32_t)count;
    /* Without a prompt the limit was max_tokens, or the context. */
    seq->limit = seq->limit + count < context ? seq->limit + (uint32_t)count : context;
    return true;
}

void engine_sequence_destroy(struct engine_sequence *seq)
{
    if (seq == NULL)
        return;
    free((void *)(uintptr_t)
             seq->sampling.logit_bias); /* owned; const only in the ABI's struct */
    free(seq->stop_ids);
    free(seq->mask);
    free(seq->ids);
    free(seq);
}

bool engine_sequence_append(struct engine_sequence *seq, uint32_t id)
{
    if (seq->count == seq->capacity) {
        uint32_t more = seq->capacity + seq->capacity / 2;
        uint32_t *ids = realloc(seq->ids, more * sizeof(*ids));
        if (ids == NULL)
            return false;
        seq->ids = ids;
        seq->capacity = more;
    }
    seq->ids[seq->count++] = id;
    return true;
}
