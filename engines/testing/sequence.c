/* engines/testing/sequence.c - requests: submit, step, cancel, and their pages. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/errors.h"
#include "base/fail.h"
#include "engines/testing/testing.h"

static uint64_t pages_for(const struct testing_sequence *s)
{
    uint64_t tokens = (uint64_t)s->prompt_tokens + s->max_tokens;
    return (tokens + TESTING_PAGE - 1) / TESTING_PAGE;
}

static void sequence_free(struct testing_sequence *s)
{
    free(s->answer);
    free(s->generated);
    free(s->stop_ids);
    free(s);
}

static void append(struct lr_engine_model *model, struct testing_sequence *s)
{
    *model->last = s;
    model->last = &s->next;
    model->live++;
}

static void *copy(const void *bytes, size_t len)
{
    void *mine = malloc(len != 0 ? len : 1);
    if (mine != NULL && len != 0)
        memcpy(mine, bytes, len);
    return mine;
}

/* The last segment that came from a user; all text if every segment is trusted. */
static char *answer_of_segments(const struct lr_engine_request *request, size_t *len)
{
    for (size_t i = request->segment_count; i-- > 0;)
        if (request->segments[i].control == 0) {
            *len = request->segments[i].len;
            return copy(request->segments[i].text, *len);
        }
    size_t total = 0;
    for (size_t i = 0; i < request->segment_count; i++)
        total += request->segments[i].len;
    char *answer = malloc(total != 0 ? total : 1);
    *len = 0;
    for (size_t i = 0; answer != NULL && i < request->segment_count; i++) {
        if (request->segments[i].len != 0)
            memcpy(answer + *len, request->segments[i].text, request->segments[i].len);
        *len += request->segments[i].len;
    }
    return answer;
}

static char *answer_of_ids(const struct lr_engine_request *request, size_t *len)
{
    char *answer = malloc(request->prompt_id_count != 0 ? request->prompt_id_count : 1);
    *len = 0;
    for (size_t i = 0; answer != NULL && i < request->prompt_id_count; i++)
        if (request->prompt_ids[i] < TESTING_SPECIAL_BASE)
            answer[(*len)++] = (char)(unsigned char)request->prompt_ids[i];
    return answer;
}

static bool holds(const char *text, size_t len, const char *part)
{
    return part[0] != '\0' && memmem(text, len, part, strlen(part)) != NULL;
}

static lr_code count_prompt(const struct lr_engine_model *model,
                            const struct lr_engine_request *request, uint32_t *out,
                            struct lr_error *err)
{
    size_t count = request->prompt_id_count;
    if (request->prompt_ids == NULL) {
        lr_code code = testing_tokenize(model, request->segments, request->segment_count, NULL,
                                        0, &count, err);
        if (code != LR_OK)
            return code;
    }
    uint64_t most = model->max_context;
    if (count + request->generated_count + 1 > most) {
        char unit[64];
        (void)snprintf(unit, sizeof(unit), "tokens and %zu were generated before",
                       request->generated_count);
        return lr_fail_as(err, prompt_beyond_context, count, unit, model->max_context);
    }
    *out = (uint32_t)count;
    return LR_OK;
}

static lr_code submit_vector(struct lr_engine_model *model,
                             const struct lr_engine_request *request, struct lr_error *err)
{
    struct testing_sequence *s = calloc(1, sizeof(*s));
    if (s == NULL)
        return lr_fail(err, LR_OUT_OF_RAM, "no memory for a request");
    s->id = request->id;
    s->kind = request->kind;
    lr_code code = testing_vector(model, request, s, err);
    if (code != LR_OK) {
        sequence_free(s);
        return code;
    }
    append(model, s);
    return LR_OK;
}

static uint32_t limit_tokens(const struct lr_engine_model *model, uint32_t prompt,
                             uint32_t wanted)
{
    uint32_t room = model->max_context - prompt;
    return wanted == 0 || wanted > room ? room : wanted;
}

