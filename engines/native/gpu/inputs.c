/* native/gpu/inputs.c - what a step tells the kernels: its tokens, tables and angles. */
#include <stdlib.h>
#include <string.h>

#include "engines/native/gpu/gpu.h"
#include "engines/native/spec/angles.h"

/* Tokens whose rows go on behind the last operation with state. */
static bool is_kept(enum native_pool pool, const struct serving_step *s, uint32_t position)
{
    bool last = position + 1 == s->position + s->count;

    if (pool != NATIVE_NO_POOL)
        return s->vector != NULL &&
               (pool == NATIVE_POOL_MEAN || (pool == NATIVE_POOL_LAST ? last : position == 0));
    return s->logits != NULL || (s->sample != NULL && last);
}

static void list_kept(struct native_gpu_run *run)
{
    uint32_t row = 0;

    for (uint32_t i = 0; i < run->batch->count; i++) {
        const struct serving_step *s = &run->batch->steps[i];
        uint32_t before = run->kept_count;
        for (uint32_t k = 0; k < s->count; k++, row++)
            if (is_kept(run->b->spec->pool, s, s->position + k))
                run->kept[run->kept_count++] =
                    (struct native_gpu_kept){row, i, s->position + k};
        run->text_count += run->kept_count > before ? 1 : 0;
        if (s->position + s->count > run->longest)
            run->longest = s->position + s->count;
    }
}

static uint32_t take(uint32_t *used, uint32_t words)
{
    uint32_t at = *used;

    *used += words;
    return at;
}

static void lay_out(struct native_gpu_run *run)
{
    const struct native_spec *s = run->b->spec;
    struct native_gpu_inputs *at = &run->at;
    uint32_t tables = 0;

    for (uint32_t i = 0; i < run->batch->count; i++)
        tables += run->batch->steps[i].page_count * s->kind_count;
    at->tokens = take(&at->words, run->tokens * NATIVE_TOKEN_WORDS);
    at->kept = take(&at->words, run->kept_count * NATIVE_TOKEN_WORDS);
    at->steps = take(&at->words, run->steps * NATIVE_STEP_WORDS);
    at->texts = take(&at->words, run->text_count * 2);
    at->tables = take(&at->words, tables);
    for (uint32_t i = 0; i < s->rope_count; i++) {
        at->ropes[i] = take(&at->words, run->tokens * s->ropes[i].dims);
        at->kept_ropes[i] = take(&at->words, run->kept_count * s->ropes[i].dims);
    }
}

static uint32_t embedded_id(const struct native_spec *s, uint32_t id)
{
    for (uint32_t i = 0; i < s->placeholder_count; i++)
        if (s->placeholders[i] == id)
            return s->padding;
    return id;
}

static struct native_gpu_token *token_at(uint32_t *words, uint32_t at, uint32_t i)
{
    return (struct native_gpu_token *)(void *)(words + at) + i;
}

static void write_steps(const struct native_gpu_run *run, uint32_t *words)
{
    uint32_t row = 0, table = run->at.tables;

    for (uint32_t i = 0; i < run->batch->count; i++) {
        const struct serving_step *s = &run->batch->steps[i];
        const struct native_gpu_step record = {s->slot, row, s->count, 0};
        memcpy(words + run->at.steps + (size_t)i * NATIVE_STEP_WORDS, &record, sizeof(record));
        for (uint32_t k = 0; k < s->count; k++, row++)
            *token_at(words, run->at.tokens, row) = (struct native_gpu_token){
                .id = embedded_id(run->b->spec, s->tokens[k]),
                .position = s->position + k,
                .last = s->position + s->count - 1,
                .table = table,
                .pages = s->page_count,
                .part = s->second != 0 && s->position + k >= s->second,
            };
        for (uint32_t k = 0; k < run->b->spec->kind_count; k++, table += s->page_count)
            memcpy(words + table, s->pages[k], s->page_count * sizeof(*words));
    }
}

static void write_angles(const struct native_gpu_run *run, uint32_t *words)
{
    const struct native_spec *s = run->b->spec;
    uint32_t row = 0;

    for (uint32_t i = 0; i < run->batch->count; i++)
        for (uint32_t k = 0; k < run->batch->steps[i].count; k++, row++)
            for (uint32_t t = 0; t < s->rope_count; t++)
                native_angles(&s->ropes[t], run->batch->steps[i].prompt,
                              run->batch->steps[i].position + k,
                              (float *)(void *)(words + run->at.ropes[t] +
                                                (size_t)row * s->ropes[t].dims));
}

static void write_kept(const struct native_gpu_run *run, uint32_t *words)
{
    const struct native_spec *s = run->b->spec;
    uint32_t text = 0;

    for (uint32_t i = 0; i < run->kept_count; i++) {
        uint32_t row = run->kept[i].row;
        *token_at(words, run->at.kept, i) = *token_at(words, run->at.tokens, row);
        for (uint32_t t = 0; t < s->rope_count; t++)
            memcpy(words + run->at.kept_ropes[t] + (size_t)i * s->ropes[t].dims,
                   words + run->at.ropes[t] + (size_t)row * s->ropes[t].dims,
                   s->ropes[t].dims * sizeof(*words));
        text += i > 0 && run->kept[i].step != run->kept[i - 1].step ? 1 : 0;
        if (i == 0 || run->kept[i].step != run->kept[i - 1].step)
            words[run->at.texts + 2 * text] = i;
        words[run->at.texts + 2 * text + 1] = i + 1;
    }
}

lr_code native_gpu_inputs_write(struct native_gpu_run *run, struct lr_error *err)
{
    uint32_t *words = run->b->host->mapped(run->b->to_device);
    uint64_t room = native_gpu_room_bytes(run->b->spec, &run->b->plan, NATIVE_ROOM_INPUTS) / 4;

    run->tokens = run->batch->tokens;
    run->steps = run->batch->count;
    run->kept = calloc(run->tokens + 1, sizeof(*run->kept));
    if (run->kept == NULL)
        return lr_fail(err, LR_OUT_OF_RAM, "no memory for a step");
    list_kept(run);
    lay_out(run);
    if (run->at.words > room)
        return lr_fail(err, LR_INTERNAL, "a step has %u words of inputs; planned %llu",
                       run->at.words, (unsigned long long)room);
    write_steps(run, words);
    write_angles(run, words);
    write_kept(run, words);
    return LR_OK;
}
