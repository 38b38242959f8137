/* cli/remote.h - HTTP requests to a router from the command line.
 *
 * What a router answers is text of another machine: cli_text and cli_put give it in a form that
 * may be printed (cli/terminal.h), cli_raw as it came. */
#ifndef CLI_REMOTE_H
#define CLI_REMOTE_H

#include "base/arena.h"
#include "base/json.h"
#include "base/settings.h"

/* Flags of a command that talks to a router: --url, --tls-ca and --key. */
#define CLI_REMOTE_FLAGS                                                                       \
    {.name = "url",                                                                            \
     .type = LR_SETTING_STRING,                                                                \
     .fallback = "http://127.0.0.1:11680",                                                     \
     .value = "URL",                                                                           \
     .help = "URL of the router (or LLM_ROUTER_URL)"},                                         \
        {.name = "tls-ca",                                                                     \
         .type = LR_SETTING_PATH,                                                              \
         .value = "FILE",                                                                      \
         .help = "PEM file with the CA of the router's certificate (or LLM_ROUTER_TLS_CA)"},   \
    {                                                                                          \
        .name = "key", .type = LR_SETTING_STRING, .secret = true,                              \
        .help = "key for the router (or LLM_ROUTER_KEY)"                                       \
    }

/* Flag of a command that uses cli_show or cli_report. */
#define CLI_JSON_FLAG                                                                          \
    {                                                                                          \
        .name = "json", .type = LR_SETTING_BOOL, .fallback = "false",                          \
        .help = "print the router's JSON answer unchanged"                                     \
    }

struct cli_answer {
    struct lr_arena arena;
    int status;
    struct lr_str body;
    const struct lr_json *json; /* NULL when the body is not JSON */
};

/* body NULL: GET (or `method`).  An answer of 400 and above is an error with the router's
 * message.  The caller always frees the answer. */
LR_MUST_USE lr_code cli_ask(const struct lr_settings *s, const char *method, const char *path,
                            const struct lr_buf *body, struct cli_answer *out,
                            struct lr_error *err);
/* GETs and prints the answer: with fn, or with --json unchanged. */
typedef void (*cli_print_fn)(struct cli_answer *answer, struct lr_buf *out);
LR_MUST_USE lr_code cli_show(const struct lr_settings *s, const char *path, cli_print_fn fn,
                             struct lr_error *err);
/* Prints what a command did: `text`, control characters made visible, or with --json the answer
 * unchanged. */
LR_MUST_USE lr_code cli_report(const struct lr_settings *s, const struct cli_answer *answer,
                               const struct lr_buf *text, struct lr_error *err);

/* Like cli_ask for a GET, with less patience: the answer must begin within wait_ms. */
LR_MUST_USE lr_code cli_ask_within(const struct lr_settings *s, uint32_t wait_ms,
                                   const char *path, struct cli_answer *out,
                                   struct lr_error *err);

/* GETs from another server than the router, with its own secret (NULL: none). */
LR_MUST_USE lr_code cli_ask_at(const struct lr_settings *s, const char *base,
                               const char *secret, const char *path, struct cli_answer *out,
                               struct lr_error *err);
void cli_answer_free(struct cli_answer *answer);

/* Like cli_ask for a streamed answer: fn gets the data of every server-sent event.  Ctrl-C ends
 * the request, and the code is CANCELLED with an empty text. */
typedef void (*cli_event_fn)(void *arg, struct lr_str data);
LR_MUST_USE lr_code cli_stream(const struct lr_settings *s, const char *path,
                               const struct lr_buf *body, cli_event_fn fn, void *arg,
                               struct lr_error *err);

/* The router's URL in these settings, and whether it was given: it is not the default. */
const char *cli_router_url(const struct lr_settings *s);
const char *cli_router_key(const struct lr_settings *s); /* NULL: none */
bool cli_names_router(const struct lr_settings *s);

/* Appends a text as one segment of a path or as a query's value, with %XX where needed. */
void cli_escape(struct lr_buf *out, const char *text);

/* Members of a JSON object; "", 0 and NULL if missing or of another type.  cli_text is for
 * printing, on one line. */
const char *cli_text(struct lr_arena *arena, const struct lr_json *obj, const char *key);
const char *cli_raw(struct lr_arena *arena, const struct lr_json *obj, const char *key);
const struct lr_json *cli_array(const struct lr_json *obj, const char *key);
int64_t cli_int(const struct lr_json *obj, const char *key);
double cli_real(const struct lr_json *obj, const char *key);
bool cli_bool(const struct lr_json *obj, const char *key);

/* Appends a text of the router for printing, on one line. */
void cli_put(struct lr_buf *out, struct lr_str text);

#endif
