/* chat/vectors/rerank.c - the codec of POST /v1/rerank, /v2/rerank and /rerank: one form that
 * the clients of Jina and of Cohere understand. */
#include <stdio.h>
#include <stdlib.h>

#include "base/json.h"
#include "chat/openai/openai.h"
#include "chat/vectors/vectors.h"

/* ---- the request ---- */

static lr_code parse_query(struct chat_parse *p, const char *name, const struct lr_json *value)
{
    if (!lr_json_str(value, &p->req->query))
        return chat_parse_type(p, name, "a string", value);
    if (p->req->query.len == 0)
        return chat_parse_fail(p, name, "invalid_value", LR_INVALID_ARGUMENT,
                               "'%s' is empty; it must have at least one token.", name);
    /* The query is sent with each document. */
    if (p->req->query.len > CHAT_QUERY_BYTES_MAX)
        return chat_parse_fail(p, name, "invalid_value", LR_INVALID_ARGUMENT,
                               "'%s' has %zu bytes, the limit is %d.", name, p->req->query.len,
                               CHAT_QUERY_BYTES_MAX);
    return LR_OK;
}

static lr_code parse_documents(struct chat_parse *p, const char *name,
                               const struct lr_json *value)
{
    lr_code code = LR_OK;
    if (value->type != LR_JSON_ARRAY || value->count == 0)
        return chat_parse_type(p, name, "an array of 1 or more texts", value);
    if (value->count > CHAT_INPUTS_MAX)
        return chat_parse_fail(p, name, "invalid_value", LR_INVALID_ARGUMENT,
                               "'%s' has %u items, the limit is %d.", name, value->count,
                               CHAT_INPUTS_MAX);
    struct chat_raw_prompt *list = lr_arena_zalloc(p->arena, value->count * sizeof(*list));
    if (list == NULL)
        return chat_parse_fail(p, name, NULL, LR_OUT_OF_RAM, "no memory for '%s'", name);
    for (uint32_t i = 0; code == LR_OK && i < value->count; i++) {
        const struct lr_json *item = &value->items[i];
        const struct lr_json *text =
            item->type == LR_JSON_OBJECT ? lr_json_get(item, "text") : item;
        char param[32];
        (void)snprintf(param, sizeof(param), "%.16s[%u]", name, i);
        code = lr_json_str(text, &list[i].text)
                   ? chat_vectors_check_text(p, param, list[i].text)
                   : chat_parse_type(p, param, "a string or an object with 'text'", item);
    }
    p->req->prompts = list;
    p->req->prompt_count = value->count;
    return code;
}

static lr_code parse_top_n(struct chat_parse *p, const char *name, const struct lr_json *value)
{
    return chat_parse_u32(p, name, value, 1, UINT32_MAX, &p->req->top_n);
}

static lr_code parse_return(struct chat_parse *p, const char *name, const struct lr_json *value)
{
    return chat_parse_bool(p, name, value, &p->req->wants_documents);
}

#define YES(name, note)  name, CHAT_FIELD_HONOURED, 1, note
#define NONE(name, note) name, CHAT_FIELD_NO_EFFECT, 1, note

/* clang-format off */
static const struct chat_field fields[] = {
    {{YES("model", "id or alias of a registered model that can `rerank`; required")}, chat_parse_model},
    {{YES("query", "a string of at most 64 KiB; required")}, parse_query},
    {{YES("documents", "1 to 2048 strings or objects with `text`, each at most 1 MiB; required. Query and document together fit the model's context; a longer pair is a 400, never cut")}, parse_documents},
    {{YES("top_n", "number of results, the best; default: all")}, parse_top_n},
    {{YES("return_documents", "boolean: each result has `document.text`; default false")}, parse_return},

    {{NONE("max_tokens_per_doc", "a document that is too long is a 400")}, NULL},
    {{NONE("max_chunks_per_doc", "the same")}, NULL},
    {{NONE("rank_fields", "`text` is ranked")}, NULL},
    {{NONE("user", "")}, chat_parse_user},
};
/* clang-format on */

const struct chat_fields chat_rerank_fields = {fields, sizeof(fields) / sizeof(fields[0]), 1,
                                               "embeddings.md"};

static lr_code rerank_parse(struct chat_parse *p, const struct lr_json *root)
{
    lr_code code = chat_parse_members(p, root);
    if (code == LR_OK && p->req->query.len == 0)
        code = chat_parse_missing(p, "query");
    return code == LR_OK && p->req->prompts == NULL ? chat_parse_missing(p, "documents") : code;
}

