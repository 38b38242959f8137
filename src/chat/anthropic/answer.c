/* chat/anthropic/answer.c - deltas -> content blocks, in one piece or as named events.
 *
 * A block ends where another kind of text begins, so empty blocks are never created.  A stream
 * keeps nothing of the answer.  Events are written with plain appends, because this runs once a
 * token.
 *
 *   message_start  (content_block_start  content_block_delta...  content_block_stop)...
 *   message_delta  message_stop
 */
#include <stdlib.h>

#include "base/json.h"
#include "base/sha256.h"
#include "chat/anthropic/anthropic.h"

enum block { BLOCK_NONE, BLOCK_THINKING, BLOCK_TEXT, BLOCK_TOOL, BLOCK_COUNT };

struct answer {
    uint32_t max_tokens; /* that the client asked for; 0: none */
    enum block open;
    uint32_t index;           /* of the open block, or of the next one */
    bool had[BLOCK_COUNT];    /* there was a block of this kind before */
    struct lr_buf blocks;     /* of an answer in one piece: all blocks, as JSON with commas */
    struct lr_buf text;       /* of the open block */
    struct lr_sha256 thought; /* of the open block of thinking */
};

#define ADD(buf, literal) lr_buf_add((buf), (literal), sizeof(literal) - 1)

static struct answer *answer_of(const struct chat_response *r)
{
    return r->own;
}

/* event: NAME\ndata: {"type":"NAME" */
#define EVENT(out, name) ADD((out), "event: " name "\ndata: {\"type\":\"" name "\"")

static void end_event(struct lr_buf *out)
{
    ADD(out, "}\n\n");
}

/* ---- making and freeing ---- */

static void anthropic_write_head(const struct chat_response_options *options,
                                 struct lr_buf *out)
{
    struct lr_str model = options->model.len > 0 ? options->model : options->request->model;
    ADD(out, "{\"id\":");
    lr_json_quote(out, options->id);
    ADD(out, ",\"type\":\"message\",\"role\":\"assistant\",\"model\":");
    lr_json_quote(out, model);
    lr_buf_add_char(out, ',');
}

static lr_code anthropic_open_writer(struct chat_response *r,
                                     const struct chat_response_options *options,
                                     struct lr_error *err)
{
    struct answer *a = calloc(1, sizeof(*a));
    r->own = a;
    if (a == NULL)
        return lr_fail(err, LR_OUT_OF_RAM, "no memory for an answer");
    a->max_tokens = options->request->max_tokens;
    lr_buf_init(&a->blocks, r->choices[0].content.limit);
    lr_buf_init(&a->text, r->choices[0].content.limit);
    lr_sha256_init(&a->thought);
    return LR_OK;
}

static void anthropic_close_writer(struct chat_response *r)
{
    struct answer *a = r->own;
    if (a == NULL)
        return;
    lr_buf_free(&a->blocks);
    lr_buf_free(&a->text);
    free(a);
    r->own = NULL;
}

/* ---- members of the message ---- */

static void anthropic_write_usage(const struct chat_response *r, struct lr_buf *out)
{
    struct chat_response_totals t = chat_response_totals(r);
    lr_buf_addf(out,
                "\"usage\":{\"input_tokens\":%llu,\"cache_creation_input_tokens\":0,"
                "\"cache_read_input_tokens\":%llu,\"output_tokens\":%llu}",
                (unsigned long long)(t.prompt_tokens - t.cached_tokens),
                (unsigned long long)t.cached_tokens, (unsigned long long)t.completion_tokens);
}

static const char *stop_reason(const struct chat_response *r)
{
    const struct chat_choice *c = &r->choices[0];
    const struct answer *a = r->own;
    if (c->stop.matched)
        return "stop_sequence";
    if (c->truncated)
        return a->max_tokens != 0 && c->usage.completion_tokens >= a->max_tokens
                   ? "max_tokens"
                   : "model_context_window_exceeded";
    return c->calls > 0 ? "tool_use" : "end_turn";
}

static void write_stop(const struct chat_response *r, struct lr_buf *out)
{
    const struct chat_stop *stop = &r->choices[0].stop;
    lr_buf_addf(out, "\"stop_reason\":\"%s\",\"stop_sequence\":", stop_reason(r));
    if (stop->matched)
        lr_json_quote(out, stop->strings[stop->match]);
    else
        ADD(out, "null");
}

