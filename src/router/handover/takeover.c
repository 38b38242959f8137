#include <string.h>

#include "base/clock.h"
#include "base/json.h"
#include "base/log.h"
#include "base/machine.h"
#include "base/os/file.h"
#include "base/passing.h"
#include "base/service.h"
#include "router/handover/handover.h"
#include "router/handover/message.h"
#include "router/handover/secret.h"

enum { ANSWER_MS = 60000 }; /* the old router looks often, but its machine may be busy */

#define TO(name) LR_STATE(ROUTER_TAKEOVER_##name)
static const struct lr_machine machine = {
    "takeover",
    {
        [ROUTER_TAKEOVER_NOBODY] = {"nobody", TO(ASKING)},
        [ROUTER_TAKEOVER_ASKING] = {"asking", TO(PREPARING) | TO(NOBODY) | TO(FAILED)},
        [ROUTER_TAKEOVER_PREPARING] = {"preparing", TO(TAKEN) | TO(FAILED)},
        [ROUTER_TAKEOVER_TAKEN] = {"taken", TO(DONE)},
        [ROUTER_TAKEOVER_DONE] = {"done", 0},
        [ROUTER_TAKEOVER_FAILED] = {"failed", 0},
    },
};

/* The only function that changes the state.  Without the connection the old router goes on, or
 * has ended. */
static void takeover_move(struct router_takeover *t, enum router_takeover_state to)
{
    if (!lr_machine_allows(&machine, "router", t->state, to))
        return;
    t->state = to;
    if (to == ROUTER_TAKEOVER_ASKING || to == ROUTER_TAKEOVER_PREPARING ||
        to == ROUTER_TAKEOVER_TAKEN)
        return;
    (void)close(t->peer);
    t->peer = -1;
}

static lr_code takeover_fail(struct router_takeover *t, struct lr_error *err)
{
    takeover_move(t, ROUTER_TAKEOVER_FAILED);
    return lr_fail_prefix(err, "taking over from the router of process %ld, which goes on",
                          (long)t->pid);
}

static lr_code say(struct router_takeover *t, struct lr_str text,
                   struct router_handover_message *message, struct lr_passed *heard,
                   struct lr_error *err)
{
    lr_code code = lr_passing_send(t->peer, text, NULL, 0, err);
    if (code == LR_OK)
        code = lr_passing_receive(t->peer, true, heard, err);
    return code == LR_OK ? router_handover_message_read(heard, message, err) : code;
}

static lr_code take_offer(struct router_takeover *t,
                          const struct router_handover_message *message,
                          struct lr_passed *heard, struct lr_error *err)
{
    size_t at = message->listeners.count;
    if (message->protocol != ROUTER_HANDOVER_PROTOCOL || message->locks < 1 ||
        message->locks > 2 || heard->count != at + message->locks)
        return lr_fail(err, LR_INVALID_ARGUMENT,
                       "the offer of the running router has %zu descriptors for %zu sockets",
                       heard->count, at);
    t->listeners = message->listeners;
    for (size_t i = 0; i < at; i++) {
        t->is_shared = t->is_shared || t->listeners.all[i].is_shared;
        t->listeners.all[i].is_shared = true; /* until the old router has given way */
        t->listeners.all[i].fd = heard->fds[i];
    }
    t->data_lock.fd = heard->fds[at];
    if (message->locks == 2)
        t->database_lock.fd = heard->fds[at + 1];
    heard->count = 0;
    memcpy(t->version, message->version, sizeof(t->version));
    return LR_OK;
}

void router_takeover_init(struct router_takeover *t)
{
    *t = (struct router_takeover){.peer = -1, .data_lock.fd = -1, .database_lock.fd = -1};
}

lr_code router_takeover_ask(struct router_takeover *t, const char *folder, const char *version,
                            bool only_left, struct lr_error *err)
{
    struct router_handover_message message;
    struct lr_passed heard;
    struct lr_json_writer w;
    struct lr_buf text;
    char secret[ROUTER_HANDOVER_SECRET + 1];
    router_takeover_init(t);
    lr_code code = lr_dir_exists(folder) ? lr_passing_connect(folder, ROUTER_HANDOVER_NAME,
                                                              ANSWER_MS, &t->peer, &t->pid, err)
                                         : LR_NOT_FOUND;
    if (code != LR_OK)
        return code == LR_NOT_FOUND ? LR_OK : code;
    takeover_move(t, ROUTER_TAKEOVER_ASKING);
    heard.len = heard.count = 0;
    router_handover_secret_read(folder, secret); /* a router of the release before has none */
    lr_buf_init(&text, LR_PASSING_TEXT_MAX);
    lr_json_writer_init(&w, &text);
    LR_JSON_ITEM(&w, LR_UINT("protocol", ROUTER_HANDOVER_PROTOCOL), LR_TEXT("version", version),
                 LR_TEXT("secret", secret), LR_FLAG("only_left", only_left));
    code = say(t, lr_buf_str(&text), &message, &heard, err);
    lr_buf_free(&text);
    if (code == LR_UNAVAILABLE && heard.len == 0) { /* it has ended, or given its place away */
        takeover_move(t, ROUTER_TAKEOVER_NOBODY);
        return LR_OK;
    }
    if (code == LR_OK && only_left && !message.was_left) /* the release before does not ask */
        code = lr_fail(err, LR_CONFLICT, "it is in service");
    if (code == LR_OK)
        code = take_offer(t, &message, &heard, err);
    for (size_t i = 0; i < heard.count; i++)
        (void)close(heard.fds[i]);
    if (code != LR_OK)
        return takeover_fail(t, err);
    takeover_move(t, ROUTER_TAKEOVER_PREPARING);
    return LR_OK;
}

