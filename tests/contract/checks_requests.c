/* tests/contract/checks_requests.c - generation: counts, order, repetition, cancel. */
#include <stdlib.h>
#include <string.h>

#include "tests/contract/conformance.h"

static const struct lr_segment story = {.text = "Once upon a time there was a router",
                                        .len = 35};
static const struct lr_segment other = {.text = "The quick brown fox", .len = 19};

static size_t count_prompt(struct run *run, const struct lr_engine_model *model,
                           const struct lr_segment *segment)
{
    size_t count = 0;
    struct lr_error err;
    if (!LR_ENGINE_HAS(run->api, tokenize))
        return 0;
    EXPECT(run, run->api->tokenize(model, segment, 1, NULL, 0, &count, &err) == LR_OK,
           "tokenize");
    if (LR_ENGINE_HAS(run->api, count_tokens)) {
        struct lr_engine_options options = conformance_options(run);
        uint64_t counted = 0;
        EXPECT(run,
               run->api->count_tokens(run->model_dir, &options, segment, 1, &counted, &err) ==
                       LR_OK &&
                   counted == count,
               "count_tokens says %llu, tokenize %zu", (unsigned long long)counted, count);
    }
    return count;
}

static void expect_usage(struct run *run, const struct seen *s, size_t prompt,
                         size_t generated_before)
{
    EXPECT(run, prompt == 0 || s->usage.prompt_tokens == prompt, "prompt_tokens %u, not %zu",
           s->usage.prompt_tokens, prompt);
    EXPECT(run, s->usage.completion_tokens == s->token_count + generated_before,
           "completion_tokens %u, but %u were given and %zu before", s->usage.completion_tokens,
           s->token_count, generated_before);
    EXPECT(run, s->usage.cached_tokens <= s->usage.prompt_tokens, "cached_tokens %u",
           s->usage.cached_tokens);
}

void check_generate(struct run *run)
{
    struct lr_engine_model *model = conformance_open(run);
    if (model == NULL)
        return;
    struct lr_engine_request request = conformance_request(11, &story, 40);
    struct seen *s = conformance_complete(run, model, &request);
    EXPECT(run, s->token_count >= 1, "no token");
    EXPECT(run, s->reason == LR_FINISH_STOP || s->reason == LR_FINISH_LENGTH, "reason %d",
           (int)s->reason);
    expect_usage(run, s, count_prompt(run, model, &story), 0);
    EXPECT(run, s->prefill_total == 0 || s->prefill_done == s->prefill_total,
           "prefill ended at %u of %u", s->prefill_done, s->prefill_total);
    conformance_expect_idle(run, model);
    /* An idle step is harmless. */
    EXPECT(run, conformance_drain(run, model, 2), "an idle engine says it is busy");
    conformance_close(run, model);
}

void check_length(struct run *run)
{
    struct lr_engine_model *model = conformance_open(run);
    if (model == NULL)
        return;
    for (uint32_t n = 1; n <= 5; n += 2) {
        struct lr_engine_request request = conformance_request(n, &story, n);
        request.ignore_stop = 1;
        struct seen *s = conformance_complete(run, model, &request);
        EXPECT(run, s->token_count == n && s->reason == LR_FINISH_LENGTH,
               "max_tokens %u gave %u tokens, reason %d", n, s->token_count, (int)s->reason);
        expect_usage(run, s, 0, 0);
    }
    /* 0: to the end of the context, and not one further. */
    struct lr_engine_request request = conformance_request(99, &story, 0);
    request.ignore_stop = 1;
    struct seen *s = conformance_complete(run, model, &request);
    EXPECT(run, s->usage.prompt_tokens + s->token_count <= 512 && s->token_count > 100,
           "%u tokens of prompt and %u generated in a context of 512", s->usage.prompt_tokens,
           s->token_count);
    conformance_expect_idle(run, model);
    conformance_close(run, model);
}

static struct lr_engine_request random_request(uint64_t id, const struct lr_segment *segment)
{
    struct lr_engine_request request = conformance_request(id, segment, 24);
    request.ignore_stop = 1;
    request.sampling.temperature = 0.9f;
    request.sampling.top_p = 0.95f;
    request.sampling.seed = 12345;
    return request;
}

static void expect_same(struct run *run, const uint32_t *a, uint32_t a_count, const uint32_t *b,
                        uint32_t b_count, const char *what)
{
    uint32_t i = 0;
    while (i < a_count && i < b_count && a[i] == b[i])
        i++;
    EXPECT(run, a_count == b_count && i == a_count,
           "%s: %u and %u tokens, differing from %u on", what, a_count, b_count, i);
}

