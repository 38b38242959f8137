/* chat/json_scan.h - checks JSON byte by byte, as it arrives.
 *
 * The text is UTF-8 already (chat/text.h).  Memory is fixed: the struct below.
 */
#ifndef CHAT_JSON_SCAN_H
#define CHAT_JSON_SCAN_H

#include <stdbool.h>
#include <stdint.h>

enum { CHAT_JSON_DEPTH_MAX = 64 }; /* a bit each */

enum chat_json_state {
    CHAT_JSON_VALUE, /* a value begins, after blanks */
    CHAT_JSON_FIRST_ITEM,
    CHAT_JSON_FIRST_KEY,
    CHAT_JSON_KEY,
    CHAT_JSON_COLON,
    CHAT_JSON_AFTER, /* a value has ended inside an object or array */
    CHAT_JSON_STRING,
    CHAT_JSON_ESCAPE,
    CHAT_JSON_HEX,
    CHAT_JSON_MINUS,
    CHAT_JSON_ZERO,
    CHAT_JSON_INTEGER,
    CHAT_JSON_POINT,
    CHAT_JSON_FRACTION,
    CHAT_JSON_E,
    CHAT_JSON_E_SIGN,
    CHAT_JSON_EXPONENT,
    CHAT_JSON_WORD,
    CHAT_JSON_DONE, /* the outermost object or array is closed */
};

struct chat_json_scan {
    enum chat_json_state state;
    bool is_key;      /* the string is a key */
    uint8_t hex;      /* digits of \u that are missing */
    uint32_t depth;   /* open objects and arrays */
    uint64_t objects; /* bit d: level d is an object */
    const char *word; /* the missing letters of true, false or null */
};

/* One more byte; false: the text is not the beginning of JSON, and nothing has changed.  All
 * zero is the state before the first byte. */
bool chat_json_step(struct chat_json_scan *j, char c);

#endif
