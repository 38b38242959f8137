/* Answers that are not JSON: regular expressions, choices and grammars in GBNF. */
#include "base/json.h"
#include "grammar_test.h"

/* The program of a plain answer; NULL when it is refused. */
static struct grammar_program *compile(const char *answer, const char *value,
                                       struct lr_error *err)
{
    struct lr_json_writer w;
    struct lr_buf text;
    lr_buf_init(&text, 4 << 20);
    lr_json_writer_init(&w, &text);
    lr_json_begin_object(&w);
    lr_json_member_z(&w, "format", "plain");
    lr_json_member_z(&w, "answer", answer);
    lr_json_member_z(&w, answer, value);
    lr_json_end_object(&w);
    struct grammar_program *program = compile_text(lr_buf_z(&text), err);
    lr_buf_free(&text);
    return program;
}

enum { TEXTS_MAX = 12 };

struct texts {
    const char *value;
    const char *good[TEXTS_MAX];
    const char *bad[TEXTS_MAX];
};

static void check_texts(const char *answer, const struct texts *list, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const struct texts *t = &list[i];
        struct lr_error err = {0};
        struct grammar_program *program = compile(answer, t->value, &err);
        if (program == NULL)
            fail_msg("%s: %s", t->value, err.text);
        for (size_t k = 0; k < TEXTS_MAX && t->good[k] != NULL; k++)
            if (!takes(program, lr_str_z(t->good[k])))
                fail_msg("%s does not take \"%s\"", t->value, t->good[k]);
        for (size_t k = 0; k < TEXTS_MAX && t->bad[k] != NULL; k++)
            if (takes(program, lr_str_z(t->bad[k])))
                fail_msg("%s takes \"%s\"", t->value, t->bad[k]);
        grammar_program_free(program);
    }
}

struct refusal {
    const char *value;
    const char *why;
};

static void check_refused(const char *answer, const struct refusal *list, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        struct lr_error err = {0};
        struct grammar_program *program = compile(answer, list[i].value, &err);
        if (program != NULL)
            fail_msg("%s is not refused", list[i].value);
        if (strstr(err.text, list[i].why) == NULL)
            fail_msg("%s: %s", list[i].value, err.text);
    }
}

#define COUNT(list) (sizeof(list) / sizeof((list)[0]))

/* ---- regular expressions ---- */

static void a_regular_expression_matches_the_whole_text(void **state)
{
    static const struct texts list[] = {
        {"[ab]+", {"a", "ab", "bbb"}, {"", "c", "ac", "xa", "a "}},
        {"^[ab]+$", {"a", "ab"}, {"", "ac"}},
        {"a|bc", {"a", "bc"}, {"ab", "abc", "b", "ac", ""}},
        {"\\d{3}-\\d{4}", {"555-1234"}, {"555-123", "x555-1234", "555-12345"}},
        {"(yes|no)?", {"", "yes", "no"}, {"y", "yesno", "maybe"}},
        {"^(?!ab)[a-c]*$", {"", "a", "ba", "ca"}, {"ab", "abc"}},
        {".*", {"", "anything \xe6\x97\xa5", "{\"a\"}"}, {"a\nb"}},
        {"[\xc3\xa0-\xc3\xa9]", {"\xc3\xa9"}, {"\xc3\xaa", "e", "\xc3"}},
        {"\\w+@\\w+\\.(com|org)", {"me@example.org"}, {"me@example.net", "@a.com"}},
    };
    (void)state;
    check_texts("regex", list, COUNT(list));
}

static void a_regular_expression_that_cannot_be_followed_is_refused(void **state)
{
    static const struct refusal list[] = {
        {"(a", "( without a )"},
        {"(a)\\1", "reference to a group"},
        {"\\bx", "word boundary"},
        {"a{3,2}", "m below n"},
        {"a$b", "no text matches"},
        {"[\\uD800-\\uDBFF]", "no text matches"},
        {"(a|b)*a(a|b){15}", "more than 16384 states"},
    };
    (void)state;
    check_refused("regex", list, COUNT(list));
}

/* ---- choices ---- */

