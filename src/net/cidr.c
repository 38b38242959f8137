#include "net/cidr.h"

#include <stdio.h>
#include <string.h>

#include "base/errors.h"
#include "base/os/socket.h"

static const unsigned char mapped[12] = {[10] = 0xff, [11] = 0xff};

/* *is_v4: the text was an IPv4 address. */
static bool read_address(const char *text, unsigned char out[16], bool *is_v4)
{
    memcpy(out, mapped, sizeof(mapped));
    *is_v4 = inet_pton(AF_INET, text, out + 12) == 1;
    return *is_v4 || inet_pton(AF_INET6, text, out) == 1;
}

static bool is_within(const struct net_cidr *net, const unsigned char address[16])
{
    unsigned whole = net->bits / 8, rest = net->bits % 8;
    if (memcmp(net->address, address, whole) != 0)
        return false;
    unsigned mask = rest != 0 ? 0xffU << (8 - rest) & 0xffU : 0;
    return rest == 0 || ((net->address[whole] ^ address[whole]) & mask) == 0;
}

lr_code net_cidr_parse(const char *text, struct net_cidr *out, struct lr_error *err)
{
    char address[NET_ADDRESS_TEXT];
    struct lr_str all = lr_str_z(text);
    size_t slash = lr_str_find_char(all, '/');
    struct lr_str head = lr_str_sub(all, 0, slash);
    uint64_t bits = 0;
    bool is_v4 = false, ok = head.len < sizeof(address);
    if (ok) {
        (void)snprintf(address, sizeof(address), LR_STR_FMT, LR_STR_ARG(head));
        ok = read_address(address, out->address, &is_v4);
    }
    unsigned most = is_v4 ? 32 : 128;
    if (slash == LR_STR_NONE)
        bits = most;
    else
        ok = ok && lr_str_u64(lr_str_sub(all, slash + 1, all.len), &bits) && bits <= most;
    if (!ok)
        return lr_fail_as(err, no_network, text);
    out->bits = (unsigned)bits + (is_v4 ? 96 : 0);
    return LR_OK;
}

lr_code net_cidrs_read(const struct lr_settings *settings, const char *name,
                       struct net_cidrs *out, struct lr_error *err)
{
    size_t count = lr_settings_list_count(settings, name);
    lr_code code = LR_OK;
    out->count = 0;
    if (count > NET_CIDRS_MAX)
        return lr_fail(err, LR_INVALID_ARGUMENT, "%s may be given %d times, not %zu times",
                       name, NET_CIDRS_MAX, count);
    for (size_t i = 0; code == LR_OK && i < count; i++)
        code = net_cidr_parse(lr_settings_list_item(settings, name, i),
                              &out->items[out->count++], err);
    return code == LR_OK ? LR_OK : lr_fail_prefix(err, "%s", name);
}

bool net_cidrs_have(const struct net_cidrs *cidrs, const char *address)
{
    unsigned char bytes[16];
    bool is_v4;
    if (cidrs->count == 0 || !read_address(address, bytes, &is_v4))
        return false;
    for (size_t i = 0; i < cidrs->count; i++)
        if (is_within(&cidrs->items[i], bytes))
            return true;
    return false;
}

static bool is_loopback(const unsigned char address[16])
{
    static const unsigned char one[16] = {[15] = 1};
    return memcmp(address, one, sizeof(one)) == 0 ||
           (memcmp(address, mapped, sizeof(mapped)) == 0 && address[12] == 127);
}

bool net_same_address(const char *a, const char *b)
{
    unsigned char first[16], second[16];
    bool is_v4;
    if (!read_address(a, first, &is_v4) || !read_address(b, second, &is_v4))
        return false;
    return memcmp(first, second, sizeof(first)) == 0 ||
           (is_loopback(first) && is_loopback(second));
}

/* ---- what proxies say ---- */

const struct net_header *net_forwarded_header(struct net_headers headers)
{
    static const char *const names[] = {"forwarded", "via", "x-real-ip"};
    struct lr_str prefix = LR_STR_LIT("x-forwarded-");
    for (size_t i = 0; i < headers.count; i++) {
        const struct net_header *h = &headers.items[i];
        if (lr_str_eq_nocase(lr_str_sub(h->name, 0, prefix.len), prefix))
            return h;
        for (size_t j = 0; j < sizeof(names) / sizeof(names[0]); j++)
            if (lr_str_eq_nocase(h->name, lr_str_z(names[j])))
                return h;
    }
    return NULL;
}

/* "192.0.2.1", "192.0.2.1:80", "2001:db8::1", "[2001:db8::1]:80", each in quotes or not. */
static bool take_address(struct lr_str text, char out[NET_ADDRESS_TEXT])
{
    unsigned char bytes[16];
    bool is_v4;
    text = lr_str_trim(text);
    if (text.len >= 2 && text.ptr[0] == '"' && text.ptr[text.len - 1] == '"')
        text = lr_str_sub(text, 1, text.len - 1);
    size_t colon = lr_str_find_char(text, ':');
    if (text.len != 0 && text.ptr[0] == '[')
        text = lr_str_sub(text, 1, lr_str_find_char(text, ']'));
    else if (colon != LR_STR_NONE && lr_str_find_char(text, '.') < colon)
        text = lr_str_sub(text, 0, colon);
    if (text.len >= NET_ADDRESS_TEXT)
        return false;
    char address[NET_ADDRESS_TEXT];
    (void)snprintf(address, sizeof(address), LR_STR_FMT, LR_STR_ARG(text));
    if (!read_address(address, bytes, &is_v4))
        return false;
    memcpy(out, address, sizeof(address));
    return true;
}

/* The value of for= in one element of Forwarded: for=192.0.2.60;proto=http;by=203.0.113.43 */
static struct lr_str forwarded_for(struct lr_str element)
{
    struct lr_str pair;
    while (lr_str_split(&element, ';', &pair)) {
        pair = lr_str_trim(pair);
        if (lr_str_eq_nocase(lr_str_sub(pair, 0, 4), LR_STR_LIT("for=")))
            return lr_str_sub(pair, 4, pair.len);
    }
    return lr_str("", 0);
}

/* Goes through one header's elements from the last to the first.  True: the client was found,
 * or no element before this can be trusted. */
static bool walk_back(struct lr_str value, bool is_plain, const struct net_cidrs *trusted,
                      char out[NET_ADDRESS_TEXT])
{
    for (size_t end = value.len;; end--) {
        size_t from = end;
        while (from > 0 && value.ptr[from - 1] != ',')
            from--;
        struct lr_str element = lr_str_sub(value, from, end);
        if (!take_address(is_plain ? element : forwarded_for(element), out) ||
            !net_cidrs_have(trusted, out))
            return true;
        if (from == 0)
            return false;
        end = from;
    }
}

void net_forwarded_client(struct net_headers headers, const char *remote,
                          const struct net_cidrs *trusted, char out[NET_ADDRESS_TEXT])
{
    bool is_plain = net_headers_count(headers, "x-forwarded-for") != 0;
    struct lr_str name = lr_str_z(is_plain ? "x-forwarded-for" : "forwarded");
    (void)snprintf(out, NET_ADDRESS_TEXT, "%s", remote);
    if (!net_cidrs_have(trusted, remote))
        return;
    for (size_t i = headers.count; i-- > 0;)
        if (lr_str_eq_nocase(headers.items[i].name, name) &&
            walk_back(headers.items[i].value, is_plain, trusted, out))
            return;
}
