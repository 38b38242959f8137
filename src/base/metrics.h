/* base/metrics.h - the Prometheus text format, and the figures of this process that every
 * Prometheus client has under the same names.
 * Thread: any.
 */
#ifndef BASE_METRICS_H
#define BASE_METRICS_H

#include "base/buf.h"

/* The lines # HELP and # TYPE of a metric; its samples must follow at once.  type NULL: nothing
 * is written, because the samples belong to the metric before. */
void lr_metric_head(struct lr_buf *out, const char *prefix, const char *name, const char *type,
                    const char *help);

/* name="value", with quotes, backslashes and line ends of the value escaped. */
void lr_metric_label(struct lr_buf *out, const char *name, const char *value);

/* A number and the end of the line; whole numbers without a fraction. */
void lr_metric_value(struct lr_buf *out, double value);

/* <prefix>build_info, and process_cpu_seconds_total, process_resident_memory_bytes,
 * process_virtual_memory_bytes, process_open_fds, process_max_fds, process_start_time_seconds.
 * A figure that the system does not tell has no sample. */
void lr_metrics_process(struct lr_buf *out, const char *prefix, const char *version);

#endif
