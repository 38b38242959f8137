/* router/store/change.h - what an action changed, for the audit log: the changed members before
 * and after, as two JSON objects of bounded size.  Secrets never come here.
 *
 * What is too long is cut: a text and a list end with "...", and an object that would have no
 * room for another member ends with "cut": true.
 * Thread: any; a struct belongs to its caller.
 */
#ifndef ROUTER_STORE_CHANGE_H
#define ROUTER_STORE_CHANGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { ROUTER_CHANGE_MAX = 1024 }; /* bytes of each object, terminated */

/* Begins all zero. */
struct router_change {
    struct router_values {
        char text[ROUTER_CHANGE_MAX]; /* a whole object; "": there is none */
        size_t len;
        bool is_cut;
    } before, after;
};

/* A member, if it differs.  NULL: it was or is not there. */
void router_change_text(struct router_change *c, const char *name, const char *before,
                        const char *after);
/* Texts by spaces become an array. */
void router_change_words(struct router_change *c, const char *name, const char *before,
                         const char *after);
/* Below 0: it was or is not there. */
void router_change_number(struct router_change *c, const char *name, int64_t before,
                          int64_t after);
void router_change_flag(struct router_change *c, const char *name, bool before, bool after);

#endif