void router_takeover_sockets(struct router_takeover *t, struct net_listeners *wanted)
{
    if (t->is_shared && wanted->all[0].fd < 0) { /* a service manager's stand for --listen */
        *wanted = t->listeners;
        t->listeners.count = 0;
    }
    for (size_t i = 0; i < wanted->count; i++)
        for (size_t k = 0; k < t->listeners.count && wanted->all[i].fd < 0; k++) {
            struct net_listener *l = &t->listeners.all[k];
            bool fits = wanted->all[i].port == 0 || wanted->all[i].port == l->port;
            if (l->fd < 0 || !fits || strcmp(wanted->all[i].host, l->host) != 0)
                continue;
            wanted->all[i] = *l;
            l->fd = -1;
        }
}

/* The sockets that nobody wants.  Their files go once no router listens there. */
static void drop_sockets(struct router_takeover *t)
{
    for (size_t i = 0; i < t->listeners.count; i++) {
        t->listeners.all[i].is_shared = t->is_shared || t->state != ROUTER_TAKEOVER_TAKEN;
        net_listener_close(&t->listeners.all[i]);
    }
}

static void read_memory(const struct router_known_nodes *memory, int fd)
{
    struct lr_file_map map;
    struct lr_error err;
    if (lr_file_map_fd(fd, "the old router's memory", &map, &err) != LR_OK) {
        lr_log_warn(LR_LOG_OF(&err), "router.memory_not_taken reason=%s", err.text);
        return;
    }
    router_known_nodes_read(memory, lr_str((const char *)map.data, map.len), lr_clock_ms(NULL));
    lr_file_unmap(&map);
}

void router_takeover_recall(const struct router_known_nodes *memory)
{
    int fd = lr_service_take_stored();
    if (fd < 0)
        return;
    read_memory(memory, fd);
    (void)close(fd);
}

lr_code router_takeover_finish(struct router_takeover *t,
                               const struct router_known_nodes *memory, struct lr_error *err)
{
    struct router_handover_message message;
    struct lr_passed heard = {.count = 0};
    lr_code code =
        say(t, LR_STR_LIT("{\"ready\":true,\"says_bye\":true}"), &message, &heard, err);
    if (code == LR_OK && !message.is_go)
        code = lr_fail(err, LR_UPSTREAM, "the running router did not give way");
    if (code == LR_OK && heard.count != 0)
        read_memory(memory, heard.fds[0]);
    for (size_t i = 0; i < heard.count; i++)
        (void)close(heard.fds[i]);
    if (code != LR_OK)
        return takeover_fail(t, err);
    takeover_move(t, ROUTER_TAKEOVER_TAKEN);
    drop_sockets(t);
    lr_log_info(NULL, "router.took_over pid=%ld version=%s", (long)t->pid, t->version);
    return LR_OK;
}

void router_takeover_bye(struct router_takeover *t)
{
    if (t->state == ROUTER_TAKEOVER_TAKEN &&
        lr_passing_send(t->peer, LR_STR_LIT("{\"bye\":true}"), NULL, 0, NULL) != LR_OK)
        lr_log_debug(NULL, "router.bye pid=%ld", (long)t->pid); /* it has just ended */
}

bool router_takeover_look(struct router_takeover *t)
{
    struct lr_passed heard;
    if (t->state != ROUTER_TAKEOVER_TAKEN)
        return false;
    lr_code code = lr_passing_receive(t->peer, false, &heard, NULL);
    for (size_t i = 0; code == LR_OK && i < heard.count; i++)
        (void)close(heard.fds[i]);
    if (code != LR_UNAVAILABLE)
        return false;
    takeover_move(t, ROUTER_TAKEOVER_DONE);
    lr_log_info(NULL, "router.predecessor_ended pid=%ld", (long)t->pid);
    return true;
}

void router_takeover_free(struct router_takeover *t)
{
    if (t->state == ROUTER_TAKEOVER_PREPARING)
        takeover_move(t, ROUTER_TAKEOVER_FAILED);
    drop_sockets(t);
    if (t->peer >= 0)
        (void)close(t->peer);
    lr_file_unlock(&t->data_lock);
    lr_file_unlock(&t->database_lock);
}
