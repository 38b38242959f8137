/* chat/events.h - the output of one choice, independent of the API.
 *
 * An engine's tokens arrive as struct wire_token.  A parser (chat/harmony/parser.h,
 * chat/calls.h) turns tokens into deltas, and a codec (chat/response.h) turns deltas into bytes
 * for the client.  Everything here is borrowed for the call.
 */
#ifndef CHAT_EVENTS_H
#define CHAT_EVENTS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/str.h"
#include "wire/event.h"

/* Counted by the engine. */
struct chat_usage {
    uint32_t prompt_tokens;
    uint32_t completion_tokens;
    uint32_t cached_tokens; /* of the prompt */
};

enum chat_delta_kind {
    CHAT_DELTA_REASONING,
    CHAT_DELTA_CONTENT,
    CHAT_DELTA_TOOL_BEGIN,     /* text is the name; tool_index counts from 0 */
    CHAT_DELTA_TOOL_ARGUMENTS, /* text is a piece of the arguments */
    CHAT_DELTA_TOOL_END,       /* no text */
};

/* Text consists of complete UTF-8 characters and never contains a control token. */
struct chat_delta {
    enum chat_delta_kind kind;
    uint32_t tool_index;
    struct lr_str text;
    struct lr_str id; /* of a call's begin, if the model gave one; else empty */
};

typedef void (*chat_delta_fn)(void *ctx, const struct chat_delta *delta);

#endif
