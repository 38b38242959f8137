/* llamacpp/folder.c - compiled separately into each program, with that program's folder. */
#include "engines/llamacpp/library.h"

const char llamacpp_library_folder[] = LLAMACPP_LIBRARY_DIR;
