#include "base/metrics.h"

#include <math.h>

#include "base/os/process.h"

void lr_metric_head(struct lr_buf *out, const char *prefix, const char *name, const char *type,
                    const char *help)
{
    if (type != NULL)
        lr_buf_addf(out, "# HELP %s%s %s\n# TYPE %s%s %s\n", prefix, name, help, prefix, name,
                    type);
}

void lr_metric_label(struct lr_buf *out, const char *name, const char *value)
{
    lr_buf_addf(out, "%s=\"", name);
    for (; *value != '\0'; value++) {
        if (*value == '"' || *value == '\\')
            lr_buf_add_char(out, '\\');
        lr_buf_add_char(out, *value == '\n' ? ' ' : *value);
    }
    lr_buf_add_char(out, '"');
}

void lr_metric_value(struct lr_buf *out, double value)
{
    lr_buf_addf(out, value == floor(value) ? " %.0f\n" : " %.6f\n", value);
}

/* ---- this process ---- */

void lr_metrics_process(struct lr_buf *out, const char *prefix, const char *version)
{
    struct lr_process_figures f;
    lr_process_figures(&f);
    lr_metric_head(out, prefix, "build_info", "gauge", "1, with the version of the program");
    lr_buf_addf(out, "%sbuild_info{", prefix);
    lr_metric_label(out, "version", version);
    lr_buf_add_z(out, "} 1\n");
    const struct {
        const char *name, *type, *help;
        double value;
    } rows[] = {
        {"cpu_seconds_total", "counter", "Processor time of the process", f.cpu_s},
        {"resident_memory_bytes", "gauge", "Memory of the process that is in RAM",
         f.resident_bytes},
        {"virtual_memory_bytes", "gauge", "Address space of the process", f.virtual_bytes},
        {"open_fds", "gauge", "Open file descriptors", f.open_fds},
        {"max_fds", "gauge", "Limit of open file descriptors", f.max_fds},
        {"start_time_seconds", "gauge", "Start of the process, in seconds since 1970",
         f.start_s},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        lr_metric_head(out, "process_", rows[i].name, rows[i].type, rows[i].help);
        if (rows[i].value < 0)
            continue;
        lr_buf_addf(out, "process_%s", rows[i].name);
        lr_metric_value(out, rows[i].value);
    }
}
