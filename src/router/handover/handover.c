#include "router/handover/handover.h"

#include "base/json.h"
#include "base/log.h"
#include "base/machine.h"
#include "base/os/file.h"
#include "base/passing.h"
#include "base/service.h"
#include "router/handover/message.h"

enum {
    ASK_MS = 5000,            /* for the new router's first message */
    PREPARE_MS = 120000,      /* for its start, with the steps of a large database */
    MEMORY_BYTES = 512 << 20, /* of what is passed on */
};

#define TO(name) LR_STATE(ROUTER_HANDOVER_##name)
static const struct lr_machine machine = {
    "handover",
    {
        [ROUTER_HANDOVER_ALONE] = {"alone", TO(ASKED)},
        [ROUTER_HANDOVER_ASKED] = {"asked", TO(OFFERED) | TO(ALONE)},
        [ROUTER_HANDOVER_OFFERED] = {"offered", TO(GIVEN) | TO(ALONE)},
        [ROUTER_HANDOVER_GIVEN] = {"given", TO(OVER) | TO(ALONE)},
        [ROUTER_HANDOVER_OVER] = {"over", 0},
    },
};

/* The only function that changes the state.  An illegal move changes nothing: the old router
 * goes on. */
static void handover_move(struct router_handover *h, enum router_handover_state to,
                          uint64_t now)
{
    if (!lr_machine_allows(&machine, h->folder, h->state, to))
        return;
    h->state = to;
    h->since_ms = now;
    if (to != ROUTER_HANDOVER_ALONE)
        return;
    (void)close(h->peer);
    h->peer = -1;
}

lr_code router_handover_start(struct router_handover *h, struct lr_error *err)
{
    h->state = ROUTER_HANDOVER_ALONE;
    h->peer = h->listener = -1;
    lr_code code = router_handover_secret_make(h->folder, h->secret, err);
    return code == LR_OK ? lr_passing_listen(h->folder, ROUTER_HANDOVER_NAME, &h->listener, err)
                         : code;
}

void router_handover_stop(struct router_handover *h)
{
    char path[LR_PATH_MAX];
    if (h->folder == NULL || h->listener < 0)
        return;
    (void)close(h->listener);
    h->listener = -1;
    if (h->peer >= 0)
        (void)close(h->peer);
    if (h->state >= ROUTER_HANDOVER_GIVEN)
        return; /* the file is the new router's */
    if (lr_path_join(path, h->folder, LR_STR_LIT(ROUTER_HANDOVER_NAME), NULL) == LR_OK)
        (void)lr_unlink(path);
}

/* ---- messages ---- */

static lr_code answer(struct router_handover *h, const struct lr_buf *text, const int *fds,
                      size_t count, struct lr_error *err)
{
    return text->failed ? lr_fail(err, LR_OUT_OF_RAM, "no memory for a message")
                        : lr_passing_send(h->peer, lr_buf_str(text), fds, count, err);
}

/* The descriptors follow in the order in which the text names them. */
static lr_code offer(struct router_handover *h, struct lr_error *err)
{
    const struct net_listeners *listeners = net_server_listeners(h->server);
    int fds[NET_LISTENERS_MAX + 2];
    size_t count = 0;
    struct lr_buf text;
    struct lr_json_writer w;
    lr_buf_init(&text, LR_PASSING_TEXT_MAX);
    lr_json_writer_init(&w, &text);
    lr_json_begin_object(&w);
    LR_JSON_MEMBERS(
        &w, LR_UINT("protocol", ROUTER_HANDOVER_PROTOCOL), LR_TEXT("version", h->version),
        LR_UINT("locks", h->database_lock >= 0 ? 2 : 1), LR_FLAG("was_left", h->was_left));
    lr_json_member_array(&w, "listeners");
    for (size_t i = 0; i < listeners->count; i++) {
        const struct net_listener *l = &listeners->all[i];
        LR_JSON_ITEM(&w, LR_TEXT("host", l->host), LR_UINT("port", l->port),
                     LR_FLAG("shared", l->is_shared));
        fds[count++] = l->fd;
    }
    lr_json_end_array(&w);
    lr_json_end_object(&w);
    fds[count++] = h->data_lock;
    if (h->database_lock >= 0)
        fds[count++] = h->database_lock;
    lr_code code = answer(h, &text, fds, count, err);
    lr_buf_free(&text);
    return code;
}

