/* tests/contract/checks_bounds.c - what an engine must refuse, and its vocabulary. */
#include <stdlib.h>
#include <string.h>

#include "tests/contract/conformance.h"

static const struct lr_segment hello = {.text = "Hello", .len = 5};

static void expect_code(struct run *run, struct lr_engine_model *model,
                        const struct lr_engine_request *request, lr_code wanted,
                        const char *what)
{
    struct lr_error err = {0};
    lr_code code = run->api->submit(model, request, &err);
    EXPECT(run, code == wanted, "%s: code %d, not %d (%s)", what, code, wanted, err.text);
    EXPECT(run, code == LR_OK || err.text[0] != '\0', "%s: no reason", what);
    if (code == LR_OK)
        run->api->cancel(model, request->id);
}

void check_bad_requests(struct run *run)
{
    static char large[1 << 16];
    struct lr_engine_model *model = conformance_open(run);
    if (model == NULL)
        return;
    struct lr_engine_request r = conformance_request(1, &hello, 4);
    r.kind = 77;
    expect_code(run, model, &r, LR_UNSUPPORTED, "a reserved kind");

    for (size_t i = 0; i + 1 < sizeof(large); i += 2)
        memcpy(large + i, "x ", 2);
    const struct lr_segment flood = {.text = large, .len = sizeof(large) - 2};
    r = conformance_request(2, &flood, 4);
    struct lr_error err = {0};
    lr_code code = run->api->submit(model, &r, &err);
    if (code == LR_OK) { /* the engine tokenizes it later */
        (void)conformance_drain(run, model, 100000);
        const struct seen *s = conformance_seen(run, 2);
        EXPECT(run, s->done_count == 1 && s->reason == LR_FINISH_ERROR && s->token_count == 0,
               "a prompt beyond the context: reason %d", (int)s->reason);
        err = s->error;
        code = err.code;
    }
    EXPECT(run, code == LR_INVALID_ARGUMENT, "a prompt beyond the context: %d %s", code,
           err.text);
    EXPECT(run, strstr(err.text, "512") != NULL, "the limit is not named: %s", err.text);

    const uint32_t ids[] = {run->need.vocab_size + 5};
    r = conformance_request(3, NULL, 4);
    r.segment_count = 0;
    r.prompt_ids = ids;
    r.prompt_id_count = 1;
    expect_code(run, model, &r, LR_INVALID_ARGUMENT, "a token beyond the vocabulary");

    conformance_expect_idle(run, model);
    struct lr_engine_request good = conformance_request(4, &hello, 2);
    (void)conformance_complete(run, model, &good);
    conformance_close(run, model);
}

void check_old_host(struct run *run)
{
    struct lr_engine_model *model = conformance_open(run);
    if (model == NULL)
        return;
    /* Members from cache_scope on did not exist for this host: garbage lies there. */
    struct lr_engine_request r = conformance_request(1, &hello, 3);
    r.size = offsetof(struct lr_engine_request, cache_scope);
    memset((char *)&r + r.size, 0xa5, sizeof(r) - r.size);
    struct seen *s = conformance_complete(run, model, &r);
    EXPECT(run, s->token_count >= 1, "no token");
    struct lr_engine_stats stats;
    memset(&stats, 0xa5, sizeof(stats));
    stats.size = offsetof(struct lr_engine_stats, steps);
    run->api->stats(model, &stats);
    EXPECT(run, stats.steps == 0xa5a5a5a5a5a5a5a5u, "stats wrote beyond its size");
    EXPECT(run, stats.sequences == 0, "stats wrote nothing");
    conformance_close(run, model);
}

void check_logprobs(struct run *run)
{
    struct lr_engine_model *model = conformance_open(run);
    if (model == NULL)
        return;
    struct lr_engine_request r = conformance_request(1, &hello, 8);
    r.sampling.logprobs = 1;
    r.sampling.top_logprobs = 3;
    struct seen *s = conformance_complete(run, model, &r);
    EXPECT(run, s->bad_logprobs == 0, "%u log probabilities are positive, NaN or out of order",
           s->bad_logprobs);
    conformance_close(run, model);
}

void check_vocab(struct run *run)
{
    if (!LR_ENGINE_HAS(run->api, vocab))
        return;
    struct lr_engine_model *model = conformance_open(run);
    if (model == NULL)
        return;
    uint32_t specials = 0;
    for (uint32_t id = 0; id < run->need.vocab_size; id++) {
        const char *bytes = NULL;
        uint32_t len = 0, flags = 0;
        lr_code code = run->api->vocab(model, id, &bytes, &len, &flags);
        if (code != LR_OK || (len != 0 && bytes == NULL)) {
            EXPECT(run, code == LR_OK && bytes != NULL, "vocab(%u): %d", id, code);
            break;
        }
        specials += (flags & LR_VOCAB_SPECIAL) != 0;
    }
    const char *bytes;
    uint32_t len, flags;
    EXPECT(run, specials != 0, "no control token");
    EXPECT(run,
           run->api->vocab(model, run->need.vocab_size, &bytes, &len, &flags) ==
               LR_INVALID_ARGUMENT,
           "vocab() beyond the vocabulary");
    EXPECT(run, run->api->vocab(model, UINT32_MAX, &bytes, &len, &flags) == LR_INVALID_ARGUMENT,
           "vocab(UINT32_MAX)");
    conformance_close(run, model);
}

static bool holds_id(struct run *run, const struct lr_engine_model *model,
                     const struct lr_segment *segments, size_t count, uint32_t wanted)
{
    uint32_t ids[256];
    size_t n = 0;
    struct lr_error err;
    EXPECT(run, run->api->tokenize(model, segments, count, ids, 256, &n, &err) == LR_OK,
           "tokenize");
    for (size_t i = 0; i < n && i < 256; i++)
        if (ids[i] == wanted)
            return true;
    return false;
}

void check_control_tokens(struct run *run)
{
    const char *name = NULL;
    uint32_t len = 0, id, flags = 0;
    if (!LR_ENGINE_HAS(run->api, vocab) || !LR_ENGINE_HAS(run->api, tokenize))
        return;
    struct lr_engine_model *model = conformance_open(run);
    if (model == NULL)
        return;
    for (id = 0; id < run->need.vocab_size; id++)
        if (run->api->vocab(model, id, &name, &len, &flags) == LR_OK &&
            (flags & LR_VOCAB_SPECIAL) != 0 && (flags & LR_VOCAB_UNUSED) == 0 && len > 3)
            break;
    EXPECT(run, id < run->need.vocab_size, "no control token with a name");
    const struct lr_segment trusted = {.text = name, .len = len, .control = 1};
    const struct lr_segment user = {.text = name, .len = len};
    EXPECT(run, holds_id(run, model, &trusted, 1, id), "%.*s is not recognised where trusted",
           (int)len, name);
    EXPECT(run, !holds_id(run, model, &user, 1, id), "a user can write %.*s", (int)len, name);
    for (uint32_t cut = 1; cut < len; cut++) {
        struct lr_segment both[] = {{.text = name, .len = cut, .control = 1},
                                    {.text = name + cut, .len = len - cut, .control = 1}};
        EXPECT(run, holds_id(run, model, both, 2, id), "not joined across a border at %u", cut);
        both[1].control = 0;
        EXPECT(run, !holds_id(run, model, both, 2, id), "half trusted at %u", cut);
        both[0].control = 0;
        both[1].control = 1;
        EXPECT(run, !holds_id(run, model, both, 2, id), "half trusted at %u", cut);
    }
    conformance_close(run, model);
}
