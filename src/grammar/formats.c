/* grammar/formats.c - see grammar/schema.h: formats as regular expressions.
 *
 * A format is an assertion here.  Those that no regular expression can tell are refused, those
 * that JSON Schema does not know have no effect.  A format is parsed and its automaton built
 * once in a process, because some automata take milliseconds.
 */
#include <pthread.h>

#include "grammar/schema.h"

/* C99 promises 4095 bytes for a string; every compiler takes more. */
#pragma GCC diagnostic ignored "-Woverlength-strings"

/* Dates and times as RFC 3339 writes them. */
#define DATE                                                                                   \
    "(?:\\d{4}-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12]\\d|3[01])|(?:0[469]|11)-(?:0[1-9]|[12]"    \
    "\\d|30)|02-(?:0[1-9]|1\\d|2[0-8]))|(?:\\d\\d(?:0[48]|[2468][048]|[13579][26])|(?:[02468]" \
    "[048]|[13579][26])00)-02-29)"
#define OFFSET   "(?:[Zz]|[+-](?:[01]\\d|2[0-3]):[0-5]\\d)"
#define FRACTION "(?:\\.\\d{1,20})?"
/* A leap second is 23:59:60 in UTC, so its hour, minute and offset go together: `next` is the
 * hour after `hour`, `rest` the hours left of the day.  Offsets are whole or half hours. */
#define LEAP(hour, next, rest)                                                                 \
    hour ":(?:59:60(?:\\.\\d{1,6})?(?:\\+" next ":00|-" rest                                   \
         ":00)|29:60(?:\\.\\d{1,6})?(?:\\+" hour ":30|-" rest ":30))"
/* clang-format off */
#define LEAPS \
    LEAP("00", "01", "23") "|" LEAP("01", "02", "22") "|" LEAP("02", "03", "21") "|" \
    LEAP("03", "04", "20") "|" LEAP("04", "05", "19") "|" LEAP("05", "06", "18") "|" \
    LEAP("06", "07", "17") "|" LEAP("07", "08", "16") "|" LEAP("08", "09", "15") "|" \
    LEAP("09", "10", "14") "|" LEAP("10", "11", "13") "|" LEAP("11", "12", "12") "|" \
    LEAP("12", "13", "11") "|" LEAP("13", "14", "10") "|" LEAP("14", "15", "09") "|" \
    LEAP("15", "16", "08") "|" LEAP("16", "17", "07") "|" LEAP("17", "18", "06") "|" \
    LEAP("18", "19", "05") "|" LEAP("19", "20", "04") "|" LEAP("20", "21", "03") "|" \
    LEAP("21", "22", "02") "|" LEAP("22", "23", "01") "|" LEAP("23", "00", "00")
/* clang-format on */
#define TIME                                                                                   \
    "(?:(?:[01]\\d|2[0-3]):[0-5]\\d:[0-5]\\d" FRACTION OFFSET "|23:59:60" FRACTION             \
    "[Zz]|" LEAPS ")"

#define OCTET "(?:25[0-5]|2[0-4]\\d|1\\d\\d|[1-9]?\\d)"
#define IPV4  "(?:" OCTET "\\.){3}" OCTET
#define H16   "[0-9A-Fa-f]{1,4}"
#define LS32  "(?:" H16 ":" H16 "|" IPV4 ")"
#define IPV6                                                                                   \
    "(?:(?:" H16 ":){6}" LS32 "|::(?:" H16 ":){5}" LS32 "|(?:" H16 ")?::(?:" H16 ":){4}" LS32  \
    "|(?:(?:" H16 ":){0,1}" H16 ")?::(?:" H16 ":){3}" LS32 "|(?:(?:" H16 ":){0,2}" H16         \
    ")?::(?:" H16 ":){2}" LS32 "|(?:(?:" H16 ":){0,3}" H16 ")?::" H16 ":" LS32 "|(?:(?:" H16   \
    ":){0,4}" H16 ")?::" LS32 "|(?:(?:" H16 ":){0,5}" H16 ")?::" H16 "|(?:(?:" H16             \
    ":){0,6}" H16 ")?::)"

/* Names of hosts have labels of 63 characters at most and 253 in all; of that, three kinds.
 * Labels that begin with xn-- are left out (FOREIGN): whether they are valid depends on the
 * characters that they encode, which no regular expression can tell. */
