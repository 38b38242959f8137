#include "worker/constraints.h"

#include <errno.h>
#include <stdlib.h>
#include <time.h>

#include "base/clock.h"
#include "base/machine.h"
#include "base/os/cpu.h"

enum {
    PIECE = 1 << 13,       /* moves of grammar threads: some tenths of a millisecond */
    CORES_FOR_A_THREAD = 4 /* the engine needs the others */
};

struct worker_constraint {
    struct worker_constraint *next; /* in the list of live requests; main */
    uint64_t request;
    struct worker_mask_thread *home;
    struct grammar_program *program; /* owned */
    struct grammar_matcher *matcher; /* owned; main may use it in READY only */
    /* Under the lock: */
    enum worker_constraint_state state;
    struct worker_constraint *next_waiting;
    bool has_token;
    uint32_t token;             /* that the engine sampled */
    uint64_t asked_at, made_at; /* pieces of the thread */
    lr_code code;
    struct lr_error err;
};

#define TO(name) LR_STATE(CONSTRAINT_##name)
static const struct lr_machine machine = {
    "constraint",
    {
        [CONSTRAINT_WAITING] = {"waiting", TO(WORKING) | TO(DROPPED)},
        [CONSTRAINT_WORKING] = {"working", TO(WAITING) | TO(READY) | TO(FAILED) | TO(DROPPED)},
        [CONSTRAINT_READY] = {"ready", TO(WAITING) | TO(DROPPED)},
        [CONSTRAINT_FAILED] = {"failed", TO(DROPPED)},
        [CONSTRAINT_DROPPED] = {"dropped", 0},
    }};

static void constraints_move(struct worker_constraint *c, enum worker_constraint_state state)
{
    if (lr_machine_allows(&machine, "a constrained request", c->state, state))
        c->state = state;
}

static bool is_settled(const struct worker_constraint *c)
{
    return c->state == CONSTRAINT_READY || c->state == CONSTRAINT_FAILED;
}

static void destroy(struct worker_constraint *c)
{
    grammar_matcher_free(c->matcher);
    grammar_program_free(c->program);
    free(c);
}

static void hand_over(struct worker_constraint *c)
{
    struct worker_mask_thread *t = c->home;
    c->next_waiting = NULL;
    *t->end = c;
    t->end = &c->next_waiting;
    (void)pthread_cond_signal(&t->work);
}

/* ---- a thread ---- */

static struct worker_constraint *pop(struct worker_mask_thread *t)
{
    struct worker_constraint *c = t->first;
    if (c != NULL)
        t->first = c->next_waiting;
    if (t->first == NULL)
        t->end = &t->first;
    return c;
}

static lr_code make_piece(struct worker_constraint *c, bool has_token, bool *ready)
{
    uint32_t used;
    *ready = false;
    if (has_token && !grammar_matcher_token(c->matcher, c->token))
        return lr_fail(&c->err, LR_INTERNAL,
                       "the engine sampled a token that its mask forbids");
    return grammar_matcher_prepare(c->matcher, PIECE, &used, ready, &c->err);
}

/* Called with the lock held, which it gives up meanwhile. */
static void work_on(struct worker_mask_thread *t, struct worker_constraint *c)
{
    struct worker_constraints *all = t->all;
    bool has_token = c->has_token, ready = false;
    c->has_token = false;
    t->is_busy = true;
    if (c->state != CONSTRAINT_DROPPED) {
        constraints_move(c, CONSTRAINT_WORKING);
        (void)pthread_mutex_unlock(&all->lock);
        lr_code code = make_piece(c, has_token, &ready);
        (void)pthread_mutex_lock(&all->lock);
        c->code = code;
        t->pieces++;
    }
    if (c->state == CONSTRAINT_DROPPED) {
        (void)pthread_mutex_unlock(&all->lock);
        destroy(c);
        (void)pthread_mutex_lock(&all->lock);
        t->is_busy = false;
        return;
    }
    t->is_busy = false;
    c->made_at = t->pieces;
    constraints_move(c, c->code != LR_OK ? CONSTRAINT_FAILED
                        : ready          ? CONSTRAINT_READY
                                         : CONSTRAINT_WAITING);
    if (c->state == CONSTRAINT_WAITING)
        hand_over(c);
    else if (all->awaited == c)
        (void)pthread_cond_signal(&all->made);
}

