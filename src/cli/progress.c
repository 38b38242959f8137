#include "cli/progress.h"

#include <string.h>

#include "base/os/fd.h"
#include "base/settings.h"
#include "cli/terminal.h"

enum {
    RATE_MS = 400,         /* between two measurements */
    PLAIN_MS = 10000,      /* between two plain lines of a phase */
    BYTES_LEAST = 1 << 20, /* engines that count steps count less than that */
    BAR_LEAST = 10,
    BAR_MOST = 40,
    NAME_LEAST = 12,
};

void cli_progress_init(struct cli_progress *p, FILE *out)
{
    *p = (struct cli_progress){.out = out, .is_terminal = isatty(fileno(out)) != 0};
}

/* "1 h 20 min", "3 min 5 s", "12 s" */
static void add_time(struct lr_buf *out, double seconds)
{
    unsigned long long s = seconds > 359999 ? 359999 : (unsigned long long)(seconds + 0.5);
    if (s >= 3600)
        lr_buf_addf(out, "%llu h %llu min left", s / 3600, s / 60 % 60);
    else if (s >= 60)
        lr_buf_addf(out, "%llu min %llu s left", s / 60, s % 60);
    else
        lr_buf_addf(out, "%llu s left", s);
}

/* "  42 %  1.2 GiB of 2.9 GiB  35.1 MiB/s  1 min 20 s left" */
static void add_figures(struct lr_buf *out, uint64_t done, uint64_t total, double rate)
{
    char some[32], all[32], speed[32];
    bool are_bytes = total >= BYTES_LEAST;
    if (total == 0)
        return;
    lr_buf_addf(out, "%3u %%", (unsigned)((double)done * 100 / (double)total));
    if (are_bytes) {
        lr_format_size(done, some);
        lr_format_size(total, all);
        lr_buf_addf(out, "  %s of %s", some, all);
    }
    if (rate <= 0 || done >= total)
        return;
    if (are_bytes) {
        lr_format_size((uint64_t)rate, speed);
        lr_buf_addf(out, "  %s/s", speed);
    } else {
        lr_buf_addf(out, "  %.1f %%/s", rate * 100 / (double)total);
    }
    lr_buf_add_z(out, "  ");
    add_time(out, (double)(total - done) / rate);
}

static void add_bar(struct lr_buf *out, uint64_t done, uint64_t total, unsigned columns)
{
    unsigned full = (unsigned)((double)done / (double)total * (columns - 2));
    lr_buf_add_char(out, '[');
    for (unsigned i = 0; i < columns - 2; i++)
        lr_buf_add_char(out, i < full ? '#' : '-');
    lr_buf_add_z(out, "]  ");
}

void cli_progress_write(struct lr_buf *out, const char *name, const char *phase, uint64_t done,
                        uint64_t total, double rate, unsigned columns)
{
    enum { ANY_LENGTH = 400 };
    struct lr_buf figures, line;
    bool is_plain = columns == 0;
    columns = is_plain ? ANY_LENGTH : columns;
    lr_buf_init(&figures, 256);
    lr_buf_init(&line, 4096);
    done = done < total ? done : total;
    add_figures(&figures, done, total, rate);
    /* name, phase, bar, figures, with two blanks between two of them */
    unsigned rest = (unsigned)(strlen(phase) + figures.len) + 6;
    unsigned room = columns > rest ? columns - rest : 0;
    unsigned bar = total == 0 || is_plain || room < NAME_LEAST + BAR_LEAST + 2 ? 0
                   : room / 2 > BAR_MOST                                       ? BAR_MOST
                   : room / 2 < BAR_LEAST                                      ? BAR_LEAST
                                                                               : room / 2;
    unsigned most = room > bar + 2 ? room - bar - 2 : NAME_LEAST;
    size_t len = strlen(name);
    cli_add_cell(&line, name, len < most ? (unsigned)len : most);
    lr_buf_addf(&line, "  %s  ", phase);
    if (bar != 0)
        add_bar(&line, done, total, bar);
    lr_buf_add_str(&line, lr_buf_str(&figures));
    while (line.len != 0 && line.data[line.len - 1] == ' ')
        line.len--;
    /* A terminal that is narrower than all that gets the beginning. */
    struct lr_buf cut;
    lr_buf_init(&cut, 4096);
    cli_add_cell(&cut, lr_buf_z(&line), columns);
    while (cut.len != 0 && cut.data[cut.len - 1] == ' ')
        cut.len--;
    lr_buf_add_str(out, lr_buf_str(&cut));
    lr_buf_free(&cut);
    lr_buf_free(&line);
    lr_buf_free(&figures);
}

/* A new phase begins anew; a rate is measured over at least RATE_MS. */
static void cli_progress_measure(struct cli_progress *p, const char *phase, uint64_t done,
                                 uint64_t now)
{
    bool is_new = strcmp(p->phase, phase) != 0;
    if (is_new || done < p->at) {
        p->rate = 0;
        p->at = done;
        p->at_ms = now;
        return;
    }
    if (now - p->at_ms < RATE_MS)
        return;
    double measured = (double)(done - p->at) * 1000 / (double)(now - p->at_ms);
    p->rate = p->rate > 0 ? p->rate * 0.7 + measured * 0.3 : measured;
    p->at = done;
    p->at_ms = now;
}

static bool is_due(const struct cli_progress *p, const char *phase, unsigned tenths,
                   uint64_t now)
{
    return strcmp(p->phase, phase) != 0 || tenths > p->told || now - p->told_ms >= PLAIN_MS;
}

void cli_progress_put(struct cli_progress *p, const char *name, const char *phase,
                      uint64_t done, uint64_t total, uint64_t now)
{
    struct lr_buf line;
    unsigned tenths = total != 0 ? (unsigned)((double)done / (double)total * 10) : 0;
    unsigned columns = 0;
    cli_progress_measure(p, phase, done, now);
    if (!p->is_terminal && !is_due(p, phase, tenths, now))
        return;
    /* The last column stays free: some terminals begin a new line when it is written. */
    if (p->is_terminal)
        columns = cli_terminal_size(fileno(p->out)).columns - 1;
    lr_buf_init(&line, 4096);
    cli_progress_write(&line, name, phase, done, total, p->rate, columns);
    if (p->is_terminal)
        (void)fprintf(p->out, "\r\033[K%s", lr_buf_z(&line));
    else
        (void)fprintf(p->out, "%s\n", lr_buf_z(&line));
    (void)fflush(p->out);
    lr_buf_free(&line);
    p->has_line = p->is_terminal;
    p->told = tenths;
    p->told_ms = now;
    (void)snprintf(p->phase, sizeof(p->phase), "%s", phase);
}

void cli_progress_end(struct cli_progress *p)
{
    if (p->has_line) {
        (void)fprintf(p->out, "\r\033[K");
        (void)fflush(p->out);
    }
    p->has_line = false;
}
