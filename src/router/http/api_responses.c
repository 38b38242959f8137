/* router/http/api_responses.c - stored responses of the Responses API.
 *
 *   GET    /v1/responses/{id}
 *   DELETE /v1/responses/{id}
 *   GET    /v1/responses/{id}/input_items   ?limit=20&order=desc&after=ITEM
 *   POST   /v1/responses/{id}/cancel
 *   POST   /v1/responses/compact            404: not offered
 *
 * A caller sees the responses of its own key only.
 */
#include "base/errors.h"
#include "router/http/api.h"
#include "router/http/state.h"

enum { LIMIT_DEFAULT = 20, LIMIT_MAX = 100 };

/* In the request's memory. */
struct asking {
    struct lr_arena *arena; /* the request's; the database's thread has it while fn runs */
    struct lr_str id;
    struct router_responses_view view;
    lr_code code; /* NOT_FOUND, or LR_OK; no failure of the database */
    struct lr_error err;
    struct lr_str text; /* arena: the response, or the items of its request */
    char status[24];    /* that the response has now; "": as its text says */
    struct lr_str after;
    uint64_t limit;
    bool is_ascending;
};

static void take_whole(void *ctx, const struct router_response *row)
{
    struct asking *a = ctx;
    size_t at = row->output_at, len = row->answer.len + row->output.len;
    char *text = lr_arena_alloc(a->arena, len);
    if (text == NULL)
        return;
    memcpy(text, row->answer.ptr, at);
    if (row->output.len > 0)
        memcpy(text + at, row->output.ptr, row->output.len);
    memcpy(text + at + row->output.len, row->answer.ptr + at, row->answer.len - at);
    a->text = lr_str(text, len);
    LR_COPY(a->status, row->status);
}

static void take_input(void *ctx, const struct router_response *row)
{
    struct asking *a = ctx;
    a->text = lr_str(lr_arena_copy(a->arena, row->input), row->input.len);
}

/* What a caller did not find is its answer, and no failure that a log should have. */
static lr_code api_responses_settle(struct asking *a, lr_code code, struct lr_error *err)
{
    if (code != LR_NOT_FOUND)
        return code;
    a->code = code;
    a->err = *err;
    return LR_OK;
}

static lr_code read_whole(struct router_sql *sql, void *arg, struct lr_error *err)
{
    struct asking *a = arg;
    return api_responses_settle(
        a, router_response_read(sql, &a->view, a->id, take_whole, a, err), err);
}

static lr_code read_input(struct router_sql *sql, void *arg, struct lr_error *err)
{
    struct asking *a = arg;
    return api_responses_settle(
        a, router_response_read(sql, &a->view, a->id, take_input, a, err), err);
}

static lr_code erase(struct router_sql *sql, void *arg, struct lr_error *err)
{
    struct asking *a = arg;
    return api_responses_settle(a, router_response_delete(sql, &a->view, a->id, err), err);
}

static lr_code api_responses_check(const struct asking *a, struct lr_error *err)
{
    if (a->code != LR_OK) {
        *err = a->err;
        return a->code;
    }
    return a->text.ptr != NULL ? LR_OK
                               : lr_fail(err, LR_OUT_OF_RAM, "no memory for a response");
}

static lr_code api_responses_begin(struct router *r, struct net_request *req,
                                   struct asking **out, struct lr_error *err)
{
    const struct router_access *access = router_access(req);
    struct asking *a = *out = router_memory(req, sizeof(*a), err);
    if (a == NULL)
        return LR_OUT_OF_RAM;
    a->arena = net_request_arena(req);
    a->id = access->match.tail;
    a->view = router_keeper_view(&r->keeper, lr_str_z(router_caller_id(&access->caller)));
    return LR_OK;
}

/* ---- retrieve and delete ---- */

/* Writes the response with the status that it has now. */
static void put_members(struct lr_json_writer *w, const struct lr_json *response,
                        const char *status)
{
    for (uint32_t i = 0; i < response->count; i++) {
        const struct lr_json_member *m = &response->members[i];
        lr_json_key_str(w, m->key);
        if (lr_str_eq_z(m->key, "status"))
            lr_json_put_z(w, status);
        else if (lr_str_eq_z(m->key, "error") && strcmp(status, "failed") == 0)
            LR_JSON_ITEM(w, LR_TEXT("code", "server_error"),
                         LR_TEXT("message", "the router that ran this request has ended"));
        else
            lr_json_put_value(w, &m->value);
    }
}

static lr_code put_response(struct net_request *req, const struct asking *a,
                            const struct lr_json *response)
{
    if (a->status[0] == '\0')
        return router_answer_text(req, a->text);
    put_members(router_answer_begin(req), response, a->status);
    return router_answer(req, 200);
}

static lr_code read_response(const struct asking *a, const struct lr_json **out,
                             struct lr_error *err)
{
    lr_code code = api_responses_check(a, err);
    if (code == LR_OK)
        code = lr_json_parse(a->arena, a->text, NULL, out, err);
    if (code == LR_OK && (*out)->type != LR_JSON_OBJECT)
        code = lr_fail(err, LR_IO, "the database holds a damaged response");
    return code;
}

static lr_code put_whole(struct net_request *req, void *arg, struct lr_error *err)
{
    struct asking *a = arg;
    const struct lr_json *response = NULL;
    lr_code code =
        a->status[0] != '\0' ? read_response(a, &response, err) : api_responses_check(a, err);
    return code == LR_OK ? put_response(req, a, response) : code;
}

