/* jinja/strftime.c - strftime_now, in English for every locale. */
#include <stdio.h>
#include <time.h>

#include "jinja/builtins.h"

static const char *const days[] = {"Sunday",   "Monday", "Tuesday", "Wednesday",
                                   "Thursday", "Friday", "Saturday"};
static const char *const months[] = {"January",   "February", "March",    "April",
                                     "May",       "June",     "July",     "August",
                                     "September", "October",  "November", "December"};

/* ISO 8601 week and the year it belongs to. */
static void iso_week(const struct tm *t, int *year, int *week)
{
    int weekday = (t->tm_wday + 6) % 7; /* Monday is 0 */
    int w = (t->tm_yday - weekday + 10) / 7;
    int y = t->tm_year + 1900;
    if (w < 1 || w == 53) {
        int first = w < 1 ? y - 1 : y;
        bool leap = (first % 4 == 0 && first % 100 != 0) || first % 400 == 0;
        int jan1 = (t->tm_wday - t->tm_yday % 7 + 7) % 7; /* weekday of 1 January */
        if (w < 1) {
            int before = (jan1 - (leap ? 2 : 1) + 7) % 7; /* of the previous year */
            w = before == 4 || (leap && before == 3) ? 53 : 52;
            y--;
        } else if (!(jan1 == 4 || (leap && jan1 == 3))) {
            w = 1;
            y++;
        }
    }
    *year = y;
    *week = w;
}

static void strftime_put(struct run *run, int width, bool zeros, int n)
{
    char out[32];
    (void)snprintf(out, sizeof(out), zeros ? "%0*d" : "%*d", width, n);
    jinja_write_z(run, out, true);
}

static void strftime_expand(struct run *run, const struct tm *t, const char *format);

static bool put_composite(struct run *run, const struct tm *t, char c)
{
    static const struct {
        char letter;
        const char *format;
    } table[] = {{'D', "%m/%d/%y"}, {'F', "%Y-%m-%d"},    {'R', "%H:%M"},
                 {'T', "%H:%M:%S"}, {'r', "%I:%M:%S %p"}, {'c', "%a %b %e %H:%M:%S %Y"},
                 {'x', "%m/%d/%y"}, {'X', "%H:%M:%S"}};
    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
        if (table[i].letter == c) {
            strftime_expand(run, t, table[i].format);
            return true;
        }
    }
    return false;
}

static bool strftime_put_number(struct run *run, const struct tm *t, char c, bool bare)
{
    int iso_year, week, n;
    int width = 2;
    bool zeros = true;
    iso_week(t, &iso_year, &week);
    int hour = t->tm_hour % 12 == 0 ? 12 : t->tm_hour % 12;
    switch (c) {
    case 'Y':
        n = t->tm_year + 1900;
        width = 1;
        break;
    case 'y':
        n = (t->tm_year + 1900) % 100;
        break;
    case 'C':
        n = (t->tm_year + 1900) / 100;
        break;
    case 'G':
        n = iso_year;
        width = 1;
        break;
    case 'g':
        n = iso_year % 100;
        break;
    case 'm':
        n = t->tm_mon + 1;
        break;
    case 'd':
        n = t->tm_mday;
        break;
    case 'e':
        n = t->tm_mday;
        zeros = false;
        break;
    case 'H':
        n = t->tm_hour;
        break;
    case 'k':
        n = t->tm_hour;
        zeros = false;
        break;
    case 'I':
        n = hour;
        break;
    case 'l':
        n = hour;
        zeros = false;
        break;
    case 'M':
        n = t->tm_min;
        break;
    case 'S':
        n = t->tm_sec;
        break;
    case 'j':
        n = t->tm_yday + 1;
        width = 3;
        break;
    case 'w':
        n = t->tm_wday;
        width = 1;
        break;
    case 'u':
        n = t->tm_wday == 0 ? 7 : t->tm_wday;
        width = 1;
        break;
    case 'U':
        n = (t->tm_yday + 7 - t->tm_wday) / 7;
        break;
    case 'W':
        n = (t->tm_yday + 7 - (t->tm_wday + 6) % 7) / 7;
        break;
    case 'V':
        n = week;
        break;
    case 'f': /* Python's microseconds: the clock here has none */
        n = 0;
        width = 6;
        break;
    default:
        return false;
    }
    strftime_put(run, bare ? 1 : width, zeros, n);
    return true;
}

