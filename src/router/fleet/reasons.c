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
     "every GPU of this node is faulty; {gpu} ({id}): {cause}: reset the GPU, then "
     "start the node again"},
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

void router_reason_put(struct lr_json_writer *w, const char *prefix, struct lr_str text)
{
    struct hole holes[HOLES_MAX];
    char name[40];
    int count = -1;
    size_t i = 0;
    if (text.len == 0)
        return;
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
    }
    lr_json_end_object(w);
}
