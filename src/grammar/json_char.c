/* grammar/json_char.c - see grammar/vocab.h: the characters of JSON strings, byte by byte. */
#include "grammar/vocab.h"

enum state {
    BETWEEN,
    LAST,       /* one continuation byte is left */
    LAST_TWO,   /* two */
    LAST_THREE, /* three */
    AFTER_E0,   /* no overlong forms */
    AFTER_ED,   /* no surrogates */
    AFTER_F0,   /* no overlong forms */
    AFTER_F4,   /* nothing above U+10FFFF */
    ESCAPE,     /* after a backslash */
    HEX_1,
    HEX_2,
    HEX_3,
    HEX_4,
    HEX_2_OF_D, /* after \uD: a surrogate, or U+D000 to U+D7FF */
    HIGH_3,
    HIGH_4,
    LOW_ESCAPE, /* a high surrogate needs a low one */
    LOW_U,
    LOW_1,
    LOW_2,
};

static uint8_t within(uint8_t byte, uint8_t low, uint8_t high, uint8_t then)
{
    return byte >= low && byte <= high ? then : GRAMMAR_CHAR_BAD;
}

static uint8_t hex(uint8_t byte, uint8_t then)
{
    return lr_hex_digit((char)byte) >= 0 ? then : GRAMMAR_CHAR_BAD;
}

static uint8_t json_char_begin(uint8_t byte)
{
    if (byte == '\\')
        return ESCAPE;
    if (byte < 0x80)
        return byte >= 0x20 && byte != '"' ? BETWEEN : GRAMMAR_CHAR_BAD;
    if (byte < 0xC2)
        return GRAMMAR_CHAR_BAD;
    if (byte < 0xE0)
        return LAST;
    if (byte < 0xF0)
        return byte == 0xE0 ? AFTER_E0 : byte == 0xED ? AFTER_ED : LAST_TWO;
    if (byte > 0xF4)
        return GRAMMAR_CHAR_BAD;
    return byte == 0xF0 ? AFTER_F0 : byte == 0xF4 ? AFTER_F4 : LAST_THREE;
}

static uint8_t json_char_escape(uint8_t byte)
{
    if (byte == 'u')
        return HEX_1;
    return byte != 0 && strchr("\"\\/bfnrt", byte) != NULL ? BETWEEN : GRAMMAR_CHAR_BAD;
}

static uint8_t hex_2_of_d(uint8_t byte)
{
    int digit = lr_hex_digit((char)byte);
    if (digit < 0 || digit >= 12)
        return GRAMMAR_CHAR_BAD;
    return digit < 8 ? HEX_3 : HIGH_3;
}

uint8_t grammar_char_next(uint8_t state, uint8_t byte)
{
    switch ((enum state)state) {
    case BETWEEN:
        return json_char_begin(byte);
    case LAST:
        return within(byte, 0x80, 0xBF, BETWEEN);
    case LAST_TWO:
        return within(byte, 0x80, 0xBF, LAST);
    case LAST_THREE:
        return within(byte, 0x80, 0xBF, LAST_TWO);
    case AFTER_E0:
        return within(byte, 0xA0, 0xBF, LAST);
    case AFTER_ED:
        return within(byte, 0x80, 0x9F, LAST);
    case AFTER_F0:
        return within(byte, 0x90, 0xBF, LAST_TWO);
    case AFTER_F4:
        return within(byte, 0x80, 0x8F, LAST_TWO);
    case ESCAPE:
        return json_char_escape(byte);
    case HEX_1:
        return lr_hex_digit((char)byte) == 13 ? HEX_2_OF_D : hex(byte, HEX_2);
    case HEX_2:
        return hex(byte, HEX_3);
    case HEX_3:
        return hex(byte, HEX_4);
    case HEX_4:
        return hex(byte, BETWEEN);
    case HEX_2_OF_D:
        return hex_2_of_d(byte);
    case HIGH_3:
        return hex(byte, HIGH_4);
    case HIGH_4:
        return hex(byte, LOW_ESCAPE);
    case LOW_ESCAPE:
        return byte == '\\' ? LOW_U : GRAMMAR_CHAR_BAD;
    case LOW_U:
        return byte == 'u' ? LOW_1 : GRAMMAR_CHAR_BAD;
    case LOW_1:
        return lr_hex_digit((char)byte) == 13 ? LOW_2 : GRAMMAR_CHAR_BAD;
    case LOW_2:
        return lr_hex_digit((char)byte) >= 12 ? HEX_3 : GRAMMAR_CHAR_BAD;
    }
    return GRAMMAR_CHAR_BAD;
}
