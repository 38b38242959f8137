#include "cli/remote.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/errors.h"
#include "base/os/fd.h"
#include "cli/command.h"
#include "cli/terminal.h"
#include "net/client.h"
#include "net/sse.h"
#include "wire/reply.h"

enum { ANSWER_BYTES = 32 << 20, EVENT_BYTES = 4 << 20, ANSWER_MS = 300000 };

struct remote {
    const char *base;   /* another server than the router; NULL: the router */
    const char *secret; /* secret of that server; NULL: none */
    struct net_loop *loop;
    struct net_client *client;
    struct cli_answer *answer;
    struct lr_buf body;
    int status;
    uint32_t wait_ms; /* 0: ANSWER_MS */
    bool is_stream;
    bool is_interrupted; /* Ctrl-C */
    struct net_sse_parser sse;
    cli_event_fn fn;
    void *arg;
    struct lr_error err;
};

static const char *remote_setting(const struct lr_settings *s, const char *name,
                                  const char *variable)
{
    const char *given = getenv(variable);
    bool is_set = lr_settings_source(s, name) == LR_FROM_FLAG;
    return is_set || given == NULL || given[0] == '\0' ? lr_settings_str(s, name) : given;
}

const char *cli_router_url(const struct lr_settings *s)
{
    return remote_setting(s, "url", "LLM_ROUTER_URL");
}

const char *cli_router_key(const struct lr_settings *s)
{
    return remote_setting(s, "key", "LLM_ROUTER_KEY");
}

bool cli_names_router(const struct lr_settings *s)
{
    const char *given = getenv("LLM_ROUTER_URL");
    return lr_settings_source(s, "url") == LR_FROM_FLAG || (given != NULL && given[0] != '\0');
}

static void remote_on_headers(void *arg, int status, struct net_headers headers)
{
    struct remote *r = arg;
    (void)headers;
    r->status = status;
}

static void remote_on_event(void *arg, struct lr_str event, struct lr_str data)
{
    struct remote *r = arg;
    (void)event;
    r->fn(r->arg, data);
}

static void remote_on_body(void *arg, struct lr_str bytes)
{
    struct remote *r = arg;
    if (!r->is_stream || r->status >= 400)
        lr_buf_add_str(&r->body, bytes);
    else if (net_sse_parser_feed(&r->sse, bytes, &r->err) != LR_OK || ferror(stdout) != 0)
        net_loop_stop(r->loop); /* nobody reads the rest of an answer that cannot be printed */
}

static void remote_on_done(void *arg, const struct lr_error *err)
{
    struct remote *r = arg;
    if (err != NULL)
        r->err = *err;
    net_loop_stop(r->loop);
}

static void on_interrupt(void *arg)
{
    struct remote *r = arg;
    r->is_interrupted = true;
    net_loop_stop(r->loop);
}

/* The server's refusal becomes our own error. */
static lr_code check_status(struct remote *r, struct lr_arena *arena, struct lr_error *err)
{
    struct lr_buf visible;
    struct lr_error said;
    char id[LR_ERROR_WORD];
    if (r->status < 400)
        return LR_OK;
    wire_refusal(arena, r->status, lr_buf_str(&r->body), &said);
    struct lr_str message = wire_refusal_message(arena, lr_buf_str(&r->body));
    if (message.len == 0)
        message = lr_str_sub(lr_buf_str(&r->body), 0, 300);
    lr_code code = r->status == 401   ? LR_UNAUTHENTICATED
                   : r->status == 403 ? LR_PERMISSION_DENIED
                   : r->status == 404 ? LR_NOT_FOUND
                                      : LR_UPSTREAM;
    lr_buf_init(&visible, ANSWER_BYTES);
    cli_put(&visible, message);
    (void)lr_fail(err, code, "%s (status %d)%s", lr_buf_z(&visible), r->status,
                  r->status == 401 ? ": pass --key KEY or set LLM_ROUTER_KEY" : "");
    lr_error_identify(err->text, sizeof(err->text), lr_str_z(lr_error_word(&said, id)));
    lr_buf_free(&visible);
    return code;
}

/* A router with TLS was set up by somebody: another one is not what is missing. */
static const char *remote_advice(const struct lr_settings *s, const char *base)
{
    bool may_be_missing = base == NULL && strncmp(cli_router_url(s), "https:", 6) != 0;
    return may_be_missing ? " (llm-router up starts a router; --url names another one)" : "";
}

