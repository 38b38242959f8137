/* tests/unit/gptoss/kernel_spy.h - a host of the shared GPU backend that runs every launch
 * alone and checks what it wrote.
 *
 * The spy stands between the backend (gpu/) and a real host whose memory is mapped.  A
 * recording is a list of commands; submit() runs them one after the other.  Before a launch,
 * the check of its kernel (kernel_checks.h) writes the expected result into copies of the bound
 * buffers; all other bytes of these buffers must stay as they were.  Header only: each test is
 * one program. */
#ifndef TESTS_GPTOSS_KERNEL_SPY_H
#define TESTS_GPTOSS_KERNEL_SPY_H

#include "tests/unit/gptoss/support.h"

#include <math.h>
#include <stdatomic.h>

#include "engines/gptoss/backend/gpu/gpu.h"

enum { SPY_PIPELINES_MAX = 512, SPY_ROWS_MAX = 512, SPY_BUFFERS_MAX = 2048 };

/* The value that a word of a buffer must have after the launch. */
enum spy_mark {
    SPY_SAME, /* unchanged */
    SPY_FLOAT,
    SPY_WORD,
    SPY_HALVES,
    SPY_ANY, /* the check looks at it itself */
};

struct spy_image {
    struct gpu_buffer *buffer;
    uint32_t *words;
    unsigned char *marks;
    size_t count;
    bool is_marked;
};

struct spy_launch {
    const struct gpu_command *command;
    enum gpu_kernel kernel;
    uint32_t mode;
    struct spy_image images[GPU_SPANS_MAX];
    uint32_t image_count;
};

/* A row of the step that is computed. */
struct spy_row {
    const struct gptoss_step *step;
    uint32_t position, token;
};

struct spy_made {
    const struct gpu_pipeline *pipeline;
    enum gpu_kernel kernel;
    uint32_t mode;
};

static struct {
    const struct gpu_host *real;
    struct gpu_host host;
    struct gpu_device *device;
    struct gptoss_backend *b; /* NULL while it opens: only kernels that need none run */
    struct spy_made made[SPY_PIPELINES_MAX];
    _Atomic uint32_t made_count;
    struct spy_buffer {
        struct gpu_buffer *buffer;
        uint64_t bytes;
        uint32_t *words;      /* of its images; NULL: no launch has bound it */
        unsigned char *marks; /* all SPY_SAME between launches */
    } buffers[SPY_BUFFERS_MAX];
    uint32_t buffer_count;
    uint32_t launches[GPU_KERNEL_COUNT];
    struct spy_row rows[SPY_ROWS_MAX]; /* of the step */
    uint32_t row_count;
    const struct gptoss_step *sampled[SPY_ROWS_MAX];
    uint32_t sampled_count;
    uint32_t submissions, most_commands; /* since the test set them to 0 */
    uint64_t work, most_work;            /* of all submissions, and of one with many commands */
} spy;

static const char *const spy_names[] = {
#define KERNEL(name, file, define, bindings, push) #name,
#include "engines/gptoss/backend/shaders/kernels.def"
};

struct spy_recording {
    struct gpu_command *commands;
    uint32_t count;
};

/* ---- for checks ---- */

static inline const void *spy_data(struct gpu_buffer *buffer)
{
    const void *data = spy.real->mapped(buffer);

    assert_non_null(data);
    return data;
}

static inline struct spy_image *spy_image_of(struct spy_launch *l, struct gpu_buffer *buffer)
{
    for (uint32_t i = 0; i < l->image_count; i++)
        if (l->images[i].buffer == buffer)
            return &l->images[i];
    fail_msg("%s: a buffer that its check expects is not bound", spy_names[l->kernel]);
    return NULL;
}

/* The word of the expected buffer, to be set. */
static inline uint32_t *spy_word(struct spy_launch *l, struct gpu_buffer *buffer, size_t at,
                                 enum spy_mark mark)
{
    struct spy_image *image = spy_image_of(l, buffer);

    assert_true(at < image->count);
    image->marks[at] = (unsigned char)mark;
    image->is_marked = true;
    return &image->words[at];
}

static inline float *spy_float(struct spy_launch *l, struct gpu_buffer *buffer, size_t at)
{
    return (float *)(void *)spy_word(l, buffer, at, SPY_FLOAT);
}

static inline float spy_half(uint32_t bits)
{
    uint32_t exponent = bits >> 10 & 31, fraction = bits & 1023;
    float v = exponent == 0 ? ldexpf((float)fraction, -24)
                            : ldexpf((float)(fraction + 1024), (int)exponent - 25);

    return (bits & 0x8000) != 0 ? -v : v;
}

/* ---- comparing ---- */

/* Errors beside the size of the results. */
struct spy_error {
    double difference, norm, worst;
    size_t count;
};

