/* node/fleet/registry.c - see node/fleet/registry.h.
 *
 * One question at a time goes to a router: the list, then manifest by manifest.  The next
 * router is asked when an answer to a heartbeat has news, when a question is answered, and when
 * the pause after a failure ends.
 */
#include "node/fleet/registry.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/log.h"
#include "hub/manifest.h"
#include "net/client.h"
#include "node/fetch/fetch.h"
#include "node/fetch/storage.h"
#include "node/models/models.h"
#include "wire/reply.h"

enum {
    AGAIN_MS = 2000, /* after a router that did not answer */
    CALL_MS = 10000,
    LIST_BYTES = 16 << 20,
    LIVE_MS = 10000, /* a router that says nothing for longer contradicts nobody */
    ID_MAX = 200,
};

struct node_registry {
    struct node_storage *storage; /* borrowed, as the next three */
    struct node_models *models;
    struct net_client *client;
    const char *secret;
    struct node_source *sources; /* of the routers that were heard */
    struct node_source *asked;   /* whom `call` goes to */
    struct net_timer *timer;     /* the end of a pause; NULL: nobody pauses */
    struct net_call *call;
    struct lr_arena arena;     /* of `list` and `wanted` */
    struct wire_registry list; /* being looked at */
    struct lr_str
        *wanted; /* ids whose manifests are still to be asked for; NULL: no list yet */
    size_t wanted_count, wanted_at;
};

/* ---- the list ---- */

