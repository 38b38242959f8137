/* hub/address.c - which addresses belong to the public Internet. */
#include <string.h>

#include "base/os/socket.h"
#include "hub/url.h"

/* IANA's special-purpose registry: ranges that hold no public hosts. */
static const struct {
    uint32_t prefix;
    unsigned bits;
} special[] = {
    {0x00000000, 8},  /* this network */
    {0x0A000000, 8},  /* private */
    {0x64400000, 10}, /* shared: carriers and some clouds' metadata */
    {0x7F000000, 8},  /* loopback */
    {0xA9FE0000, 16}, /* link-local: metadata services */
    {0xAC100000, 12}, /* private */
    {0xC0000000, 24}, /* protocol assignments */
    {0xC0000200, 24}, /* documentation */
    {0xC0586300, 24}, /* 6to4 relays */
    {0xC0A80000, 16}, /* private */
    {0xC6120000, 15}, /* benchmarks */
    {0xC6336400, 24}, /* documentation */
    {0xCB007100, 24}, /* documentation */
    {0xE0000000, 4},  /* multicast */
    {0xF0000000, 4},  /* reserved, broadcast */
};

static bool ipv4_is_public(uint32_t address)
{
    for (size_t i = 0; i < sizeof(special) / sizeof(special[0]); i++) {
        if ((address ^ special[i].prefix) >> (32 - special[i].bits) == 0)
            return false;
    }
    return true;
}

static uint32_t read_u32(const unsigned char *p)
{
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

static bool ipv6_is_public(const unsigned char a[16])
{
    static const unsigned char mapped[12] = {[10] = 0xFF, [11] = 0xFF};
    static const unsigned char nat64[12] = {0x00, 0x64, 0xFF, 0x9B};
    /* The host is the embedded IPv4 address. */
    if (memcmp(a, mapped, 12) == 0 || memcmp(a, nat64, 12) == 0)
        return ipv4_is_public(read_u32(a + 12));
    if ((a[0] & 0xE0) != 0x20)
        return false; /* only 2000::/3 is global unicast */
    uint32_t first = read_u32(a);
    if (first >> 16 == 0x2002 || first == 0x20010000)
        return false; /* 6to4 and Teredo can carry any IPv4 address; no file server uses them */
    return first != 0x20010DB8; /* documentation */
}

bool hub_address_is_public(const struct sockaddr *address)
{
    if (address->sa_family == AF_INET) {
        struct sockaddr_in in;
        memcpy(&in, address, sizeof(in));
        return ipv4_is_public(ntohl(in.sin_addr.s_addr));
    }
    if (address->sa_family == AF_INET6) {
        struct sockaddr_in6 in6;
        memcpy(&in6, address, sizeof(in6));
        return ipv6_is_public(in6.sin6_addr.s6_addr);
    }
    return false;
}

/* One part of an address: 0x.. is hexadecimal, a leading 0 octal, as inet_aton has it. */
static bool address_read_part(struct lr_str part, uint64_t *out)
{
    unsigned base = 10;
    uint64_t value = 0;
    if (part.len >= 2 && part.ptr[0] == '0' && (part.ptr[1] | 0x20) == 'x') {
        base = 16;
        part = lr_str_sub(part, 2, part.len);
    } else if (part.len >= 2 && part.ptr[0] == '0') {
        base = 8;
    }
    for (size_t i = 0; i < part.len; i++) {
        char c = part.ptr[i];
        unsigned digit = c >= '0' && c <= '9'   ? (unsigned)(c - '0')
                         : c >= 'a' && c <= 'f' ? (unsigned)(c - 'a') + 10
                         : c >= 'A' && c <= 'F' ? (unsigned)(c - 'A') + 10
                                                : 99;
        if (digit >= base)
            return false;
        value = value * base + digit;
        if (value > UINT32_MAX)
            return false;
    }
    *out = value;
    return part.len != 0 || base == 16; /* "0x" is taken for 0 by some resolvers */
}

bool hub_host_ipv4(struct lr_str host, uint32_t *address)
{
    uint64_t parts[4];
    size_t count = 0;
    struct lr_str part, rest = host;
    if (lr_str_ends(rest, "."))
        rest.len--;
    while (lr_str_split(&rest, '.', &part)) {
        if (count == 4 || !address_read_part(part, &parts[count]))
            return false;
        count++;
    }
    if (count == 0)
        return false;
    uint64_t value = parts[count - 1]; /* the last part fills the remaining bytes */
    if (value >> (8 * (5 - count)) != 0)
        return false;
    for (size_t i = 0; i + 1 < count; i++) {
        if (parts[i] > 255)
            return false;
        value |= parts[i] << (24 - 8 * i);
    }
    *address = (uint32_t)value;
    return true;
}