static inline void spy_add_error(struct spy_error *e, float got, float expected)
{
    double d = fabs((double)got - (double)expected);

    e->difference += d * d;
    e->norm += (double)expected * (double)expected;
    e->worst = d > e->worst || isnan(d) ? (isnan(d) ? INFINITY : d) : e->worst;
    e->count++;
}

static inline void spy_judge(const struct spy_launch *l, const struct spy_error *e, double most)
{
    double size = sqrt(e->norm / (double)(e->count + (e->count == 0))) + 1e-30;

    if (e->count == 0)
        return;
    if (!(sqrt(e->difference / (e->norm + 1e-30)) <= most) || !(e->worst <= 100 * most * size))
        fail_msg("%s in mode %u: relative error %g, worst %g of %g", spy_names[l->kernel],
                 l->mode, sqrt(e->difference / (e->norm + 1e-30)), e->worst, size);
}

static inline void spy_compare(const struct spy_launch *l, const struct spy_image *image)
{
    const uint32_t *got = spy_data(image->buffer);
    struct spy_error floats = {0}, halves = {0};

    if (!image->is_marked && memcmp(got, image->words, image->count * 4) == 0)
        return;
    for (size_t i = 0; i < image->count; i++) {
        enum spy_mark mark = (enum spy_mark)image->marks[i];
        float a, b;
        memcpy(&a, &got[i], 4);
        memcpy(&b, &image->words[i], 4);
        if (mark == SPY_FLOAT) {
            spy_add_error(&floats, a, b);
        } else if (mark == SPY_HALVES) {
            spy_add_error(&halves, spy_half(got[i] & 0xFFFF),
                          spy_half(image->words[i] & 0xFFFF));
            spy_add_error(&halves, spy_half(got[i] >> 16), spy_half(image->words[i] >> 16));
        } else if (mark != SPY_ANY && got[i] != image->words[i]) {
            fail_msg("%s in mode %u: word %zu of a buffer is %08x, expected %08x%s",
                     spy_names[l->kernel], l->mode, i, got[i], image->words[i],
                     mark == SPY_SAME ? ", which was there before" : "");
        }
    }
    spy_judge(l, &floats, 2e-5);
    spy_judge(l, &halves, 1e-3);
}

/* ---- the host ---- */

static inline struct spy_buffer *spy_buffer_of(struct gpu_buffer *buffer)
{
    for (uint32_t i = 0; i < spy.buffer_count; i++)
        if (spy.buffers[i].buffer == buffer)
            return &spy.buffers[i];
    fail_msg("a launch binds a buffer that is not allocated");
    return NULL;
}

/* In kernel_checks.h. */
static void spy_expect(struct spy_launch *l);
static void spy_look(struct spy_launch *l);

static inline void spy_take_images(struct spy_launch *l)
{
    for (uint32_t i = 0; i < l->command->span_count; i++) {
        struct gpu_buffer *buffer = l->command->spans[i].buffer;
        bool known = false;
        for (uint32_t j = 0; j < l->image_count; j++)
            known = known || l->images[j].buffer == buffer;
        if (known)
            continue;
        struct spy_buffer *of = spy_buffer_of(buffer);
        if (of->words == NULL) {
            of->words = malloc(of->bytes);
            of->marks = calloc(of->bytes / 4, 1);
        }
        assert_true(of->words != NULL && of->marks != NULL);
        memcpy(of->words, spy_data(buffer), of->bytes);
        l->images[l->image_count++] = (struct spy_image){
            .buffer = buffer, .words = of->words, .marks = of->marks, .count = of->bytes / 4};
    }
}

static inline void spy_clear_marks(struct spy_launch *l)
{
    for (uint32_t i = 0; i < l->image_count; i++)
        if (l->images[i].is_marked)
            memset(l->images[i].marks, SPY_SAME, l->images[i].count);
}

static inline lr_code spy_run_alone(const struct gpu_command *command, struct lr_error *err)
{
    struct gpu_recording *recording;
    uint64_t ticket = 0;
    lr_code code = spy.real->record(spy.device, command, 1, &recording, err);

    if (code == LR_OK)
        code = spy.real->submit(spy.device, recording, &ticket, err);
    if (code == LR_OK)
        code = spy.real->wait(spy.device, ticket, err);
    spy.real->forget(spy.device, recording);
    return code;
}

static inline lr_code spy_run(const struct gpu_command *command, struct lr_error *err)
{
    struct spy_launch l = {.command = command, .kernel = GPU_KERNEL_COUNT};

    if (command->kind != GPU_LAUNCH)
        return spy_run_alone(command, err);
    for (uint32_t i = 0; i < spy.made_count; i++)
        if (spy.made[i].pipeline == command->pipeline) {
            l.kernel = spy.made[i].kernel;
            l.mode = spy.made[i].mode;
        }
    assert_true(l.kernel != GPU_KERNEL_COUNT);
    spy_take_images(&l);
    spy_expect(&l);
    lr_code code = spy_run_alone(command, err);
    for (uint32_t i = 0; i < l.image_count && code == LR_OK; i++)
        spy_compare(&l, &l.images[i]);
    if (code == LR_OK)
        spy_look(&l);
    spy_clear_marks(&l);
    spy.launches[l.kernel]++;
    return code;
}

