/* Who may wait: a simulated service with slots, steps and random arrivals asks the real
 * thing.  No clock, no luck: the same numbers each time.
 */
#include "tests/unit/router/support.h"

#include "router/sched/pressure.h"

enum { LIMIT = 512, STEP_MS = 10, SLOTS_MAX = 64 };

struct service {
    uint32_t slots;
    double load;                                      /* arrivals / what it can serve */
    uint32_t seconds;                                 /* simulated */
    uint32_t down_from_ms, down_to_ms, down_again_ms; /* from then as long as before */
    uint32_t burst_ms, burst;                         /* so many more come then, at once */
    uint32_t length;  /* of every answer, in steps; 0: 6 to 36 */
    uint32_t clients; /* instead of arrivals: each asks again when it was answered */
};

struct seen {
    uint32_t came, refused, served;
    uint32_t most, most_late; /* waited; late: in the second half */
    uint32_t p99_ms;          /* from arrival to the first token, of those admitted after 3 s */
    bool was_over, is_over;
};

static uint64_t dice;
static uint32_t roll(uint32_t sides)
{
    dice = dice * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(dice >> 33) % sides;
}

/* How many come in one step: so many tenths of a thousand on average, as independent coins. */
static uint32_t arrivals(double mean)
{
    uint32_t count = 0;
    for (int i = 0; i < 1000; i++)
        count += roll(1000000) < (uint32_t)(mean * 1000);
    return count;
}

static int by_size(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return x < y ? -1 : x > y;
}

static struct seen run(struct service s)
{
    static uint32_t waits[1 << 20];
    static uint64_t queue[1 << 20]; /* when each came */
    uint32_t left[SLOTS_MAX] = {0}, wait_count = 0, thinking = s.clients;
    size_t head = 0, tail = 0;
    struct router_pressure p = {.slots = s.slots};
    struct seen seen = {0};
    dice = 1;
    for (uint64_t now = STEP_MS; now <= s.seconds * 1000; now += STEP_MS) {
        /* Answers of 6 to 36 steps: 21 on average. */
        uint32_t more = s.clients != 0 ? thinking : arrivals(s.load * s.slots / 21);
        thinking = 0;
        if (now == s.burst_ms)
            more += s.burst;
        for (; more != 0; more--) {
            bool refused = tail - head >= router_pressure_limit(&p, LIMIT, 0, now);
            if (!refused)
                queue[tail++] = now;
            router_pressure_came(&p, refused, tail - head, now);
            seen.came++;
            seen.refused += refused;
        }
        bool is_down = (now >= s.down_from_ms && now < s.down_to_ms) ||
                       (s.down_again_ms != 0 && now >= s.down_again_ms &&
                        now < s.down_again_ms + s.down_to_ms - s.down_from_ms);
        for (uint32_t i = 0; i < s.slots && !is_down; i++) {
            if (left[i] != 0 && --left[i] == 0)
                thinking++;
            if (left[i] != 0 || head == tail)
                continue;
            left[i] = s.length != 0 ? s.length : 6 + 2 * roll(16);
            if (queue[head] > 3000)
                waits[wait_count++] = (uint32_t)(now + STEP_MS - queue[head]);
            head++;
            seen.served++;
            router_pressure_begun(&p, tail - head, now);
        }
        seen.was_over = seen.was_over || p.state == ROUTER_OVER;
        /* As router_shed: the newest leave, but for those who have waited. */
        while (p.state == ROUTER_OVER && now - queue[tail - 1] < 5000 && tail != head &&
               tail - head > router_pressure_limit(&p, LIMIT, 0, now)) {
            tail--;
            seen.refused++;
        }
        if (tail - head > seen.most)
            seen.most = (uint32_t)(tail - head);
        if (now > s.seconds * 500 && tail - head > seen.most_late)
            seen.most_late = (uint32_t)(tail - head);
    }
    qsort(waits, wait_count, sizeof(*waits), by_size);
    seen.p99_ms = wait_count != 0 ? waits[wait_count * 99 / 100] : 0;
    seen.is_over = p.state == ROUTER_OVER;
    return seen;
}

/* Whatever the slots (docs/promises.md: bounded-queue). */
static void under_tenfold_overload_waits_are_at_most_twice_those_of_normal_load(void **state)
{
    static const uint32_t all[] = {1, 4, 8, 32, 64};
    (void)state;
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        struct seen once = run((struct service){.slots = all[i], .load = 0.9, .seconds = 400});
        struct seen ten = run((struct service){.slots = all[i], .load = 10, .seconds = 60});
        print_message("%u slots: p99 %u ms, refused %u of %u; 10x: p99 %u ms, ratio %.2f\n",
                      all[i], once.p99_ms, once.refused, once.came, ten.p99_ms,
                      (double)ten.p99_ms / once.p99_ms);
        assert_true(once.refused * 500 <= once.came);
        assert_true(ten.is_over);
        assert_true(ten.p99_ms <= 2 * once.p99_ms);
        /* Nothing stands idle for it: 21 steps an answer. */
        assert_true(ten.served >= 0.95 * 60000 / STEP_MS / 21 * all[i]);
    }
}

/* Answers of one length: all slots come free at once, and then none for a whole turn.  Who
 * came before that was known has waited for long, and is served. */