static void an_answer_is_one_of_the_choices(void **state)
{
    static const char constraint[] =
        "{\"format\":\"plain\",\"answer\":\"choice\",\"choice\":[\"yes\",\"no\",\"not "
        "sure\",\"no\",\"\xe6\x97\xa5\",\"\"]}";
    static const char *const good[] = {"yes", "no", "not sure", "\xe6\x97\xa5", ""};
    static const char *const bad[] = {"y", "not", "yes ", "yesno", " no", "\xe6\x97"};
    struct lr_error err = {0};
    (void)state;
    struct grammar_program *program = compile_text(constraint, &err);
    assert_non_null(program);
    for (size_t i = 0; i < COUNT(good); i++)
        if (!takes(program, lr_str_z(good[i])))
            fail_msg("%s is not taken", good[i]);
    for (size_t i = 0; i < COUNT(bad); i++)
        if (takes(program, lr_str_z(bad[i])))
            fail_msg("%s is taken", bad[i]);
    grammar_program_free(program);
    assert_null(
        compile_text("{\"format\":\"plain\",\"answer\":\"choice\",\"choice\":[]}", &err));
    assert_non_null(strstr(err.text, "empty"));
    assert_null(
        compile_text("{\"format\":\"plain\",\"answer\":\"choice\",\"choice\":[1]}", &err));
    assert_null(compile_text("{\"format\":\"plain\",\"answer\":\"choice\"}", &err));
}

/* ---- grammars ---- */

#define JSON_GRAMMAR                                                                           \
    "root   ::= object\n"                                                                      \
    "value  ::= object | array | string | number | (\"true\" | \"false\" | \"null\") ws\n"     \
    "\n"                                                                                       \
    "object ::=\n"                                                                             \
    "  \"{\" ws (\n"                                                                           \
    "            string \":\" ws value\n"                                                      \
    "    (\",\" ws string \":\" ws value)*\n"                                                  \
    "  )? \"}\" ws\n"                                                                          \
    "array  ::=\n"                                                                             \
    "  \"[\" ws (\n"                                                                           \
    "            value\n"                                                                      \
    "    (\",\" ws value)*\n"                                                                  \
    "  )? \"]\" ws\n"                                                                          \
    "string ::=\n"                                                                             \
    "  \"\\\"\" (\n"                                                                           \
    "    [^\"\\\\\\x7F\\x00-\\x1F] |\n"                                                        \
    "    \"\\\\\" ([\"\\\\bfnrt] | \"u\" [0-9a-fA-F]{4}) # escapes\n"                          \
    "  )* \"\\\"\" ws\n"                                                                       \
    "number ::= (\"-\"? ([0-9] | [1-9] [0-9]{0,15})) (\".\" [0-9]+)? ([eE] [-+]? [0-9] "       \
    "[1-9]{0,15})? ws\n"                                                                       \
    "# Optional space: by convention, applied in this grammar after literal chars\n"           \
    "ws ::= | \" \" | \"\\n\" [ \\t]{0,20}\n"