lr_code router_api_response(struct router *r, struct net_request *req, struct lr_error *err)
{
    struct asking *a;
    if (router_wants(req, "stream"))
        return lr_fail_plain(err, response_not_streamed);
    lr_code code = api_responses_begin(r, req, &a, err);
    return code == LR_OK ? router_act(req, NULL, read_whole, put_whole, a, err) : code;
}

static lr_code put_deleted(struct net_request *req, void *arg, struct lr_error *err)
{
    struct asking *a = arg;
    if (a->code != LR_OK)
        return api_responses_check(a, err);
    LR_JSON_MEMBERS(router_answer_begin(req), LR_STR("id", a->id),
                    LR_TEXT("object", "response"), LR_FLAG("deleted", true));
    return router_answer(req, 200);
}

lr_code router_api_response_delete(struct router *r, struct net_request *req,
                                   struct lr_error *err)
{
    struct asking *a;
    lr_code code = api_responses_begin(r, req, &a, err);
    return code == LR_OK ? router_act(req, NULL, erase, put_deleted, a, err) : code;
}

/* ---- the items of a request ---- */

static lr_code read_paging(struct net_request *req, struct asking *a, struct lr_error *err)
{
    struct lr_str text;
    a->limit = LIMIT_DEFAULT;
    if (net_request_query_get(req, "limit", &text) &&
        (!lr_str_u64(text, &a->limit) || a->limit < 1 || a->limit > LIMIT_MAX))
        return lr_fail_as(err, items_limit, LIMIT_MAX);
    if (net_request_query_get(req, "order", &text)) {
        a->is_ascending = lr_str_eq_z(text, "asc");
        if (!a->is_ascending && !lr_str_eq_z(text, "desc"))
            return lr_fail_plain(err, items_order);
    }
    (void)net_request_query_get(req, "after", &a->after);
    return LR_OK;
}

static struct lr_str id_of(const struct lr_json *item)
{
    struct lr_str id = {0};
    (void)lr_json_str(lr_json_get(item, "id"), &id);
    return id;
}

static const struct lr_json *item_at(const struct lr_json *all, const struct asking *a,
                                     uint32_t index)
{
    return &all->items[a->is_ascending ? index : all->count - 1 - index];
}

/* The index of the first item of the page; all->count + 1: there is no item `after`. */
static uint32_t first_of(const struct lr_json *all, const struct asking *a)
{
    for (uint32_t i = 0; a->after.len > 0 && i < all->count; i++)
        if (lr_str_eq(id_of(item_at(all, a, i)), a->after))
            return i + 1;
    return a->after.len > 0 ? all->count + 1 : 0;
}

static lr_code put_page(struct net_request *req, void *arg, struct lr_error *err)
{
    struct asking *a = arg;
    const struct lr_json *all;
    lr_code code = api_responses_check(a, err);
    if (code == LR_OK)
        code = lr_json_parse(a->arena, a->text, NULL, &all, err);
    if (code != LR_OK)
        return code;
    if (all->type != LR_JSON_ARRAY)
        return lr_fail(err, LR_IO, "the database holds damaged items");
    uint32_t first = first_of(all, a);
    if (first > all->count)
        return lr_fail_as(err, item_absent, a->after);
    uint32_t end = all->count - first > a->limit ? first + (uint32_t)a->limit : all->count;
    struct lr_json_writer *w = router_answer_begin(req);
    lr_json_member_z(w, "object", "list");
    lr_json_member_array(w, "data");
    for (uint32_t i = first; i < end; i++)
        lr_json_put_value(w, item_at(all, a, i));
    lr_json_end_array(w);
    if (first < end)
        LR_JSON_MEMBERS(w, LR_STR("first_id", id_of(item_at(all, a, first))),
                        LR_STR("last_id", id_of(item_at(all, a, end - 1))));
    else
        LR_JSON_MEMBERS(w, LR_TEXT("first_id", NULL), LR_TEXT("last_id", NULL));
    lr_json_member_bool(w, "has_more", end < all->count);
    return router_answer(req, 200);
}

lr_code router_api_response_items(struct router *r, struct net_request *req,
                                  struct lr_error *err)
{
    struct asking *a;
    lr_code code = api_responses_begin(r, req, &a, err);
    if (code == LR_OK)
        code = read_paging(req, a, err);
    return code == LR_OK ? router_act(req, NULL, read_input, put_page, a, err) : code;
}

/* ---- cancel ---- */

/* The router that runs the request looks at its row once a second. */
static lr_code cancel(struct router_sql *sql, void *arg, struct lr_error *err)
{
    struct asking *a = arg;
    lr_code code = router_response_cancel(sql, &a->view, a->id, err);
    return code == LR_OK ? read_whole(sql, arg, err) : code;
}

/* A response that has ended stays as it is. */
static lr_code put_cancelled(struct net_request *req, void *arg, struct lr_error *err)
{
    const struct lr_json *response;
    bool is_background = false;
    lr_code code = read_response(arg, &response, err);
    if (code != LR_OK)
        return code;
    if (!lr_json_bool(lr_json_get(response, "background"), &is_background) || !is_background)
        return lr_fail_plain(err, response_not_cancelled);
    return put_response(req, arg, response);
}

lr_code router_api_response_cancel(struct router *r, struct net_request *req,
                                   struct lr_error *err)
{
    struct asking *a;
    lr_code code = api_responses_begin(r, req, &a, err);
    return code == LR_OK ? router_act(req, NULL, cancel, put_cancelled, a, err) : code;
}

lr_code router_api_response_compact(struct router *r, struct net_request *req,
                                    struct lr_error *err)
{
    (void)r;
    (void)req;
    return lr_fail_plain(err, response_not_compacted);
}
