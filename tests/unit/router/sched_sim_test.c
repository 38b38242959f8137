/* The scheduler over an hour of virtual time: clients, nodes and engines are simulated, the
 * scheduler is the real one.  No clock, no threads, no luck: the same numbers each time.
 */
#include "tests/unit/router/support.h"

#include "router/sched/sched.h"

enum {
    STEP_MS = 20, /* of the engines, and of the simulation */
    NODES = 3,
    SLOTS = 8,
    ANSWER_MS = 4000, /* on average: from half of it to half more */
    KEYS = 50,
    HOUR_MS = 3600 * 1000,
    QUEUE = 100,
    BYTES = 1000, /* of each request */
    QUEUE_BYTES = 60 * BYTES,
    ANSWERS = 4096, /* that exist at one time */
    MODEST = 5,     /* keys that ask for less than their share */
    BATCH_KEY = 1000,
};
#define CAPACITY ((double)NODES * SLOTS / ANSWER_MS) /* answers a ms */

struct answer {
    struct router_ticket ticket; /* first: a ticket is cast back to its answer */
    struct answer *next;         /* of its node, in the order of arrival; or of the free ones */
    struct answer *told;         /* next of the tickets that the scheduler has told something */
    bool is_told;
    uint64_t came_ms, begun_ms; /* 0: no engine has begun it */
    uint32_t left_ms;           /* to compute */
};

struct node {
    struct router_health health;
    struct router_replica replica;
    struct answer *first;
    bool is_online;
};

struct client {
    double rate; /* requests a ms */
    /* hungry_ms: its first request since one of its answers began; 0: none */
    uint64_t asked, begun, refused, slot_ms, hungry_ms, longest_ms;
};

static struct {
    struct router_sched sched;
    struct router_schedule schedule;
    struct node nodes[NODES];
    struct client clients[KEYS], batch;
    struct answer answers[ANSWERS], *free, *told;
    uint64_t now, dice, batch_dice;
    size_t most_waiting, most_bytes;
    uint64_t preempted, wait_count, wait_sum, longest_wait_ms;
    bool overtook; /* a batch ticket took a slot that a live one waited for */
} w;

/* From 0 to 1.  Batch requests have dice of their own, so that live ones come and last the same
 * with and without them. */
static double roll(uint64_t *dice)
{
    *dice = *dice * 6364136223846793005u + 1442695040888963407u;
    return (double)(*dice >> 11) / (double)(1ull << 53);
}

static struct client *client_of(const struct answer *a)
{
    return a->ticket.key == BATCH_KEY ? &w.batch : &w.clients[a->ticket.key - 1];
}

/* ---- the host ---- */

static size_t replicas(void *ctx, const struct router_schedule *schedule,
                       const struct router_ticket *ticket, struct router_candidate *out,
                       size_t capacity)
{
    size_t count = 0;
    (void)ctx, (void)schedule, (void)ticket;
    for (int i = 0; i < NODES && count < capacity; i++)
        if (w.nodes[i].is_online)
            out[count++] = (struct router_candidate){.node = (struct router_node *)&w.nodes[i],
                                                     .replica = &w.nodes[i].replica};
    return count;
}

/* Its owner hears it when the event under way is over. */
static void tell(void *ctx, struct router_ticket *ticket)
{
    struct answer *a = (struct answer *)(void *)ticket;
    const struct router_replica *replica = ticket->replica;
    (void)ctx;
    /* What lost its node in the middle gets a slot, and never waits for another answer's end.
     */
    assert_true(ticket->state != ROUTER_TICKET_GRANTED || !ticket->is_moved ||
                replica->inflight - replica->swapped <= SLOTS);
    if (a->is_told)
        return;
    a->is_told = true;
    a->told = w.told;
    w.told = a;
}

static void tell_refused(void *ctx, struct router_ticket *ticket, enum router_refusal why)
{
    assert_true(why != ROUTER_REFUSE_DEFECT);
    tell(ctx, ticket);
}

static void ignore(struct router_ticket *ticket)
{
    (void)ticket;
}

/* ---- answers ---- */

static struct node *node_of(const struct answer *a)
{
    return (struct node *)a->ticket.node;
}

