/* chat/ollama/embed.c - the codecs of POST /api/embed and POST /api/embeddings, an older route
 * for one text.  The texts are those of POST /v1/embeddings (chat/vectors). */
#include <stdlib.h>

#include "base/clock.h"
#include "base/errors.h"
#include "chat/ollama/ollama.h"
#include "chat/vectors/vectors.h"

/* ---- the request ---- */

static lr_code parse_prompt(struct chat_parse *p, const char *name, const struct lr_json *value)
{
    return value->type == LR_JSON_STRING ? chat_vectors_input(p, name, value)
                                         : chat_parse_type(p, name, "a string", value);
}

enum { EMBED = 1, EMBEDDINGS = 2 };
#define YES  CHAT_FIELD_HONOURED
#define NONE CHAT_FIELD_NO_EFFECT
#define BOTH (EMBED | EMBEDDINGS)

/* clang-format off */
static const struct chat_field fields[] = {
    {{"model", YES, BOTH, "id or alias of a registered model that can `embed`; required"}, chat_parse_model},
    {{"input", YES, EMBED, "a string, or an array of 1 to 2048 strings; required. A text that is longer than the model's context is a 400, never cut"}, chat_vectors_input},
    {{"prompt", YES, EMBEDDINGS, "a string; required"}, parse_prompt},
    {{"dimensions", YES, EMBED, "number of leading values that are kept, scaled to length 1 again; default: all"}, chat_vectors_dimensions},

    {{"truncate", NONE, EMBED, "boolean; a text that is too long is a 400"}, chat_parse_any_bool},
    {{"options", NONE, BOTH, "there is nothing to choose"}, NULL},
    {{"keep_alive", NONE, BOTH, "operators pin and unload models"}, NULL},
};
/* clang-format on */

enum { FIELD_COUNT = sizeof(fields) / sizeof(fields[0]) };
static const struct chat_fields embed_fields = {fields, FIELD_COUNT, EMBED, "ollama.md"};
static const struct chat_fields embeddings_fields = {fields, FIELD_COUNT, EMBEDDINGS,
                                                     "ollama.md"};

static lr_code embed_parse(struct chat_parse *p, const struct lr_json *root)
{
    lr_code code = chat_parse_members(p, root);
    return code == LR_OK && p->req->prompts == NULL
               ? chat_parse_missing(p, p->req->codec->prompt_field)
               : code;
}

/* ---- the answer ---- */

struct own {
    uint64_t begun_ns;
    size_t bytes; /* of the vectors so far */
};

static lr_code embed_open_answer(struct chat_response *r, const struct chat_response_options *o,
                                 struct lr_error *err)
{
    struct own *own = calloc(1, sizeof(*own));
    (void)o;
    r->own = own;
    if (own == NULL)
        return lr_fail(err, LR_OUT_OF_RAM, "no memory for the answer");
    own->begun_ns = lr_clock_ns(NULL);
    return LR_OK;
}

static void embed_close_answer(struct chat_response *r)
{
    free(r->own);
}

static void embed_write_head(const struct chat_response_options *o, struct lr_buf *out)
{
    lr_buf_add_z(out, "{\"model\":");
    lr_json_quote(out, o->model.len > 0 ? o->model : o->request->model);
    lr_buf_add_z(out, ",\"embeddings\":[");
}

static lr_code add_vector(struct chat_choice *c, const struct wire_vector *v,
                          struct lr_error *err)
{
    struct own *own = c->response->own;
    chat_vectors_numbers(&c->content, v);
    own->bytes += c->content.len;
    if (own->bytes <= CHAT_VECTORS_BYTES_MAX)
        return LR_OK;
    return lr_fail_as(err, ollama_vectors_over, CHAT_VECTORS_BYTES_MAX);
}

static void embed_write_error(struct chat_response *r, const struct lr_error *error)
{
    chat_ollama_error(r->out, r->codec, &(struct chat_error){.error = *error});
}

static void embed_write_body(struct chat_response *r)
{
    const struct own *own = r->own;
    struct lr_buf *out = r->out;
    if (!chat_vectors_are_whole(r))
        return;
    if (r->codec == &chat_ollama_embeddings) {
        lr_buf_add_z(out, "{\"embedding\":");
        lr_buf_add_str(out, lr_buf_str(&r->choices[0].content));
        lr_buf_add_char(out, '}');
        return;
    }
    lr_buf_add_str(out, r->head);
    for (uint32_t i = 0; i < r->choice_count; i++) {
        if (i > 0)
            lr_buf_add_char(out, ',');
        lr_buf_add_str(out, lr_buf_str(&r->choices[i].content));
        lr_buf_free(&r->choices[i].content); /* it is in the body now */
    }
    lr_buf_addf(out,
                "],\"total_duration\":%llu,\"load_duration\":0,\"prompt_eval_count\":%llu}",
                (unsigned long long)lr_elapsed(own->begun_ns, lr_clock_ns(NULL)),
                (unsigned long long)chat_response_totals(r).prompt_tokens);
}

static const struct chat_writer writer = {.head = embed_write_head,
                                          .open = embed_open_answer,
                                          .close = embed_close_answer,
                                          .text = chat_vectors_no_text,
                                          .call = chat_vectors_no_call,
                                          .vector = add_vector,
                                          .complete = embed_write_body,
                                          .fail = embed_write_error};

#define SHARED(api, prompt)                                                                    \
    .name = "ollama " api, .operation = "embeddings", .kind = LR_REQUEST_EMBED,                \
    .id_prefix = "ol-", .prompt_field = prompt, .parse = embed_parse, .body = &writer,         \
    .stream = &writer, .error = chat_ollama_error

const struct chat_codec chat_ollama_embed = {SHARED("embed", "input"), .fields = &embed_fields};
const struct chat_codec chat_ollama_embeddings = {SHARED("embeddings", "prompt"),
                                                  .fields = &embeddings_fields};

/* ---- documentation ---- */

void chat_ollama_embed_markdown(struct lr_buf *out)
{
    chat_ollama_print_fields(out, &embed_fields, "embed", "embeddings");
}
