/* tests/fake_metal/kernels.c - a text becomes a library, a function, a pipeline; the
 * archive of pipelines; see fake.h. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/fake_metal/classes.h"

/* ---- kernels ---- */

static void options_fast(struct options *self, void *sel, bool is_fast)
{
    (void)sel;
    self->is_precise = !is_fast;
}

static void options_language(struct options *self, void *sel, uint64_t language)
{
    (void)sel;
    self->language = language;
}

const struct fake_class fake_options_class = {
    .name = "MTLCompileOptions",
    .size = sizeof(struct options),
    .methods = (const struct fake_entry[]){METHOD("setFastMathEnabled:", options_fast),
                                           METHOD("setLanguageVersion:", options_language),
                                           END_OF_METHODS}};

static void constants_set(struct constants *self, void *sel, const uint32_t *value,
                          uint64_t type, uint64_t index)
{
    (void)sel;
    if (type != METAL_TYPE_UINT || index >= GPU_CONSTANTS)
        fake_abort("constant %llu of type %llu", (unsigned long long)index,
                   (unsigned long long)type);
    self->values[index] = *value;
}

const struct fake_class fake_constants_class = {
    .name = "MTLFunctionConstantValues",
    .size = sizeof(struct constants),
    .methods = (const struct fake_entry[]){
        METHOD("setConstantValue:type:atIndex:", constants_set), END_OF_METHODS}};

static uint32_t kernel_of(const char *source)
{
    char name[64];
    if (sscanf(source, "// kernel %63[a-z0-9_]\n", name) != 1)
        fake_abort("the text does not name its kernel");
    for (uint32_t i = 0; i < FAKE_PROGRAMS.count; i++)
        if (strcmp(FAKE_PROGRAMS.at[i].name, name) == 0)
            return i;
    if (strcmp(name, "probe") == 0)
        return FAKE_PROBE;
    fake_abort("no kernel %s", name);
}

/* The arguments of main0: "constant X& x [[buffer(8)]], const device Y& y [[buffer(0)]], ..."
 */
static void read_arguments(struct library *out, const char *source)
{
    const char *at = strstr(source, "kernel void main0(");
    if (at == NULL)
        fake_abort("the text has no main0");
    const char *end = strstr(at, ")\n");
    for (at += strlen("kernel void main0("); at != NULL && at < end;) {
        const char *comma = strstr(at, ", "), *mark = strstr(at, "[[buffer(");
        if (mark != NULL && mark < end && (comma == NULL || mark < comma)) {
            int index = atoi(mark + strlen("[[buffer("));
            bool is_push = strncmp(at, "constant ", 9) == 0;
            if (index < 0 || index > FAKE_PUSH_INDEX || is_push != (index == FAKE_PUSH_INDEX) ||
                out->is_bound[index])
                fake_abort("argument %d of kernel %u", index, out->kernel);
            out->is_bound[index] = true;
            out->is_written[index] = strncmp(at, "device ", 7) == 0;
        }
        at = comma != NULL ? comma + 2 : NULL;
    }
}

static void function_destroy(void *self)
{
    fake_release(((struct function *)self)->library);
}

static const struct fake_class function_class = {
    .name = "MTLFunction", .size = sizeof(struct function), .destroy = function_destroy};

static void *library_function(struct library *self, void *sel, struct string *name,
                              struct constants *values, void **error)
{
    (void)sel;
    if (strcmp(name->text, "main0") != 0) {
        *error = fake_error("there is no such function");
        return NULL;
    }
    struct function *made = fake_new(&function_class);
    made->library = fake_retain(self);
    memcpy(made->values, values->values, sizeof(made->values));
    return made;
}

const struct fake_class fake_library_class = {
    .name = "MTLLibrary",
    .size = sizeof(struct library),
    .methods = (const struct fake_entry[]){
        METHOD("newFunctionWithName:constantValues:error:", library_function), END_OF_METHODS}};

static void descriptor_destroy(void *self)
{
    fake_holder_destroy(&((struct descriptor *)self)->function);
    fake_holder_destroy(&((struct descriptor *)self)->archives);
}

static void descriptor_function(struct descriptor *self, void *sel, void *function)
{
    fake_holder_set(&self->function, sel, function);
}

static void descriptor_archives(struct descriptor *self, void *sel, void *archives)
{
    fake_holder_set(&self->archives, sel, archives);
}

const struct fake_class fake_descriptor_class = {
    .name = "MTLComputePipelineDescriptor",
    .size = sizeof(struct descriptor),
    .destroy = descriptor_destroy,
    .methods = (const struct fake_entry[]){METHOD("setComputeFunction:", descriptor_function),
                                           METHOD("setBinaryArchives:", descriptor_archives),
                                           END_OF_METHODS}};

/* ---- the archive: how many pipelines it has ---- */

static bool archive_add(struct archive *self, void *sel, void *descriptor, void **error)
{
    (void)sel;
    (void)descriptor;
    (void)error;
    self->count++;
    return true;
}

static bool archive_save(struct archive *self, void *sel, struct string *url, void **error)
{
    FILE *file = fopen(url->text, "w");
    (void)sel;
    if (file == NULL) {
        *error = fake_error("the file cannot be written");
        return false;
    }
    (void)fprintf(file, "archive %d\n", self->count);
    (void)fclose(file);
    return true;
}

const struct fake_class fake_archive_class = {
    .name = "MTLBinaryArchive",
    .size = sizeof(struct archive),
    .methods = (const struct fake_entry[]){
        METHOD("addComputePipelineFunctionsWithDescriptor:error:", archive_add),
        METHOD("serializeToURL:error:", archive_save), END_OF_METHODS}};

const struct fake_class fake_archive_descriptor_class = {
    .name = "MTLBinaryArchiveDescriptor",
    .size = sizeof(struct holder),
    .destroy = fake_holder_destroy,
    .methods = (const struct fake_entry[]){METHOD("setUrl:", fake_holder_set), END_OF_METHODS}};

/* ---- pipelines and buffers ---- */

static void pipeline_destroy(void *self)
{
    fake_release(((struct pipeline *)self)->library);
}

static uint64_t pipeline_width(struct pipeline *self, void *sel)
{
    (void)self;
    (void)sel;
    return fake_state.vulkan->found.limits.subgroup;
}

static uint64_t pipeline_threads(struct pipeline *self, void *sel)
{
    (void)self;
    (void)sel;
    return fake_state.vulkan->found.limits.threads;
}

const struct fake_class fake_pipeline_class = {
    .name = "MTLComputePipelineState",
    .size = sizeof(struct pipeline),
    .destroy = pipeline_destroy,
    .methods = (const struct fake_entry[]){
        METHOD("threadExecutionWidth", pipeline_width),
        METHOD("maxTotalThreadsPerThreadgroup", pipeline_threads), END_OF_METHODS}};

void fake_read_source(struct library *out, const char *source)
{
    out->kernel = kernel_of(source);
    read_arguments(out, source);
}