/* The node stops one answer for another in one step. */
static void confirm_swap(struct answer *a)
{
    char name[ROUTER_TICKET_NAME_MAX];
    if (a->ticket.swap[0] == '\0')
        return;
    memcpy(name, a->ticket.swap, sizeof(name));
    router_sched_swap_confirmed(&w.sched, &a->ticket, true);
    for (struct answer *v = node_of(a)->first; v != NULL; v = v->next)
        if (strcmp(v->ticket.name, name) == 0)
            tell(NULL, &v->ticket);
}

/* The ticket has a slot: its request goes to the node. */
static void enter(struct answer *a)
{
    struct answer **end = &node_of(a)->first;
    bool is_batch = a->ticket.priority == ROUTER_BATCH;
    w.overtook = w.overtook || (is_batch && w.schedule.queues[ROUTER_LIVE].count != 0);
    while (*end != NULL)
        end = &(*end)->next;
    *end = a;
    a->next = NULL;
    confirm_swap(a);
}

static void leave(struct answer *a, struct node *node)
{
    struct answer **at = &node->first;
    while (*at != a)
        at = &(*at)->next;
    *at = a->next;
}

static void finish(struct answer *a)
{
    a->next = w.free;
    w.free = a;
}

static void refuse(struct answer *a)
{
    assert_true(a->begun_ms == 0); /* what has begun is never refused */
    client_of(a)->refused++;
    finish(a);
}

static void come_again(struct answer *a, enum router_outcome outcome)
{
    enum router_refusal why;
    leave(a, node_of(a));
    router_sched_release(&w.sched, &a->ticket, outcome, NULL, w.now);
    w.preempted += outcome == ROUTER_PREEMPTED;
    enum router_admission admission =
        router_sched_arrive(&w.sched, &a->ticket, true, w.now, &why);
    assert_true(admission != ROUTER_REFUSED);
    if (admission == ROUTER_GRANTED)
        enter(a);
}

static void hear_all(void)
{
    while (w.told != NULL) {
        struct answer *a = w.told;
        w.told = a->told;
        a->is_told = false;
        switch (a->ticket.state) {
        case ROUTER_TICKET_GRANTED:
            (void)router_sched_acknowledge(&w.sched, &a->ticket);
            enter(a);
            break;
        case ROUTER_TICKET_REFUSED:
            (void)router_sched_acknowledge(&w.sched, &a->ticket);
            refuse(a);
            break;
        case ROUTER_TICKET_SWAPPED:
        case ROUTER_TICKET_PREEMPTED:
            come_again(a, a->ticket.is_recalled ? ROUTER_RECALLED : ROUTER_PREEMPTED);
            break;
        case ROUTER_TICKET_IDLE:
            finish(a); /* it ended first */
            break;
        default:
            break; /* it went to another node first */
        }
    }
}

static void come(uint64_t key, enum router_priority priority)
{
    static uint64_t number;
    struct answer *a = w.free;
    uint64_t *dice = priority == ROUTER_BATCH ? &w.batch_dice : &w.dice;
    enum router_refusal why;
    assert_non_null(a);
    w.free = a->next;
    *a = (struct answer){.came_ms = w.now,
                         .left_ms = (uint32_t)(ANSWER_MS * (0.5 + roll(dice))),
                         .ticket = {.key = key,
                                    .priority = priority,
                                    .schedule = &w.schedule,
                                    .waiter = {.bytes = BYTES},
                                    .on_preempt = ignore}};
    (void)snprintf(a->ticket.name, sizeof(a->ticket.name), "%llu",
                   (unsigned long long)number++);
    client_of(a)->asked++;
    if (client_of(a)->hungry_ms == 0)
        client_of(a)->hungry_ms = w.now;
    switch (router_sched_arrive(&w.sched, &a->ticket, false, w.now, &why)) {
    case ROUTER_GRANTED:
        enter(a);
        break;
    case ROUTER_REFUSED:
        refuse(a);
        break;
    case ROUTER_WAITING:
        break;
    }
    hear_all();
}

/* ---- time ---- */

