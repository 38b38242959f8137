/* jinja/format.h - one number or text, padded and signed; shared by % and format(). */
#ifndef JINJA_FORMAT_H
#define JINJA_FORMAT_H

#include "jinja/run.h"

struct format_spec {
    struct lr_str fill; /* one character; empty: a blank */
    char align;         /* '<' '>' '^' '=' or 0 */
    char sign;          /* '+' ' ' or 0 */
    bool alternate, zero;
    char group; /* ',' '_' or 0 */
    int64_t width;
    int64_t precision; /* -1: not given */
    char type;         /* 0: not given */
};

/* Write to the sink; false when the run failed. */
bool jinja_format_int(struct run *run, const struct format_spec *spec, int64_t i, bool trusted);
bool jinja_format_float(struct run *run, const struct format_spec *spec, double d,
                        bool trusted);
bool jinja_format_text(struct run *run, const struct format_spec *spec, struct text *t);

#endif
