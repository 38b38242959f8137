/* grammar/formats.c - see grammar/schema.h: formats as regular expressions.
 *
 * A format is an assertion here.  Those that no regular expression can tell are refused, those
 * that JSON Schema does not know have no effect.
 */
#include "grammar/schema.h"

/* Dates and times as RFC 3339 writes them. */
#define DATE                                                                                   \
    "(?:\\d{4}-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12]\\d|3[01])|(?:0[469]|11)-(?:0[1-9]|[12]"    \
    "\\d|30)|02-(?:0[1-9]|1\\d|2[0-8]))|(?:\\d\\d(?:0[48]|[2468][048]|[13579][26])|(?:[02468]" \
    "[048]|[13579][26])00)-02-29)"
#define OFFSET "(?:[Zz]|[+-](?:[01]\\d|2[0-3]):[0-5]\\d)"
#define TIME                                                                                   \
    "(?:(?:[01]\\d|2[0-3]):[0-5]\\d:[0-5]\\d(?:\\.\\d{1,9})?" OFFSET                           \
    "|23:59:60(?:\\.\\d{1,9})?(?:[Zz]|[+-]00:00))"

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

/* Names of hosts have labels of 63 characters at most and 253 in all; of that, three kinds. */
#define LABEL(n) "[A-Za-z0-9](?:[A-Za-z0-9-]{0," n "}[A-Za-z0-9])?"
#define HOST                                                                                   \
    "(?:" LABEL("61") "(?:\\." LABEL("61") "){0,2}(?:\\." LABEL("58") ")?|" LABEL(             \
        "29") "(?:\\." LABEL("29") "){0,6}|" LABEL("13") "(?:\\." LABEL("13") "){0,14})"

#define HEX2       "%[0-9A-Fa-f]{2}"
#define BEYOND     "\\u00A0-\\uD7FF\\uF900-\\uFDCF\\uFDF0-\\uFFEF\\u{10000}-\\u{EFFFD}"
#define UNRESERVED "A-Za-z0-9._~!$&'()*+,;=\\-"
#define URI_PARTS(more)                                                                        \
    "(?:\\?(?:[" UNRESERVED ":@/?" more "]|" HEX2 ")*)?(?:#(?:[" UNRESERVED ":@/?" more        \
    "]|" HEX2 ")*)?"
#define AUTHORITY(more)                                                                        \
    "//(?:(?:[" UNRESERVED ":" more "]|" HEX2 ")*@)?(?:\\[(?:" IPV6                            \
    "|[vV][0-9A-Fa-f]+\\.[" UNRESERVED ":]+)\\]|(?:[" UNRESERVED more "]|" HEX2                \
    ")*)(?::\\d*)?(?:/(?:[" UNRESERVED ":@/" more "]|" HEX2 ")*)?"
#define PCHAR(more) "(?:[" UNRESERVED ":@" more "]|" HEX2 ")"
#define URI(more)                                                                              \
    "[A-Za-z][A-Za-z0-9+.-]*:(?:" AUTHORITY(more) "|/(?:" PCHAR(                               \
        more) "(?:[" UNRESERVED ":@/" more "]|" HEX2                                           \
              ")*)?|(?:" PCHAR(more) "(?:[" UNRESERVED ":@/" more "]|" HEX2                    \
                                     ")*)?)" URI_PARTS(more)
#define RELATIVE(more)                                                                         \
    "(?:" AUTHORITY(more) "|/(?:" PCHAR(more) "(?:[" UNRESERVED ":@/" more "]|" HEX2           \
                                              ")*)?|(?:(?:[" UNRESERVED "@" more "]|" HEX2     \
                                              ")+(?:/(?:[" UNRESERVED ":@/" more "]|" HEX2     \
                                              ")*)?)?)" URI_PARTS(more)

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
    {"hostname", "^" HOST "$"},
    {"ipv4", "^" IPV4 "$"},
    {"ipv6", "^" IPV6 "$"},
    {"uri", "^" URI("") "$"},
    {"uri-reference", "^(?:" URI("") "|" RELATIVE("") ")$"},
    {"iri", "^" URI(BEYOND) "$"},
    {"uri-template", "^(?:[^\\x00-\\x20\"'<>\\\\^`{|}%]|" HEX2 "|\\{[+#./;?&=,!@|]?" VARIABLE
                     "(?:," VARIABLE ")*\\})*$"},
    {"uuid", "^[0-9A-Fa-f]{8}(?:-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}$"},
    {"json-pointer", "^" POINTER "$"},
    {"relative-json-pointer", "^(?:0|[1-9]\\d*)(?:#|" POINTER ")$"},
    {"iri-reference", NULL},
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
