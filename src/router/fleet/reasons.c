#include "router/fleet/reasons.h"

#include <stdio.h>
#include <string.h>

enum { HOLES_MAX = 10 };

/* A hole {name} takes the shortest text up to what follows it; a hole at the end takes all. */
static const struct {
    const char *code, *pattern;
} reasons[] = {
    {"nowhere", "no online node has it"},
    {"not_on_node", "the node does not have it"},
    {"offline", "offline"},
    {"unreachable", "the router cannot reach it"},
    {"removed", "removed"},
    {"out_of_service", "taken out of service"},
    {"shutting_down", "shutting down"},
    {"too_large",
     "model \"{model}\" needs {need} ({bytes} bytes: weights {weights}, KV cache {kv}, "
     "workspace {workspace}) and {device} can give it {room} ({rest}"},
    {"no_engine", "no engine for runtime \"{runtime}\"; engines here: {engines}"},
    {"engine_unusable", "there is no usable engine \"{engine}\" in {folder}"},
    {"gpus_faulty",
     "every GPU of this node is faulty; {gpu} ({id}): {cause}: reset the GPU or restart "
     "the machine, then start the node again"},
    {"engine_died_asked", "the engine {how} when it was asked about the model"},
    {"cannot_load",
     "model \"{model}\" cannot be loaded at the moment: {cause} ({failures} failures "
     "in a row; tried again in {seconds} s)"},
    {"no_folder", "there is no folder {folder}"},
    {"worker_exited", "exited with {status}"},
    {"worker_killed", "killed by {signal}"},
    {"node_silent", "node {node} has been silent for {ms} ms"},
    {"node_unreachable",
     "node {node} sends heartbeats, but the router cannot reach it at {url}: "
     "{cause}"},
    {"memory_full", "{used} of {total} in use on {node}"},
    {"no_progress", "the engine made no progress for {ms} ms and was killed"},
    {"never",
     "model \"{model}\" cannot run on any node: {cause}; GET /v0/models has the reason "
     "of each node"},
    {"nobody", "no node can serve model \"{model}\": {cause}"},
    {"queue_full",
     "{count} requests wait for model \"{model}\" already (setting {setting}): try "
     "again in {seconds} s"},
    {"overloaded", "more requests come for model \"{model}\" than it can serve, {count} wait "
                   "already: try again in {seconds} s"},
    {"queue_bytes",
     "{count} requests that wait for model \"{model}\" hold {held} bytes, and this "
     "one needs {need} (setting queue-bytes): try again in {seconds} s"},
    {"queue_timeout", "no slot for model \"{model}\" became free within {seconds} s (setting "
                      "queue-timeout)"},
    {"model_deleted", "model \"{model}\" was deleted"},
    {"attempts_failed", "{count} attempts in a row failed; the last: {cause}"},
    {"gives_way", "its key holds more of the model than others"},
    {"node_quiet", "no event of the node in {ms} ms"},
    {"node_cancelled", "the node cancelled the request"},
    {"link_failed", "the connection to the node failed"},
    {"link_closed", "{url}: the node closed its link"},
    {"link_refused", "{url}: the node gave no link (status {status})"},
    {"link_silent", "{url}: no frame of the node in {ms} ms"},
    {"no_model", "there is no model \"{model}\"; GET /v1/models lists them"},
    {"key_month", "key {key} has used {used} of its {limit} tokens per month; the next month "
                  "begins on {date} 00:00 UTC, and an admin can raise \"tokens_per_month\""},
    {"key_tokens",
     "key {key} has used its {limit} tokens per minute; try again in {seconds} s"},
    {"key_requests",
     "key {key} has used its {limit} requests per minute; try again in {seconds} s"},
    {"key_together",
     "key {key} runs {running} requests, and may have {limit} at once; try again "
     "when one has ended"},
    {"key_revoked", "key {key} was revoked"},
    {"key_budget", "key {key} ({name}) has used {used} tokens this month, and its {setting} is "
                   "{limit}"},
    {"told_unavailable",
     "the model cannot be served at the moment: try again later; operators find the "
     "reason in the log under {id}"},
    {"told_timeout",
     "the model did not answer in time: try again; operators find the reason in the "
     "log under {id}"},
    {"told_failed",
     "the model could not answer this request; operators find the reason in the log "
     "under {id}"},
    {"replaced", "the answer cannot be continued: the files of model \"{model}\" were replaced "
                 "while it was made, and no node has those it was begun with (fingerprint "
                 "{weights}): send the request again"},
    {"node_cloned",
     "two processes use the identity of node {node}: the one at {url} serves, one "
     "at {other} (from {from}) is refused"},
    {"wrong_program", "another program answers there: it does not know the node's secret"},
    {"certificate_ends", "the certificate in {file} is good until {time}"},
    {"being_deleted", "model \"{model}\" is being deleted"},
    {"cannot_run", "model \"{model}\" cannot be run: {cause}"},
    {"node_queue", "{count} requests wait for model \"{model}\" already (setting node-queue)"},
    {"node_busy", "busy: all {slots} slots of model \"{model}\" are taken"},
    {"node_stops", "this node is shutting down"},
    {"room_needed", "room is needed for another model"},
    {"engine_died_loading", "the engine {how} while it loaded the model"},
    {"engine_stuck", "the engine \"{engine}\" made no progress for {ms} ms {doing} model "
                     "\"{model}\" and was killed (setting {setting})"},
    {"engine_overuse", "the engine uses {used} bytes, its allotment is {allotment} (setting "
                       "overuse-percent): it is restarted"},
    {"engine_refused", "engine \"{engine}\" is refused: {cause}"},
    {"engine_no_format", "engine \"{engine}\" does not run format {format}"},
    {"engine_no_architecture",
     "engine \"{engine}\" does not run architecture \"{architecture}\" (its "
     "manifest.json names {names})"},
    {"died_twice",
     "the engine died twice over this request, and no other request can be blamed: "
     "the request is not tried again ({cause})"},
    {"gpu_memory", "{gpu} ({id}): its memory had {count} uncorrectable errors since the driver "
                   "was loaded"},
    {"gpu_xid", "{gpu} ({id}): Xid {xid}: {fault}"},
    {"unregistered", "it is no longer registered; what was fetched of it is kept in {folder}"},
    {"fetching_left",
     "{phase}: {done} of {files} files, {bytes} of {total}, {speed}/s, {seconds} s "
     "left"},
    {"fetching", "{phase}: {done} of {files} files, {bytes} of {total}, {speed}/s"},
    {"purge_none", "model \"{model}\" has no files in {folder}"},
    {"purge_foreign",
     "model \"{model}\" lies in {folder}, which is not this node's to delete: only "
     "folders of {root} are"},
    {"purge_busy", "model \"{model}\" is in use ({state}, {count} requests): unload it first"},
    /* Begins with a hole, so it comes last. */
    {"no_engine_here", "{model}: no engine here for runtime {runtime}"},
};