/* ---- blocks ---- */

/* The beginning of a block, without its text: {"type":"tool_use","id":...,"name":... */
static void write_block(const struct chat_choice *c, uint32_t tool, struct lr_str name,
                        struct lr_buf *out)
{
    char letters[CHAT_ID_LETTERS];
    switch (answer_of(c->response)->open) {
    case BLOCK_THINKING:
        ADD(out, "{\"type\":\"thinking\"");
        if (c->response->stream)
            ADD(out, ",\"signature\":\"\"");
        break;
    case BLOCK_TEXT:
        ADD(out, "{\"type\":\"text\"");
        break;
    default:
        chat_id_letters(c->response, tool, letters);
        lr_buf_addf(out,
                    "{\"type\":\"tool_use\",\"id\":\"toolu_%.*s\",\"name\":", CHAT_ID_LETTERS,
                    letters);
        lr_json_quote(out, name);
        break;
    }
}

static void open_block(struct chat_choice *c, enum block kind, uint32_t tool,
                       struct lr_str name)
{
    struct chat_response *r = c->response;
    struct answer *a = r->own;
    a->open = kind;
    a->had[kind] = true;
    if (!r->stream) {
        if (a->index > 0)
            lr_buf_add_char(&a->blocks, ',');
        write_block(c, tool, name, &a->blocks);
        return;
    }
    EVENT(r->out, "content_block_start");
    lr_buf_addf(r->out, ",\"index\":%u,\"content_block\":", a->index);
    write_block(c, tool, name, r->out);
    lr_buf_add_z(r->out, kind == BLOCK_THINKING ? ",\"thinking\":\"\"}"
                         : kind == BLOCK_TEXT   ? ",\"text\":\"\"}"
                                                : ",\"input\":{}}");
    end_event(r->out);
}

static void write_delta(struct chat_response *r, struct lr_str text)
{
    static const char *const members[] = {
        [BLOCK_THINKING] = "{\"type\":\"thinking_delta\",\"thinking\":",
        [BLOCK_TEXT] = "{\"type\":\"text_delta\",\"text\":",
        [BLOCK_TOOL] = "{\"type\":\"input_json_delta\",\"partial_json\":"};
    const struct answer *a = r->own;
    EVENT(r->out, "content_block_delta");
    lr_buf_addf(r->out, ",\"index\":%u,\"delta\":", a->index);
    lr_buf_add_z(r->out, members[a->open]);
    lr_json_quote(r->out, text);
    lr_buf_add_char(r->out, '}');
    end_event(r->out);
}

/* Clients send thinking back only with a signature.  Nothing is checked when it comes back: a
 * conversation may go on at another server. */
static void write_signature(struct answer *a, struct lr_buf *out)
{
    unsigned char hash[LR_SHA256_LEN];
    char text[LR_SHA256_HEX_LEN + 1];
    lr_sha256_end(&a->thought, hash);
    lr_sha256_hex(hash, text);
    lr_sha256_init(&a->thought);
    lr_buf_addf(out, ",\"signature\":\"%s\"", text);
}

static void close_block(struct chat_choice *c)
{
    struct chat_response *r = c->response;
    struct answer *a = r->own;
    if (a->open == BLOCK_NONE)
        return;
    if (r->stream) {
        if (a->open == BLOCK_THINKING) {
            EVENT(r->out, "content_block_delta");
            lr_buf_addf(r->out, ",\"index\":%u,\"delta\":{\"type\":\"signature_delta\"",
                        a->index);
            write_signature(a, r->out);
            lr_buf_add_char(r->out, '}');
            end_event(r->out);
        }
        EVENT(r->out, "content_block_stop");
        lr_buf_addf(r->out, ",\"index\":%u", a->index);
        end_event(r->out);
    } else if (a->open == BLOCK_TOOL) {
        ADD(&a->blocks, ",\"input\":");
        chat_arguments_object(lr_buf_str(&a->text), &a->blocks);
        lr_buf_add_char(&a->blocks, '}');
    } else {
        lr_buf_add_z(&a->blocks, a->open == BLOCK_TEXT ? ",\"text\":" : ",\"thinking\":");
        lr_json_quote(&a->blocks, lr_buf_str(&a->text));
        if (a->open == BLOCK_THINKING)
            write_signature(a, &a->blocks);
        lr_buf_add_char(&a->blocks, '}');
    }
    r->lost = r->lost || a->text.failed;
    lr_buf_clear(&a->text);
    a->open = BLOCK_NONE;
    a->index++;
}

