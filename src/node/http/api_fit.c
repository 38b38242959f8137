/* node/http/api_fit.c - POST /v0/models/fit: whether models would run here that are not here.
 *
 * The ledger's plan for so many bytes, and the engine that the registration would get.
 */
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/os/cpu.h"
#include "node/http/api.h"
#include "wire/fit.h"

enum {
    FIT_BODY = 1 << 20,
    PROBE_WORDS = 4 << 20, /* 32 MiB: larger than most caches */
    PROBE_THREADS = 4,     /* as many as it takes to fill most memory channels */
};

/* What one thread reads in a pass over a buffer, times the threads that add up.  Measured once;
 * a few milliseconds of the node's loop. */
static uint64_t memory_bandwidth(void)
{
    static uint64_t rate;
    static volatile uint64_t kept; /* or the compiler leaves the loop out */
    uint64_t *words = rate == 0 ? calloc(PROBE_WORDS, sizeof(*words)) : NULL;
    if (words == NULL)
        return rate;
    for (size_t i = 0; i < PROBE_WORDS; i += 512)
        words[i] = i; /* pages of their own */
    uint64_t sum[4] = {0}, from = lr_clock_ns(NULL);
    for (size_t i = 0; i < PROBE_WORDS; i += 4)
        for (size_t k = 0; k < 4; k++)
            sum[k] += words[i + k];
    uint64_t ns = lr_clock_ns(NULL) - from;
    kept = sum[0] + sum[1] + sum[2] + sum[3];
    (void)kept;
    free(words);
    uint64_t threads = lr_cpu_allowed();
    threads = threads < PROBE_THREADS ? threads : PROBE_THREADS;
    rate = ns != 0 ? (uint64_t)PROBE_WORDS * sizeof(*words) * 1000000000ull / ns * threads : 0;
    return rate;
}

/* The pool with the best plan: RAM for an engine of the processor, else a GPU. */
static uint32_t best_pool(const struct node *node, bool on_device, uint64_t bytes,
                          struct node_room *room)
{
    const struct node_pools *pools = &node->models.pools;
    uint32_t best = NODE_POOL_RAM;
    enum node_plan plan = NODE_PLAN_NEVER;
    for (uint32_t i = 1; on_device && i < pools->count; i++) {
        node_plan_room(&node->models, i, bytes, room);
        if (!pools->pool[i].health.gpu.is_faulty &&
            (best == NODE_POOL_RAM || room->plan < plan)) {
            best = i;
            plan = room->plan;
        }
    }
    node_plan_room(&node->models, best, bytes, room);
    return best;
}

static void plan_one(struct node *node, struct lr_arena *arena, const struct wire_fit_ask *ask,
                     struct wire_fit_verdict *out)
{
    static const char *const plans[] = {"fits", "reclaim", "evict", "wait", "never"};
    static struct node_room room;
    struct node_engine *engine = NULL;
    struct lr_error why = {0};
    const char *device = node->models.devices.kind;
    const char *runtime = lr_arena_copy(arena, ask->runtime);
    const char *architecture = lr_arena_copy(arena, ask->architecture);
    const char *format = lr_arena_copy(arena, ask->format);
    *out = (struct wire_fit_verdict){0};
    if (runtime == NULL || architecture == NULL || format == NULL)
        return;
    /* A GGUF's engine has the last word on its architectures: libllama knows more than the
     * manifest lists. */
    struct node_wish wish = {.runtime = runtime,
                             .format = format,
                             .architecture =
                                 lr_str_eq_z(ask->format, "gguf") ? NULL : architecture,
                             .device = device};
    if (node_engines_resolve(&node->engines, &wish, &engine, &why) != LR_OK) {
        const char *text = lr_arena_copy(arena, lr_str_z(why.text));
        out->reason = lr_str_z(text != NULL ? text : "no engine");
        return;
    }
    out->engine = lr_str_z(engine->name);
    out->on_device = strcmp(device, "cpu") != 0 && node->models.pools.count > 1;
    uint32_t pool = best_pool(node, out->on_device, ask->bytes, &room);
    const struct node_pool *p = &node->models.pools.pool[pool];
    out->plan = lr_str_z(plans[room.plan]);
    out->pool = lr_str_z(p->title);
    out->total = p->state.total;
    out->available = room.available;
    for (size_t i = 0; i < room.count && out->evict_count < WIRE_FIT_EVICTS_MAX; i++)
        if (room.claims[i].is_victim)
            out->evicts[out->evict_count++] = lr_str_z(room.claims[i].owner->model->id);
}

/* The folder may be made by the first download: then the one that it will lie in counts. */
static uint64_t free_below(const char *folder)
{
    char path[LR_PATH_MAX];
    uint64_t bytes = 0;
    LR_COPY(path, lr_str_z(folder));
    while (path[0] != '\0' && lr_disk_free(path, &bytes, NULL) != LR_OK) {
        char *slash = strrchr(path, '/');
        if (slash == NULL)
            return 0;
        *(slash == path && slash[1] != '\0' ? slash + 1 : slash) = '\0';
    }
    return bytes;
}

lr_code node_api_fit(struct node *node, struct net_request *req, struct lr_error *err)
{
    struct lr_arena *arena = net_request_arena(req);
    struct lr_buf body;
    struct wire_fit_question *question = lr_arena_zalloc(arena, sizeof(*question));
    struct wire_fit_answer *answer = lr_arena_zalloc(arena, sizeof(*answer));
    if (question == NULL || answer == NULL)
        return lr_fail(err, LR_OUT_OF_RAM, "no memory for a request");
    lr_code code = wire_fit_question_parse(arena, net_request_body(req), question, err);
    if (code != LR_OK)
        return code;
    node_measure(&node->models);
    answer->count = question->count;
    answer->bandwidth = memory_bandwidth();
    answer->disk_free = free_below(node->storage.root);
    for (size_t i = 0; i < question->count; i++)
        plan_one(node, arena, &question->models[i], &answer->models[i]);
    lr_buf_init(&body, FIT_BODY);
    wire_fit_answer_write(&body, answer);
    if (body.failed)
        code = lr_fail(err, LR_INTERNAL, "the answer is larger than %d bytes", FIT_BODY);
    else
        net_respond(req, 200, "application/json", lr_buf_str(&body));
    lr_buf_free(&body);
    return code;
}
