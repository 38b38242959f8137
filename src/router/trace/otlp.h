/* router/trace/otlp.h - traces as OTLP/HTTP JSON, W3C trace context, and the values of OTEL_*
 * variables.  Pure.  Thread: any. */
#ifndef ROUTER_TRACE_OTLP_H
#define ROUTER_TRACE_OTLP_H

#include "base/json.h"
#include "router/trace/trace.h"

enum { ROUTER_OTLP_ATTRIBUTES = 32 };

/* "a=b,c=d" of OTEL_RESOURCE_ATTRIBUTES and OTEL_EXPORTER_OTLP_HEADERS, %XX decoded. */
struct router_otlp_pairs {
    struct {
        char name[128], value[1024];
    } all[ROUTER_OTLP_ATTRIBUTES];
    size_t count;
};
/* INVALID_ARGUMENT: it is no such list; `what` names the variable. */
LR_MUST_USE lr_code router_otlp_pairs_read(const char *what, struct lr_str text,
                                           struct router_otlp_pairs *out, struct lr_error *err);

/* "00-" 32 digits "-" 16 digits "-" 2 digits, lower case, neither id zero. */
bool router_trace_parent_read(struct lr_str text, unsigned char id[16], uint64_t *span,
                              bool *is_sampled);
void router_trace_parent_write(const unsigned char id[16], uint64_t span, bool is_sampled,
                               char out[ROUTER_TRACE_PARENT]);

/* The body of a request to the collector. */
void router_otlp_write(const struct router_trace *traces, const char *service,
                       const struct router_otlp_pairs *resource, const char *version,
                       struct lr_buf *out);

#endif
