/* llamacpp/folder.c - compiled into each program of its own, with its own folder. */
#include "engines/llamacpp/library.h"

const char llamacpp_library_folder[] = LLAMACPP_LIBRARY_DIR;