static void *constraints_run(void *arg)
{
    struct worker_mask_thread *t = arg;
    (void)pthread_mutex_lock(&t->all->lock);
    while (!t->all->stopping) {
        struct worker_constraint *c = t->is_busy ? NULL : pop(t);
        if (c != NULL)
            work_on(t, c);
        else
            (void)pthread_cond_wait(&t->work, &t->all->lock);
    }
    (void)pthread_mutex_unlock(&t->all->lock);
    return NULL;
}

/* A thread keeps the vocabulary of its first constraint: a worker has one model. */
static bool constraints_start(struct worker_mask_thread *t, const struct grammar_vocab *vocab)
{
    if (t->is_running)
        return true;
    if (t->vocab == NULL)
        t->vocab = grammar_vocab_share(vocab);
    t->is_running =
        t->vocab != NULL && pthread_create(&t->thread, NULL, constraints_run, t) == 0;
    return t->is_running;
}

/* The thread with the fewest requests; NULL: none runs, and none can be started. */
static struct worker_mask_thread *constraints_choose(struct worker_constraints *all,
                                                     const struct grammar_vocab *vocab)
{
    struct worker_mask_thread *best = NULL;
    for (uint32_t i = 0; i < all->thread_count; i++) {
        struct worker_mask_thread *t = &all->threads[i];
        if ((best == NULL || t->count < best->count) && constraints_start(t, vocab))
            best = t;
    }
    return best;
}

/* ---- life ---- */

static uint32_t threads_for_this_machine(void)
{
    uint32_t count = lr_cpu_online() / CORES_FOR_A_THREAD;
    return count < 1 ? 1 : count > WORKER_MASK_THREADS_MAX ? WORKER_MASK_THREADS_MAX : count;
}

void worker_constraints_init(struct worker_constraints *all, uint32_t threads)
{
    *all = (struct worker_constraints){
        .budget_ns = WORKER_MASKS_NS,
        .thread_count = threads != 0 ? threads : threads_for_this_machine(),
    };
    (void)pthread_mutex_init(&all->lock, NULL);
    lr_cond_init(&all->made);
    for (uint32_t i = 0; i < WORKER_MASK_THREADS_MAX; i++) {
        struct worker_mask_thread *t = &all->threads[i];
        t->all = all;
        t->end = &t->first;
        (void)pthread_cond_init(&t->work, NULL);
    }
}

lr_code worker_constraints_add(struct worker_constraints *all, uint64_t request,
                               const struct grammar_vocab *vocab,
                               struct grammar_program *program, struct grammar_matcher *matcher,
                               struct lr_error *err)
{
    struct worker_mask_thread *home = constraints_choose(all, vocab);
    if (home == NULL)
        return lr_fail(err, LR_OUT_OF_RAM, "no thread could be started for constrained output");
    struct worker_constraint *c = calloc(1, sizeof(*c));
    if (c == NULL)
        return lr_fail(err, LR_OUT_OF_RAM, "no memory for constrained output");
    grammar_matcher_settle(matcher, home->vocab);
    *c = (struct worker_constraint){.next = all->first,
                                    .request = request,
                                    .home = home,
                                    .program = program,
                                    .matcher = matcher,
                                    .state = CONSTRAINT_WAITING};
    all->first = c;
    home->count++;
    (void)pthread_mutex_lock(&all->lock);
    c->asked_at = home->pieces;
    hand_over(c);
    (void)pthread_mutex_unlock(&all->lock);
    return LR_OK;
}

static struct worker_constraint **constraints_find(struct worker_constraints *all,
                                                   uint64_t request)
{
    struct worker_constraint **at = &all->first;
    while (*at != NULL && (*at)->request != request)
        at = &(*at)->next;
    return at;
}

void worker_constraints_drop(struct worker_constraints *all, uint64_t request)
{
    struct worker_constraint **at = constraints_find(all, request), *c = *at;
    if (c == NULL)
        return;
    *at = c->next;
    c->home->count--;
    (void)pthread_mutex_lock(&all->lock);
    bool is_in_hands = !is_settled(c);
    constraints_move(c, CONSTRAINT_DROPPED);
    if (!is_in_hands)
        hand_over(c);
    (void)pthread_mutex_unlock(&all->lock);
}