static void begin(struct answer *a)
{
    struct client *c = client_of(a);
    uint64_t waited = w.now - a->came_ms;
    a->begun_ms = w.now;
    router_sched_token(&a->ticket);
    c->begun++;
    if (c->hungry_ms != 0 && w.now - c->hungry_ms > c->longest_ms)
        c->longest_ms = w.now - c->hungry_ms;
    c->hungry_ms = 0;
    if (a->ticket.priority == ROUTER_BATCH)
        return;
    w.wait_count++;
    w.wait_sum += waited;
    if (waited > w.longest_wait_ms)
        w.longest_wait_ms = waited;
}

static void step_node(struct node *node)
{
    struct answer *next;
    int slot = 0;
    for (struct answer *a = node->first; a != NULL && slot < SLOTS; a = next, slot++) {
        next = a->next;
        router_sched_prefill(&a->ticket);
        if (a->begun_ms == 0)
            begin(a);
        client_of(a)->slot_ms += STEP_MS;
        a->left_ms = a->left_ms > STEP_MS ? a->left_ms - STEP_MS : 0;
        if (a->left_ms != 0)
            continue;
        leave(a, node);
        router_sched_release(&w.sched, &a->ticket, ROUTER_ENDED, NULL, w.now);
        assert_int_equal(a->ticket.state, ROUTER_TICKET_IDLE);
        if (!a->is_told)
            finish(a);
    }
}

static void lose(struct node *node)
{
    node->is_online = false;
    while (node->first != NULL)
        come_again(node->first, ROUTER_FAILED);
    hear_all();
}

static void find_again(struct node *node)
{
    node->is_online = true;
    node->health.avoided_until_ms = 0;
    router_sched_pump_all(&w.sched, w.now);
    hear_all();
}

static void look(void)
{
    size_t waiting = router_schedule_waiting(&w.schedule);
    size_t bytes = w.schedule.queues[ROUTER_LIVE].bytes + w.schedule.queues[ROUTER_BATCH].bytes;
    if (waiting > w.most_waiting)
        w.most_waiting = waiting;
    if (bytes > w.most_bytes)
        w.most_bytes = bytes;
    for (int i = 0; i < NODES; i++)
        assert_true(w.nodes[i].replica.inflight <= 2 * (SLOTS + ROUTER_SLOTS_BEYOND));
}

static void run(uint64_t until_ms)
{
    for (; w.now < until_ms; w.now += STEP_MS) {
        for (int k = 0; k < KEYS; k++)
            if (roll(&w.dice) < w.clients[k].rate * STEP_MS)
                come((uint64_t)k + 1, ROUTER_LIVE);
        if (roll(&w.batch_dice) < w.batch.rate * STEP_MS)
            come(BATCH_KEY, ROUTER_BATCH);
        for (int i = 0; i < NODES; i++) {
            step_node(&w.nodes[i]);
            hear_all();
        }
        if (w.now % 240 == 0)
            router_sched_tick(&w.sched, w.now);
        hear_all();
        look();
    }
}

static int setup(void **state)
{
    static const struct router_sched_host host = {replicas, tell, tell_refused, tell, NULL};
    (void)state;
    memset(&w, 0, sizeof(w));
    w.dice = w.batch_dice = 1;
    w.now = STEP_MS;
    w.sched = (struct router_sched){.host = &host,
                                    .preempts = true,
                                    .queue_limit = QUEUE,
                                    .queue_bytes = QUEUE_BYTES,
                                    .queue_timeout_ms = 600000,
                                    .promised_ms = 5000};
    for (int i = 0; i < NODES; i++) {
        w.nodes[i].is_online = true;
        w.nodes[i].replica = (struct router_replica){
            .health = &w.nodes[i].health, .slots = SLOTS, .is_loaded = true};
    }
    for (int i = 0; i < ANSWERS; i++)
        finish(&w.answers[i]);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    for (int i = 0; i < ROUTER_PRIORITIES; i++)
        while (router_queue_pop(&w.schedule.queues[i]) != NULL)
            ;
    router_schedule_free(&w.schedule);
    return 0;
}

/* ---- what is promised ---- */

/* Ten times what the model can serve.  The first keys ask for half of a share each, the others
 * for two to eighteen times a share. */
static void ask_ten_times_too_much(void)
{
    double share = CAPACITY / KEYS, left = 10 * CAPACITY - MODEST * 0.5 * share, sum = 0;
    for (int k = MODEST; k < KEYS; k++)
        sum += 2 + 16.0 * (k - MODEST) / (KEYS - MODEST - 1);
    for (int k = 0; k < KEYS; k++)
        w.clients[k].rate = k < MODEST
                                ? 0.5 * share
                                : left * (2 + 16.0 * (k - MODEST) / (KEYS - MODEST - 1)) / sum;
}

