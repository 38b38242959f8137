#include "node/models/changes.h"

#include "base/list.h"
#include "node/models/models.h"

static void tell_watchers(void *arg)
{
    struct node_changes *changes = arg;
    net_timer_stop(changes->timer);
    changes->timer = NULL; /* a watcher may change something: that is told in another turn */
    for (struct node_watcher *w = changes->first, *next; w != NULL; w = next) {
        next = w->next;
        w->fn(w->arg);
    }
}

void node_changes_watch(struct node_models *models, struct node_watcher *watcher)
{
    LR_LIST_PUSH(&models->changes.first, watcher, next, link);
}

void node_changes_unwatch(struct node_watcher *watcher)
{
    if (watcher->link != NULL)
        LR_LIST_REMOVE(watcher, next, link);
}

void node_changed(struct node_models *models)
{
    struct node_changes *changes = &models->changes;
    if (changes->first != NULL && changes->timer == NULL)
        changes->timer = net_timer_start(models->loop, 0, 0, tell_watchers, changes);
}

void node_changes_close(struct node_models *models)
{
    net_timer_stop(models->changes.timer);
    models->changes.timer = NULL;
}
