/* chat/responses/stored.h - stored responses of the Responses API (internal). */
#ifndef CHAT_RESPONSES_STORED_H
#define CHAT_RESPONSES_STORED_H

#include "chat/responses/responses.h"

enum {
    CHAT_LETTERS = 24,     /* of a response's id, which the ids of its items repeat */
    CHAT_ITEM_ID_MAX = 48, /* "msg_", the letters and a number, terminated */
};

/* For struct chat_codec. */
lr_code chat_responses_find_stored(struct lr_arena *arena, const struct lr_json *root,
                                   struct chat_wanted *out, struct chat_error *e);

/* Puts the conversation so far before the input, and stored items in the place of references to
 * them. */
lr_code chat_responses_join(struct chat_parse *p);

/* Writes the items of a request (a list or a string) as they are stored. */
void chat_responses_put_input(struct lr_buf *out, const struct lr_json *input,
                              struct lr_str letters);

#endif