static lr_code check_request(const struct lr_engine_model *model,
                             const struct lr_engine_request *request, struct lr_error *err)
{
    if (request->size < offsetof(struct lr_engine_request, cache_scope))
        return lr_fail(err, LR_INVALID_ARGUMENT, "the request struct has %u bytes",
                       request->size);
    if (request->kind > LR_REQUEST_RERANK)
        return lr_fail(err, LR_UNSUPPORTED, "request kind %u is not known", request->kind);
    if (request->kind != LR_REQUEST_GENERATE && !LR_HOST_HAS(model->host, on_vector))
        return lr_fail(err, LR_UNSUPPORTED, "this host takes no vectors");
    if (request->kind == LR_REQUEST_GENERATE &&
        request->size >= offsetof(struct lr_engine_request, priority) && request->constrained)
        return lr_fail(err, LR_UNSUPPORTED, "the output of this engine cannot be constrained");
    for (size_t i = 0; request->prompt_ids != NULL && i < request->prompt_id_count; i++)
        if (request->prompt_ids[i] >= TESTING_VOCAB)
            return lr_fail(err, LR_INVALID_ARGUMENT, "token %u is beyond the vocabulary of %d",
                           request->prompt_ids[i], TESTING_VOCAB);
    for (const struct testing_sequence *s = model->first; s != NULL; s = s->next)
        if (s->id == request->id)
            return lr_fail(err, LR_INVALID_ARGUMENT, "request %llu is already live",
                           (unsigned long long)request->id);
    return LR_OK;
}

/* Leaked on purpose; volatile, so that the compiler keeps the allocation. */
static void leak(uint64_t bytes)
{
    static void *volatile last;
    if (bytes == 0)
        return;
    last = malloc((size_t)bytes);
    if (last != NULL)
        memset(last, 0x5a, (size_t)bytes);
}

static void answer_with(struct testing_sequence *s, const char *text)
{
    free(s->answer);
    s->answer = strdup(text);
    s->answer_len = s->answer != NULL ? strlen(s->answer) : 0;
}

/* Each text of a control token becomes one byte that no UTF-8 has. */
static void mark_controls(struct testing_sequence *s)
{
    size_t to = 0;
    for (size_t at = 0; at < s->answer_len;) {
        int i = 0;
        size_t len = 0;
        for (; i < TESTING_SPECIAL_COUNT && len == 0; i++) {
            size_t n = strlen(testing_specials[i]);
            if (n <= s->answer_len - at && memcmp(s->answer + at, testing_specials[i], n) == 0)
                len = n;
        }
        s->answer[to++] = len != 0 ? (char)(TESTING_CONTROL_BYTE + i - 1) : s->answer[at];
        at += len != 0 ? len : 1;
    }
    s->answer_len = to;
    s->has_controls = true;
}

/* In digits, so that no mark in the prompt is read as one of the answer. */
static void answer_with_prompt(struct testing_sequence *s,
                               const struct lr_engine_request *request)
{
    size_t total = 0, at = 0;
    for (size_t i = 0; i < request->segment_count; i++)
        total += request->segments[i].len;
    char *text = malloc(2 * total + 1);
    for (size_t i = 0; text != NULL && i < request->segment_count; i++)
        for (size_t k = 0; k < request->segments[i].len; k++, at += 2)
            (void)snprintf(text + at, 3, "%02x", (unsigned char)request->segments[i].text[k]);
    free(s->answer);
    s->answer = text;
    s->answer_len = text != NULL ? at : 0;
}

lr_code testing_submit(struct lr_engine_model *model, const struct lr_engine_request *request,
                       struct lr_error *err)
{
    uint32_t prompt_tokens = 0;
    lr_code code = check_request(model, request, err);
    if (code == LR_OK && request->kind != LR_REQUEST_GENERATE)
        return submit_vector(model, request, err);
    if (code == LR_OK)
        code = count_prompt(model, request, &prompt_tokens, err);
    if (code == LR_OK)
        code = testing_fault(&model->options, TESTING_SUBMIT, err);
    if (code != LR_OK) {
        lr_error_tell(model->host, err);
        return code;
    }

