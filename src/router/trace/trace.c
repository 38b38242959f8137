#include "router/trace/trace.h"

#include "base/random.h"

uint64_t router_trace_add(struct router_trace *trace, const struct router_span *span)
{
    if (trace == NULL)
        return 0;
    if (trace->span_count == ROUTER_TRACE_SPANS) {
        trace->spans_left_out++;
        return 0;
    }
    struct router_span *out = &trace->spans[trace->span_count++];
    *out = *span;
    out->id = lr_random_u64() | 1; /* 0 is no id */
    if (out->parent == 0)
        out->parent = trace->root;
    return out->id;
}

void router_trace_call(struct router_trace *trace, struct lr_str name, uint64_t now_ns)
{
    if (trace == NULL || trace->call_count == ROUTER_TRACE_CALLS)
        return;
    trace->calls[trace->call_count].at_ns = now_ns;
    LR_COPY(trace->calls[trace->call_count].name, name);
    trace->call_count++;
}
