/* chat/responses/object.c - the response object, its items and their parts. */
#include "chat/responses/answer.h"

#include <stdlib.h>

#include "base/json.h"
#include "base/sha256.h"
#include "chat/codec.h"
#include "chat/openai/openai.h"

/* Writes the request's member, or its default if the request has none. */
static void repeat(struct lr_json_writer *w, const struct lr_json *body, const char *key,
                   const char *otherwise)
{
    const struct lr_json *value = lr_json_get(body, key);
    lr_json_key(w, key);
    if (value != NULL && value->type != LR_JSON_NULL)
        lr_json_put_value(w, value);
    else
        lr_json_put_raw(w, lr_str_z(otherwise));
}

static void repeat_reasoning(struct lr_json_writer *w, const struct lr_json *body)
{
    lr_json_member_object(w, "reasoning");
    repeat(w, lr_json_get(body, "reasoning"), "effort", "null");
    lr_json_member_null(w, "summary");
    lr_json_end_object(w);
}

static void repeat_text(struct lr_json_writer *w, const struct lr_json *body)
{
    lr_json_member_object(w, "text");
    repeat(w, lr_json_get(body, "text"), "format", "{\"type\":\"text\"}");
    lr_json_member_z(w, "verbosity", "medium");
    lr_json_end_object(w);
}

char *chat_items_repeated(const struct chat_request *req, const struct lr_sampling *sampling)
{
    static const char *const as_sent[][2] = {
        {"background", "false"},
        {"instructions", "null"},
        {"max_output_tokens", "null"},
        {"max_tool_calls", "null"},
        {"metadata", "{}"},
        {"parallel_tool_calls", "true"},
        {"previous_response_id", "null"},
        {"prompt_cache_key", "null"},
        {"safety_identifier", "null"},
        {"tool_choice", "\"auto\""},
        {"tools", "[]"},
        {"top_logprobs", "0"},
        {"user", "null"},
    };
    struct lr_buf out;
    struct lr_json_writer w;
    char *text = NULL;
    lr_buf_init(&out, SIZE_MAX / 2); /* no limit needed: at most the body, written again */
    lr_json_writer_init(&w, &out);
    lr_json_begin_object(&w);
    lr_json_member_null(&w, "access_programs");
    for (size_t i = 0; i < sizeof(as_sent) / sizeof(as_sent[0]); i++)
        repeat(&w, req->body, as_sent[i][0], as_sent[i][1]);
    /* The values that count, also where they are the model's own. */
    lr_json_member_float(&w, "temperature", sampling->temperature);
    lr_json_member_float(&w, "top_p", sampling->top_p);
    repeat_reasoning(&w, req->body);
    repeat_text(&w, req->body);
    lr_json_member_z(&w, "service_tier", "default");
    lr_json_member_z(&w, "truncation", "disabled");
    lr_json_end_object(&w);
    if (!out.failed && (text = malloc(out.len)) != NULL) {
        memcpy(text, out.data + 1, out.len - 1); /* without the first brace, */
        text[out.len - 2] = ',';                 /* and a comma for the last one */
        text[out.len - 1] = '\0';
    }
    lr_buf_free(&out);
    return text;
}

/* ---- the response ---- */

static void responses_object_write_usage(const struct chat_response *r,
                                         struct lr_json_writer *w)
{
    struct chat_response_totals t = chat_response_totals(r);
    lr_json_begin_object(w);
    lr_json_member_u64(w, "input_tokens", t.prompt_tokens);
    lr_json_member_object(w, "input_tokens_details");
    lr_json_member_u64(w, "cached_tokens", t.cached_tokens);
    lr_json_end_object(w);
    lr_json_member_u64(w, "output_tokens", t.completion_tokens);
    lr_json_member_object(w, "output_tokens_details");
    lr_json_member_u64(w, "reasoning_tokens", t.reasoning_tokens);
    lr_json_end_object(w);
    lr_json_member_u64(w, "total_tokens", t.prompt_tokens + t.completion_tokens);
    lr_json_end_object(w);
}

void chat_items_head(const struct chat_response_options *options, struct lr_buf *out)
{
    const struct chat_request *req = options->request;
    struct lr_json_writer w;
    lr_json_writer_init(&w, out);
    lr_json_begin_object(&w);
    lr_json_member_str(&w, "id", options->id);
    lr_json_member_z(&w, "object", "response");
    lr_json_member_i64(&w, "created_at", options->created);
    lr_json_member_str(&w, "model", options->model.len > 0 ? options->model : req->model);
    lr_buf_add_char(out, ',');
}

static const char *error_code(const struct lr_error *error)
{
    const char *param;
    const char *word = chat_error_word(&chat_responses, error, &param);
    if (word != NULL)
        return word;
    if (error->code == LR_RATE_LIMITED)
        return "rate_limit_exceeded";
    return lr_code_http(error->code) < 500 ? "invalid_prompt" : "server_error";
}

