/* gptoss/engine_reading.c - see engine_reading.h. */
#include "engines/gptoss/engine_reading.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/os/cpu.h"

enum { OLDEST_EVERY = 4 };

/* ---- texts ---- */

void gptoss_text_destroy(struct gptoss_text *text)
{
    if (text == NULL)
        return;
    tokenizer_ids_free(&text->ids);
    free(text);
}

static struct gptoss_text *copy_text(uint64_t number, const struct lr_segment *segments,
                                     size_t count)
{
    size_t bytes = 0;

    for (size_t i = 0; i < count; i++)
        bytes += segments[i].len;
    struct gptoss_text *text = calloc(1, sizeof(*text) + count * sizeof(*segments) + bytes + 1);
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

static void destroy_list(struct gptoss_text *list)
{
    while (list != NULL) {
        struct gptoss_text *next = list->next;
        gptoss_text_destroy(list);
        list = next;
    }
}

/* ---- the thread ---- */

/* Unlinks the text that comes next. */
static struct gptoss_text *engine_reading_choose(struct gptoss_reading *r)
{
    bool takes_oldest = ++r->taken % OLDEST_EVERY == 0;
    struct gptoss_text **best = &r->waiting;

    for (struct gptoss_text **at = &r->waiting; *at != NULL; at = &(*at)->next)
        if (takes_oldest ? (*at)->number < (*best)->number : (*at)->bytes < (*best)->bytes)
            best = at;
    struct gptoss_text *text = *best;
    *best = text->next;
    text->next = NULL;
    return text;
}

static void *engine_reading_run(void *arg)
{
    struct gptoss_reading *r = arg;

    pthread_mutex_lock(&r->lock);
    while (!r->stopping) {
        if (r->waiting == NULL) {
            pthread_cond_wait(&r->changed, &r->lock);
            continue;
        }
        struct gptoss_text *text = r->current = engine_reading_choose(r);
        pthread_mutex_unlock(&r->lock);
        text->code = r->encode(r->tokenizer, text->segments, text->segment_count, &text->ids,
                               &text->err);
        pthread_mutex_lock(&r->lock);
        r->current = NULL;
        if (text->is_dropped) {
            gptoss_text_destroy(text);
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

void gptoss_reading_init(struct gptoss_reading *r, const struct tokenizer *tokenizer,
                         gptoss_encode_fn *encode)
{
    *r = (struct gptoss_reading){.encode = encode, .tokenizer = tokenizer, .has_locks = true};
    pthread_mutex_init(&r->lock, NULL);
    lr_cond_init(&r->changed);
    lr_cond_init(&r->finished);
}

void gptoss_reading_deinit(struct gptoss_reading *r)
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
    *r = (struct gptoss_reading){0};
}

bool gptoss_reading_begin(struct gptoss_reading *r, uint64_t number,
                          const struct lr_segment *segments, size_t count)
{
    r->is_running =
        r->is_running || lr_thread_start(&r->thread, engine_reading_run, r, "tokenizer") == 0;
    struct gptoss_text *text = r->is_running ? copy_text(number, segments, count) : NULL;
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
static struct gptoss_text *unlink_from(struct gptoss_text **at, uint64_t number)
{
    while (*at != NULL && (*at)->number != number)
        at = &(*at)->next;
    struct gptoss_text *text = *at;
    if (text != NULL)
        *at = text->next;
    return text;
}

void gptoss_reading_drop(struct gptoss_reading *r, uint64_t number)
{
    pthread_mutex_lock(&r->lock);
    struct gptoss_text *text = unlink_from(&r->waiting, number);
    if (text == NULL)
        text = unlink_from(&r->done, number);
    bool is_current =
        r->current != NULL && r->current->number == number && !r->current->is_dropped;
    if (is_current)
        r->current->is_dropped = true;
    pthread_mutex_unlock(&r->lock);
    if (text != NULL || is_current)
        r->pending--;
    gptoss_text_destroy(text);
}

struct gptoss_text *gptoss_reading_take(struct gptoss_reading *r)
{
    if (r->pending == 0)
        return NULL;
    pthread_mutex_lock(&r->lock);
    struct gptoss_text *text = r->done;
    if (text != NULL)
        r->done = text->next;
    pthread_mutex_unlock(&r->lock);
    if (text != NULL)
        r->pending--;
    return text;
}

void gptoss_reading_await(struct gptoss_reading *r, uint32_t microseconds)
{
    uint64_t until = lr_clock_ns(NULL) + (uint64_t)microseconds * 1000;

    if (r->pending == 0)
        return;
    pthread_mutex_lock(&r->lock);
    if (r->done == NULL)
        (void)lr_cond_wait_until(&r->finished, &r->lock, until);
    pthread_mutex_unlock(&r->lock);
}
