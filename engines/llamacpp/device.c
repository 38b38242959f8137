/* llamacpp/device.c - see device.h. */
#include "engines/llamacpp/device.h"

#include <stdio.h>
#include <string.h>

#include "base/fail.h"
#include "base/os/library.h"

lr_code llamacpp_device_kind(const struct lr_engine_options *o, const char **name,
                             bool *on_device, struct lr_error *err)
{
    *name = o->device_count > 0 ? o->devices[0] : "cpu";
    *on_device = strcmp(*name, "cpu") != 0;
    if (o->device_count > 1)
        return lr_fail(err, LR_UNSUPPORTED,
                       "%u devices were given: this engine runs a model on one",
                       o->device_count);
    if (*on_device && strncmp(*name, "cuda:", 5) != 0 && strncmp(*name, "GPU-", 4) != 0)
        return lr_fail(err, LR_UNSUPPORTED,
                       "device \"%s\": use \"cpu\", \"cuda:N\" or a GPU's UUID", *name);
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

static bool is_named(const struct llamacpp_library *lib, ggml_backend_dev_t device,
                     const char *name)
{
    char own[32];

    if (strncmp(name, "cuda:", 5) == 0) {
        (void)snprintf(own, sizeof(own), "CUDA%s", name + 5);
        return strcmp(lib->ggml_backend_dev_name(device), own) == 0;
    }
    struct ggml_backend_dev_props props = {0};
    lib->ggml_backend_dev_get_props(device, &props);
    return has_uuid(props.device_id, name);
}

lr_code llamacpp_device_find(const struct llamacpp_library *lib, const char *name,
                             ggml_backend_dev_t *out, struct lr_error *err)
{
    size_t gpus = 0;

    *out = NULL;
    if (strcmp(name, "cpu") == 0)
        return LR_OK;
    for (size_t i = 0; i < lib->ggml_backend_dev_count(); i++) {
        ggml_backend_dev_t device = lib->ggml_backend_dev_get(i);
        if (lib->ggml_backend_dev_type(device) != GGML_BACKEND_DEVICE_TYPE_GPU)
            continue;
        gpus++;
        if (is_named(lib, device, name)) {
            *out = device;
            return LR_OK;
        }
    }
    if (gpus == 0) /* a GPU may be added later: says nothing about the model */
        return lr_fail(err, LR_INTERNAL,
                       "device \"%s\": this libllama has no GPU backend, or finds no GPU; put "
                       "one with CUDA beside the engine, or use --device cpu",
                       name);
    return lr_fail(err, LR_INTERNAL, "device \"%s\": none of libllama's %zu GPUs is it", name,
                   gpus);
}
