/* cli/main.c - the program: finds the subcommand and runs it. */
#include <stdio.h>
#include <string.h>

#include "base/os/process.h"
#include "base/service.h"
#include "cli/commands.h"
#include "cli/synonyms.h"

static const char *const *args_of_program;

const char *const *cli_args(void)
{
    return args_of_program;
}

int main(int argc, char **argv)
{
    /* Writing to a closed connection must give EPIPE, not end the process. */
    lr_process_begin(&argc, &argv);
    lr_ignore_broken_pipes();
    lr_service_read();
    args_of_program = (const char *const *)argv;

    struct cli_table table = cli_commands();
    if (argc < 2) {
        struct lr_buf text;
        lr_buf_init(&text, 1 << 20);
        cli_list("llm-router", table, &text);
        (void)fprintf(stderr, "%s", lr_buf_z(&text));
        lr_buf_free(&text);
        return CLI_USAGE;
    }
    const char *const *args = (const char *const *)argv + 1;
    if (strcmp(args[0], "--version") == 0 || strcmp(args[0], "-V") == 0)
        return cli_dispatch("llm-router", table, 1, (const char *const[]){"version", NULL});
    if (strcmp(args[0], "--help") == 0 || strcmp(args[0], "-h") == 0)
        return cli_dispatch("llm-router", table, 1, (const char *const[]){"help", NULL});
    const char *ours[CLI_SYNONYM_ARGS];
    struct lr_error err;
    int count;
    if (cli_synonym(argc - 1, args, ours, &count, &err) != LR_OK) {
        (void)fprintf(stderr, "llm-router: %s\n", err.text);
        return CLI_USAGE;
    }
    return count != 0 ? cli_dispatch("llm-router", table, count, ours)
                      : cli_dispatch("llm-router", table, argc - 1, args);
}