/* ---- the writer ---- */

static void anthropic_begin(struct chat_choice *c)
{
    struct chat_response *r = c->response;
    if (!r->stream)
        return;
    EVENT(r->out, "message_start");
    ADD(r->out, ",\"message\":");
    lr_buf_add_str(r->out, r->head);
    ADD(r->out, "\"content\":[],\"stop_reason\":null,\"stop_sequence\":null,");
    anthropic_write_usage(r,
                          r->out); /* the prompt's size; message_delta has the final numbers */
    lr_buf_add_char(r->out, '}');
    end_event(r->out);
}

static void anthropic_add_text(struct chat_choice *c, enum block kind, struct lr_str text)
{
    struct chat_response *r = c->response;
    struct answer *a = r->own;
    if (a->open != kind) {
        close_block(c);
        /* The Harmony parser separates two messages of a class by newlines, for APIs that join
         * them.  Here they are separate blocks. */
        const char *joint = kind == BLOCK_TEXT ? "\n\n" : "\n";
        if (a->had[kind] && lr_str_starts(text, joint))
            text = lr_str_sub(text, strlen(joint), text.len);
        if (text.len == 0)
            return;
        open_block(c, kind, 0, LR_STR_LIT(""));
    }
    if (kind == BLOCK_THINKING)
        lr_sha256_add(&a->thought, text.ptr, text.len);
    if (r->stream)
        write_delta(r, text);
    else
        lr_buf_add_str(&a->text, text);
}

static void anthropic_write_text(struct chat_choice *c, enum chat_delta_kind kind,
                                 uint32_t tool, struct lr_str text)
{
    struct chat_response *r = c->response;
    (void)tool; /* the open call is always the last */
    if (kind == CHAT_DELTA_CONTENT)
        anthropic_add_text(c, BLOCK_TEXT, text);
    else if (kind == CHAT_DELTA_REASONING)
        anthropic_add_text(c, BLOCK_THINKING, text);
    else if (answer_of(r)->open == BLOCK_TOOL)
        anthropic_add_text(c, BLOCK_TOOL, text);
}

static void anthropic_write_call(struct chat_choice *c, uint32_t tool, struct lr_str name)
{
    close_block(c);
    open_block(c, BLOCK_TOOL, tool, name);
}

static void anthropic_fail(struct chat_response *r, const struct lr_error *error)
{
    struct chat_error e = {.error = *error};
    if (r->stream)
        ADD(r->out, "event: error\ndata: ");
    chat_anthropic_error(r->out, r->codec, &e);
    if (r->stream)
        ADD(r->out, "\n\n");
}

static void anthropic_complete(struct chat_response *r)
{
    const struct answer *a = r->own;
    if (r->lost || a->blocks.failed) {
        struct lr_error error;
        r->status = lr_fail(&error, LR_OUT_OF_RAM,
                            "the answer is larger than %zu bytes; ask for fewer tokens",
                            a->blocks.limit);
        anthropic_fail(r, &error);
    } else if (r->stream) {
        EVENT(r->out, "message_delta");
        ADD(r->out, ",\"delta\":{");
        write_stop(r, r->out);
        ADD(r->out, "},");
        anthropic_write_usage(r, r->out);
        end_event(r->out);
        EVENT(r->out, "message_stop");
        end_event(r->out);
    } else {
        lr_buf_add_str(r->out, r->head);
        ADD(r->out, "\"content\":[");
        lr_buf_add_str(r->out, lr_buf_str(&a->blocks));
        ADD(r->out, "],");
        write_stop(r, r->out);
        lr_buf_add_char(r->out, ',');
        anthropic_write_usage(r, r->out);
        lr_buf_add_char(r->out, '}');
    }
}

const struct chat_writer chat_anthropic_writer = {.head = anthropic_write_head,
                                                  .open = anthropic_open_writer,
                                                  .close = anthropic_close_writer,
                                                  .begin = anthropic_begin,
                                                  .text = anthropic_write_text,
                                                  .call = anthropic_write_call,
                                                  .call_end = close_block,
                                                  .finish = close_block,
                                                  .complete = anthropic_complete,
                                                  .fail = anthropic_fail};
