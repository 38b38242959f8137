#include "router/trace/otlp.h"

#include <stdio.h>

/* ---- values of variables ---- */

static bool otlp_decode(struct lr_str text, char *out, size_t size)
{
    size_t len = 0;
    for (size_t i = 0; i < text.len; i++) {
        char c = text.ptr[i];
        if (c == '%' && i + 2 < text.len && lr_hex_digit(text.ptr[i + 1]) >= 0 &&
            lr_hex_digit(text.ptr[i + 2]) >= 0) {
            c = (char)(lr_hex_digit(text.ptr[i + 1]) << 4 | lr_hex_digit(text.ptr[i + 2]));
            i += 2;
        }
        if ((unsigned char)c < ' ' || c == 0x7f || len + 1 >= size)
            return false;
        out[len++] = c;
    }
    out[len] = '\0';
    return true;
}

lr_code router_otlp_pairs_read(const char *what, struct lr_str text,
                               struct router_otlp_pairs *out, struct lr_error *err)
{
    struct lr_str part;
    while (lr_str_split(&text, ',', &part)) {
        part = lr_str_trim(part);
        if (part.len == 0)
            continue;
        size_t equals = lr_str_find_char(part, '=');
        if (equals == LR_STR_NONE || equals == 0 || out->count == ROUTER_OTLP_ATTRIBUTES ||
            !otlp_decode(lr_str_trim(lr_str_sub(part, 0, equals)), out->all[out->count].name,
                         sizeof(out->all[0].name)) ||
            !otlp_decode(lr_str_trim(lr_str_sub(part, equals + 1, part.len)),
                         out->all[out->count].value, sizeof(out->all[0].value)))
            return lr_fail(err, LR_INVALID_ARGUMENT,
                           "%s must be a list name=value,name=value of at most %d short values",
                           what, ROUTER_OTLP_ATTRIBUTES);
        out->count++;
    }
    return LR_OK;
}

/* ---- W3C trace context ---- */

static bool read_hex(const char *text, size_t digits, unsigned char *out)
{
    unsigned char any = 0;
    for (size_t i = 0; i < digits; i++) {
        int digit = text[i] >= 'A' && text[i] <= 'F' ? -1 : lr_hex_digit(text[i]);
        if (digit < 0)
            return false;
        out[i / 2] = (unsigned char)(i % 2 == 0 ? digit << 4 : out[i / 2] | digit);
        any |= (unsigned char)digit;
    }
    return any != 0 || digits == 2;
}

bool router_trace_parent_read(struct lr_str text, unsigned char id[16], uint64_t *span,
                              bool *is_sampled)
{
    unsigned char bytes[8], flags;
    if (text.len != ROUTER_TRACE_PARENT - 1 || !lr_str_starts(text, "00-") ||
        text.ptr[35] != '-' || text.ptr[52] != '-' || !read_hex(text.ptr + 3, 32, id) ||
        !read_hex(text.ptr + 36, 16, bytes) || !read_hex(text.ptr + 53, 2, &flags))
        return false;
    *span = 0;
    for (size_t i = 0; i < 8; i++)
        *span = *span << 8 | bytes[i];
    *is_sampled = (flags & 1) != 0;
    return true;
}

static void hex_id(const unsigned char id[16], char out[33])
{
    for (size_t i = 0; i < 16; i++)
        (void)snprintf(out + 2 * i, 3, "%02x", id[i]);
}

void router_trace_parent_write(const unsigned char id[16], uint64_t span, bool is_sampled,
                               char out[ROUTER_TRACE_PARENT])
{
    char hex[33];
    hex_id(id, hex);
    (void)snprintf(out, ROUTER_TRACE_PARENT, "00-%s-%016llx-%02x", hex,
                   (unsigned long long)span, is_sampled);
}

/* ---- attributes ---- */

static void otlp_begin_value(struct lr_json_writer *w, const char *key)
{
    lr_json_begin_object(w);
    lr_json_member_z(w, "key", key);
    lr_json_member_object(w, "value");
}

static void end_value(struct lr_json_writer *w)
{
    lr_json_end_object(w);
    lr_json_end_object(w);
}

