/* serving/reading.c - see engine_reading.h. */
#include "engines/serving/reading.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/os/cpu.h"

enum { OLDEST_EVERY = 4 };

/* ---- texts ---- */

void serving_text_destroy(struct serving_text *text)
{
    if (text == NULL)
        return;
    tokenizer_ids_free(&text->ids);
    free(text);
}

static struct serving_text *copy_text(uint64_t number, const struct lr_segment *segments,
                                      size_t count)
{
    size_t bytes = 0;

    for (size_t i = 0; i < count; i++)
        bytes += segments[i].len;
    struct serving_text *text =
        calloc(1, sizeof(*text) + count * sizeof(*segments) + bytes + 1);
    if (text == NULL)
        return NULL;
    text->number = number;
    text->bytes = bytes;
    text->segments = (struct lr_segment *)(void *)(text + 1);
    text->segment_count = count;
    char *at = (char *)(text->segments + count);
    for (size_t i = 0; i < count; i++) {
        text->segments[i] = segments[i];
        text->segments[i].text = at;
        if (segments[i].len != 0)
            memcpy(at, segments[i].text, segments[i].len);
        at += segments[i].len;
    }
    return text;
}

static void destroy_list(struct serving_text *list)
{
    while (list != NULL) {
        struct serving_text *next = list->next;
        serving_text_destroy(list);
        list = next;
    }
}

/* ---- the thread ---- */

/* Unlinks the text that comes next. */
static struct serving_text *reading_choose(struct serving_reading *r)
{
    bool takes_oldest = ++r->taken % OLDEST_EVERY == 0;
    struct serving_text **best = &r->waiting;

    for (struct serving_text **at = &r->waiting; *at != NULL; at = &(*at)->next)
        if (takes_oldest ? (*at)->number < (*best)->number : (*at)->bytes < (*best)->bytes)
            best = at;
    struct serving_text *text = *best;
    *best = text->next;
    text->next = NULL;
    return text;
}

static void *reading_run(void *arg)
{
    struct serving_reading *r = arg;

    pthread_mutex_lock(&r->lock);
    while (!r->stopping) {
        if (r->waiting == NULL) {
            pthread_cond_wait(&r->changed, &r->lock);
            continue;
        }
        struct serving_text *text = r->current = reading_choose(r);
        pthread_mutex_unlock(&r->lock);
        text->code = r->encode(r->tokenizer, text->segments, text->segment_count, &text->ids,
                               &text->err);
        pthread_mutex_lock(&r->lock);
        r->current = NULL;
        if (text->is_dropped) {
            serving_text_destroy(text);
            continue;
        }
        text->next = r->done;
        r->done = text;
        pthread_cond_signal(&r->finished);
    }
    pthread_mutex_unlock(&r->lock);
    return NULL;
}

/* ---- the caller ---- */

void serving_reading_init(struct serving_reading *r, const struct tokenizer *tokenizer,
                          serving_encode_fn *encode)
{
    *r = (struct serving_reading){.encode = encode, .tokenizer = tokenizer, .has_locks = true};
    pthread_mutex_init(&r->lock, NULL);
    lr_cond_init(&r->changed);
    lr_cond_init(&r->finished);
}

void serving_reading_deinit(struct serving_reading *r)
{
    if (!r->has_locks)
        return;
    pthread_mutex_lock(&r->lock);
    r->stopping = true;
    pthread_cond_signal(&r->changed);
    pthread_mutex_unlock(&r->lock);
    if (r->is_running)
        pthread_join(r->thread, NULL);
    destroy_list(r->waiting);
    destroy_list(r->done);
    pthread_cond_destroy(&r->changed);
    pthread_cond_destroy(&r->finished);
    pthread_mutex_destroy(&r->lock);
    *r = (struct serving_reading){0};
}

bool serving_reading_begin(struct serving_reading *r, uint64_t number,
                           const struct lr_segment *segments, size_t count)
{
    r->is_running =
        r->is_running || lr_thread_start(&r->thread, reading_run, r, "tokenizer") == 0;
    struct serving_text *text = r->is_running ? copy_text(number, segments, count) : NULL;
    if (text == NULL)
        return false;
    pthread_mutex_lock(&r->lock);
    text->next = r->waiting;
    r->waiting = text;
    pthread_cond_signal(&r->changed);
    pthread_mutex_unlock(&r->lock);
    r->pending++;
    return true;
}

/* Unlinks a text of the list; NULL: it is not in the list. */
static struct serving_text *unlink_from(struct serving_text **at, uint64_t number)
{
    while (*at != NULL && (*at)->number != number)
        at = &(*at)->next;
    struct serving_text *text = *at;
    if (text != NULL)
        *at = text->next;
    return text;
}

void serving_reading_drop(struct serving_reading *r, uint64_t number)
{
    pthread_mutex_lock(&r->lock);
    struct serving_text *text = unlink_from(&r->waiting, number);
    if (text == NULL)
        text = unlink_from(&r->done, number);
    bool is_current =
        r->current != NULL && r->current->number == number && !r->current->is_dropped;
    if (is_current)
        r->current->is_dropped = true;
    pthread_mutex_unlock(&r->lock);
    if (text != NULL || is_current)
        r->pending--;
    serving_text_destroy(text);
}

struct serving_text *serving_reading_take(struct serving_reading *r)
{
    if (r->pending == 0)
        return NULL;
    pthread_mutex_lock(&r->lock);
    struct serving_text *text = r->done;
    if (text != NULL)
        r->done = text->next;
    pthread_mutex_unlock(&r->lock);
    if (text != NULL)
        r->pending--;
    return text;
}

void serving_reading_await(struct serving_reading *r, uint32_t microseconds)
{
    uint64_t until = lr_clock_ns(NULL) + (uint64_t)microseconds * 1000;

    if (r->pending == 0)
        return;
    pthread_mutex_lock(&r->lock);
    if (r->done == NULL)
        (void)lr_cond_wait_until(&r->finished, &r->lock, until);
    pthread_mutex_unlock(&r->lock);
}
