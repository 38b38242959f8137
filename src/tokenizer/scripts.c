/* tokenizer/scripts.c - the script of every character, for UnicodeScripts: PCRE2 knows it. */
#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>
#include <stdlib.h>

#include "base/utf8.h"
#include "tokenizer/pattern.h"
#include "tokenizer/scan.h"
#include "tokenizer/split.h"

/* The reference's scripts; a character of any other one has none. */
static const char *const script_names[] = {
    "Adlam",
    "Ahom",
    "Anatolian_Hieroglyphs",
    "Arabic",
    "Armenian",
    "Avestan",
    "Balinese",
    "Bamum",
    "Bassa_Vah",
    "Batak",
    "Bengali",
    "Bhaiksuki",
    "Bopomofo",
    "Brahmi",
    "Braille",
    "Buginese",
    "Buhid",
    "Canadian_Aboriginal",
    "Carian",
    "Caucasian_Albanian",
    "Chakma",
    "Cham",
    "Cherokee",
    "Common",
    "Coptic",
    "Cuneiform",
    "Cypriot",
    "Cyrillic",
    "Deseret",
    "Devanagari",
    "Duployan",
    "Egyptian_Hieroglyphs",
    "Elbasan",
    "Ethiopic",
    "Georgian",
    "Glagolitic",
    "Gothic",
    "Grantha",
    "Greek",
    "Gujarati",
    "Gurmukhi",
    "Han",
    "Hangul",
    "Hanunoo",
    "Hatran",
    "Hebrew",
    "Imperial_Aramaic",
    "Inherited",
    "Inscriptional_Pahlavi",
    "Inscriptional_Parthian",
    "Javanese",
    "Kaithi",
    "Kannada",
    "Kayah_Li",
    "Kharoshthi",
    "Khmer",
    "Khojki",
    "Khudawadi",
    "Lao",
    "Latin",
    "Lepcha",
    "Limbu",
    "Linear_A",
    "Linear_B",
    "Lisu",
    "Lycian",
    "Lydian",
    "Mahajani",
    "Malayalam",
    "Mandaic",
    "Manichaean",
    "Marchen",
    "Meetei_Mayek",
    "Mende_Kikakui",
    "Meroitic_Cursive",
    "Meroitic_Hieroglyphs",
    "Miao",
    "Modi",
    "Mongolian",
    "Mro",
    "Multani",
    "Myanmar",
    "Nabataean",
    "New_Tai_Lue",
    "Newa",
    "Nko",
    "Ogham",
    "Ol_Chiki",
    "Old_Hungarian",
    "Old_Italic",
    "Old_North_Arabian",
    "Old_Permic",
    "Old_Persian",
    "Old_South_Arabian",
    "Old_Turkic",
    "Oriya",
    "Osage",
    "Osmanya",
    "Pahawh_Hmong",
    "Palmyrene",
    "Pau_Cin_Hau",
    "Phags_Pa",
    "Phoenician",
    "Psalter_Pahlavi",
    "Rejang",
    "Runic",
    "Samaritan",
    "Saurashtra",
    "Sharada",
    "Shavian",
    "Siddham",
    "SignWriting",
    "Sinhala",
    "Sora_Sompeng",
    "Sundanese",
    "Syloti_Nagri",
    "Syriac",
    "Tagalog",
    "Tagbanwa",
    "Tai_Le",
    "Tai_Tham",
    "Tai_Viet",
    "Takri",
    "Tamil",
    "Tangut",
    "Telugu",
    "Thaana",
    "Thai",
    "Tibetan",
    "Tifinagh",
    "Tirhuta",
    "Ugaritic",
    "Vai",
    "Warang_Citi",
    "Yi",
};

bool tokenizer_is_script(struct lr_str name)
{
    for (size_t i = 0; i < sizeof(script_names) / sizeof(script_names[0]); i++)
        if (lr_str_eq_z(name, script_names[i]))
            return true;
    return lr_str_eq_z(name, "Hiragana") || lr_str_eq_z(name, "Katakana");
}

enum { SCRIPT_CHARACTERS = 0x110000 };

/* Marks the runs of characters that the pattern finds. */
static bool mark_scripts(pcre2_code *code, const char *room, size_t len, const uint32_t *starts,
                         uint32_t last, unsigned char *of)
{
    pcre2_match_data *data = pcre2_match_data_create_from_pattern(code, NULL);
    if (data == NULL)
        return false;
    size_t at = 0;
    uint32_t c = 0;
    while (pcre2_match(code, (PCRE2_SPTR)room, len, at, PCRE2_NO_UTF_CHECK, data, NULL) > 0) {
        const PCRE2_SIZE *found = pcre2_get_ovector_pointer(data);
        unsigned group = 1;
        while (found[2 * group] == PCRE2_UNSET)
            group++;
        while (starts[c] < found[0])
            c++;
        for (; c < last && starts[c] < found[1]; c++)
            of[c] = (unsigned char)group;
        at = found[1];
    }
    pcre2_match_data_free(data);
    return true;
}

lr_code tokenizer_scripts(bool kana_is_han, unsigned char **out, struct lr_error *err)
{
    enum { LAST = SCAN_PLANES, PATTERN_BYTES = 16 << 10 };
    struct lr_buf pattern;
    void *code = NULL;
    *out = NULL;
    lr_buf_init(&pattern, PATTERN_BYTES);
    for (size_t i = 0; i < sizeof(script_names) / sizeof(script_names[0]); i++)
        if (kana_is_han && strcmp(script_names[i], "Han") == 0)
            lr_buf_add_z(&pattern, "|([\\p{sc:Han}\\p{sc:Hiragana}\\p{sc:Katakana}]+)");
        else
            lr_buf_addf(&pattern, "%s(\\p{sc:%s}+)", i == 0 ? "" : "|", script_names[i]);
    lr_code rc = pattern.failed
                     ? lr_fail(err, LR_OUT_OF_RAM, "no memory for the scripts")
                     : tokenizer_pattern_compile(lr_buf_str(&pattern), 0,
                                                 "the pattern of scripts", &code, err);
    lr_buf_free(&pattern);
    if (rc != LR_OK)
        return rc;
    unsigned char *of = calloc(SCRIPT_CHARACTERS, 1);
    char *room = malloc((size_t)LAST * 4);
    uint32_t *starts = malloc((size_t)LAST * sizeof(*starts));
    bool good = of != NULL && room != NULL && starts != NULL;
    size_t len = 0;
    for (uint32_t c = 0; good && c < LAST; c++) {
        starts[c] = (uint32_t)len;
        if (c < 0xD800 || c > 0xDFFF)
            len += lr_utf8_encode(c, room + len);
    }
    good = good && mark_scripts(code, room, len, starts, LAST, of);
    pcre2_code_free(code);
    free(room);
    free(starts);
    if (!good) {
        free(of);
        return lr_fail(err, LR_OUT_OF_RAM, "no memory for the table of scripts");
    }
    if (kana_is_han) {
        of[' '] = 0;
        of[0x30FC] = of[0x4E00]; /* the sound mark of kana has no script of its own */
    }
    *out = of;
    return LR_OK;
}
