/* net/http.c - header lists and status words. */
#include "net/http.h"

bool net_headers_get(struct net_headers headers, const char *name, struct lr_str *out)
{
    struct lr_str wanted = lr_str_z(name);
    for (size_t i = 0; i < headers.count; i++) {
        if (lr_str_eq_nocase(headers.items[i].name, wanted)) {
            *out = headers.items[i].value;
            return true;
        }
    }
    *out = lr_str("", 0);
    return false;
}

size_t net_headers_count(struct net_headers headers, const char *name)
{
    struct lr_str wanted = lr_str_z(name);
    size_t count = 0;
    for (size_t i = 0; i < headers.count; i++)
        count += lr_str_eq_nocase(headers.items[i].name, wanted);
    return count;
}

bool net_headers_has_token(struct net_headers headers, const char *name, const char *token)
{
    struct lr_str wanted = lr_str_z(name);
    for (size_t i = 0; i < headers.count; i++) {
        if (!lr_str_eq_nocase(headers.items[i].name, wanted))
            continue;
        struct lr_str rest = headers.items[i].value;
        struct lr_str part;
        while (lr_str_split(&rest, ',', &part)) {
            if (lr_str_eq_nocase(lr_str_trim(part), lr_str_z(token)))
                return true;
        }
    }
    return false;
}

const char *net_status_text(int status)
{
    static const struct {
        int status;
        const char *text;
    } table[] = {
        {100, "Continue"},
        {101, "Switching Protocols"},
        {200, "OK"},
        {201, "Created"},
        {202, "Accepted"},
        {204, "No Content"},
        {206, "Partial Content"},
        {301, "Moved Permanently"},
        {302, "Found"},
        {303, "See Other"},
        {304, "Not Modified"},
        {307, "Temporary Redirect"},
        {308, "Permanent Redirect"},
        {400, "Bad Request"},
        {401, "Unauthorized"},
        {403, "Forbidden"},
        {404, "Not Found"},
        {405, "Method Not Allowed"},
        {406, "Not Acceptable"},
        {408, "Request Timeout"},
        {409, "Conflict"},
        {410, "Gone"},
        {411, "Length Required"},
        {412, "Precondition Failed"},
        {413, "Content Too Large"},
        {415, "Unsupported Media Type"},
        {417, "Expectation Failed"},
        {421, "Misdirected Request"},
        {422, "Unprocessable Content"},
        {429, "Too Many Requests"},
        {431, "Request Header Fields Too Large"},
        {499, "Client Closed Request"},
        {500, "Internal Server Error"},
        {501, "Not Implemented"},
        {502, "Bad Gateway"},
        {503, "Service Unavailable"},
        {504, "Gateway Timeout"},
        {505, "HTTP Version Not Supported"},
    };
    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
        if (table[i].status == status)
            return table[i].text;
    }
    return "Unknown";
}

/* RFC 9110 5.6.2: what a header's name and a method are made of. */
static bool is_token_char(unsigned char c)
{
    if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9'))
        return true;
    return c != '\0' && strchr("!#$%&'*+-.^_`|~", c) != NULL;
}

bool net_header_name_ok(struct lr_str name)
{
    for (size_t i = 0; i < name.len; i++) {
        if (!is_token_char((unsigned char)name.ptr[i]))
            return false;
    }
    return name.len != 0;
}

bool net_header_value_ok(struct lr_str value)
{
    for (size_t i = 0; i < value.len; i++) {
        unsigned char c = (unsigned char)value.ptr[i];
        if ((c < 0x20 && c != '\t') || c == 0x7f)
            return false;
    }
    return true;
}