/* Ids become part of a URL and of a path. */
static bool is_plain_id(struct lr_str id)
{
    for (size_t i = 0; i < id.len; i++) {
        char c = id.ptr[i];
        if (!((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
              (c != '\0' && strchr("-_.:/", c) != NULL)))
            return false;
    }
    return id.len != 0 && id.len <= ID_MAX && lr_path_safe(id);
}

/* ---- which registration is the newest ---- */

static struct lr_str registry_fold(struct lr_str id, char out[ID_MAX])
{
    for (size_t i = 0; i < id.len; i++)
        out[i] = id.ptr[i] >= 'A' && id.ptr[i] <= 'Z' ? (char)(id.ptr[i] + 32) : id.ptr[i];
    return lr_str(out, id.len);
}

static void note_generations(struct node_registry *r, struct node_source *source)
{
    char folded[ID_MAX];
    lr_strmap_free(&source->generations);
    lr_strmap_init(&source->generations);
    for (size_t i = 0; i < r->list.count; i++) {
        const struct wire_registered *entry = &r->list.models[i];
        if (entry->generation != 0 && is_plain_id(entry->id))
            (void)lr_strmap_put(&source->generations, registry_fold(entry->id, folded),
                                (void *)(uintptr_t)entry->generation,
                                NULL); /* without memory: as for an older release */
    }
}

/* Another router that lives has a newer registration of this model: the asked one will learn
 * of it.  Following both would fetch one revision after the other without end. */
static bool is_outdated(const struct node_registry *r, struct lr_str id, uint64_t generation)
{
    char folded[ID_MAX];
    uint64_t now = node_now(r->models);
    for (const struct node_source *other = r->sources; generation != 0 && other != NULL;
         other = other->next)
        if (other != r->asked && now - other->heard_ms < LIVE_MS &&
            (uintptr_t)lr_strmap_get(&other->generations, registry_fold(id, folded)) >
                generation)
            return true;
    return false;
}

/* ---- reading the list ---- */

static bool is_registered(void *arg, struct lr_str id)
{
    const struct node_registry *r = arg;
    for (size_t i = 0; i < r->list.count; i++)
        if (lr_str_eq_nocase(r->list.models[i].id, id))
            return true;
    return false;
}

/* Files that an operator put here need the right format, and no manifest.  Files that the node
 * has fetched need the right revision. */
static bool is_wanted(const struct node_registry *r, const struct wire_registered *entry)
{
    struct lr_str digest = entry->manifest_sha256;
    struct node_model *m = node_find_model(r->models, entry->id);
    if (m != NULL && entry->format.len != 0)
        node_storage_registered(m, entry->format);
    return lr_str_eq_z(entry->source, "hub") &&
           !node_fetch_has(r->storage->fetch, entry->id, digest) &&
           (m == NULL || m->state == NODE_MODEL_ABSENT || node_storage_is_other(m, digest));
}

/* A registration by path: its folder may lie here under another name. */
static void adopt_local(const struct node_registry *r, const struct wire_registered *entry)
{
    struct node_model *model;
    struct lr_error err;
    if (entry->path.len == 0 || node_find_model(r->models, entry->id) != NULL)
        return;
    if (node_storage_inspect(r->storage, entry->path, entry->id, entry->format, &model, &err) !=
        LR_OK)
        lr_log_debug(NULL, "registry.not_here model=" LR_STR_FMT " reason=%s",
                     LR_STR_ARG(entry->id), err.text);
}

static bool registry_read_list(struct node_registry *r, struct lr_str text)
{
    lr_arena_free(&r->arena);
    r->list = (struct wire_registry){0};
    r->wanted = NULL;
    r->wanted_count = r->wanted_at = 0;
    char *copy = lr_arena_copy(&r->arena, text); /* the list's texts point into it */
    if (copy == NULL ||
        wire_registry_parse(&r->arena, lr_str(copy, text.len), &r->list, NULL) != LR_OK)
        return false;
    note_generations(r, r->asked);
    r->wanted = lr_arena_array(&r->arena, r->list.count + 1, sizeof(*r->wanted));
    for (size_t i = 0; r->wanted != NULL && i < r->list.count; i++) {
        const struct wire_registered *entry = &r->list.models[i];
        if (!is_plain_id(entry->id) || is_outdated(r, entry->id, entry->generation))
            continue;
        adopt_local(r, entry);
        if (is_wanted(r, entry))
            r->wanted[r->wanted_count++] = entry->id;
    }
    return r->wanted != NULL;
}

/* ---- asking ---- */

static void registry_on_reply(void *arg, const struct lr_error *err,
                              const struct net_reply *reply);
static void ask_next(struct node_registry *r);

/* The whole list is asked for again, a little later. */
static void ask_again(struct node_registry *r)
{
    r->wanted = NULL;
    r->asked->ask_ms = node_now(r->models) + AGAIN_MS;
}

/* For a manifest, or without an id for the list. */
static void registry_ask(struct node_registry *r, struct lr_str id)
{
    char url[1024];
    struct lr_error err;
    if (id.len == 0)
        (void)snprintf(url, sizeof(url), "%.400s/v0/models/registry", r->asked->url);
    else
        (void)snprintf(url, sizeof(url), "%.400s/v0/models/registry/%.*s/manifest.json",
                       r->asked->url, LR_STR_ARG(id));
    struct net_call_config config = {
        .url = url,
        .bearer = r->secret,
        .connect_timeout_ms = CALL_MS,
        .response_timeout_ms = CALL_MS,
        .max_response_bytes = LIST_BYTES,
    };
    if (net_fetch(r->client, &config, registry_on_reply, r, &r->call, &err) != LR_OK) {
        lr_log_warn(LR_LOG_OF(&err), "registry.ask router=%s reason=%s", r->asked->url,
                    err.text);
        ask_again(r);
    }
}

static void registry_take(struct node_registry *r, struct lr_str text)
{
    struct hub_manifest *manifest;
    struct lr_error err;
    if (hub_manifest_decode(text, &manifest, &err) == LR_OK)
        node_fetch_take(r->storage->fetch, manifest, r->asked->url);
    else
        lr_log_warn(LR_LOG_OF(&err), "registry.refused router=%s reason=%s", r->asked->url,
                    err.text);
}

static void registry_on_reply(void *arg, const struct lr_error *err,
                              const struct net_reply *reply)
{
    struct node_registry *r = arg;
    r->call = NULL;
    bool is_list = r->wanted == NULL;
    bool is_good = err == NULL && reply->status == 200;
    /* A model that was deleted meanwhile is no trouble; everything else is tried again. */
    bool is_gone = err == NULL && reply->status == 404 && !is_list;
    if (is_good && is_list) {
        is_good = registry_read_list(r, reply->body);
        if (is_good)
            node_fetch_review(r->storage->fetch, r->asked->url, is_registered, r);
    } else if (is_good) {
        registry_take(r, reply->body);
    }
    if (!is_good && !is_gone) {
        lr_log_warn(NULL, "registry.ask router=%s status=%d reason=%s", r->asked->url,
                    reply != NULL ? reply->status : 0, err != NULL ? err->text : "");
        ask_again(r);
    } else if (r->wanted_at < r->wanted_count) {
        registry_ask(r, r->wanted[r->wanted_at++]);
    } else {
        r->wanted = NULL;
        r->asked->seen = r->list.version;
    }
    ask_next(r);
}

static void registry_on_timer(void *arg)
{
    struct node_registry *r = arg;
    net_timer_stop(r->timer);
    r->timer = NULL;
    ask_next(r);
}

/* Asks the first router that has news. */
static void ask_next(struct node_registry *r)
{
    uint64_t now = node_now(r->models), pause_ms = UINT64_MAX;
    for (struct node_source *source = r->sources;
         source != NULL && r->call == NULL && !r->models->is_draining; source = source->next) {
        if (source->heard != source->seen && now >= source->ask_ms) {
            r->asked = source;
            registry_ask(r, (struct lr_str){0});
        }
        if (r->call == NULL && source->heard != source->seen && source->ask_ms > now &&
            source->ask_ms - now < pause_ms)
            pause_ms = source->ask_ms - now;
    }
    if (r->call != NULL || pause_ms == UINT64_MAX)
        return; /* the answer leads here again, or there is nothing to ask */
    net_timer_stop(r->timer);
    r->timer = net_timer_start(r->models->loop, pause_ms, 0, registry_on_timer, r);
}

/* ---- hearing ---- */

void node_registry_heard(struct node_registry *registry, struct node_source *source,
                         const struct wire_fleet_reply *reply)
{
    if (source->heard_ms == 0) {
        struct node_source **end =
            &registry->sources; /* in the order in which they were heard */
        while (*end != NULL)
            end = &(*end)->next;
        lr_strmap_init(&source->generations);
        source->next = NULL;
        *end = source;
    }
    source->heard_ms = node_now(registry->models);
    if (reply->has_registry)
        source->heard = reply->registry_version;
    if (reply->node_id.len != 0)
        source->seen = 0; /* a join: a router that was restarted counts anew */
    ask_next(registry);
}

static void remove_source(struct node_registry *registry, struct node_source *source)
{
    struct node_source **link = &registry->sources;
    while (*link != NULL && *link != source)
        link = &(*link)->next;
    if (*link == NULL)
        return;
    *link = source->next;
    if (registry->asked == source && registry->call != NULL) {
        net_call_cancel(registry->call);
        registry->call = NULL;
        registry->wanted = NULL;
    }
    lr_strmap_free(&source->generations);
}

void node_registry_forget(struct node_registry *registry, struct node_source *source)
{
    remove_source(registry, source);
    ask_next(registry);
}

/* ---- life ---- */

struct node_registry *node_registry_create(struct node_storage *storage,
                                           struct net_client *client, const char *secret)
{
    struct node_registry *r = net_alloc(sizeof(*r));
    r->storage = storage;
    r->models = storage->models;
    r->client = client;
    r->secret = secret;
    lr_arena_init(&r->arena, 256 << 20);
    return r;
}

void node_registry_destroy(struct node_registry *registry)
{
    if (registry == NULL)
        return;
    net_timer_stop(registry->timer);
    while (registry->sources != NULL)
        remove_source(registry, registry->sources);
    lr_arena_free(&registry->arena);
    free(registry);
}
