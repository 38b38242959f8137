/* chat/template/families.c - see chat/template/families.h.
 *
 * The templates are as plain as the form allows: what they refuse or leave out, the manners
 * (chat/template/manners.h) bring into a form that they take.
 */
#include "chat/template/families.h"

#define LOOP "{%- for m in messages %}"
#define DONE "{%- endfor %}"
#define TEXT "(m.content or '')"
/* Only users and assistants have turns of their own. */
#define TWO_ROLES                                                                              \
    "{%- if m.role not in ['user', 'assistant'] %}{{ raise_exception('not a role of this "     \
    "form') }}{%- endif %}"
#define PROMPT(text) "{%- if add_generation_prompt %}{{- " text " }}{%- endif %}"

enum { MARKS_MAX = 3 };

static const struct {
    const char *marks[MARKS_MAX]; /* all of them are in the vocabulary */
    const char *text;             /* NULL: ChatML */
} families[] = {
    {{"<|im_start|>", "<|im_end|>"}, NULL},
    /* Llama 3; calls are JSON, as its own template shows them */
    {{"<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>"},
     "{{- bos_token }}{%- if tools %}{{- '<|start_header_id|>system<|end_header_id|>\\n\\n"
     "You can call these functions. A call is your whole answer: {\"name\": the name, "
     "\"parameters\": the arguments}\\n' }}{%- for t in tools %}{{- '\\n' }}{{- t | tojson }}"
     "{%- endfor %}{{- '<|eot_id|>' }}{%- endif %}" LOOP
     "{{- '<|start_header_id|>' }}{{- 'ipython' if m.role == 'tool' else m.role }}"
     "{{- '<|end_header_id|>\\n\\n' }}{{- " TEXT " }}{%- for c in m.tool_calls or [] %}"
     "{{- '{\"name\": ' }}{{- c.function.name | tojson }}{{- ', \"parameters\": ' }}"
     "{{- c.function.arguments | tojson }}{{- '}' }}{%- endfor %}{{- '<|eot_id|>' }}" DONE
         PROMPT("'<|start_header_id|>assistant<|end_header_id|>\\n\\n'")},
    /* Llama 4 */
    {{"<|header_start|>", "<|header_end|>", "<|eot|>"},
     "{{- bos_token }}" LOOP "{{- '<|header_start|>' }}"
     "{{- 'ipython' if m.role == 'tool' else m.role }}{{- '<|header_end|>\\n\\n' }}"
     "{{- " TEXT
     " }}{{- '<|eot|>' }}" DONE PROMPT("'<|header_start|>assistant<|header_end|>\\n\\n'")},
    /* Gemma 1 to 3 */
    {{"<start_of_turn>", "<end_of_turn>"},
     "{{- bos_token }}" LOOP TWO_ROLES
     "{{- '<start_of_turn>' }}{{- 'model' if m.role == 'assistant' else 'user' }}{{- '\\n' }}"
     "{{- " TEXT " }}{{- '<end_of_turn>\\n' }}" DONE PROMPT("'<start_of_turn>model\\n'")},
    /* Gemma 4 */
    {{"<|turn>", "<turn|>"},
     "{{- bos_token }}" LOOP
     "{%- if m.role not in ['system', 'user', 'assistant'] %}{{ raise_exception('not a role of "
     "this form') }}{%- endif %}{{- '<|turn>' }}"
     "{{- 'model' if m.role == 'assistant' else m.role }}{{- '\\n' }}{{- " TEXT " }}"
     "{{- '<turn|>\\n' }}" DONE PROMPT("'<|turn>model\\n'")},
    /* Granite 3 and 4 */
    {{"<|start_of_role|>", "<|end_of_role|>"},
     LOOP
     "{{- '<|start_of_role|>' }}{{- m.role }}{{- '<|end_of_role|>' }}{{- " TEXT " }}"
     "{{- '<|end_of_text|>\\n' }}" DONE PROMPT("'<|start_of_role|>assistant<|end_of_role|>'")},
    /* Command */
    {{"<|START_OF_TURN_TOKEN|>", "<|CHATBOT_TOKEN|>", "<|END_OF_TURN_TOKEN|>"},
     "{{- bos_token }}" LOOP
     "{%- if m.role not in ['system', 'user', 'assistant'] %}{{ raise_exception('not a role of "
     "this form') }}{%- endif %}{{- '<|START_OF_TURN_TOKEN|>' }}{{- '<|CHATBOT_TOKEN|>' if "
     "m.role == 'assistant' else '<|SYSTEM_TOKEN|>' if m.role == 'system' else "
     "'<|USER_TOKEN|>' }}{{- " TEXT " }}{{- '<|END_OF_TURN_TOKEN|>' }}" DONE PROMPT(
         "'<|START_OF_TURN_TOKEN|><|CHATBOT_TOKEN|>'")},
    /* DeepSeek */
    {{"<\xEF\xBD\x9C"
      "User\xEF\xBD\x9C>",
      "<\xEF\xBD\x9C"
      "Assistant\xEF\xBD\x9C>"},
     "{{- bos_token }}" LOOP
     "{%- if m.role not in ['system', 'user', 'assistant'] %}{{ raise_exception('not a role of "
     "this form') }}{%- endif %}{%- if m.role == 'system' %}{{- " TEXT " }}{%- elif m.role == "
     "'user' %}{{- '<\xEF\xBD\x9C"
     "User\xEF\xBD\x9C>' }}{{- " TEXT " }}{%- else %}{{- '<\xEF\xBD\x9C"
     "Assistant\xEF\xBD\x9C>' }}"
     "{{- " TEXT " }}{{- eos_token }}{%- endif %}" DONE PROMPT("'<\xEF\xBD\x9C"
                                                               "Assistant\xEF\xBD\x9C>'")},
    /* Phi 3 and 4 mini */
    {{"<|user|>", "<|assistant|>", "<|end|>"},
     LOOP "{{- '<|' }}{{- m.role }}{{- '|>\\n' }}{{- " TEXT
          " }}{{- '<|end|>\\n' }}" DONE PROMPT("'<|assistant|>\\n'")},
    /* GLM 4 */
    {{"<|user|>", "<|assistant|>", "<|observation|>"},
     "{{- '[gMASK]<sop>' }}" LOOP "{{- '<|' }}{{- 'observation' if m.role == 'tool' else "
     "m.role }}{{- '|>\\n' }}{{- " TEXT " }}" DONE PROMPT("'<|assistant|>\\n'")},
    /* Zephyr, OLMo 2 */
    {{"<|user|>", "<|assistant|>"},
     LOOP "{{- '<|' }}{{- m.role }}{{- '|>\\n' }}{{- " TEXT
          " }}{{- eos_token }}{{- '\\n' }}" DONE PROMPT("'<|assistant|>\\n'")},
    /* Mistral */
    {{"[INST]", "[/INST]", "[SYSTEM_PROMPT]"},
     "{{- bos_token }}" LOOP
     "{%- if m.role not in ['system', 'user', 'assistant'] %}{{ raise_exception('not a role of "
     "this form') }}{%- endif %}{%- if m.role == 'system' %}{{- '[SYSTEM_PROMPT]' }}"
     "{{- " TEXT " }}{{- '[/SYSTEM_PROMPT]' }}{%- elif m.role == 'user' %}{{- '[INST]' }}"
     "{{- " TEXT " }}{{- '[/INST]' }}{%- else %}{{- " TEXT
     " }}{{- eos_token }}{%- endif %}" DONE},
    {{"[INST]", "[/INST]"},
     "{{- bos_token }}" LOOP TWO_ROLES "{%- if m.role == 'user' %}{{- '[INST] ' }}{{- " TEXT
     " }}{{- '[/INST]' }}{%- else %}"
     "{{- ' ' }}{{- " TEXT " }}{{- eos_token }}{%- endif %}" DONE},
};

static bool has_marks(const struct chat_vocabulary *vocabulary, const char *const *marks)
{
    for (size_t i = 0; i < MARKS_MAX && marks[i] != NULL; i++)
        if (!vocabulary->has(vocabulary->ctx, lr_str_z(marks[i])))
            return false;
    return true;
}

enum chat_family chat_family_of(const struct chat_vocabulary *vocabulary,
                                struct lr_str *chat_template)
{
    *chat_template = (struct lr_str){0};
    for (size_t i = 0; i < sizeof(families) / sizeof(families[0]); i++) {
        if (!has_marks(vocabulary, families[i].marks))
            continue;
        if (families[i].text == NULL)
            return CHAT_FAMILY_CHATML;
        *chat_template = lr_str_z(families[i].text);
        return CHAT_FAMILY_OWN;
    }
    return CHAT_FAMILY_NONE;
}
