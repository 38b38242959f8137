/* cli/progress.h - how far a download or a load is: a bar in a terminal, plain lines elsewhere.
 *
 * The bar has percent, sizes, rate and the time left, on one line that is written again and
 * again.  Where the output is no terminal, a line is written when the phase changes, and then
 * at every tenth or every ten seconds.  Thread: one. */
#ifndef CLI_PROGRESS_H
#define CLI_PROGRESS_H

#include <stdint.h>
#include <stdio.h>

#include "base/buf.h"

struct cli_progress {
    FILE *out; /* borrowed */
    bool is_terminal;
    bool has_line;    /* the cursor stands behind a bar */
    char phase[48];   /* the phase shown last */
    uint64_t at_ms;   /* of the newest measurement of the rate */
    uint64_t at;      /* done at that time */
    double rate;      /* per second, smoothed; 0: not known */
    uint64_t told_ms; /* when the last plain line was written */
    unsigned told;    /* its tenths */
};

void cli_progress_init(struct cli_progress *p, FILE *out);
/* total 0: how much there is to do is not known.  name and phase are printable texts. */
void cli_progress_put(struct cli_progress *p, const char *name, const char *phase,
                      uint64_t done, uint64_t total, uint64_t now_ms);
/* Removes the bar, so that the next line begins at the left. */
void cli_progress_end(struct cli_progress *p);

/* The text of at most `columns` columns, with a bar; 0: of any length, without a bar.  Without
 * escape sequences.  Pure. */
void cli_progress_write(struct lr_buf *out, const char *name, const char *phase, uint64_t done,
                        uint64_t total, double rate, unsigned columns);

#endif
