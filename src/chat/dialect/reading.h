/* chat/dialect/reading.h - the parts of the reader of calls (internal; see chat/calls.h).
 *
 * chat/calls.c finds where calls are; these functions read one call.  Each takes one byte or
 * one mark of the form, which is the last of p->raw.
 */
#ifndef CHAT_DIALECT_READING_H
#define CHAT_DIALECT_READING_H

#include "chat/calls.h"

/* ---- calls.c ---- */
void chat_calls_give(struct chat_calls *p, enum chat_delta_kind kind, struct lr_str text,
                     struct lr_str id);
void chat_calls_repair(struct chat_calls *p, enum chat_repair_kind kind);
/* The text since the beginning of the calls is none; its last `kept` bytes are looked at anew,
 * and bytes that may begin a mark, too. */
void chat_calls_give_up(struct chat_calls *p, uint32_t kept);

/* The text since the beginning of the calls means nothing; content follows. */
void chat_calls_drop(struct chat_calls *p);

/* Reads a byte anew, in another state; bytes that may begin a mark follow it. */
void chat_calls_again(struct chat_calls *p, char c);

/* ---- call.c: any call ---- */
/* A call begins with the last `len` bytes of the text. */
void chat_calls_begin_call(struct chat_calls *p, enum chat_calls_state state, size_t len);
/* The form's `begin` was read. */
void chat_calls_begin_mark(struct chat_calls *p);
/* The name is complete.  False: it is not declared. */
bool chat_calls_take_name(struct chat_calls *p, struct lr_str name);
/* A name without quotes and namespace. */
struct lr_str chat_calls_bare_name(struct lr_str name);
/* The next piece of the arguments. */
void chat_calls_args(struct chat_calls *p, struct lr_str text);
/* Gives the call's name and what there is of its arguments. */
void chat_calls_begin(struct chat_calls *p);
/* A long call is sent while it arrives. */
void chat_calls_check_size(struct chat_calls *p);
/* The call is complete, or (is_cut) as complete as it gets. */
void chat_calls_end_call(struct chat_calls *p, bool is_cut);
/* The answer ends inside a call. */
void chat_calls_end_open(struct chat_calls *p, bool is_cut);
void chat_calls_header_byte(struct chat_calls *p, char c);

/* ---- call_json.c ---- */
void chat_calls_object_begin(struct chat_calls *p);
void chat_calls_object_byte(struct chat_calls *p, char c);
/* The name and the arguments of the call are there, whatever follows them. */
bool chat_calls_has_arguments(const struct chat_calls *p);
void chat_calls_broken_byte(struct chat_calls *p, char c);

/* ---- call_tags.c ---- */
void chat_calls_tag_byte(struct chat_calls *p, char c);
void chat_calls_tag_mark(struct chat_calls *p, enum chat_calls_mark kind, struct lr_str mark);
/* Closes the arguments of a tagged call, with an open value if there is one. */
void chat_calls_tag_close(struct chat_calls *p);
/* The arguments that were read as a whole; false: they have another form. */
bool chat_calls_take_text(struct chat_calls *p);

/* ---- call_python.c ---- */
void chat_calls_python_byte(struct chat_calls *p, char c);

#endif
