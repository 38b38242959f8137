/* chat/responses/answer.h - the answer of the Responses API (internal).
 *
 * responses/items.c turns deltas into items, responses/events.c writes the events of a stream,
 * responses/object.c the response object.  Streams keep the text too, because their last event
 * repeats the whole answer.
 */
#ifndef CHAT_RESPONSES_ANSWER_H
#define CHAT_RESPONSES_ANSWER_H

#include "chat/response_internal.h"
#include "chat/responses/stored.h"

enum chat_item {
    CHAT_ITEM_NONE,
    CHAT_ITEM_REASONING,
    CHAT_ITEM_MESSAGE,
    CHAT_ITEM_FUNCTION,
    CHAT_ITEM_CUSTOM,
    CHAT_ITEM_COUNT,
};

enum {
    CHAT_ITEM_NAME_MAX = 384,  /* longest name in a Harmony header */
    CHAT_SHOWN_NAME_MAX = 129, /* "namespace.name" as the model sees it */
};

/* A declared tool, for calls to it. */
struct chat_items_tool {
    char name[CHAT_SHOWN_NAME_MAX + 1];
    uint32_t space_len;
    bool is_custom;
};

struct chat_items {
    char letters[CHAT_LETTERS + 1]; /* of the response's id */
    char *repeated;                 /* owned: members that repeat the request, "...," */
    struct chat_items_tool *tools;  /* owned */
    uint32_t tool_count;
    bool is_sealed;      /* reasoning items have encrypted_content */
    bool has_summary;    /* the text of reasoning items is their summary, not their content */
    struct lr_buf items; /* finished items, as JSON with commas */
    uint64_t sequence;   /* number of the next event */
    /* the current item */
    enum chat_item open;
    uint32_t index;
    uint32_t tool;
    char id[CHAT_ITEM_ID_MAX];
    char name[CHAT_ITEM_NAME_MAX];
    char space[CHAT_SHOWN_NAME_MAX]; /* its namespace, or empty */
    struct lr_buf text;
    struct lr_buf logprobs;    /* entries with commas */
    bool had[CHAT_ITEM_COUNT]; /* there was an item of this kind before */
};

static inline struct chat_items *chat_items_of(const struct chat_response *r)
{
    return r->own;
}

extern const struct chat_writer chat_items_writer; /* items.c */

/* object.c */
/* {"id":...,"object":"response","created_at":...,"model":..., */
void chat_items_head(const struct chat_response_options *options, struct lr_buf *out);
/* The members that repeat the request; NULL: no memory. */
char *chat_items_repeated(const struct chat_request *req, const struct lr_sampling *sampling);
/* For struct chat_writer. */
void chat_items_record(const struct chat_response *r, const struct chat_request *req,
                       const char *status, const struct lr_error *error,
                       struct chat_record *out);
/* "completed" or "incomplete". */
const char *chat_items_status(const struct chat_response *r);
/* error: NULL, or why the response failed. */
void chat_items_response(const struct chat_response *r, const char *status,
                         const struct lr_error *error, struct lr_buf *out);
/* The current item as it is now, or as it was at its begin. */
void chat_item_write(const struct chat_choice *c, const char *status, bool with_text,
                     struct lr_buf *out);
/* {"type":"output_text",...} or {"type":"reasoning_text",...} */
void chat_part_write(const struct chat_items *items, bool with_text, struct lr_buf *out);

/* responses/events.c: to r->out. */
void chat_event_begin(struct chat_response *r);
void chat_event_opened(struct chat_choice *c);
void chat_event_delta(struct chat_choice *c, struct lr_str text, struct lr_str logprobs);
/* The input of a custom tool is sent in one piece, here. */
void chat_event_closed(struct chat_choice *c, struct lr_str item);
void chat_event_end(struct chat_response *r, const char *status, const struct lr_error *error);

#endif
