/* A folder whose sources do not exist yet is still a library. */
typedef int lr_translation_unit_is_not_empty;
