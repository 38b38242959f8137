#include "router/http/records.h"

#include <stdio.h>

#include "base/errors.h"
#include "router/http/state.h"

enum {
    PAGE_BYTES = 4 << 20,
    QUEUE_BYTES = 256 << 10, /* that may wait for the client before the next page is read */
};

lr_code router_export_format(struct net_request *req, enum router_format *out,
                             struct lr_error *err)
{
    struct lr_str text;
    *out = ROUTER_JSON;
    if (!net_request_query_get(req, "format", &text) || lr_str_eq_z(text, "json"))
        return LR_OK;
    *out = lr_str_eq_z(text, "csv") ? ROUTER_CSV : ROUTER_JSONL;
    return *out == ROUTER_CSV || lr_str_eq_z(text, "jsonl")
               ? LR_OK
               : lr_fail_plain(err, records_format);
}

/* ---- rows ---- */

/* RFC 4180.  A spreadsheet would compute a text that begins like a formula. */
static void put_csv(struct lr_buf *out, struct lr_str text)
{
    bool is_formula = text.len != 0 && strchr("=+-@\t\r", text.ptr[0]) != NULL;
    lr_buf_add_char(out, '"');
    if (is_formula)
        lr_buf_add_char(out, '\'');
    for (size_t i = 0; i < text.len; i++) {
        if (text.ptr[i] == '"')
            lr_buf_add_char(out, '"');
        lr_buf_add_char(out, text.ptr[i]);
    }
    lr_buf_add_char(out, '"');
}

struct router_line *router_export_row(struct router_export *e, const char *const *columns)
{
    struct router_line *r = &e->record;
    if (e->format == ROUTER_CSV && !e->has_rows) {
        for (size_t i = 0; columns[i] != NULL; i++)
            lr_buf_addf(&e->out, "%s%s", i != 0 ? "," : "", columns[i]);
        lr_buf_add_z(&e->out, "\r\n");
    }
    if (e->format == ROUTER_JSON && e->has_rows)
        lr_buf_add_char(&e->out, ',');
    e->has_rows = true;
    *r = (struct router_line){.to = e};
    if (e->format != ROUTER_CSV) {
        lr_json_writer_init(&r->w, &e->out);
        lr_json_begin_object(&r->w);
    }
    return r;
}

static void begin_column(struct router_line *r, const char *column)
{
    if (r->to->format != ROUTER_CSV)
        lr_json_key(&r->w, column);
    else if (r->columns != 0)
        lr_buf_add_char(&r->to->out, ',');
    r->columns++;
}

void router_line_text(struct router_line *r, const char *column, struct lr_str value)
{
    begin_column(r, column);
    if (r->to->format == ROUTER_CSV)
        put_csv(&r->to->out, value);
    else
        lr_json_put_str(&r->w, value);
}

void router_line_json(struct router_line *r, const char *column, struct lr_str value)
{
    begin_column(r, column);
    if (r->to->format == ROUTER_CSV)
        put_csv(&r->to->out, value);
    else if (value.len != 0)
        lr_json_put_raw(&r->w, value);
    else
        lr_json_put_null(&r->w);
}

void router_line_int(struct router_line *r, const char *column, int64_t value)
{
    begin_column(r, column);
    if (r->to->format == ROUTER_CSV)
        lr_buf_addf(&r->to->out, "%lld", (long long)value);
    else
        lr_json_put_i64(&r->w, value);
}

void router_line_cost(struct router_line *r, const double *cost)
{
    begin_column(r, "cost");
    if (r->to->format == ROUTER_CSV && cost != NULL)
        lr_buf_addf(&r->to->out, "%.9g", *cost);
    else if (r->to->format != ROUTER_CSV && cost != NULL)
        lr_json_put_double(&r->w, *cost);
    else if (r->to->format != ROUTER_CSV)
        lr_json_put_null(&r->w);
}

void router_line_end(struct router_line *r)
{
    if (r->to->format == ROUTER_CSV)
        lr_buf_add_z(&r->to->out, "\r\n");
    else
        lr_json_end_object(&r->w);
    if (r->to->format == ROUTER_JSONL)
        lr_buf_add_char(&r->to->out, '\n');
}

/* ---- pages ---- */

static void next_page(void *arg);

static lr_code read_page(struct router_sql *sql, void *arg, struct lr_error *err)
{
    struct router_export *e = arg;
    lr_code code = e->page(e, sql, &e->is_last, err);
    return code == LR_OK && e->out.failed
               ? lr_fail(err, LR_OUT_OF_RAM, "no memory for a page of records")
               : code;
}

static void records_end(struct router_export *e)
{
    lr_buf_free(&e->out);
    lr_buf_free(&e->head);
}

static void records_on_drain(void *arg)
{
    struct router_export *e = arg;
    if (!e->is_waiting)
        return;
    e->is_waiting = false;
    next_page(e);
}

/* While a page is read, the next write finds out. */
static void records_on_gone(void *arg)
{
    struct router_export *e = arg;
    if (!e->is_waiting)
        return;
    e->is_waiting = false;
    records_end(e);
    net_stream_abort(e->req);
}

static void records_begin(struct router_export *e)
{
    static const char *const types[] = {"application/json", "text/csv; charset=utf-8",
                                        "application/jsonl"};
    char name[96];
    if (e->format != ROUTER_JSON) {
        (void)snprintf(name, sizeof(name), "attachment; filename=\"%s.%s\"", e->name,
                       e->format == ROUTER_CSV ? "csv" : "jsonl");
        net_response_header(e->req, "Content-Disposition", lr_str_z(name));
    }
    net_stream_begin(e->req, 200, types[e->format]);
    e->has_begun = true;
    net_stream_on_drain(e->req, records_on_drain, e);
    net_request_on_gone(e->req, records_on_gone, e);
}

static void on_page(void *arg, const struct lr_error *err)
{
    struct router_export *e = arg;
    struct net_request *req = e->req;
    if (err != NULL) {
        records_end(e);
        if (e->has_begun)
            net_stream_abort(req);
        else
            router_answer_error(req, err);
        return;
    }
    lr_code code = LR_OK;
    if (!e->has_begun) {
        records_begin(e);
        if (e->format == ROUTER_JSON)
            code = net_stream_write(req, lr_buf_str(&e->head));
    }
    if (e->is_last && e->format == ROUTER_JSON)
        lr_buf_add_z(&e->out, "],\"more\":false}");
    if (code == LR_OK && e->out.len != 0)
        code = net_stream_write(req, lr_buf_str(&e->out));
    lr_buf_clear(&e->out);
    if (code != LR_OK || e->is_last) {
        records_end(e);
        if (code == LR_OK)
            net_stream_end(req);
        else
            net_stream_abort(req);
    } else if (net_stream_queued(req) > QUEUE_BYTES) {
        e->is_waiting = true;
    } else {
        next_page(e);
    }
}

static void next_page(void *arg)
{
    struct router_export *e = arg;
    router_store_quietly(router_access(e->req)->router->store, read_page,
                         net_request_loop(e->req), on_page, e);
}

lr_code router_export_start(struct router_export *e, struct lr_error *err)
{
    (void)err;
    lr_buf_init(&e->out, PAGE_BYTES);
    next_page(e);
    return LR_OK;
}
