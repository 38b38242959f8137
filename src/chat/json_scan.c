/* chat/json_scan.c - see chat/json_scan.h. */
#include "chat/json_scan.h"

#include "base/str.h"

static bool json_scan_is_blank(char c)
{
    return c == ' ' || c == '\n' || c == '\t' || c == '\r';
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool go(struct chat_json_scan *j, enum chat_json_state state)
{
    j->state = state;
    return true;
}

static bool is_object(const struct chat_json_scan *j)
{
    return (j->objects >> (j->depth - 1) & 1) != 0;
}

static bool open_level(struct chat_json_scan *j, bool object)
{
    if (j->depth == CHAT_JSON_DEPTH_MAX)
        return false;
    j->objects &= ~(UINT64_C(1) << j->depth);
    j->objects |= (uint64_t)object << j->depth;
    j->depth++;
    return go(j, object ? CHAT_JSON_FIRST_KEY : CHAT_JSON_FIRST_ITEM);
}

static bool close_level(struct chat_json_scan *j)
{
    j->depth--;
    return go(j, j->depth == 0 ? CHAT_JSON_DONE : CHAT_JSON_AFTER);
}

static bool begin_string(struct chat_json_scan *j, bool is_key)
{
    j->is_key = is_key;
    return go(j, CHAT_JSON_STRING);
}

static bool json_scan_begin_value(struct chat_json_scan *j, char c)
{
    switch (c) {
    case '{':
    case '[':
        return open_level(j, c == '{');
    case '"':
        return begin_string(j, false);
    case '-':
        return go(j, CHAT_JSON_MINUS);
    case '0':
        return go(j, CHAT_JSON_ZERO);
    case 't':
    case 'f':
    case 'n':
        j->word = c == 't' ? "rue" : c == 'f' ? "alse" : "ull";
        return go(j, CHAT_JSON_WORD);
    default:
        return is_digit(c) && go(j, CHAT_JSON_INTEGER);
    }
}

static bool after_value(struct chat_json_scan *j, char c)
{
    if (json_scan_is_blank(c))
        return j->depth != 0 && go(j, CHAT_JSON_AFTER);
    if (j->depth == 0)
        return false;
    if (c == ',')
        return go(j, is_object(j) ? CHAT_JSON_KEY : CHAT_JSON_VALUE);
    return c == (is_object(j) ? '}' : ']') && close_level(j);
}

static bool in_string(struct chat_json_scan *j, char c)
{
    if (c == '"')
        return go(j, j->is_key ? CHAT_JSON_COLON : CHAT_JSON_AFTER);
    if (c == '\\')
        return go(j, CHAT_JSON_ESCAPE);
    return (unsigned char)c >= 0x20;
}

static bool in_escape(struct chat_json_scan *j, char c)
{
    if (c == 'u') {
        j->hex = 4;
        return go(j, CHAT_JSON_HEX);
    }
    return c != '\0' && strchr("\"\\/bfnrt", c) != NULL && go(j, CHAT_JSON_STRING);
}

/* Digits go on, or the number ends with the byte before. */
static bool in_number(struct chat_json_scan *j, char c)
{
    bool has_fraction = j->state == CHAT_JSON_FRACTION || j->state == CHAT_JSON_EXPONENT;
    if (is_digit(c))
        return j->state != CHAT_JSON_ZERO;
    if (c == '.' && !has_fraction)
        return go(j, CHAT_JSON_POINT);
    if ((c == 'e' || c == 'E') && j->state != CHAT_JSON_EXPONENT)
        return go(j, CHAT_JSON_E);
    return after_value(j, c);
}

bool chat_json_step(struct chat_json_scan *j, char c)
{
    switch (j->state) {
    case CHAT_JSON_VALUE:
        return json_scan_is_blank(c) || json_scan_begin_value(j, c);
    case CHAT_JSON_FIRST_ITEM:
        return json_scan_is_blank(c) ||
               (c == ']' ? close_level(j) : json_scan_begin_value(j, c));
    case CHAT_JSON_FIRST_KEY:
        if (c == '}')
            return close_level(j);
        return json_scan_is_blank(c) || (c == '"' && begin_string(j, true));
    case CHAT_JSON_KEY:
        return json_scan_is_blank(c) || (c == '"' && begin_string(j, true));
    case CHAT_JSON_COLON:
        return json_scan_is_blank(c) || (c == ':' && go(j, CHAT_JSON_VALUE));
    case CHAT_JSON_AFTER:
        return after_value(j, c);
    case CHAT_JSON_STRING:
        return in_string(j, c);
    case CHAT_JSON_ESCAPE:
        return in_escape(j, c);
    case CHAT_JSON_HEX:
        return lr_hex_digit(c) >= 0 && (--j->hex != 0 || go(j, CHAT_JSON_STRING));
    case CHAT_JSON_MINUS:
        return is_digit(c) && go(j, c == '0' ? CHAT_JSON_ZERO : CHAT_JSON_INTEGER);
    case CHAT_JSON_POINT:
        return is_digit(c) && go(j, CHAT_JSON_FRACTION);
    case CHAT_JSON_E:
        if (c == '+' || c == '-')
            return go(j, CHAT_JSON_E_SIGN);
        return is_digit(c) && go(j, CHAT_JSON_EXPONENT);
    case CHAT_JSON_E_SIGN:
        return is_digit(c) && go(j, CHAT_JSON_EXPONENT);
    case CHAT_JSON_ZERO:
    case CHAT_JSON_INTEGER:
    case CHAT_JSON_FRACTION:
    case CHAT_JSON_EXPONENT:
        return in_number(j, c);
    case CHAT_JSON_WORD:
        if (c != *j->word)
            return false;
        return *++j->word != '\0' || go(j, CHAT_JSON_AFTER);
    case CHAT_JSON_DONE:
        return json_scan_is_blank(c);
    }
    return false;
}