static lr_code spy_open(const char *name, const struct gpu_programs *programs,
                        struct gpu_device **out, struct lr_error *err)
{
    lr_code code = spy.real->open(name, programs, out, err);

    spy.device = *out;
    spy.made_count = 0;
    spy.buffer_count = 0;
    return code;
}

static void spy_close(struct gpu_device *d)
{
    for (uint32_t i = 0; i < spy.buffer_count; i++) {
        free(spy.buffers[i].words);
        free(spy.buffers[i].marks);
    }
    spy.buffer_count = 0;
    spy.real->close(d);
}

static lr_code spy_allocate(struct gpu_device *d, uint64_t bytes, enum gpu_place place,
                            struct gpu_buffer **out, struct lr_error *err)
{
    lr_code code = spy.real->allocate(d, bytes, place, out, err);

    assert_true(spy.buffer_count < SPY_BUFFERS_MAX);
    if (code == LR_OK)
        spy.buffers[spy.buffer_count++] =
            (struct spy_buffer){.buffer = *out, .bytes = bytes / 4 * 4};
    return code;
}

static void spy_release(struct gpu_device *d, struct gpu_buffer *buffer)
{
    for (uint32_t i = 0; i < spy.buffer_count; i++)
        if (spy.buffers[i].buffer == buffer) {
            free(spy.buffers[i].words);
            free(spy.buffers[i].marks);
            spy.buffers[i--] = spy.buffers[--spy.buffer_count];
        }
    spy.real->release(d, buffer);
}

static lr_code spy_pipeline(struct gpu_device *d, uint32_t kernel, uint32_t threads,
                            uint32_t mode, struct gpu_pipeline **out, struct lr_error *err)
{
    lr_code code = spy.real->pipeline(d, kernel, threads, mode, out, err);

    if (code == LR_OK) {
        uint32_t i = atomic_fetch_add(&spy.made_count, 1);
        assert_true(i < SPY_PIPELINES_MAX);
        spy.made[i] = (struct spy_made){*out, kernel, mode};
    }
    return code;
}

static lr_code spy_record(struct gpu_device *d, const struct gpu_command *commands,
                          uint32_t count, struct gpu_recording **out, struct lr_error *err)
{
    struct spy_recording *r = calloc(1, sizeof(*r));

    (void)d;
    (void)err;
    assert_non_null(r);
    r->count = count;
    r->commands = calloc(count + 1, sizeof(*commands));
    assert_non_null(r->commands);
    memcpy(r->commands, commands, count * sizeof(*commands));
    *out = (struct gpu_recording *)(void *)r; /* the backend never looks into it */
    return LR_OK;
}

static void spy_forget(struct gpu_device *d, struct gpu_recording *recording)
{
    struct spy_recording *r = (struct spy_recording *)(void *)recording;

    (void)d;
    if (r != NULL)
        free(r->commands);
    free(r);
}

static lr_code spy_submit(struct gpu_device *d, struct gpu_recording *recording,
                          uint64_t *ticket, struct lr_error *err)
{
    const struct spy_recording *r = (const struct spy_recording *)(void *)recording;
    lr_code code = LR_OK;

    (void)d;
    *ticket = ++spy.submissions;
    spy.most_commands = r->count > spy.most_commands ? r->count : spy.most_commands;
    uint64_t work = 0;
    for (uint32_t i = 0; i < r->count; i++)
        work += r->commands[i].work;
    spy.work += work;
    spy.most_work = r->count > 1 && work > spy.most_work ? work : spy.most_work;
    for (uint32_t i = 0; i < r->count && code == LR_OK; i++)
        code = spy_run(&r->commands[i], err);
    return code;
}

static lr_code spy_wait(struct gpu_device *d, uint64_t ticket, struct lr_error *err)
{
    (void)d;
    (void)ticket;
    (void)err;
    return LR_OK;
}

static inline const struct gpu_host *spy_on(const struct gpu_host *real)
{
    memset(&spy, 0, sizeof(spy));
    spy.real = real;
    spy.host = *real;
    spy.host.open = spy_open;
    spy.host.close = spy_close;
    spy.host.allocate = spy_allocate;
    spy.host.release = spy_release;
    spy.host.pipeline = spy_pipeline;
    spy.host.record = spy_record;
    spy.host.forget = spy_forget;
    spy.host.submit = spy_submit;
    spy.host.wait = spy_wait;
    return &spy.host;
}

#endif