static void a_text_of_a_grammar_is_taken_and_no_other(void **state)
{
    static const struct texts list[] = {
        {"root ::= \"yes\" | \"no\"", {"yes", "no"}, {"", "y", "yesno"}},
        {"root ::= [0-9]+ \"\\n\"?", {"1", "007\n"}, {"", "\n", "1\n\n", "a"}},
        {"root ::= \"a\"{2} \"b\"{1,} \"c\"{0,2}",
         {"aab", "aabbbcc"},
         {"ab", "aaab", "aa", "aabccc"}},
        {"root ::= (\"a\" | \"b\"){ 2 , 3 }", {"ab", "aba"}, {"a", "abab"}},
        {"root ::= \"a\"{0}\"b\"", {"b"}, {"ab", ""}},
        {"root ::= [^a-c] .", {"dx", "\xe6\x97\xa5\n"}, {"ax", "d", "dxx"}},
        {"root ::= \"\\x41\\u00e9\\U0001F600\" [\\x61-\\x63\\u65e5]",
         {"A\xc3\xa9\xf0\x9f\x98\x80"
          "b",
          "A\xc3\xa9\xf0\x9f\x98\x80\xe6\x97\xa5"},
         {"A\xc3\xa9\xf0\x9f\x98\x80", "A\xc3\xa9\xf0\x9f\x98\x80"
                                       "d"}},
        {"root ::= [a\\]\\-^-]+", {"a]-^", "-"}, {"b", "\\"}},
        {"root ::= \"\\t\\\\\\\"\\r\"", {"\t\\\"\r"}, {"\t\\\""}},
        /* comments, line breaks, names */
        {"# first\n\nroot ::= a-1\n  | b_2 # or\r\n\r\na-1 ::= \"x\"   # one\nb_2\t::=\n "
         "\"y\"|\n"
         "\"z\"\n# last",
         {"x", "y", "z"},
         {"xy", ""}},
        {"root ::= ((\"a\"\n\"b\")\n|\n(\"c\"))", {"ab", "c"}, {"a", "abc"}},
        /* nothing at all */
        {"root ::= ", {""}, {"a"}},
        {"root ::= | \"a\"", {"", "a"}, {"aa"}},
        {"root ::= \"\" x \"\"\nx ::= \"\" | \"b\" x", {"", "b", "bbb"}, {"a"}},
        {"root ::= (\"a\"? \"b\"?)* \"c\"", {"c", "abbac", "bc"}, {"", "ab", "cc"}},
        {"root ::= (x?){2,3} \"!\"\nx ::= \"a\" | \"b\" x \"b\"",
         {"!", "a!", "abab!", "aaa!"},
         {"aaaa!", "ab!"}},
        /* recursion */
        {"root ::= \"(\" root \")\" | \"\"", {"", "()", "((()))"}, {"(", "())", ")("}},
        {"root ::= x\nx ::= \"a\" x \"b\" | \"c\"", {"c", "acb", "aacbb"}, {"ab", "aacb", "a"}},
        {"root ::= item \",\" root | item\nitem ::= [a-z]+ | \"(\" root \")\"",
         {"a", "a,b,cc", "(a,b),c", "((a))"},
         {"", "a,", "(a", "a)", "(a,)"}},
        {"root ::= e\ne ::= t | t \"+\" e\nt ::= f | f \"*\" t\nf ::= [0-9]+ | \"(\" e \")\"",
         {"1", "1+2*3", "((((((((((((1))))))))))))", "(1+2)*(3)+4"},
         {"1+", "(1", "()", "1)"}},
        {JSON_GRAMMAR,
         {"{}", "{\"a\": [1, -2.5e3, {\"b\":null}], \"c\":\"\\u00e9\\n \xe6\x97\xa5\"}",
          "{\"a\":\n  true}"},
         {"[]", "{\"a\"}", "{\"a\":1,}", "{\"a\":\"\n\"}", "{\"a\":\"\\x\"}", "{} x"}},
        /* rules that never end are left out */
        {"root ::= \"a\" | \"b\" never\nnever ::= \"c\" never", {"a"}, {"b", "bc"}},
    };
    (void)state;
    check_texts("grammar", list, COUNT(list));
}

static void a_grammar_that_cannot_be_followed_is_refused_with_its_place(void **state)
{
    static const struct refusal list[] = {
        {"", "no rule 'root'"},
        {"a ::= \"x\"", "no rule 'root'"},
        {"root ::= a\n  b", "line 2, column 4: expected \"::=\""},
        {"root ::= \"a\" | missing", "line 1, column 16: rule 'missing' is not defined"},
        {"root ::= \"\xe6\x97\xa5\" missing", "line 1, column 14: rule 'missing'"},
        {"root ::= \"a", "no closing quote"},
        {"root ::= \"a\\q\"", "column 13: an escape is one of"},
        {"root ::= \"\\u12g4\"", "hexadecimal"},
        {"root ::= \"\\ud800\"", "not a character"},
        {"root ::= [a", "no closing bracket"},
        {"root ::= []", "has none"},
        {"root ::= [z-a]", "out of order"},
        {"root ::= (\"a\"", "column 10: a ( has no )"},
        {"root ::= \"a\")", "line 1, column 13: expected"},
        {"root ::= *", "nothing before it"},
        {"root ::= \"a\"{,3}", "a repetition is {n}"},
        {"root ::= \"a\"{3,2}", "m not below n"},
        {"root ::= \"a\"{99999999}", "up to 65536 times"},
        {"root ::= \"a\"*****", "repetitions of a repetition"},
        {"root ::= \"a\"\nroot ::= \"b\"", "line 2, column 1: rule 'root' is defined twice"},
        {"root ::= <think> \"a\"", "line 1, column 10: a reference to a token"},
        {"root ::= !<[12]>", "a reference to a token"},
        {"start: \"a\"", "line 1, column 6: expected \"::=\""},
        /* left recursion */
        {"root ::= root \"a\" | \"b\"", "rule 'root' may begin with itself (root, root)"},
        {"root ::= a\na ::= b \"x\" | \"y\"\nb ::= a \"z\"", "may begin with itself"},
        {"root ::= n n root\nn ::= \"a\"?", "left recursion"},
        {"root ::= (\"a\" | root)* \"b\"", "left recursion"},
        {"root ::= \"a\"\nunused ::= unused \"b\"", "line 2, column 1: rule 'unused'"},
        /* no text */
        {"root ::= \"a\" root", "no value fits the grammar"},
        {"root ::= \"(\" a \")\"\na ::= \"[\" root \"]\"", "no value fits the grammar"},
        /* size */
        {"root ::= a{60000} a{60000}\na ::= \"x\" a \"y\" | \"z\"", "too large"},
    };
    (void)state;
    check_refused("grammar", list, COUNT(list));
}