#define FOREIGN  "(?:.*\\.)?[Xx][Nn]--"
#define LABEL(n) "[A-Za-z0-9](?:[A-Za-z0-9-]{0," n "}[A-Za-z0-9])?"
#define HOST                                                                                   \
    "(?:" LABEL("61") "(?:\\." LABEL("61") "){0,2}(?:\\." LABEL("58") ")?|" LABEL(             \
        "29") "(?:\\." LABEL("29") "){0,6}|" LABEL("13") "(?:\\." LABEL("13") "){0,14})"

#define HEX2     "%[0-9A-Fa-f]{2}"
#define PLANE(n) "\\u{" n "0000}-\\u{" n "FFFD}"
#define BEYOND                                                                                 \
    "\\u00A0-\\uD7FF\\uF900-\\uFDCF\\uFDF0-\\uFFEF" PLANE("1") PLANE("2") PLANE("3")           \
        PLANE("4") PLANE("5") PLANE("6") PLANE("7") PLANE("8") PLANE("9") PLANE("A")           \
            PLANE("B") PLANE("C") PLANE("D") "\\u{E1000}-\\u{EFFFD}"
#define PRIVATE    "\\uE000-\\uF8FF" PLANE("F") PLANE("10")
#define UNRESERVED "A-Za-z0-9._~!$&'()*+,;=\\-"
#define URI_PARTS(more, private)                                                               \
    "(?:\\?(?:[" UNRESERVED ":@/?" more private "]|" HEX2 ")*)?(?:#(?:[" UNRESERVED            \
                                                ":@/?" more "]|" HEX2 ")*)?"
#define AUTHORITY(more)                                                                        \
    "//(?:(?:[" UNRESERVED ":" more "]|" HEX2 ")*@)?(?:\\[(?:" IPV6                            \
    "|[vV][0-9A-Fa-f]+\\.[" UNRESERVED ":]+)\\]|(?:[" UNRESERVED more "]|" HEX2                \
    ")*)(?::\\d*)?(?:/(?:[" UNRESERVED ":@/" more "]|" HEX2 ")*)?"
#define PCHAR(more) "(?:[" UNRESERVED ":@" more "]|" HEX2 ")"
#define URI(more, private)                                                                     \
    "[A-Za-z][A-Za-z0-9+.-]*:(?:" AUTHORITY(more) "|/(?:" PCHAR(                               \
        more) "(?:[" UNRESERVED ":@/" more "]|" HEX2                                           \
              ")*)?|(?:" PCHAR(more) "(?:[" UNRESERVED ":@/" more "]|" HEX2                    \
                                     ")*)?)" URI_PARTS(more, private)
#define RELATIVE(more, private)                                                                \
    "(?:" AUTHORITY(more) "|/(?:" PCHAR(more) "(?:[" UNRESERVED ":@/" more "]|" HEX2           \
                                              ")*)?|(?:(?:[" UNRESERVED "@" more "]|" HEX2     \
                                              ")+(?:/(?:[" UNRESERVED ":@/" more "]|" HEX2     \
                                              ")*)?)?)" URI_PARTS(more, private)

#define ATEXT "[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]"
#define EMAIL                                                                                  \
    "(?:" ATEXT "+(?:\\." ATEXT "+)*|\"(?:[ !#-\\[\\]-~]|\\\\[ -~])*\")@(?:" HOST              \
    "|\\[(?:" IPV4 "|IPv6:" IPV6 ")\\])"

#define POINTER "(?:/(?:[^~/]|~[01])*)*"
#define TIMES   "T(?:\\d+H(?:\\d+M(?:\\d+S)?)?|\\d+M(?:\\d+S)?|\\d+S)"
#define VARIABLE                                                                               \
    "(?:[A-Za-z0-9_]|" HEX2 ")(?:\\.?(?:[A-Za-z0-9_]|" HEX2 "))*(?::[1-9]\\d{0,3}|\\*)?"