/* ---- the answer ---- */

/* The request outlives the answer (chat/turn.h), so the texts of documents are not copied. */
struct own {
    const struct chat_raw_prompt *documents; /* NULL: they are not in the answer */
    uint32_t top_n;
};

struct result {
    float score;
    uint32_t index;
};

static lr_code rerank_open_answer(struct chat_response *r,
                                  const struct chat_response_options *o, struct lr_error *err)
{
    struct own *own = calloc(1, sizeof(*own));
    r->own = own;
    if (own == NULL)
        return lr_fail(err, LR_OUT_OF_RAM, "no memory for the answer");
    own->documents = o->request->wants_documents ? o->request->prompts : NULL;
    own->top_n = o->request->top_n;
    return LR_OK;
}

static void rerank_close_answer(struct chat_response *r)
{
    free(r->own);
}

static void rerank_write_head(const struct chat_response_options *o, struct lr_buf *out)
{
    lr_buf_add_z(out, "{\"id\":");
    lr_json_quote(out, o->id);
    lr_buf_add_z(out, ",\"object\":\"list\",\"model\":");
    lr_json_quote(out, o->model.len > 0 ? o->model : o->request->model);
    lr_buf_add_z(out, ",\"results\":[");
}

static lr_code add_score(struct chat_choice *c, const struct wire_vector *v,
                         struct lr_error *err)
{
    float score = wire_vector_value(v, 0);
    (void)err;
    lr_buf_add(&c->content, &score, sizeof(score));
    return LR_OK;
}

static void rerank_write_error(struct chat_response *r, const struct lr_error *error)
{
    chat_openai_error(r->out, r->codec, &(struct chat_error){.error = *error});
}

/* The best first; of equal ones the earlier. */
static int by_score(const void *a, const void *b)
{
    const struct result *x = a, *y = b;
    if (x->score != y->score)
        return x->score > y->score ? -1 : 1;
    return x->index < y->index ? -1 : 1;
}

static void write_results(struct chat_response *r, struct result *all)
{
    const struct own *own = r->own;
    struct lr_buf *out = r->out;
    uint32_t count =
        own->top_n != 0 && own->top_n < r->choice_count ? own->top_n : r->choice_count;
    for (uint32_t i = 0; i < r->choice_count; i++) {
        all[i].index = i;
        memcpy(&all[i].score, r->choices[i].content.data, sizeof(all[i].score));
    }
    qsort(all, r->choice_count, sizeof(*all), by_score);
    for (uint32_t i = 0; i < count; i++) {
        lr_buf_addf(out, "%s{\"index\":%u,\"relevance_score\":", i > 0 ? "," : "",
                    all[i].index);
        chat_vectors_number(out, all[i].score);
        if (own->documents != NULL) {
            lr_buf_add_z(out, ",\"document\":{\"text\":");
            lr_json_quote(out, own->documents[all[i].index].text);
            lr_buf_add_char(out, '}');
        }
        lr_buf_add_char(out, '}');
    }
}

static void rerank_write_body(struct chat_response *r)
{
    struct lr_error error;
    if (!chat_vectors_are_whole(r))
        return;
    struct result *all = malloc(r->choice_count * sizeof(*all));
    if (all == NULL) {
        r->status = lr_fail(&error, LR_OUT_OF_RAM, "no memory for the answer");
        rerank_write_error(r, &error);
        return;
    }
    lr_buf_add_str(r->out, r->head);
    write_results(r, all);
    free(all);
    lr_buf_add_z(r->out, "],");
    chat_vectors_usage(r, r->out);
    lr_buf_add_z(r->out, ",\"meta\":{\"api_version\":{\"version\":\"2\"},\"billed_units\":"
                         "{\"search_units\":1}}}");
}

static const struct chat_writer writer = {.head = rerank_write_head,
                                          .open = rerank_open_answer,
                                          .close = rerank_close_answer,
                                          .text = chat_vectors_no_text,
                                          .call = chat_vectors_no_call,
                                          .vector = add_score,
                                          .complete = rerank_write_body,
                                          .fail = rerank_write_error};

const struct chat_codec chat_rerank = {
    .name = "rerank",
    .operation = "rerank",
    .kind = LR_REQUEST_RERANK,
    .id_prefix = "rerank-",
    .prompt_field = "documents",
    .fields = &chat_rerank_fields,
    .parse = rerank_parse,
    .body = &writer,
    .stream = &writer,
    .error = chat_openai_error,
};
