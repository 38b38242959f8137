/* llamacpp/device.c - see device.h. */
#include "engines/llamacpp/device.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fail.h"
#include "base/os/library.h"

/* The backend of libllama for a name; NULL: the name is none of ours. */
static const char *backend_of(const char *name)
{
    static const char *const kinds[] = {"cuda", "vulkan", "metal"};
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        size_t len = strlen(kinds[i]);
        if (strncmp(name, kinds[i], len) == 0 &&
            (name[len] == '\0' || (name[len] == ':' && name[0] != 'm')))
            return kinds[i];
    }
    return strncmp(name, "GPU-", 4) == 0 ? "cuda" : NULL;
}

lr_code llamacpp_device_kind(const struct lr_engine_options *o, const char **name,
                             bool *on_device, struct lr_error *err)
{
    *name = o->device_count > 0 ? o->devices[0] : "cpu";
    *on_device = strcmp(*name, "cpu") != 0;
    if (o->device_count > 1)
        return lr_fail(err, LR_UNSUPPORTED,
                       "%u devices were given: this engine runs a model on one",
                       o->device_count);
    if (*on_device && backend_of(*name) == NULL)
        return lr_fail(err, LR_UNSUPPORTED,
                       "device \"%s\": use \"cpu\", \"cuda:N\", a GPU's UUID, \"vulkan:N\" or "
                       "\"metal\"",
                       *name);
    return LR_OK;
}

/* libllama identifies a GPU by its PCI address, the host by its UUID; the driver knows both. */
static bool has_uuid(const char *pci_address, const char *uuid)
{
    void *driver = lr_library_open_known(LR_LIBRARY_CUDA);
    int (*init)(unsigned);
    int (*by_address)(int *, const char *);
    int (*get_uuid)(unsigned char *, int);
    unsigned char bytes[16];
    char text[64] = "GPU-";
    size_t at = 4;
    int device;

    if (driver == NULL || pci_address == NULL)
        return false;
    void *symbols[] = {lr_library_symbol(driver, "cuInit"),
                       lr_library_symbol(driver, "cuDeviceGetByPCIBusId"),
                       lr_library_symbol(driver, "cuDeviceGetUuid_v2")};
    if (symbols[0] == NULL || symbols[1] == NULL || symbols[2] == NULL)
        return false;
    memcpy(&init, &symbols[0], sizeof(init));
    memcpy(&by_address, &symbols[1], sizeof(by_address));
    memcpy(&get_uuid, &symbols[2], sizeof(get_uuid));
    if (init(0) != 0 || by_address(&device, pci_address) != 0 || get_uuid(bytes, device) != 0)
        return false;
    for (int i = 0; i < 16; i++)
        at += (size_t)snprintf(text + at, sizeof(text) - at, "%s%02x",
                               i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "", bytes[i]);
    return strcmp(text, uuid) == 0;
}

/* Vulkan has only the one device that was chosen before its backend was loaded. */
static bool llamacpp_device_is_named(const struct llamacpp_library *lib,
                                     ggml_backend_dev_t device, const char *name)
{
    const char *own = lib->ggml_backend_dev_name(device), *colon = strchr(name, ':');
    char wanted[32];

    if (strncmp(name, "GPU-", 4) == 0) {
        struct ggml_backend_dev_props props = {0};
        lib->ggml_backend_dev_get_props(device, &props);
        return has_uuid(props.device_id, name);
    }
    if (strcmp(name, "metal") == 0)
        return strncmp(own, "MTL", 3) == 0 || strncmp(own, "Metal", 5) == 0;
    if (strncmp(name, "vulkan", 6) == 0)
        return strcmp(own, "Vulkan0") == 0;
    (void)snprintf(wanted, sizeof(wanted), "CUDA%s", colon != NULL ? colon + 1 : "0");
    return strcmp(own, wanted) == 0;
}

/* libllama leaves out Vulkan devices that compute on the processor, and counts the others; with
 * this variable it takes exactly the device that Vulkan lists at this place. */
static lr_code choose_vulkan(const char *name, struct lr_error *err)
{
    static char chosen[16];
    const char *colon = strchr(name, ':'), *number = colon != NULL ? colon + 1 : "0";

    if (number[0] == '\0' || strlen(number) > 4 ||
        strspn(number, "0123456789") != strlen(number))
        return lr_fail(err, LR_UNSUPPORTED, "device \"%s\": use \"vulkan:N\" with a number",
                       name);
    if (chosen[0] != '\0' && strcmp(chosen, number) != 0)
        return lr_fail(err, LR_INTERNAL,
                       "device \"%s\": this process uses \"vulkan:%s\" already", name, chosen);
    (void)snprintf(chosen, sizeof(chosen), "%s", number);
    return setenv("GGML_VK_VISIBLE_DEVICES", number, 1) == 0
               ? LR_OK
               : lr_fail(err, LR_OUT_OF_RAM, "no memory for the name of a device");
}

static bool is_gpu(const struct llamacpp_library *lib, ggml_backend_dev_t device)
{
    enum ggml_backend_dev_type type = lib->ggml_backend_dev_type(device);

    return type == GGML_BACKEND_DEVICE_TYPE_GPU || type == GGML_BACKEND_DEVICE_TYPE_IGPU;
}

lr_code llamacpp_device_find(const struct llamacpp_library *lib, const char *name,
                             ggml_backend_dev_t *out, struct lr_error *err)
{
    char all[200] = "";
    size_t at = 0;
    lr_code code = LR_OK;

    *out = NULL;
    if (strcmp(name, "cpu") == 0)
        return LR_OK;
    if (strncmp(name, "vulkan", 6) == 0)
        code = choose_vulkan(name, err);
    if (code == LR_OK)
        code = llamacpp_library_load_backend(lib, backend_of(name), err);
    for (size_t i = 0; code == LR_OK && i < lib->ggml_backend_dev_count(); i++) {
        ggml_backend_dev_t device = lib->ggml_backend_dev_get(i);
        if (!is_gpu(lib, device))
            continue;
        if (llamacpp_device_is_named(lib, device, name)) {
            *out = device;
            return LR_OK;
        }
        if (at < sizeof(all))
            at += (size_t)snprintf(all + at, sizeof(all) - at, "%s%s", at != 0 ? ", " : "",
                                   lib->ggml_backend_dev_name(device));
    }
    if (code != LR_OK)
        return code;
    /* A GPU may be added later: this says nothing about the model. */
    return lr_fail(err, LR_INTERNAL,
                   "device \"%s\": libllama does not find it, only %s: look at llm-router "
                   "doctor, or use another --device",
                   name, all[0] != '\0' ? all : "the processor");
}
