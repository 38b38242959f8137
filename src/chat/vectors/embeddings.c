/* chat/vectors/embeddings.c - the codec of POST /v1/embeddings. */
#include <stdlib.h>

#include "base/base64.h"
#include "base/errors.h"
#include "base/json.h"
#include "chat/openai/openai.h"
#include "chat/vectors/vectors.h"

/* ---- the request ---- */

static lr_code embeddings_parse_format(struct chat_parse *p, const char *name,
                                       const struct lr_json *value)
{
    static const char *const words[] = {"float", "base64", NULL};
    uint32_t index = 0;
    lr_code code = chat_parse_word(p, name, value, words, LR_INVALID_ARGUMENT, &index);
    p->req->wants_base64 = index == 1;
    return code;
}

#define YES(name, note)  name, CHAT_FIELD_HONOURED, 1, note
#define NONE(name, note) name, CHAT_FIELD_NO_EFFECT, 1, note

/* clang-format off */
static const struct chat_field fields[] = {
    {{YES("model", "id or alias of a registered model that can `embed`; required")}, chat_parse_model},
    {{YES("input", "a string, an array of 1 to 2048 strings, token ids, or an array of up to 2048 arrays of token ids; required. A text has at most 1 MiB and at most the tokens of the model's context; a longer text is a 400, never cut. No control token is recognised in a text; token ids are used as they are")}, chat_vectors_input},
    {{YES("encoding_format", "`float` (default) or `base64`: the little-endian float32 values")}, embeddings_parse_format},
    {{YES("dimensions", "number of leading values that are kept, scaled to length 1 again; default: all. More than the model has is a 400")}, chat_vectors_dimensions},

    {{NONE("user", "")}, chat_parse_user},
    {{NONE("input_type", "some models want a prefix in the text instead, such as `query: `")}, NULL},
    {{NONE("truncate", "a text that is too long is a 400")}, NULL},
};
/* clang-format on */

const struct chat_fields chat_embeddings_fields = {fields, sizeof(fields) / sizeof(fields[0]),
                                                   1, "embeddings.md"};

static lr_code embeddings_parse(struct chat_parse *p, const struct lr_json *root)
{
    lr_code code = chat_parse_members(p, root);
    return code == LR_OK && p->req->prompts == NULL ? chat_parse_missing(p, "input") : code;
}

/* ---- the answer ---- */

struct own {
    size_t bytes; /* of the vectors so far */
    bool wants_base64;
};

static lr_code embeddings_open_answer(struct chat_response *r,
                                      const struct chat_response_options *o,
                                      struct lr_error *err)
{
    struct own *own = calloc(1, sizeof(*own));
    r->own = own;
    if (own == NULL)
        return lr_fail(err, LR_OUT_OF_RAM, "no memory for the answer");
    own->wants_base64 = o->request->wants_base64;
    return LR_OK;
}

static void embeddings_close_answer(struct chat_response *r)
{
    free(r->own);
}

static void embeddings_write_head(const struct chat_response_options *o, struct lr_buf *out)
{
    lr_buf_add_z(out, "{\"object\":\"list\",\"model\":");
    lr_json_quote(out, o->model.len > 0 ? o->model : o->request->model);
    lr_buf_add_z(out, ",\"data\":[");
}

static lr_code add_vector(struct chat_choice *c, const struct wire_vector *v,
                          struct lr_error *err)
{
    struct own *own = c->response->own;
    if (own->wants_base64) {
        lr_buf_add_char(&c->content, '"');
        lr_base64_add(&c->content, v->values, v->count * sizeof(float));
        lr_buf_add_char(&c->content, '"');
    } else {
        chat_vectors_numbers(&c->content, v);
    }
    own->bytes += c->content.len;
    if (own->bytes <= CHAT_VECTORS_BYTES_MAX)
        return LR_OK;
    return lr_fail_as(err, vectors_over, CHAT_VECTORS_BYTES_MAX);
}

static void embeddings_write_error(struct chat_response *r, const struct lr_error *error)
{
    chat_openai_error(r->out, r->codec, &(struct chat_error){.error = *error});
}

static void embeddings_write_body(struct chat_response *r)
{
    struct lr_buf *out = r->out;
    if (!chat_vectors_are_whole(r))
        return;
    lr_buf_add_str(out, r->head);
    for (uint32_t i = 0; i < r->choice_count; i++) {
        struct chat_choice *c = &r->choices[i];
        lr_buf_addf(out,
                    "%s{\"object\":\"embedding\",\"index\":%u,\"embedding\":", i > 0 ? "," : "",
                    i);
        lr_buf_add_str(out, lr_buf_str(&c->content));
        lr_buf_add_char(out, '}');
        lr_buf_free(&c->content); /* it is in the body now */
    }
    lr_buf_add_z(out, "],");
    chat_vectors_usage(r, out);
    lr_buf_add_char(out, '}');
}

static const struct chat_writer writer = {.head = embeddings_write_head,
                                          .open = embeddings_open_answer,
                                          .close = embeddings_close_answer,
                                          .text = chat_vectors_no_text,
                                          .call = chat_vectors_no_call,
                                          .vector = add_vector,
                                          .complete = embeddings_write_body,
                                          .fail = embeddings_write_error};

const struct chat_codec chat_embeddings = {
    .name = "embeddings",
    .operation = "embeddings",
    .kind = LR_REQUEST_EMBED,
    .id_prefix = "embd-",
    .prompt_field = "input",
    .fields = &chat_embeddings_fields,
    .parse = embeddings_parse,
    .body = &writer,
    .stream = &writer,
    .error = chat_openai_error,
};
