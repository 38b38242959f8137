/* tests/fake_metal/texts.c - strings, addresses of files, errors, arrays; see fake.h.
 */
#include <stdlib.h>
#include <string.h>

#include "tests/fake_metal/classes.h"

static void string_destroy(void *self)
{
    free(((struct string *)self)->text);
}

static const char *string_text(struct string *self, void *sel)
{
    (void)sel;
    return self->text;
}

void *fake_string(const char *text)
{
    struct string *made = fake_new(&fake_string_class);
    made->text = strdup(text);
    return fake_autorelease(made);
}

static void *string_make(void *self, void *sel, const char *text)
{
    (void)self;
    (void)sel;
    return fake_string(text);
}

const struct fake_class fake_string_class = {
    .name = "NSString",
    .size = sizeof(struct string),
    .destroy = string_destroy,
    .methods = (const struct fake_entry[]){METHOD("stringWithUTF8String:", string_make),
                                           METHOD("UTF8String", string_text), END_OF_METHODS}};

static void *url_make(void *self, void *sel, struct string *path)
{
    (void)self;
    (void)sel;
    return fake_string(path->text);
}

const struct fake_class fake_url_class = {
    .name = "NSURL",
    .size = sizeof(struct string),
    .methods =
        (const struct fake_entry[]){METHOD("fileURLWithPath:", url_make), END_OF_METHODS}};

struct error {
    struct fake_object object;
    const char *text;
};

static void *error_description(struct error *self, void *sel)
{
    (void)sel;
    return fake_string(self->text);
}

static const struct fake_class error_class = {
    .name = "NSError",
    .size = sizeof(struct error),
    .methods = (const struct fake_entry[]){METHOD("localizedDescription", error_description),
                                           END_OF_METHODS}};

void *fake_error(const char *text)
{
    struct error *made = fake_new(&error_class);
    made->text = text;
    return fake_autorelease(made);
}

void fake_holder_destroy(void *self)
{
    struct holder *h = self;
    if (h->held != NULL)
        fake_release(h->held);
}

void fake_holder_set(struct holder *self, void *sel, void *held)
{
    (void)sel;
    if (held != NULL)
        fake_retain(held);
    if (self->held != NULL)
        fake_release(self->held);
    self->held = held;
}

static void *array_make(void *self, void *sel, void *held);
const struct fake_class fake_array_class = {
    .name = "NSArray",
    .size = sizeof(struct holder),
    .destroy = fake_holder_destroy,
    .methods =
        (const struct fake_entry[]){METHOD("arrayWithObject:", array_make), END_OF_METHODS}};

static void *array_make(void *self, void *sel, void *held)
{
    struct holder *made = fake_new(&fake_array_class);
    (void)self;
    fake_holder_set(made, sel, held);
    return fake_autorelease(made);
}