static void otlp_put_text(struct lr_json_writer *w, const char *key, const char *value)
{
    if (value == NULL || value[0] == '\0')
        return;
    otlp_begin_value(w, key);
    lr_json_member_z(w, "stringValue", value);
    end_value(w);
}

/* 64-bit numbers are texts in OTLP's JSON. */
static void put_number(struct lr_json_writer *w, const char *key, uint64_t value)
{
    char text[24];
    (void)snprintf(text, sizeof(text), "%llu", (unsigned long long)value);
    otlp_begin_value(w, key);
    lr_json_member_z(w, "intValue", text);
    end_value(w);
}

static void put_flag(struct lr_json_writer *w, const char *key, bool value)
{
    otlp_begin_value(w, key);
    lr_json_member_bool(w, "boolValue", value);
    end_value(w);
}

static void put_time(struct lr_json_writer *w, const char *key, const struct router_trace *t,
                     uint64_t ns)
{
    uint64_t since_1970 = ns + t->offset_ns;
    char text[24];
    (void)snprintf(text, sizeof(text), "%llu", (unsigned long long)since_1970);
    lr_json_member_z(w, key, text);
}

/* ---- spans ---- */

enum { KIND_INTERNAL = 1, KIND_SERVER = 2, KIND_CLIENT = 3 };

static void begin_span(struct lr_json_writer *w, const struct router_trace *t, uint64_t id,
                       uint64_t parent, const char *name, unsigned kind, uint64_t begun_ns,
                       uint64_t ended_ns)
{
    char hex[33];
    lr_json_begin_object(w);
    hex_id(t->id, hex);
    lr_json_member_z(w, "traceId", hex);
    (void)snprintf(hex, sizeof(hex), "%016llx", (unsigned long long)id);
    lr_json_member_z(w, "spanId", hex);
    if (parent != 0) {
        (void)snprintf(hex, sizeof(hex), "%016llx", (unsigned long long)parent);
        lr_json_member_z(w, "parentSpanId", hex);
    }
    if (t->state[0] != '\0')
        lr_json_member_z(w, "traceState", t->state);
    lr_json_member_z(w, "name", name);
    lr_json_member_u64(w, "kind", kind);
    put_time(w, "startTimeUnixNano", t, begun_ns);
    put_time(w, "endTimeUnixNano", t, ended_ns);
    lr_json_member_array(w, "attributes");
}

/* Ends the attributes; is_error: 2 is STATUS_CODE_ERROR. */
static void end_span(struct lr_json_writer *w, bool is_error)
{
    lr_json_end_array(w);
    lr_json_member_object(w, "status");
    if (is_error)
        lr_json_member_u64(w, "code", 2);
    lr_json_end_object(w);
    lr_json_end_object(w);
}

static void put_calls(struct lr_json_writer *w, const struct router_trace *t)
{
    lr_json_end_array(w); /* the attributes */
    lr_json_member_array(w, "events");
    for (uint32_t i = 0; i < t->call_count; i++) {
        lr_json_begin_object(w);
        put_time(w, "timeUnixNano", t, t->calls[i].at_ns);
        lr_json_member_z(w, "name", "gen_ai.tool.call");
        lr_json_member_array(w, "attributes");
        otlp_put_text(w, "gen_ai.tool.name", t->calls[i].name);
        otlp_put_text(w, "gen_ai.tool.type", "function");
        lr_json_end_array(w);
        lr_json_end_object(w);
    }
}

