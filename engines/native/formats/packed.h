/* native/formats/packed.h - a quantized matrix as its file stores it.
 *
 * One struct for every weight format: where the codes lie, how many bits each has, and which
 * scale, zero point and shift belong to it.  A format's reader fills it from the tensors; the
 * kernels (cpu/dense.h) and the tests read values through unpack.h.  Nothing is copied: the
 * codes stay as the file has them.
 *
 * The value of row r and column c is
 *   INT:          (code - zero) * scale + shift
 *   E4M3, E2M1:   number(code) * scale
 *   TABLE:        table[code] * scale
 * with each step rounded to float32.
 */
#ifndef NATIVE_FORMATS_PACKED_H
#define NATIVE_FORMATS_PACKED_H

#include <stdbool.h>
#include <stdint.h>

enum native_code {
    NATIVE_CODE_INT,
    NATIVE_CODE_SIGNED,
    NATIVE_CODE_E4M3,
    NATIVE_CODE_E2M1,
    NATIVE_CODE_TABLE
};

/* How the codes of a matrix, or its zero points, follow each other. */
enum native_order {
    NATIVE_ALONG_ROWS,    /* each row is a stream of bits, the lowest bit first */
    NATIVE_ALONG_COLUMNS, /* the same for each column, in words of 32 bits: GPTQ */
    NATIVE_AWQ_WORDS,     /* stored by columns, eight rows a word in the order of AWQ */
    NATIVE_FLAT,          /* one stream over all rows, the high half of a byte first */
    NATIVE_BYTES,         /* zero points: a byte each, [rows][groups] */
    NATIVE_NO_CODES,
};

enum native_scale {
    NATIVE_SCALE_BF16,
    NATIVE_SCALE_F16,
    NATIVE_SCALE_F32,
    NATIVE_SCALE_E4M3,
    NATIVE_SCALE_E8M0,
    NATIVE_SCALE_NESTED
};

struct native_packed {
    const char *format;   /* for messages and the log: "FP8, one scale for 128 x 128" */
    const uint8_t *codes; /* borrowed from the mapping */
    uint64_t code_stride; /* bytes from one stored row to the next */
    uint64_t code_bytes;  /* of this matrix */
    uint64_t bytes;       /* the same with scales, zero points and shifts */
    uint32_t rows, columns;
    uint8_t code;  /* enum native_code */
    uint8_t bits;  /* of a code */
    uint8_t order; /* enum native_order */

    /* Scale of (r, c): number (r / rows_each) * row_step + (c / columns_each) * column_step. */
    uint8_t scale;         /* enum native_scale */
    const uint8_t *scales; /* borrowed */
    const uint8_t *shifts; /* borrowed; of the scales' type and places; NULL: none */
    uint32_t rows_each, columns_each;
    uint64_t row_step, column_step;
    uint64_t scale_count; /* that are stored for the matrix */
    float global;         /* factor of each scale */
    bool divides;         /* by global */
    bool no_nan;          /* E4M3: no code is NaN's; false: not known */
    bool large_scales;    /* one is 128 or more: see LANES_E4M3 in cpu/lanes.h */

    /* Zero points: stored + zero, or only `zero`. */
    uint8_t zero_order;   /* enum native_order; NO_CODES: none stored */
    const uint8_t *zeros; /* borrowed; groups x rows for ALONG_ROWS, else as zero_order says */
    uint64_t zero_stride; /* bytes from one stored row of zero points to the next */
    bool zeros_signed;    /* bytes, [rows][groups] */
    int32_t zero;

    const uint8_t *groups; /* borrowed: int32 group of each column; NULL: columns in order */

    /* TABLE, and scales that are codes themselves (NESTED: float32 of 256 codes times a
     * float32 of 256 scales, plus an offset). */
    const float *table;           /* owned by the arena */
    const float *nested_table;    /* the same */
    const uint8_t *nested_scales; /* borrowed */
    float nested_offset;
};

/* Columns from .. from + n - 1 of a row, as float32 (packed.c). */
void native_packed_row(const struct native_packed *p, uint32_t row, uint32_t from, uint32_t n,
                       float *out);

#endif