static bool put_name(struct run *run, const struct tm *t, char c)
{
    char out[4] = {0};
    const char *day = days[t->tm_wday % 7], *month = months[t->tm_mon % 12];
    switch (c) {
    case 'A':
        jinja_write_z(run, day, true);
        return true;
    case 'B':
        jinja_write_z(run, month, true);
        return true;
    case 'a':
        memcpy(out, day, 3);
        break;
    case 'b':
    case 'h':
        memcpy(out, month, 3);
        break;
    case 'p':
        memcpy(out, t->tm_hour < 12 ? "AM" : "PM", 2);
        break;
    case 'P':
        memcpy(out, t->tm_hour < 12 ? "am" : "pm", 2);
        break;
    case 'n':
        out[0] = '\n';
        break;
    case 't':
        out[0] = '\t';
        break;
    case '%':
        out[0] = '%';
        break;
    case 'Z': /* a naive time has no zone */
    case 'z':
        break;
    default:
        return false;
    }
    jinja_write_z(run, out, true);
    return true;
}

static void strftime_expand(struct run *run, const struct tm *t, const char *format)
{
    for (const char *p = format; *p != '\0' && !run->failed; p++) {
        if (*p != '%' || p[1] == '\0') {
            jinja_write(run, lr_str(p, 1), true);
            continue;
        }
        bool bare = p[1] == '-' && p[2] != '\0';
        p += bare ? 2 : 1;
        if (strftime_put_number(run, t, *p, bare) || put_name(run, t, *p) ||
            put_composite(run, t, *p))
            continue;
        char unknown[3] = {'%', *p, '\0'};
        jinja_write_z(run, unknown, true);
    }
}

struct value jinja_strftime(struct run *run, struct text *format)
{
    struct tm now;
    if (run->input->now != NULL) {
        now = *run->input->now;
    } else {
        time_t seconds = time(NULL);
        if (localtime_r(&seconds, &now) == NULL)
            return jinja_error(run, "the local time is not known");
    }
    char *copy = jinja_alloc(run, format->len + 1);
    if (copy == NULL)
        return V_FAIL;
    memcpy(copy, format->ptr, format->len);
    copy[format->len] = '\0';
    struct mark mark = jinja_mark(run);
    strftime_expand(run, &now, copy);
    struct text *t = jinja_take(run, mark);
    /* The date is trusted, but a format that comes from a message is not. */
    if (t != NULL && format->trust != TRUSTED)
        t->trust = UNTRUSTED;
    return value_text(t);
}

static bool digits(struct lr_str s, size_t at, size_t count, int *out)
{
    *out = 0;
    for (size_t i = at; i < at + count; i++) {
        if (i >= s.len || s.ptr[i] < '0' || s.ptr[i] > '9')
            return false;
        *out = *out * 10 + (s.ptr[i] - '0');
    }
    return true;
}

lr_code jinja_parse_time(struct lr_str iso, struct tm *out, struct lr_error *err)
{
    int year, month, day, hour = 0, minute = 0, second = 0;
    bool ok =
        (iso.len == 10 || (iso.len >= 19 && (iso.ptr[10] == 'T' || iso.ptr[10] == ' '))) &&
        digits(iso, 0, 4, &year) && iso.ptr[4] == '-' && digits(iso, 5, 2, &month) &&
        iso.ptr[7] == '-' && digits(iso, 8, 2, &day) && month >= 1 && month <= 12 && day >= 1 &&
        day <= 31;
    if (ok && iso.len >= 19)
        ok = digits(iso, 11, 2, &hour) && iso.ptr[13] == ':' && digits(iso, 14, 2, &minute) &&
             iso.ptr[16] == ':' && digits(iso, 17, 2, &second) && hour < 24 && minute < 60 &&
             second < 61;
    if (!ok)
        return lr_fail(err, LR_INVALID_ARGUMENT,
                       "\"" LR_STR_FMT "\" is not a time like 2026-11-15T09:30:05",
                       LR_STR_ARG(lr_str_sub(iso, 0, 60)));
    *out = (struct tm){.tm_year = year - 1900,
                       .tm_mon = month - 1,
                       .tm_mday = day,
                       .tm_hour = hour,
                       .tm_min = minute,
                       .tm_sec = second};
    struct tm normal = *out;
    (void)timegm(&normal); /* the day of the week and of the year */
    out->tm_wday = normal.tm_wday;
    out->tm_yday = normal.tm_yday;
    return LR_OK;
}
