/* router/trace/trace.h - traces of requests for an OpenTelemetry collector.
 *
 *   trace.h     one request's trace, filled on its loop
 *   tracer.h    settings, sampling, the bounded buffer, and the thread that sends
 *   otlp.h      traces as OTLP/HTTP JSON; pure
 *
 * A trace has these spans (docs/adr/0073):
 *
 *   request                     from the request's first byte here to the end of its answer
 *     queue                     waits for a replica slot; one for each attempt
 *     attempt                   on one node
 *       prefill                 from the submission to the first token
 *       decode                  from the first token to the last
 *
 * A tool call in the answer is an event of the request: the client runs the tool, so there is
 * no duration to measure here.  No text of a prompt or an answer is in a trace. Thread: the
 * request's loop.
 */
#ifndef ROUTER_TRACE_TRACE_H
#define ROUTER_TRACE_TRACE_H

#include "base/fail.h"
#include "base/str.h"

enum {
    ROUTER_TRACE_PARENT = 55 + 1, /* letters of a traceparent, terminated */
    ROUTER_TRACE_STATE = 512 + 1, /* of a tracestate: as much as W3C asks for */
    ROUTER_TRACE_SPANS = 48,      /* of one request; further spans are counted and left out */
    ROUTER_TRACE_CALLS = 16,      /* tool calls */
};

enum router_span_kind {
    ROUTER_SPAN_QUEUE,
    ROUTER_SPAN_ATTEMPT,
    ROUTER_SPAN_PREFILL,
    ROUTER_SPAN_DECODE
};

struct router_span {
    enum router_span_kind kind;
    uint64_t id, parent;
    uint64_t begun_ns, ended_ns; /* monotonic */
    uint32_t choice, tokens;
    char node[48];    /* of an attempt */
    const char *fate; /* of an attempt: a constant; NULL: it ended as it should */
};

struct router_trace {
    struct router_trace *next;
    unsigned char id[16];
    uint64_t root, parent; /* span ids; parent 0: the trace begins here */
    char state[ROUTER_TRACE_STATE];
    uint64_t begun_ns, ended_ns, first_ns; /* monotonic; first: token, 0: none */
    uint64_t offset_ns;                    /* from monotonic time to the time of day */
    const char *operation;                 /* chat, text_completion, embeddings, rerank */
    char path[64], model[160], asked_model[96], key[24], request_id[72];
    int status; /* HTTP; 499: the client left */
    lr_code error;
    bool is_stream;
    uint32_t choices;
    uint64_t prompt_tokens, completion_tokens, cached_tokens;
    struct router_span spans[ROUTER_TRACE_SPANS];
    uint32_t span_count, spans_left_out;
    struct {
        uint64_t at_ns;
        char name[64];
    } calls[ROUTER_TRACE_CALLS];
    uint32_t call_count;
};

/* Adds a span and returns its id.  trace NULL: the request is not sampled; returns 0. */
uint64_t router_trace_add(struct router_trace *trace, const struct router_span *span);
/* A tool call begins in the answer. */
void router_trace_call(struct router_trace *trace, struct lr_str name, uint64_t now_ns);

#endif
