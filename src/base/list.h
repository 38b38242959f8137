/* base/list.h - a list whose items carry their links.
 *
 * An item has two members: `next`, and `link`, which points to the pointer that points to the
 * item (the list's head, or the `next` before it).  So an item leaves its list in one step and
 * without knowing the list; link NULL: the item is in no list.  The members' names are the
 * caller's, since an item may be in several lists.  Thread: one at a time.
 */
#ifndef BASE_LIST_H
#define BASE_LIST_H

#include <stddef.h>

/* To the front.  `head` is the address of the list's first pointer. */
#define LR_LIST_PUSH(head, item, next, link)                                                   \
    do {                                                                                       \
        (item)->next = *(head);                                                                \
        (item)->link = (head);                                                                 \
        if ((item)->next != NULL)                                                              \
            (item)->next->link = &(item)->next;                                                \
        *(head) = (item);                                                                      \
    } while (0)

#define LR_LIST_REMOVE(item, next, link)                                                       \
    do {                                                                                       \
        *(item)->link = (item)->next;                                                          \
        if ((item)->next != NULL)                                                              \
            (item)->next->link = (item)->link;                                                 \
        (item)->link = NULL;                                                                   \
    } while (0)

#endif