static const struct {
    const char *name;
    const char *pattern; /* NULL: not supported */
} formats[] = {
    {"date", "^" DATE "$"},
    {"time", "^" TIME "$"},
    {"date-time", "^" DATE "[Tt]" TIME "$"},
    {"duration", "^P(?:\\d+W|(?:\\d+Y(?:\\d+M(?:\\d+D)?)?|\\d+M(?:\\d+D)?|\\d+D)(?:" TIMES
                 ")?|" TIMES ")$"},
    {"email", "^" EMAIL "$"},
    {"hostname", "^(?!" FOREIGN ")" HOST "$"},
    {"ipv4", "^" IPV4 "$"},
    {"ipv6", "^" IPV6 "$"},
    {"uri", "^" URI("", "") "$"},
    {"uri-reference", "^(?:" URI("", "") "|" RELATIVE("", "") ")$"},
    {"iri", "^" URI(BEYOND, PRIVATE) "$"},
    {"iri-reference", "^(?:" URI(BEYOND, PRIVATE) "|" RELATIVE(BEYOND, PRIVATE) ")$"},
    {"uri-template", "^(?:[!#$&-;=?-\\[\\]_a-z~" BEYOND PRIVATE "]|" HEX2
                     "|\\{[+#./;?&=,!@|]?" VARIABLE "(?:," VARIABLE ")*\\})*$"},
    {"uuid", "^[0-9A-Fa-f]{8}(?:-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}$"},
    {"json-pointer", "^" POINTER "$"},
    {"relative-json-pointer", "^(?:0|[1-9]\\d*)(?:#|" POINTER ")$"},
    {"regex", NULL},
    {"idn-hostname", NULL},
    {"idn-email", NULL},
};

const char *grammar_schema_format(struct grammar_build *b, struct lr_str name)
{
    for (size_t i = 0; i < sizeof(formats) / sizeof(formats[0]); i++)
        if (lr_str_eq_z(name, formats[i].name)) {
            if (formats[i].pattern == NULL && !b->lenient)
                grammar_fail(b, LR_UNSUPPORTED, "the format \"%s\" is not supported",
                             formats[i].name);
            return formats[i].pattern;
        }
    return NULL;
}

/* ---- formats that were used ---- */

/* A schema that uses a format pays the same whether the automaton was there or not. */
enum { KEPT_BYTES = 64 << 20, FORMAT_WORK = 16 };

struct kept {
    bool has_pattern;
    struct regex_pattern parsed;
    const struct dfa *dfa;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct lr_arena arena = {.limit = KEPT_BYTES};
static struct kept kept[sizeof(formats) / sizeof(formats[0])];

/* With the lock held.  NULL: no memory. */
static struct kept *formats_parse(const char *pattern, struct lr_error *err)
{
    size_t i = 0;
    while (formats[i].pattern != pattern)
        i++;
    if (!kept[i].has_pattern &&
        grammar_regex_parse(&arena, lr_str_z(pattern), &kept[i].parsed, err) != LR_OK)
        return NULL;
    kept[i].has_pattern = true;
    return &kept[i];
}

static lr_code formats_build(const char *pattern, struct kept *k, struct lr_error *err)
{
    struct dfa_text text = {.count = 1, .max = DFA_UNBOUNDED};
    struct dfa_result result[DFA_RESULTS_MAX];
    uint32_t work = UINT32_MAX, count;
    text.demands[0] = (struct dfa_demand){.pattern = k->parsed, .format = pattern};
    lr_code code = grammar_dfa_build(&arena, &text, 0, &work, result, &count, err);
    if (code == LR_OK)
        k->dfa = result[0].dfa;
    return code;
}

bool grammar_schema_format_demand(struct grammar_build *b, const char *pattern,
                                  struct dfa_demand *out)
{
    struct lr_error err = {0};
    (void)pthread_mutex_lock(&lock);
    const struct kept *k = formats_parse(pattern, &err);
    if (k != NULL)
        *out = (struct dfa_demand){
            .pattern = k->parsed, .negative = out->negative, .format = pattern};
    (void)pthread_mutex_unlock(&lock);
    if (k == NULL)
        grammar_fail(b, LR_OUT_OF_RAM, "%s", err.text);
    return k != NULL;
}

const struct dfa *grammar_schema_format_dfa(struct grammar_build *b, const char *pattern)
{
    struct lr_error err = {0};
    const struct dfa *dfa = NULL;
    (void)pthread_mutex_lock(&lock);
    struct kept *k = formats_parse(pattern, &err);
    if (k != NULL && (k->dfa != NULL || formats_build(pattern, k, &err) == LR_OK))
        dfa = k->dfa;
    (void)pthread_mutex_unlock(&lock);
    if (dfa == NULL)
        grammar_fail(b, LR_OUT_OF_RAM, "%s", err.text);
    return dfa != NULL && grammar_charge(b, FORMAT_WORK) ? dfa : NULL;
}
