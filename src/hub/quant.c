#include "hub/quant.h"

#include <string.h>

/* The better, the earlier.  A label that begins with a row's text and '_' ("Q4_0_4_4") counts
 * as the row. */
static const char *const order[] = {
    "Q8_K_XL", "Q8_K",   "Q8_0",   "Q6_K_XL", "Q6_K_L",  "Q6_K",    "Q5_K_XL", "Q5_K_L",
    "Q5_K_M",  "Q5_K_S", "Q5_1",   "Q5_0",    "Q4_K_XL", "Q4_K_L",  "Q4_K_M",  "MXFP4",
    "NVFP4",   "Q4_K_S", "IQ4_NL", "IQ4_XS",  "Q4_1",    "Q4_0",    "Q3_K_XL", "Q3_K_L",
    "Q3_K_M",  "IQ3_M",  "Q3_K_S", "IQ3_S",   "IQ3_XS",  "IQ3_XXS", "Q2_K_XL", "Q2_K_L",
    "Q2_K",    "Q2_K_S", "IQ2_M",  "IQ2_S",   "IQ2_XS",  "IQ2_XXS", "TQ2_0",   "IQ1_M",
    "TQ1_0",   "IQ1_S",  "BF16",   "F16",     "FP16",    "F32",     "FP32",
};
enum { ORDER_COUNT = sizeof(order) / sizeof(order[0]) };

static struct lr_str without_dynamic(struct lr_str label)
{
    struct lr_str prefix = lr_str_sub(label, 0, 3);
    return lr_str_eq_nocase(prefix, LR_STR_LIT("UD-")) ? lr_str_sub(label, 3, label.len)
                                                       : label;
}

/* Whether the text is the row, or goes on with '_'. */
static bool is_row(struct lr_str text, const char *row)
{
    size_t len = strlen(row);
    return lr_str_eq_nocase(lr_str_sub(text, 0, len), lr_str(row, len)) &&
           (text.len == len || text.ptr[len] == '_');
}

unsigned hub_quant_rank(struct lr_str label)
{
    unsigned best = ORDER_COUNT;
    size_t longest = 0;
    struct lr_str text = without_dynamic(label);
    for (unsigned i = 0; i < ORDER_COUNT; i++) {
        if (is_row(text, order[i]) && strlen(order[i]) > longest) {
            best = i;
            longest = strlen(order[i]);
        }
    }
    return best;
}

bool hub_quant_is(struct lr_str text)
{
    return hub_quant_rank(text) < ORDER_COUNT;
}

bool hub_quant_matches(struct lr_str label, struct lr_str wanted)
{
    return label.len != 0 && (lr_str_eq_nocase(label, wanted) ||
                              lr_str_eq_nocase(without_dynamic(label), wanted));
}

/* The last label among the words of a name, which '-' and '.' part. */
static struct lr_str label_in(struct lr_str name)
{
    size_t end = name.len;
    for (size_t at = name.len; at-- > 0;) {
        bool is_edge = name.ptr[at] == '-' || name.ptr[at] == '.';
        if (!is_edge && at != 0)
            continue;
        size_t from = is_edge ? at + 1 : at;
        struct lr_str word = lr_str_sub(name, from, end);
        if (hub_quant_is(word)) {
            bool is_dynamic = from >= 3 && lr_str_eq_nocase(lr_str_sub(name, from - 3, from),
                                                            LR_STR_LIT("UD-"));
            return lr_str_sub(name, is_dynamic ? from - 3 : from, end);
        }
        end = at;
    }
    return lr_str(NULL, 0);
}

struct lr_str hub_quant_of(struct lr_str name)
{
    while (name.len != 0) {
        size_t slash = name.len;
        while (slash > 0 && name.ptr[slash - 1] != '/')
            slash--;
        struct lr_str label = label_in(lr_str_sub(name, slash, name.len));
        if (label.len != 0 || slash == 0)
            return label;
        name = lr_str_sub(name, 0, slash - 1);
    }
    return lr_str(NULL, 0);
}