    struct testing_sequence *s = calloc(1, sizeof(*s));
    if (s == NULL)
        return lr_fail(err, LR_OUT_OF_RAM, "no memory for a request");
    s->id = request->id;
    s->prompt_tokens = prompt_tokens;
    s->answer = request->prompt_ids != NULL ? answer_of_ids(request, &s->answer_len)
                                            : answer_of_segments(request, &s->answer_len);
    s->generated_count = s->emitted = (uint32_t)request->generated_count;
    s->generated = copy(request->generated, request->generated_count * sizeof(uint32_t));
    s->stop_id_count = request->stop_id_count;
    s->stop_ids = copy(request->stop_ids, request->stop_id_count * sizeof(uint32_t));
    s->max_tokens = limit_tokens(model, prompt_tokens, request->max_tokens);
    s->ignore_stop = request->ignore_stop;
    s->logprobs = request->sampling.logprobs;
    if (s->answer == NULL || s->generated == NULL || s->stop_ids == NULL) {
        sequence_free(s);
        return lr_fail(err, LR_OUT_OF_RAM, "no memory for a request");
    }
    for (size_t i = 0; model->options.shout && i < s->answer_len; i++)
        if (s->answer[i] >= 'a' && s->answer[i] <= 'z')
            s->answer[i] = (char)(s->answer[i] - 'a' + 'A');
    s->poisoned = holds(s->answer, s->answer_len, model->options.poison);
    if (model->options.say_controls && s->answer != NULL)
        mark_controls(s);
    if (model->options.say_prompt)
        answer_with_prompt(s, request);
    if (model->options.say_version)
        answer_with(s, LR_TESTING_VERSION);
    if (model->options.say_weights)
        answer_with(s, model->has_artifact ? "artifact" : "safetensors");
    const char *report = testing_report();
    if (report != NULL && report[0] != '\0')
        answer_with(s, report);
    leak(model->options.leak_bytes);
    append(model, s);
    return LR_OK;
}

void testing_pages_settle(struct lr_engine_model *model)
{
    model->pages_total =
        model->pages_limit > model->pages_in_use ? model->pages_limit : model->pages_in_use;
}

static void report_entered(struct lr_engine_model *model, const uint64_t *ids, size_t count)
{
    if (count != 0 && LR_HOST_HAS(model->host, on_enter))
        model->host->on_enter(model->host->ctx, ids, count);
}

static void admit(struct lr_engine_model *model)
{
    enum { AT_ONCE = 64 };
    uint64_t entered[AT_ONCE];
    size_t count = 0;
    for (struct testing_sequence *s = model->first; s != NULL; s = s->next) {
        if (s->admitted)
            continue;
        uint64_t pages = pages_for(s);
        /* A request that could never fit runs when it is alone: pages are only counted. */
        if (model->admitted >= model->max_sequences ||
            (model->pages_in_use + pages > model->pages_limit && model->admitted != 0))
            break;
        s->admitted = true;
        s->pages = pages;
        model->pages_in_use += pages;
        testing_pages_settle(model);
        model->admitted++;
        if (count == AT_ONCE) {
            report_entered(model, entered, count);
            count = 0;
        }
        entered[count++] = s->id;
    }
    report_entered(model, entered, count);
}

/* Unlinks *link, frees its pages and reports its end. */
static void finish(struct lr_engine_model *model, struct testing_sequence **link,
                   enum lr_finish reason)
{
    struct testing_sequence *s = *link;
    struct lr_usage usage = {.size = sizeof(usage),
                             .prompt_tokens = s->prompt_tokens,
                             .completion_tokens = s->emitted};
    *link = s->next;
    if (model->last == &s->next)
        model->last = link;
    model->live--;
    model->pages_in_use -= s->pages;
    testing_pages_settle(model);
    if (s->admitted)
        model->admitted--;
    uint64_t id = s->id;
    sequence_free(s);
    model->host->on_done(model->host->ctx, id, reason, &usage, NULL);
}