struct hole {
    struct lr_str name, value;
};

/* How many holes were filled, or -1: the text does not fit. */
static int match(const char *pattern, struct lr_str text, struct hole holes[HOLES_MAX])
{
    struct lr_str rest = lr_str_z(pattern);
    int count = 0;
    while (rest.len != 0) {
        size_t open = lr_str_find_char(rest, '{');
        size_t literal = open != LR_STR_NONE ? open : rest.len;
        if (text.len < literal || memcmp(text.ptr, rest.ptr, literal) != 0)
            return -1;
        text = lr_str_sub(text, literal, text.len);
        if (open == LR_STR_NONE)
            return text.len == 0 ? count : -1;
        size_t close = lr_str_find_char(rest, '}');
        holes[count].name = lr_str_sub(rest, open + 1, close);
        rest = lr_str_sub(rest, close + 1, rest.len);
        size_t next = lr_str_find_char(rest, '{');
        struct lr_str follows = lr_str_sub(rest, 0, next != LR_STR_NONE ? next : rest.len);
        size_t end = follows.len == 0 ? text.len : lr_str_find(text, follows);
        if (end == LR_STR_NONE)
            return -1;
        holes[count++].value = lr_str_sub(text, 0, end);
        text = lr_str_sub(text, end, text.len);
    }
    return text.len == 0 ? count : -1;
}

static void put(struct lr_json_writer *w, const char *prefix, struct lr_str text, bool is_cause)
{
    struct hole holes[HOLES_MAX];
    char name[40];
    int count = -1;
    size_t i = 0;
    while (i < sizeof(reasons) / sizeof(reasons[0]) &&
           (count = match(reasons[i].pattern, text, holes)) < 0)
        i++;
    if (count < 0)
        return;
    (void)snprintf(name, sizeof(name), "%s_code", prefix);
    lr_json_member_z(w, name, reasons[i].code);
    (void)snprintf(name, sizeof(name), "%s_params", prefix);
    lr_json_member_object(w, name);
    for (int h = 0; h < count; h++) {
        lr_json_key_str(w, holes[h].name);
        lr_json_put_str(w, holes[h].value);
        if (!is_cause && lr_str_eq_z(holes[h].name, "cause"))
            put(w, "cause", holes[h].value, true);
    }
    lr_json_end_object(w);
}

void router_reason_put(struct lr_json_writer *w, const char *prefix, struct lr_str text)
{
    if (text.len != 0)
        put(w, prefix, text, false);
}

bool router_reason_find(struct lr_str text, const char *code, const char *hole,
                        struct lr_str *value)
{
    struct hole holes[HOLES_MAX];
    size_t i = 0;
    while (strcmp(reasons[i].code, code) != 0)
        i++;
    int count = match(reasons[i].pattern, text, holes);
    for (int h = 0; h < count; h++)
        if (lr_str_eq_z(holes[h].name, hole))
            *value = holes[h].value;
    return count >= 0;
}
