/* chat/template/manners.h - the conversations that a chat template takes, and how others are
 * made to fit.
 *
 * Templates refuse, or drop without a word, much of what clients send: developer messages, a
 * second system message, two messages of a user in a row, text beside calls, ids of another
 * length.  Where a template is compiled it renders some short conversations once.  Each text
 * must be in the result; where one is not, the first change that helps becomes one of the
 * template's manners.  Later every conversation is changed so before it is rendered.
 *
 * Thread: any.
 */
#ifndef CHAT_TEMPLATE_MANNERS_H
#define CHAT_TEMPLATE_MANNERS_H

#include "jinja/jinja.h"

/* Changes of a conversation: a set of bits. */
enum {
    CHAT_MANNER_NO_DEVELOPER = 1,     /* a developer's message is the system's */
    CHAT_MANNER_NO_SYSTEM = 2,        /* system messages are the beginning of the next user's */
    CHAT_MANNER_ONE_SYSTEM = 4,       /* those at the beginning are joined */
    CHAT_MANNER_NO_LATE_SYSTEM = 8,   /* later ones are the beginning of the next user's */
    CHAT_MANNER_ALTERNATES = 16,      /* messages of a role in a row are joined */
    CHAT_MANNER_ANSWERS = 32,         /* an empty answer follows a tool's result */
    CHAT_MANNER_USER_FIRST = 64,      /* an empty user's message begins the conversation */
    CHAT_MANNER_EMPTY = 128,          /* null content of an assistant is "" */
    CHAT_MANNER_TEXT_ARGUMENTS = 256, /* arguments are JSON text, not objects */
    CHAT_MANNER_SHORT_IDS = 512,      /* ids are nine letters or digits */
    CHAT_MANNER_ONE_CALL = 1024,      /* one call a message, followed by its result */
    CHAT_MANNER_CONTENT_APART = 2048, /* text beside calls is a message of its own */
    CHAT_MANNER_CALLS_AS_TEXT = 4096, /* calls are text of the assistant */
    CHAT_MANNER_NEEDS_USER = 32768,   /* system messages alone are the user's */
    CHAT_MANNER_SAYS_OK = 16384,      /* the empty answer is one word, because "" is refused */
    CHAT_MANNER_RESULTS_AS_USER = 8192, /* results are messages of the user */
};

/* The manners of a template.  trusted: its special tokens, as for rendering. */
uint32_t chat_manners_of(const struct jinja_template *tmpl, const struct jinja_var *trusted,
                         size_t trusted_count);

/* Changes the messages, which the general repair has passed; they may get a new array in the
 * arena.  False: no memory. */
bool chat_manners_apply(struct lr_arena *arena, uint32_t manners, struct lr_json *messages);

/* What the template itself writes behind the content of an assistant's message, without blanks
 * before it; empty: nothing.  Its first control token ends answers. */
enum { CHAT_ENDING_MAX = 64 };
struct lr_str chat_manners_ending(const struct jinja_template *tmpl,
                                  const struct jinja_var *trusted, size_t trusted_count,
                                  char out[CHAT_ENDING_MAX]);

#endif
