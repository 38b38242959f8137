#include "worker/worker.h"

#include <stdio.h>

#include "base/arena.h"
#include "base/clock.h"
#include "base/errors.h"
#include "base/fail.h"
#include "base/os/fd.h"
#include "base/os/process.h"
#include "model/fingerprint.h"
#include "plugin/library.h"
#include "wire/event.h"
#include "wire/generate.h"
#include "wire/open.h"
#include "worker/compiler.h"
#include "worker/confine.h"
#include "worker/host.h"
#include "worker/pipes.h"

/* Ticks carry progress to the watchdog, whose limits are seconds: more than fifty ticks a
 * second would only cost writes. */
enum { TICK_NS = 20 * 1000 * 1000, REQUEST_BYTES = 256 << 20, FRESH_MAX = 512 };

struct worker {
    struct worker_pipes pipes;
    struct worker_host host;
    struct worker_compiler compiler; /* of constraints */
    const struct lr_engine_api *api; /* NULL until a library is open */
    struct lr_engine_model *model;   /* NULL until a model is open */
    struct lr_arena scratch;         /* arena of one frame */
    uint64_t fresh[FRESH_MAX];       /* requests submitted since the last step */
    size_t fresh_count;
    uint64_t last_tick_ns;
    const char *writable; /* worker_config.scratch */
    bool is_probe;
    bool has_stop;
    uint32_t stop_id; /* ends every answer, see struct wire_open */
    bool busy;
    bool leaving;
    int status; /* exit status */
};

/* The model is dead or could not be opened: tells the node why and ends the loop. */
static void worker_give_up(struct worker *w, const struct lr_error *err)
{
    struct wire_error m = {.error = *err};
    wire_error_encode(&w->host.out, WIRE_FAILED, &m);
    worker_host_flush(&w->host);
    w->leaving = true;
    w->status = 1;
}

static lr_code open_library(struct worker *w, const struct wire_open *m, struct lr_error *err)
{
    struct plugin_expectation expected = {
        .abi_version = m->abi_version,
        .engine_id = m->engine_id,
        .engine_version = m->engine_version,
    };
    if (w->writable != NULL) {
        lr_code code = worker_confine_engine(w->writable, m, err);
        if (code != LR_OK)
            return code;
    }
    return plugin_library_open(m->library, &expected, &w->api, err);
}

static void handle_probe(struct worker *w, struct lr_str body)
{
    struct wire_open m;
    struct lr_engine_need need = {.size = sizeof(need)};
    struct lr_error err = {0};

    lr_code code = wire_open_decode(&w->scratch, body, &m, &err);
    if (code == LR_OK)
        code = open_library(w, &m, &err);
    /* Without a model folder the node only asks whether the library is an engine. */
    if (code == LR_OK && m.model_dir != NULL)
        code = w->api->probe(m.model_dir, &m.options, &need, &err);
    if (code != LR_OK) {
        err.code = code;
        worker_give_up(w, &err);
        return;
    }
    wire_need_encode(&w->host.out, WIRE_PROBED, &need);
    worker_host_flush(&w->host);
    w->leaving = true;
}

/* Counts the tokens of a prompt by the model's tokenizer; no model is opened. */
static void handle_count(struct worker *w, struct lr_str body)
{
    struct wire_open m;
    struct lr_error err = {0};
    uint64_t count = 0;

    lr_code code = wire_open_decode(&w->scratch, body, &m, &err);
    if (code == LR_OK && m.model_dir == NULL)
        code = wire_malformed(&err, "count");
    if (code == LR_OK && w->api == NULL) {
        lr_process_lower(); /* answers come first */
        code = open_library(w, &m, &err);
    }
    if (code == LR_OK && !LR_ENGINE_HAS(w->api, count_tokens))
        code = lr_fail_plain(&err, count_unsupported);
    if (code == LR_OK)
        code = w->api->count_tokens(m.model_dir, &m.options, m.segments, m.segment_count,
                                    &count, &err);
    if (code != LR_OK) {
        err.code = code;
        worker_give_up(w, &err);
        w->leaving = !m.stays || !wire_is_refusal(code); /* of this prompt */
        return;
    }
    wire_u64_encode(&w->host.out, WIRE_COUNTED, count);
    worker_host_flush(&w->host);
    w->leaving = !m.stays;
}