static void put_request(struct lr_json_writer *w, const struct router_trace *t)
{
    char name[256], word[LR_CODE_WORD];
    const char *model = t->model[0] != '\0' ? t->model : t->asked_model;
    (void)snprintf(name, sizeof(name), "%s%s%s", t->operation, model[0] != '\0' ? " " : "",
                   model);
    begin_span(w, t, t->root, t->parent, name, KIND_SERVER, t->begun_ns, t->ended_ns);
    otlp_put_text(w, "gen_ai.operation.name", t->operation);
    otlp_put_text(w, "gen_ai.provider.name", "llm-router");
    otlp_put_text(w, "gen_ai.request.model", t->asked_model);
    otlp_put_text(w, "gen_ai.response.model", t->model);
    if (t->choices > 1)
        put_number(w, "gen_ai.request.choice.count", t->choices);
    if (t->model[0] != '\0') {
        put_number(w, "gen_ai.usage.input_tokens", t->prompt_tokens);
        put_number(w, "gen_ai.usage.output_tokens", t->completion_tokens);
        put_number(w, "gen_ai.usage.cache_read.input_tokens", t->cached_tokens);
    }
    if (t->first_ns != 0)
        put_number(w, "llm_router.time_to_first_token_us", (t->first_ns - t->begun_ns) / 1000);
    otlp_put_text(w, "http.request.method", "POST");
    otlp_put_text(w, "http.route", t->path);
    otlp_put_text(w, "url.path", t->path);
    put_number(w, "http.response.status_code", (uint64_t)t->status);
    put_flag(w, "llm_router.stream", t->is_stream);
    otlp_put_text(w, "llm_router.key", t->key);
    otlp_put_text(w, "llm_router.request_id", t->request_id);
    if (t->spans_left_out != 0)
        put_number(w, "llm_router.spans_left_out", t->spans_left_out);
    if (t->error != LR_OK)
        otlp_put_text(w, "error.type", lr_code_word(t->error, word));
    if (t->call_count != 0)
        put_calls(w, t);
    end_span(w, t->error != LR_OK && lr_code_http(t->error) >= 500);
}

static void put_span(struct lr_json_writer *w, const struct router_trace *t,
                     const struct router_span *s)
{
    static const char *const names[] = {"queue", "attempt", "prefill", "decode"};
    begin_span(w, t, s->id, s->parent, names[s->kind],
               s->kind == ROUTER_SPAN_ATTEMPT ? KIND_CLIENT : KIND_INTERNAL, s->begun_ns,
               s->ended_ns);
    if (t->choices > 1)
        put_number(w, "llm_router.choice", s->choice);
    otlp_put_text(w, "gen_ai.request.model", t->model);
    otlp_put_text(w, "llm_router.node", s->node);
    if (s->kind == ROUTER_SPAN_DECODE)
        put_number(w, "gen_ai.usage.output_tokens", s->tokens);
    otlp_put_text(w, "error.type", s->fate);
    end_span(w, s->fate != NULL);
}

static void put_resource(struct lr_json_writer *w, const char *service,
                         const struct router_otlp_pairs *resource, const char *version)
{
    lr_json_member_object(w, "resource");
    lr_json_member_array(w, "attributes");
    otlp_put_text(w, "service.name", service);
    otlp_put_text(w, "service.version", version);
    for (size_t i = 0; i < resource->count; i++)
        if (strcmp(resource->all[i].name, "service.name") != 0)
            otlp_put_text(w, resource->all[i].name, resource->all[i].value);
    lr_json_end_array(w);
    lr_json_end_object(w);
}

void router_otlp_write(const struct router_trace *traces, const char *service,
                       const struct router_otlp_pairs *resource, const char *version,
                       struct lr_buf *out)
{
    struct lr_json_writer w;
    lr_json_writer_init(&w, out);
    lr_json_begin_object(&w);
    lr_json_member_array(&w, "resourceSpans");
    lr_json_begin_object(&w);
    put_resource(&w, service, resource, version);
    lr_json_member_array(&w, "scopeSpans");
    lr_json_begin_object(&w);
    lr_json_member_object(&w, "scope");
    LR_JSON_MEMBERS(&w, LR_TEXT("name", "llm-router"), LR_TEXT("version", version));
    lr_json_end_object(&w);
    lr_json_member_array(&w, "spans");
    for (const struct router_trace *t = traces; t != NULL; t = t->next) {
        put_request(&w, t);
        for (uint32_t i = 0; i < t->span_count; i++)
            put_span(&w, t, &t->spans[i]);
    }
    lr_json_end_array(&w);
    lr_json_end_object(&w);
    lr_json_end_array(&w);
    lr_json_end_object(&w);
    lr_json_end_array(&w);
    lr_json_end_object(&w);
}