void testing_cancel(struct lr_engine_model *model, uint64_t request_id)
{
    for (struct testing_sequence **link = &model->first; *link != NULL; link = &(*link)->next)
        if ((*link)->id == request_id) {
            finish(model, link, LR_FINISH_CANCELLED);
            return;
        }
}

static bool is_stop(const struct testing_sequence *s, uint32_t id)
{
    for (size_t i = 0; i < s->stop_id_count; i++)
        if (s->stop_ids[i] == id)
            return true;
    return id == TESTING_SPECIAL_BASE + TESTING_SPECIAL_END && s->ignore_stop == 0;
}

static uint32_t next_token(const struct testing_sequence *s)
{
    size_t index = s->emitted;
    if (s->ignore_stop != 0)
        return s->answer_len != 0 ? (unsigned char)s->answer[index % s->answer_len] : '.';
    if (index < s->answer_len) {
        unsigned char c = (unsigned char)s->answer[index];
        return s->has_controls && c >= TESTING_CONTROL_BYTE
                   ? (uint32_t)(TESTING_SPECIAL_BASE + c - TESTING_CONTROL_BYTE)
                   : c;
    }
    return TESTING_SPECIAL_BASE + TESTING_SPECIAL_END;
}

static void emit(struct lr_engine_model *model, struct testing_sequence *s, uint32_t id)
{
    const char *bytes = "";
    uint32_t len = 0;
    uint32_t flags = 0;
    struct lr_logprob top = {.token = id, .logprob = -0.25f};
    char broken[2] = {(char)0xff, 0};

    (void)testing_vocab(model, id, &bytes, &len, &flags);
    if (model->options.invalid_utf8 && len == 1) {
        broken[1] = bytes[0];
        bytes = broken;
        len = 2;
    }
    char now[32];
    if (model->options.say_time) {
        len = (uint32_t)snprintf(now, sizeof(now), "%llu\n",
                                 (unsigned long long)lr_clock_ns(NULL));
        bytes = now;
    }
    struct lr_token token = {.size = sizeof(token),
                             .id = id,
                             .bytes = bytes,
                             .len = len,
                             .special = (flags & LR_VOCAB_SPECIAL) != 0};
    if (s->logprobs != 0) {
        token.logprob = top.logprob;
        token.top_count = 1;
        token.top = &top;
    }
    s->emitted++;
    model->generated_tokens++;
    model->host->on_token(model->host->ctx, s->id, &token);
}

/* One chunk of prompt or one token.  True when *link was finished and unlinked. */
static bool advance(struct lr_engine_model *model, struct testing_sequence **link)
{
    struct testing_sequence *s = *link;
    if (s->prefilled < s->prompt_tokens) {
        uint32_t chunk = s->prompt_tokens - s->prefilled;
        if (chunk > model->prefill_chunk)
            chunk = model->prefill_chunk;
        testing_sleep_ms(model->options.prefill_ms);
        s->prefilled += chunk;
        model->prompt_tokens += chunk;
        if (model->host->on_prefill != NULL)
            model->host->on_prefill(model->host->ctx, s->id, s->prefilled, s->prompt_tokens);
        if (s->prefilled < s->prompt_tokens)
            return false;
    }
    if (s->kind != LR_REQUEST_GENERATE) {
        const struct lr_vector vector = {
            .size = sizeof(vector), .count = s->vector_count, .values = s->vector};
        model->host->on_vector(model->host->ctx, s->id, &vector);
        finish(model, link, LR_FINISH_STOP);
        return true;
    }
    if (s->emitted != 0 && s->emitted == s->generated_count &&
        is_stop(s, s->generated[s->emitted - 1])) {
        finish(model, link,
               LR_FINISH_STOP); /* all tokens were there; only the end was missing */
        return true;
    }
    if (s->emitted >= s->max_tokens) {
        finish(model, link, LR_FINISH_LENGTH);
        return true;
    }
    if (!testing_gate_open(&model->options, s->emitted)) {
        testing_sleep_ms(1);
        return false;
    }
    uint32_t id = next_token(s);
    emit(model, s, id);
    if (is_stop(s, id)) {
        finish(model, link, LR_FINISH_STOP);
        return true;
    }
    if (s->emitted >= s->max_tokens) {
        finish(model, link, LR_FINISH_LENGTH);
        return true;
    }
    return false;
}

