/* chat/template/object.h - shared by the two files that repair. */
#ifndef CHAT_TEMPLATE_OBJECT_H
#define CHAT_TEMPLATE_OBJECT_H

#include "base/json.h"

/* An object under construction. */
struct chat_object {
    struct lr_json_member *members; /* arena; room for the source's and `more` */
    uint32_t count;
};

/* All of these return false without memory. */
bool chat_object_begin(struct chat_object *o, struct lr_arena *arena,
                       const struct lr_json *from, uint32_t more);
struct lr_json_member *chat_object_find(struct chat_object *o, const char *key);
void chat_object_set(struct chat_object *o, const char *key, struct lr_json value);
void chat_object_remove(struct chat_object *o, const char *key);
struct lr_json chat_object_json(const struct chat_object *o);
struct lr_json chat_string_json(struct lr_str s);

/* harmony/repair.c: modifies arrays in place that passed the general repair. */
bool chat_repair_harmony_messages(struct lr_arena *arena, struct lr_json *messages);
bool chat_repair_harmony_tools(struct lr_arena *arena, struct lr_json *tools);
/* Several calls of a message become one message each, followed by its own result. */
bool chat_repair_split_calls(struct lr_arena *arena, struct lr_json *messages);

#endif