static void add_tick(struct worker *w, uint64_t now)
{
    struct lr_engine_stats stats = {.size = sizeof(stats)};
    w->api->stats(w->model, &stats);
    wire_tick_encode(&w->host.out, &stats);
    w->last_tick_ns = now;
}

/* The files that the engine opens are those that the node has described: a folder may have been
 * replaced since.  CONFLICT: it was. */
static lr_code check_weights(const struct wire_open *m, struct lr_error *err)
{
    char found[MODEL_FINGERPRINT_LEN + 1];
    enum model_format format;
    if (m->weights == NULL || m->format == NULL ||
        !model_format_find(lr_str_z(m->format), &format))
        return LR_OK;
    lr_code code = model_fingerprint_of(m->model_dir, format, m->options.filename, found, err);
    if (code == LR_OK && strcmp(found, m->weights) != 0)
        code = lr_fail_as(err, files_replaced, m->model_dir, found, m->weights);
    return code;
}

static void handle_open(struct worker *w, struct lr_str body)
{
    struct wire_open m;
    struct lr_engine_need need = {.size = sizeof(need)};
    struct lr_error err = {0};

    lr_code code = wire_open_decode(&w->scratch, body, &m, &err);
    if (code == LR_OK && m.model_dir == NULL)
        code = wire_malformed(&err, "open");
    if (code == LR_OK && (w->model != NULL || w->is_probe))
        code =
            lr_fail(&err, LR_INTERNAL, "a worker opens only one model, and a probe opens none");
    if (code == LR_OK)
        code = open_library(w, &m, &err);
    if (code == LR_OK && check_weights(&m, &err) == LR_CONFLICT)
        code = LR_CONFLICT; /* of files that cannot be read the engine says more */
    if (code == LR_OK) {
        w->host.api = w->api;
        w->host.has_told = false;
        code = w->api->open(&w->host.table, m.model_dir, &m.options, &w->model, &err);
        if (code != LR_OK)
            worker_host_identify(&w->host, &err);
    }
    if (code == LR_OK) /* replaced while they were read */
        code = check_weights(&m, &err);
    /* Probe again: now the answer says what the model really holds. */
    if (code == LR_OK)
        code = w->api->probe(m.model_dir, &m.options, &need, &err);
    if (code != LR_OK) {
        err.code = code;
        worker_give_up(w, &err);
        return;
    }
    w->host.model = w->model;
    w->has_stop = m.has_stop;
    w->stop_id = m.stop_id;
    wire_need_encode(&w->host.out, WIRE_OPENED, &need);
    add_tick(w, lr_clock_ns(NULL));
    worker_host_flush(&w->host);
}

static void worker_refuse(struct worker *w, uint64_t request, const struct lr_error *err)
{
    struct wire_done m = {.request = request, .reason = LR_FINISH_ERROR, .error = *err};
    wire_done_encode(&w->host.out, &m);
    worker_host_flush(&w->host);
}

/* The request's stop tokens and the model's template's.  NULL: no memory. */
static const uint32_t *stops_of(struct worker *w, const struct wire_generate *g, size_t *count)
{
    *count = g->stop_id_count;
    if (!w->has_stop || g->ignore_stop || g->kind != LR_REQUEST_GENERATE)
        return g->stop_ids;
    uint32_t *ids = lr_arena_array(&w->scratch, g->stop_id_count + 1, sizeof(*ids));
    if (ids == NULL)
        return NULL;
    if (g->stop_id_count != 0)
        memcpy(ids, g->stop_ids, g->stop_id_count * sizeof(*ids));
    ids[(*count)++] = w->stop_id;
    return ids;
}