void check_repeatable(struct run *run)
{
    struct lr_engine_model *model = conformance_open(run);
    if (model == NULL)
        return;
    struct lr_engine_request first = random_request(1, &story);
    struct lr_engine_request second = random_request(2, &story);
    struct seen *a = conformance_complete(run, model, &first);
    struct seen *b = conformance_complete(run, model, &second);
    expect_same(run, a->tokens, a->token_count, b->tokens, b->token_count, "the same seed");
    conformance_close(run, model);
}

void check_continuation(struct run *run)
{
    struct lr_engine_model *model = conformance_open(run);
    if (model == NULL)
        return;
    struct lr_engine_request whole = random_request(1, &story);
    struct seen *a = conformance_complete(run, model, &whole);
    for (uint32_t cut = 1; cut < a->token_count; cut += 7) {
        struct lr_engine_request rest = random_request(100 + cut, &story);
        rest.generated = a->tokens;
        rest.generated_count = cut;
        struct seen *b = conformance_complete(run, model, &rest);
        expect_same(run, a->tokens + cut, a->token_count - cut, b->tokens, b->token_count,
                    "continued");
        expect_usage(run, b, 0, cut);
    }
    conformance_expect_idle(run, model);
    conformance_close(run, model);
}

void check_two_at_once(struct run *run)
{
    struct lr_error err;
    struct lr_engine_model *model = conformance_open(run);
    if (model == NULL)
        return;
    struct lr_engine_request r1 = random_request(1, &story), r2 = random_request(2, &other);
    struct seen *a = conformance_complete(run, model, &r1);
    struct seen *b = conformance_complete(run, model, &r2);
    /* More than max_sequences at once: the engine queues. */
    for (uint64_t id = 10; id < 17; id++) {
        struct lr_engine_request r = random_request(id, id % 2 == 0 ? &story : &other);
        EXPECT(run, run->api->submit(model, &r, &err) == LR_OK, "submit %s", err.text);
    }
    (void)conformance_drain(run, model, 100000);
    for (uint64_t id = 10; id < 17; id++) {
        const struct seen *s = conformance_seen(run, id), *alone = id % 2 == 0 ? a : b;
        EXPECT(run, s->done_count == 1, "request %llu ended %u times", (unsigned long long)id,
               s->done_count);
        if (run->is_invariant)
            expect_same(run, alone->tokens, alone->token_count, s->tokens, s->token_count,
                        "in a batch");
    }
    conformance_expect_idle(run, model);
    conformance_close(run, model);
}

void check_cancel(struct run *run)
{
    struct lr_error err;
    int32_t busy;
    struct lr_engine_model *model = conformance_open(run);
    if (model == NULL)
        return;
    /* After `stage` steps: before the first, amid a prefill in chunks of 8, in decode. */
    for (uint32_t stage = 0; stage < 10; stage++) {
        uint64_t id = 1 + stage;
        struct lr_engine_request request = conformance_request(id, &story, 60);
        request.ignore_stop = 1;
        struct seen *s = conformance_seen(run, id);
        EXPECT(run, run->api->submit(model, &request, &err) == LR_OK, "submit");
        for (uint32_t i = 0; i < stage; i++)
            EXPECT(run, conformance_step(run, model, &busy, &err) == LR_OK, "step");
        run->api->cancel(model, id);
        EXPECT(run, s->done_count == 1 && s->reason == LR_FINISH_CANCELLED,
               "after %u steps: on_done came %u times, reason %d", stage, s->done_count,
               (int)s->reason);
        expect_usage(run, s, 0, 0);
        conformance_expect_idle(run, model);
        run->api->cancel(model, id); /* it has ended: nothing happens */
        (void)conformance_drain(run, model, 10);
        EXPECT(run, s->done_count == 1 && s->after_done == 0, "callbacks after cancel");
    }
    run->api->cancel(model, 987654321);
    /* A cancelled neighbour is not felt. */
    struct lr_engine_request keep = random_request(50, &story), go = random_request(51, &other);
    struct seen *alone = conformance_complete(run, model, &keep);
    keep.id = 52;
    EXPECT(run, run->api->submit(model, &keep, &err) == LR_OK, "submit");
    EXPECT(run, run->api->submit(model, &go, &err) == LR_OK, "submit");
    for (int i = 0; i < 8; i++)
        (void)conformance_step(run, model, &busy, &err);
    run->api->cancel(model, 51);
    (void)conformance_drain(run, model, 100000);
    const struct seen *kept = conformance_seen(run, 52);
    if (run->is_invariant)
        expect_same(run, alone->tokens, alone->token_count, kept->tokens, kept->token_count,
                    "beside a cancelled request");
    conformance_close(run, model);
}

