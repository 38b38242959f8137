/* tests/fake_metal/objc.c - the runtime; see fake.h. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/fake_metal/fake.h"

enum { SELECTORS = 256, POOLED = 4096, POOLS = 64, CLASSES = 32 };

struct class_object {
    struct fake_object object;
    const struct fake_class *of;
};

static char *selectors[SELECTORS];
static struct class_object class_objects[CLASSES];
/* Pools belong to a thread. */
static _Thread_local void *pooled[POOLED];
static _Thread_local size_t pooled_count, pool_begin[POOLS], pool_count;
static _Atomic int live;

void fake_abort(const char *format, ...)
{
    va_list list;
    va_start(list, format);
    (void)fprintf(stderr, "fake Metal: ");
    (void)vfprintf(stderr, format, list);
    (void)fprintf(stderr, "\n");
    va_end(list);
    abort();
}

void *sel_registerName(const char *name)
{
    for (size_t i = 0; i < SELECTORS; i++) {
        if (selectors[i] == NULL)
            selectors[i] = strdup(name);
        if (strcmp(selectors[i], name) == 0)
            return selectors[i];
    }
    fake_abort("more than %d selectors", SELECTORS);
}

void *objc_getClass(const char *name)
{
    for (size_t i = 0; fake_classes[i] != NULL && i < CLASSES; i++)
        if (strcmp(fake_classes[i]->name, name) == 0) {
            class_objects[i].of = fake_classes[i];
            return &class_objects[i];
        }
    return NULL;
}

/* ---- references ---- */

void *fake_new(const struct fake_class *class)
{
    struct fake_object *object = calloc(1, class->size);
    if (object == NULL)
        fake_abort("no memory");
    object->class = class;
    object->references = 1;
    live++;
    return object;
}

void *fake_retain(void *object)
{
    ((struct fake_object *)object)->references++;
    return object;
}

void fake_release(void *object)
{
    struct fake_object *o = object;
    int left = --o->references;
    if (left > 0)
        return;
    if (left < 0)
        fake_abort("a %s is released once too often", o->class->name);
    if (o->class->destroy != NULL)
        o->class->destroy(o);
    live--;
    free(o); /* a later use is found by AddressSanitizer */
}

void *fake_autorelease(void *object)
{
    if (pool_count == 0)
        fake_abort("a %s is autoreleased without a pool",
                   ((struct fake_object *)object)->class->name);
    if (pooled_count == POOLED)
        fake_abort("more than %d objects in the pools", POOLED);
    pooled[pooled_count++] = object;
    return object;
}

void *objc_autoreleasePoolPush(void)
{
    if (pool_count == POOLS)
        fake_abort("more than %d pools", POOLS);
    pool_begin[pool_count++] = pooled_count;
    return &pool_begin[pool_count - 1];
}

void objc_autoreleasePoolPop(void *pool)
{
    if (pool_count == 0 || pool != &pool_begin[pool_count - 1])
        fake_abort("pools are not closed in the order in which they were opened");
    size_t begin = pool_begin[--pool_count];
    while (pooled_count > begin)
        fake_release(pooled[--pooled_count]);
}

int fake_metal_live(void)
{
    return live;
}

/* ---- messages ---- */

static void *to_nil(void)
{
    return NULL;
}

static void *retain(void *self)
{
    return fake_retain(self);
}

static void *init(void *self)
{
    return self;
}

static void *alloc(struct class_object *self)
{
    return fake_new(self->of);
}

/* Called by objc_msgSend with its first two arguments. */
__attribute__((used, visibility("hidden"))) fake_method fake_lookup(struct fake_object *self,
                                                                    const char *selector);
fake_method fake_lookup(struct fake_object *self, const char *selector)
{
    if (self == NULL)
        return to_nil;
    const struct class_object *as_class = (const struct class_object *)(void *)self;
    const struct fake_class *class = self->class != NULL ? self->class : as_class->of;
    for (const struct fake_entry *e = class->methods; e != NULL && e->selector != NULL; e++)
        if (strcmp(e->selector, selector) == 0)
            return e->method;
    if (strcmp(selector, "retain") == 0)
        return (fake_method)(void (*)(void))retain;
    if (strcmp(selector, "release") == 0)
        return (fake_method)(void (*)(void))fake_release;
    if (strcmp(selector, "init") == 0)
        return (fake_method)(void (*)(void))init;
    if (strcmp(selector, "alloc") == 0)
        return (fake_method)(void (*)(void))alloc;
    fake_abort("a %s does not understand %s", class->name, selector);
}

/* Keeps the arguments, asks for the method, and jumps there: any method's type fits. */
__asm__(".text\n"
        ".globl objc_msgSend\n"
        ".type objc_msgSend, @function\n"
        "objc_msgSend:\n"
        "    push %rbp\n"
        "    mov %rsp, %rbp\n"
        "    push %rdi\n"
        "    push %rsi\n"
        "    push %rdx\n"
        "    push %rcx\n"
        "    push %r8\n"
        "    push %r9\n"
        "    call fake_lookup\n"
        "    pop %r9\n"
        "    pop %r8\n"
        "    pop %rcx\n"
        "    pop %rdx\n"
        "    pop %rsi\n"
        "    pop %rdi\n"
        "    pop %rbp\n"
        "    jmp *%rax\n"
        ".size objc_msgSend, .-objc_msgSend\n");
