#include "router/relay/trunk.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "router/relay/call.h"
#include "wire/event.h"

enum {
    CONNECT_MS = 2000,
    RETRY_MS = 1000,
    RETRY_UNKNOWN_MS = 60000, /* a node that knows no trunks: an older one */
    IN_BYTES = WIRE_BODY_MAX + WIRE_HEADER_LEN,
};

/* ---- numbers ---- */

bool router_trunk_attach(struct router_trunk *t, struct router_upstream *u)
{
    if (t->free_slot == 0) {
        uint32_t count = t->slot_count != 0 ? 2 * t->slot_count : 64;
        struct router_trunk_slot *grown = realloc(t->slots, count * sizeof(*grown));
        if (grown == NULL)
            return false;
        for (uint32_t i = t->slot_count; i < count; i++)
            grown[i] = (struct router_trunk_slot){.next_free = i + 1 < count ? i + 2 : 0};
        t->free_slot = t->slot_count + 1;
        t->slots = grown;
        t->slot_count = count;
    }
    uint32_t index = t->free_slot - 1;
    struct router_trunk_slot *slot = &t->slots[index];
    t->free_slot = slot->next_free;
    slot->upstream = u;
    slot->generation++;
    u->trunk = t;
    u->trunk_id = t->id;
    u->stream = (uint64_t)slot->generation << 32 | index;
    u->is_attached = true;
    return true;
}

void router_trunk_detach(struct router_upstream *u)
{
    if (!u->is_attached)
        return;
    struct router_trunk *t = u->trunk;
    uint32_t index = (uint32_t)u->stream;
    u->is_attached = false;
    t->slots[index].upstream = NULL;
    t->slots[index].next_free = t->free_slot;
    t->free_slot = index + 1;
}

static struct router_upstream *find(const struct router_trunk *t, uint64_t stream)
{
    uint32_t index = (uint32_t)stream;
    if (index >= t->slot_count || t->slots[index].generation != (uint32_t)(stream >> 32))
        return NULL;
    return t->slots[index].upstream;
}

/* ---- its end ---- */

static void close_trunk(struct router_trunk *t, const struct lr_error *err)
{
    bool is_unknown = t->status == 404 || t->status == 405;
    struct lr_error ended;
    (void)lr_fail(&ended, LR_UPSTREAM, "%s: the node closed its trunk", t->url);
    t->call = NULL;
    t->id = 0;
    t->retry_ms = net_loop_now_ms(t->home->loop) + (is_unknown ? RETRY_UNKNOWN_MS : RETRY_MS);
    lr_buf_clear(&t->in);
    /* Owners that are told begin anew, but on no trunk before retry_ms: the slots only empty.
     */
    for (uint32_t i = 0; i < t->slot_count; i++)
        if (t->slots[i].upstream != NULL)
            router_upstream_lost(t->slots[i].upstream, err != NULL ? err : &ended);
}

static void on_done(void *arg, const struct lr_error *err)
{
    close_trunk(arg, err);
}

/* ---- events ---- */

static void on_headers(void *arg, int status, struct net_headers headers)
{
    struct router_trunk *t = arg;
    (void)headers;
    t->status = status;
}

static lr_code on_frame(struct router_trunk *t, const struct wire_frame *frame,
                        struct lr_error *err)
{
    struct wire_relayed m;
    if (frame->type == WIRE_TRUNK)
        return wire_u64_decode(frame->body, &t->id, err);
    if (frame->type != WIRE_RELAYED)
        return LR_OK; /* a sign of life */
    lr_code code = wire_relayed_decode(frame->body, &m, err);
    struct router_upstream *u = code == LR_OK ? find(t, m.stream) : NULL;
    if (u == NULL)
        return code;
    if (u->ahead != 0)
        u->ahead--;
    t->home->more_comes = u->ahead != 0;
    router_upstream_event(u, m.event.bytes, wire_event_is_last(m.event.type));
    return LR_OK;
}

/* What one client gets of one read leaves in one write: with its last event.  An error is not
 * counted: the answer may go on elsewhere, and what came before must not wait for that. */
static void count_ahead(struct router_trunk *t, struct lr_str bytes)
{
    struct wire_frame frame;
    struct wire_relayed m;
    bool has = true;
    while (wire_frame_next(&bytes, &frame, &has, NULL) == LR_OK && has) {
        if (frame.type != WIRE_RELAYED || wire_relayed_decode(frame.body, &m, NULL) != LR_OK ||
            m.event.type == WIRE_ERROR || m.event.type == WIRE_LOST)
            continue;
        struct router_upstream *u = find(t, m.stream);
        if (u != NULL)
            u->ahead++;
    }
}

