/* llama_oracle: the vectors of texts, by a plain loop over llama.h, for tests of whole servers.
 *
 *   llama_oracle MODEL.gguf embed TEXT...            a line of numbers for each text
 *   llama_oracle MODEL.gguf rerank QUERY DOCUMENT... a score for each document
 */
#include <stdio.h>

#include "tests/unit/llamacpp/oracle.h"

static void print(const float *values, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        (void)printf("%s%.9g", i == 0 ? "[" : ",", (double)values[i]);
    (void)printf("]\n");
}

int main(int argc, char **argv)
{
    struct oracle o;
    struct lr_error err = {0};
    float values[ORACLE_VALUES];
    if (argc < 4 || !oracle_open(argv[1], &o, &err)) {
        (void)fprintf(stderr, "usage: llama_oracle MODEL embed|rerank TEXT... %s\n", err.text);
        return 2;
    }
    bool ranks = strcmp(argv[2], "rerank") == 0;
    for (int i = ranks ? 4 : 3; i < argc; i++) {
        if (ranks)
            oracle_pair(&o, argv[3], argv[i]);
        else
            oracle_text(&o, argv[i]);
        uint32_t count = oracle_compute(&o, ranks, values);
        if (count == 0)
            return 1;
        if (ranks)
            values[0] = oracle_score(values[0]);
        else
            oracle_scale(values, count);
        print(values, count);
    }
    oracle_close(&o);
    return 0;
}
