/* chat/responses/build.h - converting input items to messages (internal).
 *
 * responses/input.c walks the items, responses/assistant.c builds an assistant's turn.
 */
#ifndef CHAT_RESPONSES_BUILD_H
#define CHAT_RESPONSES_BUILD_H

#include "base/strmap.h"
#include "chat/responses/responses.h"
#include "chat/template/object.h"

enum chat_input_kind {
    CHAT_INPUT_MESSAGE,
    CHAT_INPUT_CALL,
    CHAT_INPUT_CUSTOM_CALL,
    CHAT_INPUT_OUTPUT,
    CHAT_INPUT_REASONING,
    CHAT_INPUT_OTHER,
};

struct chat_build {
    struct chat_parse *p;
    uint32_t index;     /* of the item */
    uint32_t last_user; /* the item whose images the client asks about; UINT32_MAX: none */
    const struct lr_json *item;
    struct lr_json *messages; /* arena: room for all items and the instructions */
    uint32_t count;
    struct lr_buf system;    /* text of system and developer messages */
    struct lr_strmap calls;  /* ids of the calls so far */
    struct lr_buf reasoning; /* of the current assistant turn */
    struct chat_object turn; /* members NULL: no current turn */
    struct lr_json *turn_calls;
    uint32_t turn_call_count;
};

enum chat_input_kind chat_input_kind(const struct lr_json *item);

/* Fails with INVALID_ARGUMENT; the param is "input[N]" followed by `member`. */
lr_code chat_build_bad(struct chat_build *b, const char *member, const char *text);
lr_code chat_build_no_memory(struct chat_build *b);

/* A string, or parts whose types are among `types` (which ends with NULL), joined by
 * newlines. */
lr_code chat_build_text(struct chat_build *b, const char *member, const struct lr_json *value,
                        const char *const *types, struct lr_str *out);

/* chat/responses/assistant.c */
lr_code chat_assistant_reasoning(struct chat_build *b);
lr_code chat_assistant_content(struct chat_build *b, struct lr_str text);
lr_code chat_assistant_call(struct chat_build *b, bool is_custom);
void chat_assistant_end(struct chat_build *b);

#endif