static lr_code submit(struct worker *w, const struct wire_generate *g, struct lr_error *err)
{
    size_t stop_count;
    const uint32_t *stops = stops_of(w, g, &stop_count);
    if (stops == NULL && stop_count != 0)
        return lr_fail(err, LR_OUT_OF_RAM, "no memory for a request's stop tokens");
    struct lr_engine_request request = {
        .size = sizeof(request),
        .kind = g->kind,
        .id = g->id,
        .segments = g->segments,
        .segment_count = g->segment_count,
        .prompt_ids = g->prompt_ids,
        .prompt_id_count = g->prompt_id_count,
        .generated = g->generated,
        .generated_count = g->generated_count,
        .sampling = g->sampling,
        .max_tokens = g->max_tokens,
        .ignore_stop = g->ignore_stop,
        .stop_ids = stops,
        .stop_id_count = stop_count,
        .cache_scope =
            g->cache_scope.len != 0 ? lr_arena_copy(&w->scratch, g->cache_scope) : NULL,
        .priority = g->priority,
        .constrained = g->constraint.len != 0,
        .document = g->document,
        .document_count = g->document_count,
        .dimensions = g->dimensions,
    };
    w->host.has_told = false;
    lr_code code = w->api->submit(w->model, &request, err);
    if (code != LR_OK) {
        worker_host_identify(&w->host, err);
        return code;
    }
    if (g->sampling.logprobs != 0)
        worker_host_wants_logprobs(&w->host, g->id);
    if (w->fresh_count < FRESH_MAX)
        w->fresh[w->fresh_count++] = g->id;
    w->busy = true;
    return LR_OK;
}

static void handle_submit(struct worker *w, struct lr_str body)
{
    struct wire_generate g;
    struct lr_error err = {0};

    lr_code code = wire_submit_decode(&w->scratch, body, &g, &err);
    if (code == LR_OK && w->model == NULL)
        code = lr_fail(&err, LR_INTERNAL, "no model is open in this worker");
    if (code == LR_OK && !LR_ENGINE_HAS(w->api, vocab) &&
        grammar_constraint_is_wish(g.constraint))
        g.constraint = (struct lr_str){0};
    if (code == LR_OK)
        code = g.constraint.len != 0 ? worker_compiler_begin(&w->compiler, w->api, body, &err)
                                     : submit(w, &g, &err);
    if (code != LR_OK) {
        err.code = code;
        worker_refuse(w, wire_event_request(body), &err);
    }
}

/* A constraint is compiled: its request goes to the engine. */
static void finish_job(struct worker *w, struct worker_job *job)
{
    struct worker_constraints *all = &w->host.constraints;
    lr_code code = job->code;
    if (code == LR_OK)
        code = worker_constraints_add(all, job->g.id, w->compiler.vocab, job->program,
                                      job->matcher, &job->err);
    if (code == LR_OK) {
        job->program = NULL;
        job->matcher = NULL;
        code = submit(w, &job->g, &job->err);
        if (code != LR_OK)
            worker_constraints_drop(all, job->g.id);
        if (code == LR_UNSUPPORTED && grammar_constraint_is_wish(job->g.constraint)) {
            job->g.constraint = (struct lr_str){0};
            code = submit(w, &job->g, &job->err);
        }
    }
    if (code != LR_OK) {
        job->err.code = code;
        worker_refuse(w, job->g.id, &job->err);
    }
    worker_job_destroy(job);
    lr_arena_free(&w->scratch);
}

static void look_after_jobs(struct worker *w)
{
    struct worker_job *job;
    if (worker_compiler_reads(&w->compiler))
        worker_compiler_read(&w->compiler, w->api, w->model);
    while ((job = worker_compiler_take(&w->compiler)) != NULL)
        finish_job(w, job);
}

static void handle_cancel(struct worker *w, struct lr_str body)
{
    uint64_t request;
    if (wire_u64_decode(body, &request, NULL) != LR_OK || w->model == NULL)
        return;
    if (worker_compiler_cancel(&w->compiler, request)) {
        struct wire_done m = {.request = request, .reason = LR_FINISH_CANCELLED};
        wire_done_encode(&w->host.out, &m);
    } else {
        w->api->cancel(w->model, request);
    }
    add_tick(w, lr_clock_ns(NULL)); /* tells the node that the pages are free */
    worker_host_flush(&w->host);
}

static void handle_limit(struct worker *w, struct lr_str body)
{
    uint64_t bytes, kv_bytes;
    struct lr_error err = {0};
    if (wire_u64_decode(body, &bytes, NULL) != LR_OK || w->model == NULL ||
        !LR_ENGINE_HAS(w->api, limit_kv))
        return;
    lr_code code = w->api->limit_kv(w->model, bytes, &kv_bytes, &err);
    if (code != LR_OK) {
        err.code = code;
        worker_give_up(w, &err);
        return;
    }
    add_tick(w, lr_clock_ns(NULL)); /* says how much is left */
    wire_u64_encode(&w->host.out, WIRE_LIMITED, bytes);
    worker_host_flush(&w->host);
}

