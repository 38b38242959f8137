#include "router/observe/prices.h"

#include <stdlib.h>

enum { PARTS = 3, PRICE_MAX = 1000000 };

/* A number without sign or exponent. */
static bool prices_read_number(struct lr_str text, double *out)
{
    char copy[32];
    if (text.len == 0 || text.len >= sizeof(copy))
        return false;
    for (size_t i = 0; i < text.len; i++)
        if ((text.ptr[i] < '0' || text.ptr[i] > '9') && text.ptr[i] != '.')
            return false;
    LR_COPY(copy, text);
    char *end;
    *out = strtod(copy, &end);
    return *end == '\0' && *out <= PRICE_MAX;
}

static bool read_price(const char *text, struct lr_str *model, double prices[PARTS])
{
    struct lr_str all = lr_str_z(text), rest, one;
    size_t at = all.len, count = 0;
    while (at > 0 && all.ptr[at - 1] != '=') /* ids of models may have '=' themselves */
        at--;
    if (at < 2)
        return false;
    *model = lr_str_sub(all, 0, at - 1);
    rest = lr_str_sub(all, at, all.len);
    while (lr_str_split(&rest, '/', &one))
        if (count == PARTS || !prices_read_number(one, &prices[count++]))
            return false;
    if (count == 2)
        prices[2] = prices[0];
    return count >= 2;
}

lr_code router_prices_check(const struct lr_settings *settings, struct lr_error *err)
{
    struct lr_str model;
    double prices[PARTS];
    for (size_t i = 0; i < lr_settings_list_count(settings, "price"); i++)
        if (!read_price(lr_settings_list_item(settings, "price", i), &model, prices))
            return lr_fail(err, LR_INVALID_ARGUMENT,
                           "price \"%.200s\" must be MODEL=PROMPT/COMPLETION or "
                           "MODEL=PROMPT/COMPLETION/CACHED, each the price of a million tokens",
                           lr_settings_list_item(settings, "price", i));
    return LR_OK;
}

bool router_prices_are_set(const struct lr_settings *settings)
{
    return lr_settings_list_count(settings, "price") != 0;
}

bool router_price(const struct lr_settings *settings, struct lr_str model,
                  const struct router_tokens *tokens, double *cost)
{
    struct lr_str named;
    double prices[PARTS];
    for (size_t i = 0; i < lr_settings_list_count(settings, "price"); i++)
        if (read_price(lr_settings_list_item(settings, "price", i), &named, prices) &&
            lr_str_eq_nocase(named, model)) {
            *cost =
                ((double)(tokens->prompt - tokens->cached) * prices[0] +
                 (double)tokens->completion * prices[1] + (double)tokens->cached * prices[2]) /
                1e6;
            return true;
        }
    return false;
}