static lr_code strike(struct lr_engine_model *model, struct lr_error *err)
{
    uint32_t most = 0;
    for (const struct testing_sequence *s = model->first; s != NULL; s = s->next) {
        if (s->admitted && s->poisoned && s->emitted >= model->options.poison_after) {
            struct testing_options deadly = {.crash = TESTING_STEP};
            (void)testing_fault(&deadly, TESTING_STEP, err);
        }
        uint32_t made = s->emitted - s->generated_count;
        most = s->admitted && made > most ? made : most;
    }
    if (model->live == 0 || most < model->options.after_tokens)
        return LR_OK;
    return testing_fault(&model->options, TESTING_STEP, err);
}

/* Stores the counters at the begin of the step; end_report() takes the differences. */
static struct lr_step_report begin_report(const struct lr_engine_model *model)
{
    return (struct lr_step_report){
        .size = sizeof(struct lr_step_report),
        .sequences = model->admitted,
        .waiting = model->live - model->admitted,
        .prompt_tokens = (uint32_t)model->prompt_tokens,
        .generated_tokens = (uint32_t)model->generated_tokens,
    };
}

static void end_report(const struct lr_engine_model *model, struct lr_step_report *report,
                       uint64_t began_ns)
{
    enum { PAGE_BYTES = TESTING_PAGE * TESTING_KV_BYTES };
    report->prompt_tokens = (uint32_t)model->prompt_tokens - report->prompt_tokens;
    report->generated_tokens = (uint32_t)model->generated_tokens - report->generated_tokens;
    report->duration_ns = lr_elapsed(began_ns, lr_clock_ns(NULL));
    report->kv_bytes = model->pages_total * PAGE_BYTES;
    report->kv_bytes_in_use = model->pages_in_use * PAGE_BYTES;
    if (report->sequences != 0 && LR_HOST_HAS(model->host, on_step))
        model->host->on_step(model->host->ctx, report);
}

lr_code testing_step(struct lr_engine_model *model, int32_t *busy, struct lr_error *err)
{
    uint64_t began_ns = lr_clock_ns(NULL);
    admit(model);
    struct lr_step_report report = begin_report(model);
    *busy = 1;
    lr_code code = strike(model, err);
    if (code != LR_OK)
        return code;
    if (model->options.noise && model->live != 0) {
        (void)printf("a plugin writes to stdout\n");
        (void)fprintf(stderr, "a plugin writes to stderr\n");
        (void)fflush(stdout);
    }
    bool spreads = model->options.spread && model->admitted != 0;
    uint64_t slice_ns =
        spreads ? model->options.step_ms * UINT64_C(1000000) / model->admitted : 0;
    uint64_t due_ns = lr_clock_ns(NULL);
    if (model->live != 0 && !spreads)
        testing_sleep_ms(model->options.step_ms);
    for (struct testing_sequence **link = &model->first; *link != NULL;) {
        if (!(*link)->admitted)
            break; /* in order of arrival: later requests wait too */
        if (spreads)
            testing_sleep_until(due_ns += slice_ns);
        if (!advance(model, link))
            link = &(*link)->next;
    }
    model->steps++;
    end_report(model, &report, began_ns);
    *busy = model->live != 0;
    return LR_OK;
}

void testing_sequences_free(struct lr_engine_model *model)
{
    while (model->first != NULL) {
        struct testing_sequence *s = model->first;
        model->first = s->next;
        sequence_free(s);
    }
    model->last = &model->first;
}
