#include "node/models/breaker.h"

static uint64_t pause_ms(uint32_t opened)
{
    uint64_t pause = NODE_BREAKER_FIRST_MS;
    for (uint32_t i = 1; i < opened && pause < NODE_BREAKER_MOST_MS; i++)
        pause *= 2;
    return pause < NODE_BREAKER_MOST_MS ? pause : NODE_BREAKER_MOST_MS;
}

bool node_breaker_died(struct node_breaker *breaker, uint32_t limit, uint64_t now_ms)
{
    breaker->failures++;
    breaker->failed_ms = now_ms;
    if (breaker->failures < limit && breaker->opened == 0)
        return false;
    breaker->due_ms = now_ms + pause_ms(++breaker->opened);
    return true;
}

void node_breaker_failed(struct node_breaker *breaker, uint64_t now_ms)
{
    (void)node_breaker_died(breaker, 0, now_ms);
}

void node_breaker_try(struct node_breaker *breaker)
{
    breaker->due_ms = 0;
}

void node_breaker_succeeded(struct node_breaker *breaker)
{
    *breaker = (struct node_breaker){0};
}

bool node_breaker_is_due(const struct node_breaker *breaker, uint64_t now_ms)
{
    return breaker->due_ms != 0 && now_ms >= breaker->due_ms;
}

bool node_breaker_takes_request(const struct node_breaker *breaker, uint64_t now_ms)
{
    return now_ms >= breaker->failed_ms + NODE_BREAKER_REQUEST_MS ||
           node_breaker_is_due(breaker, now_ms);
}

uint64_t node_breaker_wait_ms(const struct node_breaker *breaker, uint64_t now_ms)
{
    return breaker->due_ms > now_ms ? breaker->due_ms - now_ms : 0;
}