void worker_constraints_free(struct worker_constraints *all)
{
    (void)pthread_mutex_lock(&all->lock);
    all->stopping = true;
    for (uint32_t i = 0; i < all->thread_count; i++)
        (void)pthread_cond_signal(&all->threads[i].work);
    (void)pthread_mutex_unlock(&all->lock);
    for (uint32_t i = 0; i < all->thread_count; i++)
        if (all->threads[i].is_running)
            (void)pthread_join(all->threads[i].thread, NULL);
    for (uint32_t i = 0; i < all->thread_count; i++)
        for (struct worker_constraint *c; (c = pop(&all->threads[i])) != NULL;)
            if (c->state == CONSTRAINT_DROPPED)
                destroy(c);
    while (all->first != NULL) {
        struct worker_constraint *c = all->first;
        all->first = c->next;
        destroy(c);
    }
    for (uint32_t i = 0; i < WORKER_MASK_THREADS_MAX; i++) {
        grammar_vocab_free(all->threads[i].vocab);
        (void)pthread_cond_destroy(&all->threads[i].work);
    }
    (void)pthread_cond_destroy(&all->made);
    (void)pthread_mutex_destroy(&all->lock);
}

/* ---- the engine's side ---- */

/* Called with the lock held: the thread's next piece, on the main thread. */
static void lend_a_hand(struct worker_mask_thread *t)
{
    work_on(t, pop(t));
    if (t->first != NULL)
        (void)pthread_cond_signal(&t->work);
}

/* Called with the lock held: until the mask is ready or has failed.  has_limit: at most for the
 * rest of the step's budget. */
static void await(struct worker_constraints *all, struct worker_constraint *c, bool has_limit)
{
    uint64_t began = lr_clock_ns(NULL);
    uint64_t until = began + lr_elapsed(all->waited_ns, all->budget_ns);
    int rc = has_limit && all->waited_ns >= all->budget_ns ? ETIMEDOUT : 0;
    all->awaited = c;
    while (!is_settled(c) && rc != ETIMEDOUT) {
        if (c->state == CONSTRAINT_WAITING && !c->home->is_busy) {
            lend_a_hand(c->home);
            rc = has_limit && lr_clock_ns(NULL) >= until ? ETIMEDOUT : 0;
        } else {
            rc = has_limit ? lr_cond_wait_until(&all->made, &all->lock, until)
                           : pthread_cond_wait(&all->made, &all->lock);
        }
    }
    all->awaited = NULL;
    all->waited_ns += lr_elapsed(began, lr_clock_ns(NULL));
}

void worker_constraints_token(struct worker_constraints *all, uint64_t request, uint32_t id)
{
    struct worker_constraint *c = *constraints_find(all, request);
    if (c == NULL)
        return;
    (void)pthread_mutex_lock(&all->lock);
    if (!is_settled(c)) /* the engine sampled without asking */
        await(all, c, false);
    if (c->state == CONSTRAINT_READY) {
        c->token = id;
        c->has_token = true;
        c->asked_at = c->home->pieces;
        constraints_move(c, CONSTRAINT_WAITING);
        hand_over(c);
    }
    (void)pthread_mutex_unlock(&all->lock);
}

void worker_constraints_step(struct worker_constraints *all)
{
    all->waited_ns = 0;
}

lr_code worker_constraints_mask(struct worker_constraints *all, uint64_t request,
                                uint32_t *mask, size_t words, bool *ready, struct lr_error *err)
{
    struct worker_constraint *c = *constraints_find(all, request);
    if (c == NULL)
        return lr_fail(err, LR_INTERNAL,
                       "the engine asks for a mask of a request without a constraint");
    (void)pthread_mutex_lock(&all->lock);
    if (!is_settled(c))
        await(all, c, ready != NULL);
    enum worker_constraint_state state = c->state;
    (void)pthread_mutex_unlock(&all->lock);
    if (ready != NULL)
        *ready = state == CONSTRAINT_READY;
    if (state == CONSTRAINT_READY)
        return grammar_matcher_mask(c->matcher, mask, words, err);
    if (state == CONSTRAINT_FAILED)
        *err = c->err;
    return state == CONSTRAINT_FAILED ? c->code : LR_OK;
}

uint64_t worker_constraints_pieces(struct worker_constraints *all, uint64_t request)
{
    const struct worker_constraint *c = *constraints_find(all, request);
    (void)pthread_mutex_lock(&all->lock);
    uint64_t pieces = c != NULL ? c->made_at - c->asked_at : 0;
    (void)pthread_mutex_unlock(&all->lock);
    return pieces;
}