static lr_code remote_run(struct remote *r, const struct lr_settings *s, const char *method,
                          const char *path, const struct lr_buf *body, struct lr_error *err)
{
    char url[1200];
    const char *base = r->base != NULL ? r->base : cli_router_url(s);
    const char *key = r->base != NULL ? r->secret : cli_router_key(s);
    struct net_call *call;
    size_t len = strlen(base);
    while (len != 0 && base[len - 1] == '/')
        len--;
    (void)snprintf(url, sizeof(url), "%.*s%s", (int)len, base, path);
    struct net_call_config config = {
        .method = method,
        .url = url,
        .bearer = key,
        .content_type = body != NULL ? "application/json" : NULL,
        .body = body != NULL ? lr_buf_str(body) : lr_str(NULL, 0),
        .response_timeout_ms = r->wait_ms != 0 ? r->wait_ms : ANSWER_MS,
        .idle_timeout_ms = ANSWER_MS,
        .max_response_bytes = r->is_stream ? 0 : ANSWER_BYTES,
        .callbacks = {.arg = r,
                      .on_headers = remote_on_headers,
                      .on_body = remote_on_body,
                      .on_done = remote_on_done},
    };
    struct net_tls *tls = NULL;
    struct net_signal *interrupt = NULL;
    const char *ca = remote_setting(s, "tls-ca", "LLM_ROUTER_TLS_CA");
    lr_code code = ca != NULL ? net_tls_client_create(ca, &tls, err) : LR_OK;
    if (code == LR_OK)
        code = net_loop_create(&r->loop, err);
    if (code == LR_OK)
        code = net_client_create(r->loop, &(struct net_client_config){.tls = tls}, &r->client,
                                 err);
    if (code == LR_OK && r->is_stream)
        code = net_signal_start(r->loop, SIGINT, on_interrupt, r, &interrupt, err);
    if (code == LR_OK)
        code = net_call_start(r->client, &config, &call, err);
    if (code == LR_OK) {
        net_loop_run(r->loop);
        if (r->is_interrupted)
            code = lr_fail(err, LR_CANCELLED, "%s", "");
        else if (r->err.code != LR_OK)
            code = lr_fail(err, r->err.code, "%s%s", r->err.text, remote_advice(s, r->base));
    }
    net_signal_stop(interrupt);
    net_client_destroy(r->client);
    net_loop_destroy(r->loop);
    net_tls_destroy(tls);
    return code;
}

static lr_code remote_ask(struct remote *r, const struct lr_settings *s, const char *method,
                          const char *path, const struct lr_buf *body, struct cli_answer *out,
                          struct lr_error *err)
{
    *out = (struct cli_answer){0};
    lr_arena_init(&out->arena, (size_t)ANSWER_BYTES * 16);
    lr_buf_init(&r->body, ANSWER_BYTES);
    lr_code code = remote_run(r, s, method, path, body, err);
    if (code == LR_OK) {
        const char *copy = lr_arena_copy(&out->arena, lr_buf_str(&r->body));
        out->status = r->status;
        out->body = lr_str(copy, copy != NULL ? r->body.len : 0);
        if (lr_json_parse(&out->arena, out->body, NULL, &out->json, NULL) != LR_OK)
            out->json = NULL;
        code = check_status(r, &out->arena, err);
    }
    lr_buf_free(&r->body);
    return code;
}

lr_code cli_ask(const struct lr_settings *s, const char *method, const char *path,
                const struct lr_buf *body, struct cli_answer *out, struct lr_error *err)
{
    struct remote r = {0};
    return remote_ask(&r, s, method, path, body, out, err);
}

static void put_json(const struct cli_answer *a, struct lr_buf *out)
{
    if (isatty(STDOUT_FILENO) != 0)
        cli_add_visible(out, a->body, CLI_LINES);
    else
        lr_buf_add_str(out, a->body);
    lr_buf_add_char(out, '\n');
}