void check_constrained(struct run *run)
{
    struct lr_error err = {0};
    struct lr_engine_model *model = conformance_open(run);
    if (model == NULL)
        return;
    struct lr_engine_request one = random_request(60, &story), two = random_request(61, &other);
    one.constrained = two.constrained = 1;
    one.ignore_stop = two.ignore_stop = 1;
    lr_code code = run->api->submit(model, &one, &err);
    if (code == LR_OK) {
        EXPECT(run, run->api->submit(model, &two, &err) == LR_OK, "submit");
        (void)conformance_drain(run, model, 100000);
        for (uint64_t id = 60; id <= 61; id++) {
            const struct seen *s = conformance_seen(run, id);
            EXPECT(run, s->done_count == 1 && s->token_count == one.max_tokens, "%u tokens",
                   s->token_count);
            for (uint32_t i = 0; i < s->token_count; i++)
                EXPECT(run, s->tokens[i] == conformance_legal(i), "token %u is %u", i,
                       s->tokens[i]);
            EXPECT(run, s->masks_late == 0, "%u masks were asked for out of turn",
                   s->masks_late);
        }
    } else {
        EXPECT(run, code == LR_UNSUPPORTED && err.text[0] != '\0', "code %d", (int)code);
    }
    conformance_expect_idle(run, model);
    conformance_close(run, model);
}

/* One request waits for each of its masks; the other two, one of them without masks, end long
 * before it. */
void check_slow_masks(struct run *run)
{
    enum { SLOW = 70, QUICK, FREE };
    struct lr_error err = {0};
    uint32_t steps[3] = {0}, step = 0;
    int32_t busy = 1;
    struct lr_engine_model *model = conformance_open(run);
    if (model == NULL)
        return;
    for (uint64_t id = SLOW; id <= FREE; id++) {
        struct lr_engine_request r = random_request(id, &story);
        r.constrained = id != FREE;
        r.ignore_stop = 1;
        lr_code code = run->api->submit(model, &r, &err);
        EXPECT(run, code == LR_OK || code == LR_UNSUPPORTED, "submit %d", (int)code);
        if (code != LR_OK) {
            conformance_close(run, model);
            return;
        }
    }
    run->slow_masks = SLOW;
    for (; busy != 0 && step < 100000; step++) {
        lr_code code = conformance_step(run, model, &busy, &err);
        EXPECT(run, code == LR_OK, "step: %s", err.text);
        for (uint64_t id = SLOW; id <= FREE; id++)
            steps[id - SLOW] += conformance_seen(run, id)->done_count == 0;
    }
    run->slow_masks = 0;
    const struct seen *slow = conformance_seen(run, SLOW);
    /* An engine that asks by fill_mask has no slow masks. */
    EXPECT(run, slow->sat_out == 0 || slow->sat_out == 2 * slow->token_count,
           "%u unfinished masks for %u tokens", slow->sat_out, slow->token_count);
    EXPECT(run, slow->sat_out == 0 || steps[0] >= slow->sat_out + slow->token_count - 1,
           "%u steps for %u masks", steps[0], slow->sat_out);
    EXPECT(run, slow->sat_out == 0 || (2 * steps[1] < steps[0] && 2 * steps[2] < steps[0]),
           "the others waited: %u, %u, %u steps", steps[0], steps[1], steps[2]);
    for (uint64_t id = SLOW; id <= FREE; id++) {
        const struct seen *s = conformance_seen(run, id);
        EXPECT(run, s->done_count == 1 && s->token_count != 0 && s->masks_late == 0,
               "request %u: %u tokens, %u masks out of turn", (unsigned)id, s->token_count,
               s->masks_late);
        for (uint32_t i = 0; id != FREE && i < s->token_count; i++)
            EXPECT(run, s->tokens[i] == conformance_legal(i), "token %u is %u", i,
                   s->tokens[i]);
    }
    conformance_expect_idle(run, model);
    conformance_close(run, model);
}

void check_storm(struct run *run)
{
    struct lr_error err;
    int32_t busy;
    unsigned seed = 1;
    struct lr_engine_model *model = conformance_open(run);
    if (model == NULL)
        return;
    for (int round = 0; round < 20; round++) {
        conformance_forget(run);
        for (uint64_t id = 1; id <= 16; id++) {
            struct lr_engine_request r = conformance_request(
                id, rand_r(&seed) % 2 != 0 ? &story : &other, 1 + (uint32_t)rand_r(&seed) % 20);
            EXPECT(run, run->api->submit(model, &r, &err) == LR_OK, "submit %s", err.text);
            for (int i = rand_r(&seed) % 3; i > 0; i--)
                (void)conformance_step(run, model, &busy, &err);
            if (rand_r(&seed) % 2 == 0)
                run->api->cancel(model, 1 + (uint64_t)rand_r(&seed) % id);
        }
        (void)conformance_drain(run, model, 100000);
        for (uint64_t id = 1; id <= 16; id++) {
            const struct seen *s = conformance_seen(run, id);
            EXPECT(run, s->done_count == 1 && s->after_done == 0, "request %llu ended %u times",
                   (unsigned long long)id, s->done_count);
        }
        conformance_expect_idle(run, model);
    }
    conformance_close(run, model);
}
