#include "router/fleet/reasons.h"

#include <stdio.h>

static void put_spans(struct lr_json_writer *w, const char *prefix, const char *text,
                      const struct lr_spans *spans, const struct lr_spans *cause)
{
    char name[40];
    struct lr_str holes[LR_ERROR_HOLES];
    (void)snprintf(name, sizeof(name), "%s_code", prefix);
    lr_json_member_z(w, name, lr_error_rows[spans->id].id);
    (void)snprintf(name, sizeof(name), "%s_params", prefix);
    lr_json_member_object(w, name);
    (void)lr_error_holes(spans->id, holes);
    for (size_t i = 0; i < spans->count; i++) {
        lr_json_key_str(w, holes[i]);
        lr_json_put_str(w, lr_str(text + spans->holes[i].at, spans->holes[i].len));
        if (cause != NULL && cause->id != LR_ERROR_NONE && lr_str_eq_z(holes[i], "cause"))
            put_spans(w, "cause", text, cause, NULL);
    }
    lr_json_end_object(w);
}

void router_reason_put_text(struct lr_json_writer *w, const char *prefix, const char *text,
                            size_t size)
{
    struct lr_identity identity;
    if (lr_error_read_text(text, size, &identity))
        put_spans(w, prefix, text, &identity.error, &identity.cause);
}

void router_reason_put(struct lr_json_writer *w, const char *prefix,
                       const struct lr_error *reason)
{
    if (reason != NULL)
        router_reason_put_text(w, prefix, reason->text, sizeof(reason->text));
}
