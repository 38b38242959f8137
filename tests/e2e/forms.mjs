// What models of four dialects write, and templates that show it.  The echo engine answers with the user's message, so a test decides what the
// model writes.
export const chatml = (
  form,
  end = '',
) => `{%- for m in messages %}{{- '<|im_start|>' + m.role + '\\n' + (m.content or '') }}
{%- for c in m.tool_calls or [] %}{{- c.function.name }}{{- c.function.arguments | tojson }}{%- endfor %}{{- '<|im_end|>\\n' }}{%- endfor %}
{#- ${form} #}{{- '<|im_start|>assistant\\n' }}${end}`;

const values = (args, one) =>
  Object.entries(args)
    .map(([key, value]) => one(key, typeof value === 'string' ? value : JSON.stringify(value)))
    .join('');

// A template, and a thought with a call as the model writes it.
export const FORMS = {
  qwen: {
    template: chatml('<tool_call> <function= <parameter= <think>'),
    call: (name, args, thought) =>
      `<think>\n${thought}\n</think>\n\n<tool_call>\n<function=${name}>\n${values(args, (k, v) => `<parameter=${k}>\n${v}\n</parameter>\n`)}</function>\n</tool_call>`,
  },
  glm: {
    template: chatml('<tool_call> <arg_key> <arg_value> <think>'),
    call: (name, args, thought) =>
      `<think>${thought}</think>\n<tool_call>${name}\n${values(args, (k, v) => `<arg_key>${k}</arg_key>\n<arg_value>${v}</arg_value>\n`)}</tool_call>`,
  },
  mistral: {
    template: chatml('[TOOL_CALLS] [ARGS] [THINK]'),
    call: (name, args, thought) => `[THINK]${thought}[/THINK][TOOL_CALLS]${name}[ARGS]${JSON.stringify(args)}`,
  },
  harmony: {
    template: `{%- for m in messages %}{{- '<|start|>' + m.role + '<|message|>' + (m.content or '') }}
{%- for c in m.tool_calls or [] %}{{- c.function.name }}{{- c.function.arguments | tojson }}{%- endfor %}{%- endfor %}{{- '<|start|>assistant' }}`,
    testing: { say_controls: true },
    call: (name, args, thought) =>
      `<|channel|>analysis<|message|>${thought}<|start|>assistant<|channel|>commentary to=functions.${name}<|message|>${JSON.stringify(args)}`,
  },
};