static void worker_handle(struct worker *w, const struct wire_frame *frame)
{
    switch (frame->type) {
    case WIRE_OPEN:
        handle_open(w, frame->body);
        break;
    case WIRE_PROBE:
        handle_probe(w, frame->body);
        break;
    case WIRE_COUNT:
        handle_count(w, frame->body);
        break;
    case WIRE_SUBMIT:
        handle_submit(w, frame->body);
        break;
    case WIRE_CANCEL:
        handle_cancel(w, frame->body);
        break;
    case WIRE_LIMIT_KV:
        handle_limit(w, frame->body);
        break;
    case WIRE_CLOSE:
        w->leaving = true;
        break;
    default:
        (void)fprintf(stderr, "worker: a frame of unknown type %d was ignored\n",
                      (int)frame->type);
    }
    lr_arena_free(&w->scratch);
}

static void step(struct worker *w)
{
    struct lr_error err = {0};
    int32_t busy = 0;
    w->host.has_entered = false;
    if (!w->host.engine_reports)
        worker_host_enter(&w->host, w->fresh, w->fresh_count);
    w->fresh_count = 0;
    worker_host_flush(&w->host);
    worker_constraints_step(&w->host.constraints);
    w->host.has_told = false;
    lr_code code = w->api->step(w->model, &busy, &err);
    if (code != LR_OK) {
        worker_host_identify(&w->host, &err);
        err.code = code;
        worker_give_up(w, &err);
        return;
    }
    w->busy = busy != 0;
    uint64_t now = lr_clock_ns(NULL);
    bool is_awaited = w->host.out.len != 0 || !w->busy;
    /* After a step that new requests entered, the tick also says that the step was survived: it
     * leaves before the next step begins. */
    if (!w->busy || w->host.has_entered || now - w->last_tick_ns >= TICK_NS)
        add_tick(w, now);
    if (is_awaited)
        worker_host_flush(&w->host);
}

/* Reads what the node has sent, and waits where there is nothing to do.  False at the end of
 * the stream. */
static bool read_input(struct worker *w)
{
    bool wait = !w->busy && !worker_compiler_reads(&w->compiler);
    if (wait && w->compiler.pending != 0) {
        worker_pipes_await(&w->compiler.wake);
        wait = false;
    }
    return worker_pipes_fill(&w->pipes, wait);
}

/* Everything that has arrived: what waits in the pipe would wait for a whole step.  The limit
 * keeps a stream of requests from holding up the steps. */
static void handle_input(struct worker *w)
{
    enum { READS = 128 }; /* 8 MiB */
    struct wire_frame frame;
    int reads = 0;
    do
        while (!w->leaving && worker_pipes_next(&w->pipes, &frame))
            worker_handle(w, &frame);
    while (!w->leaving && ++reads < READS && worker_pipes_more(&w->pipes));
}

static void loop(struct worker *w)
{
    while (!w->leaving && read_input(w)) {
        handle_input(w);
        if (!w->leaving)
            look_after_jobs(w);
        if (!w->leaving && w->busy)
            step(w);
    }
}

int worker_run(const struct worker_config *config)
{
    struct worker w = {.is_probe = config->is_probe, .writable = config->scratch};
    struct lr_error err;

    if (worker_confine(config->parent, &err) != LR_OK) {
        (void)fprintf(stderr, "worker: %s\n", err.text);
        return 1;
    }
    worker_pipes_init(&w.pipes);
    worker_host_init(&w.host, &w.pipes);
    worker_compiler_init(&w.compiler);
    lr_arena_init(&w.scratch, REQUEST_BYTES);

    struct wire_hello hello = {.pid = (uint32_t)getpid(), .abi = LR_ENGINE_ABI};
    wire_hello_encode(&w.host.out, &hello);
    worker_host_flush(&w.host);
    loop(&w);
    /* close() may hang or crash in a bad plugin; the node waits a little and then kills this
     * process. */
    if (w.model != NULL)
        w.api->close(w.model);
    worker_host_free(&w.host);
    worker_compiler_free(&w.compiler);
    worker_pipes_free(&w.pipes);
    lr_arena_free(&w.scratch);
    return w.status;
}
