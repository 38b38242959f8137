#include "cli/follow.h"

#include <string.h>

#include "base/clock.h"
#include "base/os/fd.h"
#include "cli/progress.h"
#include "cli/remote.h"
#include "cli/terminal.h"

enum {
    LOOK_MS = 250,
    REASON_MS = 5000,   /* a node may have said why not before it tried anew */
    UNTAKEN_MS = 60000, /* for a node to read the registration, or to begin the load */
};

struct following {
    const struct lr_settings *settings;
    const char *id, *node;
    enum cli_goal goal;
    struct cli_progress progress;
    uint64_t moved_ms; /* when a node last made progress */
};

/* What the node with the best state does. */
struct step {
    char node[256], state[16];
    char reason[400];
    bool is_online; /* some node is */
    bool is_done;
};

static bool follow_is_one_of(const char *word, const char *a, const char *b)
{
    return strcmp(word, a) == 0 || strcmp(word, b) == 0;
}

/* The later, the nearer to an answer. */
static int follow_rank(const char *state)
{
    static const char *const states[] = {"failed",    "absent",  "waiting",  "fetching",
                                         "verifying", "present", "draining", "starting",
                                         "loading",   "ready"};
    for (int i = 0; i < (int)(sizeof(states) / sizeof(states[0])); i++)
        if (strcmp(states[i], state) == 0)
            return i;
    return -1;
}

static void read_replica(const struct following *f, struct cli_answer *a,
                         const struct lr_json *r, struct step *step)
{
    const char *state = cli_raw(&a->arena, r, "state");
    bool counts = f->node[0] == '\0' || strcmp(f->node, cli_raw(&a->arena, r, "node")) == 0;
    if (!counts || !cli_bool(r, "online"))
        return;
    step->is_online = true;
    step->is_done = step->is_done || (f->goal == CLI_GOAL_LOADED && cli_bool(r, "loaded"));
    if (follow_rank(state) <= follow_rank(step->state))
        return;
    (void)snprintf(step->state, sizeof(step->state), "%s", state);
    (void)snprintf(step->node, sizeof(step->node), "%s", cli_raw(&a->arena, r, "node"));
    (void)snprintf(step->reason, sizeof(step->reason), "%s", cli_text(&a->arena, r, "reason"));
}

static lr_code follow_look(const struct following *f, struct step *step, struct lr_error *err)
{
    struct cli_answer a;
    struct lr_buf path;
    *step = (struct step){0};
    lr_buf_init(&path, 4096);
    lr_buf_add_z(&path, "/v0/models?id=");
    cli_escape(&path, f->id);
    lr_code code = cli_ask(f->settings, "GET", lr_buf_z(&path), NULL, &a, err);
    const struct lr_json *list = code == LR_OK ? cli_array(a.json, "models") : NULL;
    if (code == LR_OK && (list == NULL || list->count == 0))
        code = lr_fail(err, LR_NOT_FOUND, "the model \"%.200s\" was removed", f->id);
    if (code == LR_OK) {
        const struct lr_json *model = &list->items[0], *nodes = cli_array(model, "nodes");
        for (uint32_t i = 0; nodes != NULL && i < nodes->count; i++)
            read_replica(f, &a, &nodes->items[i], step);
        step->is_done =
            step->is_done || (f->goal == CLI_GOAL_FILES && cli_bool(model, "ready"));
        if (step->reason[0] == '\0')
            (void)snprintf(step->reason, sizeof(step->reason), "%s",
                           cli_text(&a.arena, model, "reason"));
    }
    cli_answer_free(&a);
    lr_buf_free(&path);
    return code;
}

/* ---- figures: the node has them ---- */

struct figures {
    uint64_t done, total;
    char phase[40];
};

static void read_figures(struct cli_answer *a, const struct lr_json *model, struct figures *out)
{
    const struct lr_json *download = lr_json_get(model, "download");
    const struct lr_json *workers = cli_array(model, "workers");
    if (download != NULL) {
        (void)lr_json_u64(lr_json_get(download, "done_bytes"), &out->done);
        (void)lr_json_u64(lr_json_get(download, "total_bytes"), &out->total);
    }
    for (uint32_t i = 0; workers != NULL && i < workers->count; i++) {
        const struct lr_json *w = &workers->items[i];
        if (lr_json_get(w, "load_total") == NULL)
            continue;
        (void)lr_json_u64(lr_json_get(w, "load_done"), &out->done);
        (void)lr_json_u64(lr_json_get(w, "load_total"), &out->total);
        (void)snprintf(out->phase, sizeof(out->phase), "loading (%.24s)",
                       cli_text(&a->arena, w, "phase"));
    }
}