/* Writes the response around its items; returns where they belong. */
static size_t write_around(const struct chat_response *r, const char *status,
                           const struct lr_error *error, struct lr_str items,
                           struct lr_buf *out)
{
    struct lr_json_writer w;
    lr_buf_add_str(out, r->head);
    lr_buf_addf(out, "\"status\":\"%s\",\"error\":", status);
    lr_json_writer_init(&w, out);
    if (error != NULL) {
        lr_json_begin_object(&w);
        lr_json_member_z(&w, "code", error_code(error));
        struct lr_error told = chat_openai_error_told(error);
        lr_json_member_str(&w, "message", lr_str_z(told.text));
        lr_json_end_object(&w);
    } else {
        lr_json_put_null(&w);
    }
    lr_buf_add_z(out, ",\"incomplete_details\":");
    lr_buf_add_z(out, strcmp(status, "incomplete") == 0 ? "{\"reason\":\"max_output_tokens\"}"
                                                        : "null");
    lr_buf_add_z(out, ",\"output\":[");
    size_t at = out->len;
    lr_buf_add_str(out, items);
    lr_buf_add_z(out, "],\"usage\":");
    lr_json_writer_init(&w, out);
    if (r->choices[0].done && error == NULL)
        responses_object_write_usage(r, &w);
    else
        lr_json_put_null(&w);
    lr_buf_add_char(out, ',');
    lr_buf_add_z(out, chat_items_of(r)->repeated);
    lr_buf_addf(out, "\"store\":%s}", r->keeps ? "true" : "false");
    return at;
}

void chat_items_response(const struct chat_response *r, const char *status,
                         const struct lr_error *error, struct lr_buf *out)
{
    (void)write_around(r, status, error, lr_buf_str(&chat_items_of(r)->items), out);
}

void chat_items_record(const struct chat_response *r, const struct chat_request *req,
                       const char *status, const struct lr_error *error,
                       struct chat_record *out)
{
    const struct chat_items *items = chat_items_of(r);
    chat_responses_put_input(&out->input, req->input, lr_str_z(items->letters));
    lr_buf_add_str(&out->output, lr_buf_str(&items->items));
    out->output.failed = out->output.failed || items->items.failed;
    out->output_at = write_around(r, status != NULL ? status : chat_items_status(r), error,
                                  lr_str("", 0), &out->answer);
}

/* ---- items ---- */

void chat_part_write(const struct chat_items *items, bool with_text, struct lr_buf *out)
{
    struct lr_str text = with_text ? lr_buf_str(&items->text) : LR_STR_LIT("");
    if (items->open == CHAT_ITEM_REASONING) {
        lr_buf_addf(out, "{\"type\":\"%s_text\",\"text\":",
                    items->has_summary ? "summary" : "reasoning");
    } else {
        lr_buf_add_z(out, "{\"type\":\"output_text\",\"annotations\":[],\"logprobs\":[");
        if (with_text)
            lr_buf_add_str(out, lr_buf_str(&items->logprobs));
        lr_buf_add_z(out, "],\"text\":");
    }
    lr_json_quote(out, text);
    lr_buf_add_char(out, '}');
}

static void write_parts(const struct chat_items *items, const char *member, bool with_text,
                        struct lr_buf *out)
{
    lr_buf_addf(out, ",\"%s\":[", member);
    if (with_text)
        chat_part_write(items, true, out);
    lr_buf_add_char(out, ']');
}

static void responses_object_write_call(const struct chat_choice *c, bool with_text,
                                        struct lr_buf *out)
{
    const struct chat_items *items = c->response->own;
    char id[CHAT_CALL_ID_LEN];
    struct lr_str given = chat_call_id(c, items->tool, id);
    lr_buf_addf(out, ",\"call_id\":\"" LR_STR_FMT "\",\"name\":", LR_STR_ARG(given));
    lr_json_quote(out, lr_str_z(items->name));
    if (items->space[0] != '\0') {
        lr_buf_add_z(out, ",\"namespace\":");
        lr_json_quote(out, lr_str_z(items->space));
    }
    lr_buf_add_z(out, items->open == CHAT_ITEM_CUSTOM ? ",\"input\":" : ",\"arguments\":");
    lr_json_quote(out, with_text ? lr_buf_str(&items->text) : LR_STR_LIT(""));
}

/* A hash instead of the text: nothing here is secret, and nothing is checked when it comes
 * back. */
static void write_seal(struct lr_str text, struct lr_buf *out)
{
    unsigned char hash[LR_SHA256_LEN];
    char hex[LR_SHA256_HEX_LEN + 1];
    lr_sha256_of(text, hash);
    lr_sha256_hex(hash, hex);
    lr_buf_addf(out, ",\"encrypted_content\":\"%s\"", hex);
}

void chat_item_write(const struct chat_choice *c, const char *status, bool with_text,
                     struct lr_buf *out)
{
    static const char *const types[] = {[CHAT_ITEM_REASONING] = "reasoning",
                                        [CHAT_ITEM_MESSAGE] = "message",
                                        [CHAT_ITEM_FUNCTION] = "function_call",
                                        [CHAT_ITEM_CUSTOM] = "custom_tool_call"};
    const struct chat_items *items = c->response->own;
    lr_buf_addf(out, "{\"id\":\"%s\",\"type\":\"%s\",\"status\":\"%s\"", items->id,
                types[items->open], status);
    switch (items->open) {
    case CHAT_ITEM_REASONING:
        if (items->has_summary) {
            write_parts(items, "summary", with_text, out);
        } else {
            lr_buf_add_z(out, ",\"summary\":[]");
            write_parts(items, "content", with_text, out);
        }
        if (items->is_sealed)
            write_seal(lr_buf_str(&items->text), out);
        break;
    case CHAT_ITEM_MESSAGE:
        lr_buf_add_z(out, ",\"role\":\"assistant\"");
        write_parts(items, "content", with_text, out);
        break;
    default:
        responses_object_write_call(c, with_text, out);
        break;
    }
    lr_buf_add_char(out, '}');
}