static lr_code check_message(const struct router_handover *h,
                             const struct router_handover_message *message,
                             struct lr_error *err)
{
    bool has_secret = h->secret[0] != '\0' &&
                      lr_str_eq_secret(lr_str_z(message->secret), lr_str_z(h->secret));
    if (message->protocol != ROUTER_HANDOVER_PROTOCOL)
        return lr_fail(err, LR_UNSUPPORTED,
                       "llm-router %s speaks protocol %llu of the handover, the running router "
                       "(llm-router %s) protocol %d: stop the running router first",
                       message->version, (unsigned long long)message->protocol, h->version,
                       ROUTER_HANDOVER_PROTOCOL);
    if (!has_secret && (h->own == 0 || h->pid != h->own))
        return lr_fail(err, LR_PERMISSION_DENIED,
                       "llm-router %s (process %ld) does not show the secret "
                       "of " ROUTER_HANDOVER_SECRET_NAME
                       " in the data folder: send SIGUSR2 to the "
                       "running router, or stop it first",
                       message->version, (long)h->pid);
    return message->only_left && !h->was_left
               ? lr_fail(err, LR_CONFLICT, "a router runs in this folder: give --takeover")
               : LR_OK;
}

static void handover_refuse(struct router_handover *h, const struct lr_error *err)
{
    char reason[300];
    struct lr_buf text;
    struct lr_json_writer w;
    LR_COPY(reason, lr_str_z(err->text));
    lr_buf_init(&text, LR_PASSING_TEXT_MAX);
    lr_json_writer_init(&w, &text);
    LR_JSON_ITEM(&w, LR_TEXT("error", reason));
    if (answer(h, &text, NULL, 0, NULL) != LR_OK)
        lr_log_debug(NULL, "router.handover_refusal reason=%s", "was not heard");
    lr_buf_free(&text);
}

static lr_code write_memory(struct router_handover *h, int *file, struct lr_error *err)
{
    struct lr_buf memory;
    *file = -1;
    lr_buf_init(&memory, MEMORY_BYTES);
    (void)pthread_mutex_lock(h->lock);
    router_known_nodes_write(&h->memory, &memory);
    (void)pthread_mutex_unlock(h->lock);
    lr_code code = memory.failed ? lr_fail(err, LR_OUT_OF_RAM, "no memory for what is given")
                                 : lr_passing_file(lr_buf_str(&memory), file, err);
    lr_buf_free(&memory);
    return code;
}

void router_handover_leave(struct router_handover *h)
{
    struct lr_error err;
    int file;
    if (h->folder == NULL)
        return;
    if (write_memory(h, &file, &err) != LR_OK) {
        lr_log_warn(LR_LOG_OF(&err), "router.memory_not_left reason=%s", err.text);
        return;
    }
    lr_service_store(file);
    (void)close(file);
}

/* The new router has what it needs as soon as this is sent. */
static lr_code handover_give(struct router_handover *h, struct lr_error *err)
{
    int file;
    h->on_giving(h->arg);
    lr_code code = write_memory(h, &file, err);
    if (code == LR_OK)
        code = lr_passing_send(h->peer, LR_STR_LIT("{\"go\":true}"), &file, 1, err);
    if (file >= 0)
        (void)close(file);
    return code;
}

/* ---- steps ---- */

static void handover_fail(struct router_handover *h, const struct lr_error *err, uint64_t now)
{
    if (err->code != LR_CONFLICT) /* a start by mistake, whose operator reads the reason */
        lr_log_warn(LR_LOG_OF(err), "router.handover_failed pid=%ld goes_on=true reason=%s",
                    (long)h->pid, err->text);
    handover_move(h, ROUTER_HANDOVER_ALONE, now);
}

static void welcome(struct router_handover *h, uint64_t now)
{
    h->peer = lr_passing_accept(h->listener, &h->pid);
    if (h->peer >= 0)
        handover_move(h, ROUTER_HANDOVER_ASKED, now);
}