lr_code cli_show(const struct lr_settings *s, const char *path, cli_print_fn fn,
                 struct lr_error *err)
{
    struct cli_answer a;
    struct lr_buf out;
    lr_buf_init(&out, ANSWER_BYTES);
    lr_code code = cli_ask(s, "GET", path, NULL, &a, err);
    if (code == LR_OK) {
        if (lr_settings_bool(s, "json"))
            put_json(&a, &out);
        else
            fn(&a, &out);
        code = cli_print(&out, err);
    }
    lr_buf_free(&out);
    cli_answer_free(&a);
    return code;
}

lr_code cli_report(const struct lr_settings *s, const struct cli_answer *answer,
                   const struct lr_buf *text, struct lr_error *err)
{
    struct lr_buf out;
    lr_buf_init(&out, ANSWER_BYTES);
    if (lr_settings_bool(s, "json"))
        put_json(answer, &out);
    else
        cli_add_visible(&out, lr_buf_str(text), CLI_LINES);
    lr_code code = cli_print(&out, err);
    lr_buf_free(&out);
    return code;
}

lr_code cli_ask_within(const struct lr_settings *s, uint32_t wait_ms, const char *path,
                       struct cli_answer *out, struct lr_error *err)
{
    struct remote r = {.wait_ms = wait_ms};
    return remote_ask(&r, s, "GET", path, NULL, out, err);
}

lr_code cli_ask_at(const struct lr_settings *s, const char *base, const char *secret,
                   const char *path, struct cli_answer *out, struct lr_error *err)
{
    struct remote r = {.base = base, .secret = secret};
    return remote_ask(&r, s, "GET", path, NULL, out, err);
}

void cli_answer_free(struct cli_answer *answer)
{
    lr_arena_free(&answer->arena);
}

lr_code cli_stream(const struct lr_settings *s, const char *path, const struct lr_buf *body,
                   cli_event_fn fn, void *arg, struct lr_error *err)
{
    struct remote r = {.is_stream = true, .fn = fn, .arg = arg};
    struct lr_arena arena;
    lr_buf_init(&r.body, ANSWER_BYTES);
    lr_arena_init(&arena, 64 << 20);
    net_sse_parser_init(&r.sse, EVENT_BYTES, remote_on_event, &r);
    lr_code code = remote_run(&r, s, "POST", path, body, err);
    if (code == LR_OK)
        code = check_status(&r, &arena, err);
    net_sse_parser_deinit(&r.sse);
    lr_arena_free(&arena);
    lr_buf_free(&r.body);
    return code;
}

void cli_escape(struct lr_buf *out, const char *text)
{
    static const char plain[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._~/:";
    for (; *text != '\0'; text++) {
        if (strchr(plain, *text) != NULL)
            lr_buf_add_char(out, *text);
        else
            lr_buf_addf(out, "%%%02X", (unsigned)(unsigned char)*text);
    }
}

const char *cli_raw(struct lr_arena *arena, const struct lr_json *obj, const char *key)
{
    struct lr_str text;
    if (!lr_json_str(lr_json_get(obj, key), &text))
        return "";
    const char *copy = lr_arena_copy(arena, text);
    return copy != NULL ? copy : "";
}

void cli_put(struct lr_buf *out, struct lr_str text)
{
    cli_add_visible(out, text, CLI_ONE_LINE);
}

const char *cli_text(struct lr_arena *arena, const struct lr_json *obj, const char *key)
{
    struct lr_str text;
    struct lr_buf visible;
    if (!lr_json_str(lr_json_get(obj, key), &text))
        return "";
    lr_buf_init(&visible, ANSWER_BYTES);
    cli_put(&visible, text);
    const char *copy = lr_arena_copy(arena, lr_buf_str(&visible));
    lr_buf_free(&visible);
    return copy != NULL ? copy : "";
}

const struct lr_json *cli_array(const struct lr_json *obj, const char *key)
{
    const struct lr_json *list = lr_json_get(obj, key);
    return lr_json_is(list, LR_JSON_ARRAY) ? list : NULL;
}

int64_t cli_int(const struct lr_json *obj, const char *key)
{
    int64_t value = 0;
    return lr_json_i64(lr_json_get(obj, key), &value) ? value : 0;
}

double cli_real(const struct lr_json *obj, const char *key)
{
    double value = 0;
    return lr_json_double(lr_json_get(obj, key), &value) ? value : 0;
}

bool cli_bool(const struct lr_json *obj, const char *key)
{
    bool value = false;
    return lr_json_bool(lr_json_get(obj, key), &value) && value;
}