/* A node that does not answer has no figures; the model's state is shown without them. */
static void ask_figures(const struct following *f, const struct step *step, struct figures *out)
{
    struct cli_answer a;
    struct lr_buf path;
    struct lr_str id;
    lr_buf_init(&path, 4096);
    lr_buf_add_z(&path, "/v0/nodes/");
    cli_escape(&path, step->node);
    lr_buf_add_z(&path, "/models");
    lr_code code = cli_ask(f->settings, "GET", lr_buf_z(&path), NULL, &a, NULL);
    const struct lr_json *list = code == LR_OK ? cli_array(a.json, "models") : NULL;
    for (uint32_t i = 0; list != NULL && i < list->count; i++)
        if (lr_json_str(lr_json_get(&list->items[i], "id"), &id) &&
            lr_str_eq_nocase(id, lr_str_z(f->id)))
            read_figures(&a, &list->items[i], out);
    cli_answer_free(&a);
    lr_buf_free(&path);
}

static void follow_show(struct following *f, const struct step *step, uint64_t now)
{
    struct figures figures = {0};
    struct lr_buf name;
    const char *state = step->state;
    bool fetches = follow_is_one_of(state, "fetching", "verifying");
    bool loads = follow_is_one_of(state, "starting", "loading");
    if (fetches || loads)
        ask_figures(f, step, &figures);
    const char *phase = figures.phase[0] != '\0'          ? figures.phase
                        : strcmp(state, "fetching") == 0  ? "downloading"
                        : strcmp(state, "verifying") == 0 ? "verifying"
                        : loads                           ? "loading"
                                                          : "waiting for a node";
    lr_buf_init(&name, 1024);
    cli_put(&name, lr_str_z(f->id));
    cli_progress_put(&f->progress, lr_buf_z(&name), phase, figures.done, figures.total, now);
    lr_buf_free(&name);
}

/* LR_OK: go on. */
static lr_code follow_judge(struct following *f, const struct step *step, uint64_t now,
                            struct lr_error *err)
{
    bool moves = follow_is_one_of(step->state, "fetching", "verifying") ||
                 follow_is_one_of(step->state, "starting", "loading");
    if (moves || f->moved_ms == 0)
        f->moved_ms = now;
    if (!step->is_online)
        return lr_fail(err, LR_UNAVAILABLE,
                       "\"%.200s\" is registered, but no node is online: a node fetches it "
                       "when it joins (llm-router nodes token)",
                       f->id);
    if (now - f->moved_ms < (step->reason[0] != '\0' ? REASON_MS : UNTAKEN_MS))
        return LR_OK;
    return lr_fail(err, LR_UNAVAILABLE, "no node can run \"%.160s\": %.300s", f->id,
                   step->reason[0] != '\0' ? step->reason : "no node has begun to");
}

lr_code cli_follow(const struct lr_settings *s, const char *id, const char *node,
                   enum cli_goal goal, FILE *out, struct lr_error *err)
{
    struct following f = {.settings = s, .id = id, .node = node, .goal = goal};
    lr_code code = LR_OK;
    cli_progress_init(&f.progress, out);
    for (;;) {
        struct step step;
        uint64_t now = lr_clock_ms(NULL);
        code = follow_look(&f, &step, err);
        if (code != LR_OK || step.is_done)
            break;
        code = follow_judge(&f, &step, now, err);
        if (code != LR_OK)
            break;
        follow_show(&f, &step, now);
        lr_sleep_ms(LOOK_MS);
    }
    cli_progress_end(&f.progress);
    return code;
}

lr_code cli_load(const struct lr_settings *s, const char *id, const char *node,
                 struct lr_error *err)
{
    struct cli_answer a;
    struct lr_buf path, body;
    lr_buf_init(&path, 4096);
    lr_buf_init(&body, 16);
    lr_buf_add_z(&body, "{}");
    lr_buf_add_z(&path, "/v0/models/");
    cli_escape(&path, id);
    lr_buf_add_z(&path, "/load");
    if (node[0] != '\0') {
        lr_buf_add_z(&path, "?node=");
        cli_escape(&path, node);
    }
    lr_code code = cli_ask(s, "POST", lr_buf_z(&path), &body, &a, err);
    cli_answer_free(&a);
    lr_buf_free(&path);
    lr_buf_free(&body);
    return code;
}