struct result {
    double least, most; /* of the slots, to the average of the keys that want more */
    double modest;      /* begun of what a modest key asks, at worst */
    uint64_t
        hunger_ms; /* the longest time in which a key asks and none of its answers begins */
};

static struct result measure(void)
{
    struct result r = {.least = 10, .modest = 1};
    double sum = 0;
    for (int k = MODEST; k < KEYS; k++)
        sum += (double)w.clients[k].slot_ms;
    for (int k = 0; k < KEYS; k++) {
        const struct client *c = &w.clients[k];
        double share = (double)c->slot_ms * (KEYS - MODEST) / sum;
        double begun = (double)c->begun / (double)c->asked;
        r.hunger_ms = c->longest_ms > r.hunger_ms ? c->longest_ms : r.hunger_ms;
        if (k < MODEST) {
            r.modest = begun < r.modest ? begun : r.modest;
            continue;
        }
        r.least = share < r.least ? share : r.least;
        r.most = share > r.most ? share : r.most;
    }
    return r;
}

/* With a node that is lost for three minutes, and batch requests that have no chance. */
static void an_hour_of_tenfold_overload_is_shared_and_no_key_starves(void **state)
{
    (void)state;
    ask_ten_times_too_much();
    w.batch.rate = CAPACITY;
    run(HOUR_MS / 3);
    lose(&w.nodes[0]);
    run(HOUR_MS / 3 + 180000);
    find_again(&w.nodes[0]);
    run(HOUR_MS);
    struct result r = measure();
    print_message(
        "shares %.2f to %.2f; modest keys begin %.2f of what they ask; longest hunger "
        "%.0f s; %zu waited at most; %llu preempted; %llu of batch begun\n",
        r.least, r.most, r.modest, (double)r.hunger_ms / 1000, w.most_waiting,
        (unsigned long long)w.preempted, (unsigned long long)w.batch.begun);
    assert_true(r.least >= 0.9 && r.most <= 1.1);
    assert_true(r.modest >= 0.95);
    assert_true(r.hunger_ms < 60000);
    assert_true(w.most_waiting <= QUEUE && w.most_bytes <= QUEUE_BYTES);
    assert_false(w.overtook);
    assert_int_equal(w.sched.illegal_moves, 0);
}

static void
batch_tickets_use_the_slots_that_live_tickets_leave_and_never_delay_them(void **state)
{
    uint64_t mean[2], longest[2], live_ms[2], batch_ms = 0;
    for (int with_batch = 0; with_batch < 2; with_batch++) {
        (void)setup(state);
        for (int k = 0; k < KEYS; k++)
            w.clients[k].rate = 0.7 * CAPACITY / KEYS;
        w.batch.rate = with_batch ? CAPACITY : 0;
        run(HOUR_MS / 4);
        mean[with_batch] = w.wait_sum / w.wait_count;
        longest[with_batch] = w.longest_wait_ms;
        live_ms[with_batch] = 0;
        for (int k = 0; k < KEYS; k++)
            live_ms[with_batch] += w.clients[k].slot_ms;
        batch_ms = w.batch.slot_ms;
        assert_false(w.overtook);
        (void)teardown(state);
    }
    double all = (double)NODES * SLOTS * HOUR_MS / 4;
    print_message("live waits %llu ms, at most %llu; with batch %llu, at most %llu; batch uses "
                  "%.2f of the slots that live leaves\n",
                  (unsigned long long)mean[0], (unsigned long long)longest[0],
                  (unsigned long long)mean[1], (unsigned long long)longest[1],
                  (double)batch_ms / (all - (double)live_ms[1]));
    assert_true(mean[1] <= mean[0] + STEP_MS && longest[1] <= longest[0] + 2 * STEP_MS);
    assert_true((double)batch_ms >= 0.9 * (all - (double)live_ms[1]));
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(an_hour_of_tenfold_overload_is_shared_and_no_key_starves),
        cmocka_unit_test(
            batch_tickets_use_the_slots_that_live_tickets_leave_and_never_delay_them),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
