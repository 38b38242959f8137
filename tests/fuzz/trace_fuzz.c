/* LINK: router base */
/* A traceparent of a client, and lists of OTEL_* variables. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "router/trace/otlp.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct lr_str text = {(const char *)data, size};
    static struct router_otlp_pairs pairs;
    char written[ROUTER_TRACE_PARENT];
    unsigned char id[16];
    uint64_t span;
    bool is_sampled;
    if (router_trace_parent_read(text, id, &span, &is_sampled)) {
        router_trace_parent_write(id, span, is_sampled, written);
        if (span == 0 || memcmp(written, text.ptr, ROUTER_TRACE_PARENT - 3) != 0)
            abort();
    }
    pairs.count = 0;
    if (router_otlp_pairs_read("x", text, &pairs, NULL) == LR_OK &&
        pairs.count > ROUTER_OTLP_ATTRIBUTES)
        abort();
    return 0;
}
