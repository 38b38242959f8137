#include "net/probe.h"

#include "base/errors.h"
#include "net/json.h"
#include "net/server.h"

enum { PROBE_BYTES = 8 << 10 };

lr_code net_probe_livez(struct net_request *req, struct lr_error *err)
{
    struct net_json json;
    lr_json_member_z(net_json_begin(&json, PROBE_BYTES), "status", "ok");
    return net_json_send(&json, req, 200, err);
}

/* The checks that ?require names. */
static lr_code read_required(struct net_request *req, struct net_check *checks, size_t count,
                             struct lr_error *err)
{
    struct lr_str rest;
    if (!net_request_query_get(req, "require", &rest))
        return LR_OK;
    for (struct lr_str name; lr_str_split(&rest, ',', &name);) {
        size_t i = 0;
        while (i < count && !lr_str_eq_z(name, checks[i].name))
            i++;
        if (i == count)
            return lr_fail_as(err, check_unknown, name);
        checks[i].is_required = true;
    }
    return LR_OK;
}

lr_code net_probe_readyz(struct net_request *req, struct net_check *checks, size_t count,
                         struct lr_error *err)
{
    struct net_json json;
    bool is_ready = true;
    lr_code code = read_required(req, checks, count, err);
    if (code != LR_OK)
        return code;
    for (size_t i = 0; i < count; i++)
        is_ready = is_ready && (checks[i].is_ok || !checks[i].is_required);
    struct lr_json_writer *w = net_json_begin(&json, PROBE_BYTES);
    lr_json_member_z(w, "status", is_ready ? "ready" : "not_ready");
    lr_json_member_array(w, "checks");
    for (size_t i = 0; i < count; i++) {
        lr_json_begin_object(w);
        LR_JSON_MEMBERS(w, LR_TEXT("name", checks[i].name), LR_FLAG("ok", checks[i].is_ok),
                        LR_FLAG("required", checks[i].is_required));
        if (!checks[i].is_ok)
            LR_JSON_MEMBERS(w, LR_TEXT("reason", checks[i].reason),
                            LR_TEXT("advice", checks[i].advice));
        lr_json_end_object(w);
    }
    lr_json_end_array(w);
    return net_json_send(&json, req, is_ready ? 200 : 503, err);
}