static void a_list_by_right_recursion_is_as_long_as_it_likes_and_nesting_is_not(void **state)
{
    struct lr_error err = {0};
    struct lr_buf text;
    (void)state;
    struct grammar_program *program = compile(
        "grammar", "root ::= item \",\" root | item\nitem ::= \"a\" | \"(\" root \")\"", &err);
    assert_non_null(program);
    lr_buf_init(&text, 1 << 20);
    for (int i = 0; i < 1000; i++)
        lr_buf_add_z(&text, "a,");
    lr_buf_add_z(&text, "a");
    assert_true(takes(program, lr_buf_str(&text)));
    lr_buf_clear(&text);
    for (int i = 0; i < 200; i++)
        lr_buf_add_char(&text, '(');
    struct grammar_matcher *m = matcher_of(program);
    size_t depth = legal_bytes(m, lr_buf_str(&text));
    assert_true(depth >= GRAMMAR_DEPTH_MAX / 2 && depth <= GRAMMAR_DEPTH_MAX);
    assert_true(grammar_matcher_bytes(m, LR_STR_LIT("a"), false));
    for (size_t i = 0; i < depth; i++)
        assert_true(grammar_matcher_bytes(m, LR_STR_LIT(")"), false));
    assert_true(grammar_matcher_bytes(m, LR_STR_LIT("the stop token"), true));
    grammar_matcher_free(m);
    grammar_program_free(program);
    lr_buf_free(&text);
}

/* A grammar of n rules or parts, by a text for each. */
static struct grammar_program *grown(const char *head, const char *each, int n,
                                     struct lr_error *err)
{
    struct lr_buf text;
    lr_buf_init(&text, 1 << 20);
    lr_buf_add_z(&text, head);
    for (int i = 0; i < n; i++)
        for (const char *c = each; *c != '\0'; c++)
            if (*c == '@')
                lr_buf_addf(&text, "%d", i);
            else if (*c == '#')
                lr_buf_addf(&text, "%d", i + 1);
            else
                lr_buf_add_char(&text, *c);
    struct grammar_program *program = compile("grammar", lr_buf_z(&text), err);
    lr_buf_free(&text);
    return program;
}

static void large_grammars_are_compiled_or_refused(void **state)
{
    struct lr_error err = {0};
    (void)state;
    struct grammar_program *program = grown("root ::= \"z\"", " | \"word@\"", 3000, &err);
    assert_non_null(program);
    assert_true(takes(program, LR_STR_LIT("word2999")));
    assert_false(takes(program, LR_STR_LIT("word3000")));
    grammar_program_free(program);
    program = grown("root ::= a0\na500 ::= \"z\"\n", "a@ ::= [a-f]? a#\n", 500, &err);
    assert_non_null(program);
    assert_true(takes(program, LR_STR_LIT("abcz")));
    grammar_program_free(program);
    program = grown("root ::= a0\na30 ::= \"z\"\n", "a@ ::= a# a#\n", 30, &err);
    assert_non_null(program); /* 2^30 letters, but few steps */
    grammar_program_free(program);
    assert_null(grown("root ::= a0\na100 ::= \"z\"\n", "a@ ::= \"(\" a# \")\" | a# \"!\"\n",
                      100, &err));
    assert_non_null(strstr(err.text, "nested deeper"));
    assert_null(grown("root ::= \"a\"", " (", 200, &err));
    assert_non_null(strstr(err.text, "parentheses nest deeper"));
    assert_null(grown("root ::= \"a\"\n", "r@ ::= \"b\"\n", 9000, &err));
    assert_non_null(strstr(err.text, "more than 8190 rules"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_regular_expression_matches_the_whole_text),
        cmocka_unit_test(a_regular_expression_that_cannot_be_followed_is_refused),
        cmocka_unit_test(an_answer_is_one_of_the_choices),
        cmocka_unit_test(a_text_of_a_grammar_is_taken_and_no_other),
        cmocka_unit_test(a_grammar_that_cannot_be_followed_is_refused_with_its_place),
        cmocka_unit_test(a_list_by_right_recursion_is_as_long_as_it_likes_and_nesting_is_not),
        cmocka_unit_test(large_grammars_are_compiled_or_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
