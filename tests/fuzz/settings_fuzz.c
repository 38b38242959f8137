/* LINK: base */
/* A config file of any bytes: accepted, or refused with a message. */
#include <stdint.h>
#include <stdlib.h>

#include "base/settings.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const struct lr_setting rows[] = {
    {.name = "config", .type = LR_SETTING_PATH, .flag_only = true, .help = ""},
    {.name = "listen", .type = LR_SETTING_STRING, .fallback = "x", .help = ""},
    {.name = "threads", .type = LR_SETTING_INT, .min = 1, .max = 64, .help = ""},
    {.name = "ratio", .type = LR_SETTING_FLOAT, .max = 1, .help = ""},
    {.name = "cache", .type = LR_SETTING_SIZE, .help = ""},
    {.name = "wait", .type = LR_SETTING_DURATION, .help = ""},
    {.name = "artifacts", .type = LR_SETTING_BOOL, .help = ""},
    {.name = "level", .type = LR_SETTING_CHOICE, .choices = "a|b", .help = ""},
    {.name = "dir", .type = LR_SETTING_PATH, .help = ""},
    {.name = "hosts", .type = LR_SETTING_LIST, .help = ""},
    {.name = "other", .type = LR_SETTING_INT, .commands = "node", .help = ""},
};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const struct lr_setting_table table = {rows, sizeof(rows) / sizeof(rows[0])};
    struct lr_settings *s;
    struct lr_error err = {0};
    if (lr_settings_create(&table, 1, "router", &s, &err) != LR_OK)
        abort();
    lr_code code = lr_settings_read_text(s, lr_str((const char *)data, size), "f", &err);
    if (code != LR_OK && err.text[0] == '\0')
        abort();
    if (lr_settings_has(s, "threads") &&
        (lr_settings_int(s, "threads") < 1 || lr_settings_int(s, "threads") > 64))
        abort();
    lr_settings_destroy(s);
    return 0;
}
