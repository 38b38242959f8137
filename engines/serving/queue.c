/* serving/queue.c - see queue.h. */
#include "engines/serving/queue.h"

static bool goes_before(const struct engine_sequence *a, const struct engine_sequence *b)
{
    if (a->priority != b->priority)
        return a->priority > b->priority;
    return a->arrival < b->arrival;
}

static void queue_insert(struct engine_sequence **list, struct engine_sequence *seq)
{
    while (*list != NULL && !goes_before(seq, *list))
        list = &(*list)->next;
    seq->next = *list;
    *list = seq;
}

static void unlink_from(struct engine_sequence **list, struct engine_sequence *seq)
{
    while (*list != NULL && *list != seq)
        list = &(*list)->next;
    if (*list == seq)
        *list = seq->next;
    seq->next = NULL;
}

static void destroy_list(struct engine_sequence *list)
{
    while (list != NULL) {
        struct engine_sequence *next = list->next;
        engine_sequence_destroy(list);
        list = next;
    }
}

void engine_queue_deinit(struct engine_queue *q)
{
    destroy_list(q->reading);
    destroy_list(q->queued);
    destroy_list(q->running);
    *q = (struct engine_queue){0};
}

void engine_queue_add(struct engine_queue *q, struct engine_sequence *seq)
{
    seq->arrival = q->arrivals++;
    seq->state = ENGINE_QUEUED;
    queue_insert(&q->queued, seq);
    q->live++;
}

void engine_queue_read(struct engine_queue *q, struct engine_sequence *seq)
{
    seq->arrival = q->arrivals++;
    seq->state = ENGINE_READING;
    queue_insert(&q->reading, seq);
    q->live++;
}

void engine_queue_was_read(struct engine_queue *q, struct engine_sequence *seq)
{
    unlink_from(&q->reading, seq);
    seq->state = ENGINE_QUEUED;
    queue_insert(&q->queued, seq);
}

static struct engine_sequence *find_in(struct engine_sequence *list, uint64_t id)
{
    while (list != NULL && list->id != id)
        list = list->next;
    return list;
}

struct engine_sequence *engine_queue_find(const struct engine_queue *q, uint64_t id)
{
    struct engine_sequence *seq = find_in(q->running, id);

    if (seq == NULL)
        seq = find_in(q->queued, id);
    return seq != NULL ? seq : find_in(q->reading, id);
}

struct engine_sequence *engine_queue_last_running(const struct engine_queue *q)
{
    struct engine_sequence *seq = q->running;

    while (seq != NULL && seq->next != NULL)
        seq = seq->next;
    return seq;
}

void engine_queue_run(struct engine_queue *q, struct engine_sequence *seq)
{
    unlink_from(&q->queued, seq);
    seq->state = ENGINE_RUNNING;
    queue_insert(&q->running, seq);
}

void engine_queue_suspend(struct engine_queue *q, struct engine_sequence *seq)
{
    unlink_from(&q->running, seq);
    seq->state = ENGINE_QUEUED;
    queue_insert(&q->queued, seq);
}

void engine_queue_end(struct engine_queue *q, struct engine_sequence *seq)
{
    if (seq->state == ENGINE_ENDED)
        return;
    unlink_from(seq->state == ENGINE_RUNNING   ? &q->running
                : seq->state == ENGINE_READING ? &q->reading
                                               : &q->queued,
                seq);
    seq->state = ENGINE_ENDED;
    q->live--;
}

uint32_t engine_queue_share(struct engine_queue *q, uint32_t chunk)
{
    uint32_t tokens = 0;

    for (struct engine_sequence *seq = q->running; seq != NULL; seq = seq->next) {
        uint32_t left = seq->count - seq->computed;
        if (engine_sequence_decodes(seq)) {
            seq->take = 1;
        } else {
            seq->take = left < chunk ? left : chunk;
            chunk -= seq->take;
        }
        tokens += seq->take;
    }
    return tokens;
}
