/* router/http/api_requests.c - the request log: the list, and one request with its way. */
#include "base/errors.h"
#include "router/http/api.h"
#include "router/http/state.h"

enum { LIMIT_DEFAULT = 50 };

lr_code router_api_requests(struct router *r, struct net_request *req, struct lr_error *err)
{
    struct router_journal_filter filter = {0};
    struct lr_str text;
    uint64_t limit = LIMIT_DEFAULT;
    (void)net_request_query_get(req, "key", &filter.key);
    (void)net_request_query_get(req, "model", &filter.model);
    (void)net_request_query_get(req, "node", &filter.node);
    (void)net_request_query_get(req, "status", &filter.status);
    (void)net_request_query_get(req, "q", &filter.text);
    if (net_request_query_get(req, "limit", &text) &&
        (!lr_str_u64(text, &limit) || limit < 1 || limit > ROUTER_JOURNAL_PAGE))
        return lr_fail_as(err, requests_limit, ROUTER_JOURNAL_PAGE);
    if (net_request_query_get(req, "before", &text) && !lr_str_u64(text, &filter.before))
        return lr_fail_plain(err, requests_before);
    filter.limit = (size_t)limit;
    lr_code code = router_journal_check(&filter, err);
    if (code != LR_OK)
        return code;
    router_journal_write(&r->journal, &filter, lr_clock_ns(NULL), router_answer_begin(req));
    return router_answer(req, 200);
}

lr_code router_api_one_request(struct router *r, struct net_request *req, struct lr_error *err)
{
    struct lr_str id = router_access(req)->match.path.segments[2];
    bool is_admin = router_access(req)->caller.role == ROUTER_ADMIN; /* viewers see no texts */
    if (!router_journal_write_one(&r->journal, id, lr_clock_ns(NULL), is_admin,
                                  router_answer_begin(req)))
        return lr_fail_as(err, absent_request, id);
    return router_answer(req, 200);
}
