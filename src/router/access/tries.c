#include "router/access/tries.h"

#include <stdio.h>
#include <string.h>

#include "base/errors.h"
#include "base/os/socket.h"

static void network_of(const char *address, char out[48])
{
    struct in6_addr v6;
    (void)snprintf(out, 48, "%s", address);
    if (inet_pton(AF_INET6, address, &v6) != 1 || IN6_IS_ADDR_V4MAPPED(&v6))
        return;
    memset(&v6.s6_addr[8], 0, 8);
    (void)inet_ntop(AF_INET6, &v6, out, 48);
}

/* NULL: nothing came from there lately. */
static struct router_trier *tries_find(struct router_tries *tries, const char *network)
{
    for (size_t i = 0; i < ROUTER_TRIERS_MAX; i++)
        if (strcmp(tries->all[i].network, network) == 0)
            return &tries->all[i];
    return NULL;
}

static struct router_trier *tries_add(struct router_tries *tries, const char *network)
{
    struct router_trier *oldest = &tries->all[0];
    for (size_t i = 1; i < ROUTER_TRIERS_MAX; i++)
        if (tries->all[i].left.at_ms < oldest->left.at_ms)
            oldest = &tries->all[i];
    *oldest = (struct router_trier){.left.at_ms = 0};
    (void)snprintf(oldest->network, sizeof(oldest->network), "%s", network);
    return oldest;
}

lr_code router_try(struct router_tries *tries, const char *address, uint64_t now_ms,
                   uint32_t *retry_s, struct lr_error *err)
{
    char network[48];
    network_of(address, network);
    struct router_trier *trier = tries_find(tries, network);
    if (trier == NULL)
        trier = tries_add(tries, network);
    double level = lr_bucket_refill(&trier->left, tries->per_minute, now_ms);
    *retry_s = 0;
    if (level >= 1) {
        trier->left.level -= 1;
        return LR_OK;
    }
    *retry_s = (uint32_t)((1 - level) * 60 / tries->per_minute) + 1;
    return lr_fail_as(err, tries_many, tries->per_minute, tries->what, address, *retry_s);
}
