/* jinja/template.c - the public functions: compiling and rendering. */
#include <stdlib.h>
#include <time.h>

#include "base/utf8.h"
#include "jinja/exec.h"
#include "jinja/scope.h"

enum { MAX_EXTRA_MS = 500 };

static int64_t cpu_now(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static void start_run(struct run *run, const struct jinja_limits *limits, struct lr_error *err)
{
    *run = (struct run){.err = err};
    run->max_memory = limits->max_memory != 0 ? limits->max_memory : JINJA_MAX_MEMORY;
    run->max_output = limits->max_output != 0 ? limits->max_output : JINJA_MAX_OUTPUT;
    run->max_steps = limits->max_steps != 0 ? limits->max_steps : JINJA_MAX_STEPS;
    run->max_depth = limits->max_depth != 0 ? limits->max_depth : JINJA_MAX_DEPTH;
    run->cpu_ms = limits->max_cpu_ms != 0 ? limits->max_cpu_ms : JINJA_MAX_CPU_MS;
    run->started_ns = cpu_now();
    run->deadline_ns = run->started_ns + (int64_t)run->cpu_ms * 1000000;
    run->stack_base = __builtin_frame_address(0);
    lr_arena_init(&run->arena, run->max_memory);
    lr_buf_init(&run->sink.bytes, run->max_output);
}

static void end_run(struct run *run)
{
    lr_arena_free(&run->arena);
    lr_buf_free(&run->sink.bytes);
    free(run->sink.spans);
}

static lr_code failure(const struct run *run)
{
    return run->err != NULL && run->err->code != LR_OK ? run->err->code : LR_INVALID_ARGUMENT;
}

static bool jinja_template_parse(struct run *run, struct lr_str source,
                                 struct jinja_template *tmpl)
{
    struct parser *parser = jinja_alloc(run, sizeof(*parser));
    if (parser == NULL)
        return false;
    memset(parser, 0, sizeof(*parser));
    parser->run = run;
    parser->names = &tmpl->names;
    if (!jinja_lexer_init(&parser->lexer, run, source))
        return false;
    jinja_advance(parser);
    if (!jinja_parse_body(parser, &tmpl->body))
        return false;
    return jinja_resolve_names(run, tmpl, parser->blocks, parser->block_count);
}

lr_code jinja_compile(struct lr_str source, struct jinja_template **out, struct lr_error *err)
{
    *out = NULL;
    struct lr_error own = {0};
    if (err == NULL)
        err = &own;
    if (source.len > JINJA_MAX_SOURCE)
        return lr_fail(err, LR_TOO_LARGE, "the chat template has %zu bytes, the limit is %d",
                       source.len, JINJA_MAX_SOURCE);
    if (!lr_utf8_valid(source))
        return lr_fail(err, LR_INVALID_ARGUMENT, "the chat template is not valid UTF-8");
    struct run run;
    /* Compiling takes linear time: 128 KiB, the limit, take 20 ms.  The time limit is a safety
     * net and must not refuse a template on a slow machine. */
    struct jinja_limits limits = {.max_cpu_ms = 500};
    start_run(&run, &limits, err);
    struct jinja_template *tmpl = jinja_alloc(&run, sizeof(*tmpl));
    if (tmpl == NULL) {
        end_run(&run);
        return failure(&run);
    }
    memset(tmpl, 0, sizeof(*tmpl));
    if (!jinja_template_parse(&run, source, tmpl) || run.failed) {
        if (!run.failed)
            (void)jinja_error(&run, "cannot be parsed");
        end_run(&run);
        return failure(&run);
    }
    tmpl->arena = run.arena; /* the template lives in the arena it owns */
    run.arena = (struct lr_arena){0};
    end_run(&run);
    *out = tmpl;
    return LR_OK;
}

void jinja_template_destroy(struct jinja_template *tmpl)
{
    if (tmpl == NULL)
        return;
    struct lr_arena arena = tmpl->arena;
    lr_arena_free(&arena);
}

/* ---- rendering ---- */

static bool jinja_template_render(struct run *run)
{
    if (!jinja_load_context(run))
        return false;
    if (run->input->limits.max_cpu_ms == 0) {
        uint64_t extra = run->text_bytes / 4096;
        run->cpu_ms += (uint32_t)(extra < MAX_EXTRA_MS ? extra : MAX_EXTRA_MS);
        run->deadline_ns = run->started_ns + (int64_t)run->cpu_ms * 1000000;
    }
    size_t guess = run->text_bytes + run->text_bytes / 8 + 4096;
    if (guess < run->max_output / 2)
        (void)lr_buf_reserve(&run->sink.bytes, guess);
    run->root = jinja_new_activation(run, NULL, run->tmpl->slot_count);
    if (run->root == NULL || !jinja_enter_frame(run, run->root, &run->tmpl->frame))
        return false;
    return jinja_exec(run, run->root, &run->tmpl->body) == FLOW_ON && !run->failed;
}

/* The sink becomes the output without a copy. */
static bool hand_over(struct run *run, struct jinja_output *out)
{
    struct sink *sink = &run->sink;
    struct jinja_segment *segments = calloc(sink->span_count + 1, sizeof(*segments));
    if (segments == NULL)
        return !is_fail(jinja_error_memory(run));
    size_t count = 0;
    for (size_t i = 0; i < sink->span_count; i++) {
        size_t from = sink->spans[i].start;
        size_t to = i + 1 < sink->span_count ? sink->spans[i + 1].start : sink->bytes.len;
        if (to > from)
            segments[count++] = (struct jinja_segment){
                lr_str(sink->bytes.data + from, to - from), sink->spans[i].trusted};
    }
    lr_buf_free(&out->bytes);
    out->bytes = sink->bytes;
    lr_buf_init(&sink->bytes, run->max_output);
    out->own = segments;
    out->count = out->capacity = count;
    out->segments = segments;
    out->text = lr_buf_str(&out->bytes);
    return true;
}

lr_code jinja_render(const struct jinja_template *tmpl, const struct jinja_input *input,
                     struct jinja_output *out, struct lr_error *err)
{
    struct lr_error own = {0};
    struct run run;
    if (err == NULL)
        err = &own;
    jinja_output_init(out, JINJA_MAX_OUTPUT);
    start_run(&run, &input->limits, err);
    run.tmpl = tmpl;
    run.input = input;
    bool ok = jinja_template_render(&run) && hand_over(&run, out);
    end_run(&run);
    return ok ? LR_OK : failure(&run);
}

/* ---- outputs written by hand ---- */

void jinja_output_init(struct jinja_output *out, size_t limit)
{
    *out = (struct jinja_output){0};
    lr_buf_init(&out->bytes, limit);
}

void jinja_output_add(struct jinja_output *out, struct lr_str text, bool control)
{
    if (text.len == 0 || out->bytes.failed)
        return;
    if (out->count == 0 || out->own[out->count - 1].control != control) {
        if (out->count == out->capacity) {
            size_t capacity = out->capacity == 0 ? 32 : out->capacity * 2;
            struct jinja_segment *own = realloc(out->own, capacity * sizeof(*own));
            if (own == NULL) {
                out->bytes.failed = true;
                return;
            }
            out->own = own;
            out->capacity = capacity;
        }
        out->own[out->count++] = (struct jinja_segment){.control = control};
    }
    lr_buf_add_str(&out->bytes, text);
    out->own[out->count - 1].text.len += text.len;
}

lr_code jinja_output_finish(struct jinja_output *out, struct lr_error *err)
{
    if (out->bytes.failed)
        return lr_fail(err, LR_TOO_LARGE, "the prompt is longer than the %zu bytes allowed",
                       out->bytes.limit);
    size_t at = 0;
    for (size_t i = 0; i < out->count; i++) {
        out->own[i].text.ptr = out->bytes.data + at;
        at += out->own[i].text.len;
    }
    out->segments = out->own;
    out->text = lr_buf_str(&out->bytes);
    return LR_OK;
}

void jinja_output_free(struct jinja_output *out)
{
    lr_buf_free(&out->bytes);
    free(out->own);
    *out = (struct jinja_output){0};
}