static void on_body(void *arg, struct lr_str bytes)
{
    struct router_trunk *t = arg;
    struct lr_str rest = bytes;
    struct lr_error err;
    bool buffered = t->in.len != 0, has = true;
    lr_code code = LR_OK;
    if (t->status != 200)
        return;
    if (buffered) {
        lr_buf_add_str(&t->in, bytes);
        rest = lr_buf_str(&t->in);
    }
    if (t->in.failed)
        code = lr_fail(&err, LR_UPSTREAM, "%s: an event is over %d bytes", t->url, IN_BYTES);
    if (code == LR_OK)
        count_ahead(t, rest);
    while (code == LR_OK && has) {
        struct wire_frame frame;
        code = wire_frame_next(&rest, &frame, &has, &err);
        if (code == LR_OK && has)
            code = on_frame(t, &frame, &err);
    }
    t->home->more_comes = false;
    if (code != LR_OK) {
        net_call_cancel(t->call);
        close_trunk(t, &err);
    } else if (buffered) {
        lr_buf_consume(&t->in, t->in.len - rest.len);
    } else {
        lr_buf_add_str(&t->in, rest);
    }
}

/* ---- its beginning ---- */

static void open_trunk(struct router_trunk *t)
{
    char url[320];
    (void)snprintf(url, sizeof(url), "%s/v0/trunk", t->url);
    struct net_header headers[] = {
        {LR_STR_LIT("Accept"), LR_STR_LIT(WIRE_EVENTS_TYPE)},
        {LR_STR_LIT("Authorization"), lr_str_z(t->bearer)},
    };
    struct net_call_config config = {
        .url = url,
        .headers = headers,
        .header_count = 2,
        .content_type = "application/json",
        .body = LR_STR_LIT("{}"),
        .connect_timeout_ms = CONNECT_MS,
        .response_timeout_ms = ROUTER_SILENCE_MS,
        .idle_timeout_ms = ROUTER_SILENCE_MS, /* the node says something each second */
        .callbacks = {.arg = t,
                      .on_headers = on_headers,
                      .on_body = on_body,
                      .on_done = on_done},
    };
    t->status = 0;
    /* Without one every generation has its own connection, and nothing is lost. */
    if (net_call_start(t->home->client, &config, &t->call, NULL) != LR_OK)
        t->retry_ms = net_loop_now_ms(t->home->loop) + RETRY_UNKNOWN_MS;
}

static struct router_trunk *find_trunk(struct router_home *home, const struct router_peer *peer)
{
    struct router_trunk *t = home->trunks;
    while (t != NULL && t->node != peer->node)
        t = t->next;
    if (t != NULL)
        return t;
    t = calloc(1, sizeof(*t));
    if (t == NULL)
        return NULL;
    t->home = home;
    t->node = peer->node;
    t->next = home->trunks;
    home->trunks = t;
    lr_buf_init(&t->in, IN_BYTES);
    return t;
}

struct router_trunk *router_trunk_of(struct router_home *home, const struct router_peer *peer)
{
    struct router_trunk *t = find_trunk(home, peer);
    /* A node that came back from elsewhere: the old trunk ends by itself. */
    bool is_there = t != NULL && strcmp(t->url, peer->url) == 0;
    if (t == NULL || (t->call != NULL && !is_there))
        return NULL;
    if (t->call != NULL)
        return t->id != 0 ? t : NULL;
    if (is_there && net_loop_now_ms(home->loop) < t->retry_ms)
        return NULL;
    (void)snprintf(t->url, sizeof(t->url), "%s", peer->url);
    (void)snprintf(t->bearer, sizeof(t->bearer), "%s", peer->bearer);
    open_trunk(t);
    return NULL;
}

/* ---- leaving ---- */

static void on_left(void *arg, const struct lr_error *err, const struct net_reply *reply)
{
    (void)arg; /* a node that cannot be reached loses the trunk, and with it the generation */
    (void)err;
    (void)reply;
}

void router_trunk_leave(const struct router_upstream *u)
{
    const struct router_trunk *t = u->trunk;
    char url[400];
    if (t->id != u->trunk_id)
        return; /* that trunk is gone, and the generation with it */
    (void)snprintf(url, sizeof(url), "%s/v0/trunk/%" PRIu64 "/%" PRIu64, t->url, u->trunk_id,
                   u->stream);
    struct net_header header = {LR_STR_LIT("Authorization"), lr_str_z(t->bearer)};
    struct net_call_config config = {
        .method = "DELETE",
        .url = url,
        .headers = &header,
        .header_count = 1,
        .connect_timeout_ms = CONNECT_MS,
        .response_timeout_ms = CONNECT_MS,
    };
    lr_code ignored = net_fetch(u->home->client, &config, on_left, NULL, NULL, NULL);
    (void)ignored;
}

void router_trunks_free(struct router_home *home)
{
    while (home->trunks != NULL) {
        struct router_trunk *t = home->trunks;
        home->trunks = t->next;
        lr_buf_free(&t->in);
        free(t->slots);
        free(t);
    }
}