static lr_code handover_hear(struct router_handover *h, const struct lr_passed *heard,
                             uint64_t now, struct lr_error *err)
{
    struct router_handover_message message;
    lr_code code = router_handover_message_read(heard, &message, err);
    if (code != LR_OK)
        return code;
    if (h->state == ROUTER_HANDOVER_ASKED) {
        code = check_message(h, &message, err);
        if (code != LR_OK)
            handover_refuse(h, err);
        else
            code = offer(h, err);
        if (code != LR_OK)
            return code;
        lr_log_info(NULL, "router.handover_offered pid=%ld version=%s", (long)h->pid,
                    message.version);
        handover_move(h, ROUTER_HANDOVER_OFFERED, now);
        return LR_OK;
    }
    if (!message.is_ready)
        return lr_fail(err, LR_INVALID_ARGUMENT, "the new router did not say that it is ready");
    code = handover_give(h, err);
    if (code != LR_OK)
        return code;
    handover_move(h, ROUTER_HANDOVER_GIVEN, now);
    h->given = h->pid;
    h->says_bye = message.says_bye;
    lr_log_info(NULL, "router.handed_over pid=%ld", (long)h->pid);
    lr_service_tell("MAINPID=%ld", (long)h->pid);
    h->on_given(h->arg);
    return LR_OK;
}

void router_handover_forget(struct router_handover *h)
{
    if (h->folder != NULL && h->listener >= 0 && h->state == ROUTER_HANDOVER_GIVEN)
        handover_move(h, ROUTER_HANDOVER_OVER, h->since_ms);
}

/* The file is the new router's as soon as that one offers its place in turn.  Until then, who
 * wants to take over still connects here: a closed connection tells it to connect anew. */
static void turn_away(struct router_handover *h)
{
    pid_t pid;
    for (int fd; (fd = lr_passing_accept(h->listener, &pid)) >= 0;)
        (void)close(fd);
}

/* The connection ends with the new router's process. */
static bool is_bye(struct router_handover *h, bool *has_ended)
{
    struct lr_passed heard;
    struct router_handover_message message;
    lr_code code = lr_passing_receive(h->peer, false, &heard, NULL);
    *has_ended = code == LR_UNAVAILABLE;
    for (size_t i = 0; code == LR_OK && i < heard.count; i++) /* nothing that was asked for */
        (void)close(heard.fds[i]);
    return code == LR_OK && router_handover_message_read(&heard, &message, NULL) == LR_OK &&
           message.is_bye;
}

/* A router of the release before says no "bye": whether it was killed is not known. */
static void look_at_successor(struct router_handover *h, uint64_t now)
{
    struct lr_error err;
    bool has_ended;
    if (is_bye(h, &has_ended)) {
        handover_move(h, ROUTER_HANDOVER_OVER, now);
        h->on_over(h->arg);
    } else if (has_ended && !h->says_bye) {
        handover_move(h, ROUTER_HANDOVER_OVER, now);
    } else if (has_ended && h->take_back(h->arg)) {
        handover_move(h, ROUTER_HANDOVER_ALONE, now);
        lr_log_warn(NULL, "router.took_back from_pid=%ld", (long)h->given);
        h->was_left = true;
        lr_service_tell("MAINPID=%ld", (long)getpid());
        (void)close(h->listener);
        if (router_handover_start(h, &err) != LR_OK)
            lr_log_warn(LR_LOG_OF(&err), "router.no_handover reason=%s", err.text);
    } else if (has_ended) {
        handover_move(h, ROUTER_HANDOVER_OVER, now);
        h->on_over(h->arg);
    }
}

void router_handover_look(struct router_handover *h, uint64_t now)
{
    struct lr_passed heard;
    struct lr_error err;
    if (h->folder == NULL || h->listener < 0)
        return;
    if (h->state >= ROUTER_HANDOVER_GIVEN)
        turn_away(h);
    if (h->state == ROUTER_HANDOVER_GIVEN)
        look_at_successor(h, now);
    if (h->state >= ROUTER_HANDOVER_GIVEN)
        return;
    if (h->state == ROUTER_HANDOVER_ALONE)
        welcome(h, now);
    if (h->state == ROUTER_HANDOVER_ALONE)
        return;
    lr_code code = lr_passing_receive(h->peer, false, &heard, &err);
    if (code == LR_OK) {
        code = handover_hear(h, &heard, now, &err);
        for (size_t i = 0; i < heard.count; i++) /* nothing that was asked for */
            (void)close(heard.fds[i]);
    }
    uint64_t limit = h->state == ROUTER_HANDOVER_ASKED ? ASK_MS : PREPARE_MS;
    if (code == LR_TIMEOUT && now - h->since_ms < limit)
        return;
    if (code != LR_OK)
        handover_fail(h, &err, now);
}