static void answers_that_end_together_are_overload_as_well(void **state)
{
    static const uint32_t all[] = {8, 64};
    (void)state;
    for (size_t i = 0; i < 2; i++) {
        struct seen seen =
            run((struct service){.slots = all[i], .load = 10, .seconds = 400, .length = 200});
        assert_true(seen.is_over);
        assert_in_range(seen.most_late, 1, ROUTER_OVERLOAD_QUEUE);
    }
}

static void a_burst_of_hundreds_is_served(void **state)
{
    (void)state;
    struct seen seen = run((struct service){
        .slots = 8, .load = 0.5, .seconds = 60, .burst_ms = 5000, .burst = 400});
    assert_true(seen.most > 350);
    assert_int_equal(seen.refused, 0);
    assert_false(seen.was_over);
}

static void what_came_while_no_slot_was_there_is_served(void **state)
{
    (void)state;
    /* A node is away for five seconds, or a model loads for the first ten. */
    struct seen lost = run((struct service){
        .slots = 8, .load = 0.9, .seconds = 120, .down_from_ms = 20000, .down_to_ms = 25000});
    struct seen load =
        run((struct service){.slots = 8, .load = 0.9, .seconds = 120, .down_to_ms = 10000});
    /* And once more, before what came meanwhile was served. */
    struct seen twice = run((struct service){.slots = 8,
                                             .load = 0.9,
                                             .seconds = 120,
                                             .down_from_ms = 20000,
                                             .down_to_ms = 25000,
                                             .down_again_ms = 30000});
    assert_true(lost.most > 100 && load.most > 250 && twice.most > 200);
    assert_int_equal(twice.refused, 0);
    assert_int_equal(lost.refused, 0);
    assert_int_equal(load.refused, 0);
}

/* A hundred clients that each wait for their answer: the queue stays long, and nobody is sent
 * away, for no more come than are served. */
static void clients_that_wait_for_their_answer_are_no_overload(void **state)
{
    (void)state;
    struct seen seen = run((struct service){.slots = 8, .clients = 100, .seconds = 60});
    assert_true(seen.most >= 90);
    assert_int_equal(seen.refused, 0);
    assert_false(seen.was_over);
}

static void a_little_too_much_is_overload_as_well(void **state)
{
    (void)state;
    struct seen seen = run((struct service){.slots = 8, .load = 1.2, .seconds = 120});
    assert_true(seen.was_over);
    assert_true(seen.most < 150);
}

static void the_wait_is_bounded_where_its_length_is_known(void **state)
{
    (void)state;
    struct router_pressure p = {.slots = 8};
    /* It knows no speed yet. */
    assert_int_equal(router_pressure_limit(&p, LIMIT, 3000, 1000), LIMIT);
    for (uint64_t i = 0; i < 40; i++)
        router_pressure_begun(&p, 200, 1000 + 26 * i);
    /* One begins each 26 ms: so many within three seconds. */
    assert_int_equal(router_pressure_limit(&p, LIMIT, 3000, 2100), 3000 / 26);
    assert_int_equal(router_pressure_limit(&p, LIMIT, 0, 2100), LIMIT);
    assert_int_equal(router_pressure_limit(&p, LIMIT, 100, 2100), ROUTER_OVERLOAD_QUEUE);
    assert_int_equal(router_pressure_limit(&p, 8, 100, 2100), 8);
    assert_int_equal(router_pressure_wait_ms(&p, 100), 2600);
    /* No slot has come free for three seconds: a node is lost, and who comes may wait. */
    assert_int_equal(router_pressure_limit(&p, LIMIT, 3000, 5100), LIMIT);
}

static void overload_ends_with_what_caused_it(void **state)
{
    struct router_pressure p = {.slots = 8};
    uint64_t now = 1000;
    (void)state;
    for (int i = 0; i < 400; i++, now += 10) {
        router_pressure_came(&p, false, 100, now);
        router_pressure_came(&p, false, 100, now);
        if (i % 3 == 0)
            router_pressure_begun(&p, 100, now);
    }
    assert_int_equal(p.state, ROUTER_OVER);
    assert_int_equal(router_pressure_limit(&p, LIMIT, 0, now), ROUTER_OVERLOAD_QUEUE);
    router_pressure_came(&p, true, 16, now);
    assert_int_equal(router_pressure_limit(&p, LIMIT, 0, now + 900), ROUTER_OVERLOAD_QUEUE);
    /* A second without a refusal. */
    assert_int_equal(router_pressure_limit(&p, LIMIT, 0, now + 1100), LIMIT);
    assert_int_equal(p.state, ROUTER_CALM);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(under_tenfold_overload_waits_are_at_most_twice_those_of_normal_load),
        cmocka_unit_test(answers_that_end_together_are_overload_as_well),
        cmocka_unit_test(a_burst_of_hundreds_is_served),
        cmocka_unit_test(what_came_while_no_slot_was_there_is_served),
        cmocka_unit_test(clients_that_wait_for_their_answer_are_no_overload),
        cmocka_unit_test(a_little_too_much_is_overload_as_well),
        cmocka_unit_test(the_wait_is_bounded_where_its_length_is_known),
        cmocka_unit_test(overload_ends_with_what_caused_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
