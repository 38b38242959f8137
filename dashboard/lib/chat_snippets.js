// lib/chat_snippets.js - a request as code of the clients that people use.
//
//   snippets(request, {origin, needsKey})   [{id, name, language, text}, ...]
//
// A key is never in the text: the environment's LLM_ROUTER_KEY is.

/** One word for a POSIX shell, whatever is in it. @param {string} text */
export const shellQuote = (text) => `'${text.replaceAll("'", "'\\''")}'`;

/** @param {Record<string, unknown>} request @param {{origin: string, needsKey: boolean}} where */
export function toCurl(request, { origin, needsKey }) {
  return [
    `curl ${shellQuote(`${origin}/v1/chat/completions`)}`,
    '-N',
    `-H ${shellQuote('Content-Type: application/json')}`,
    ...(needsKey ? ['-H "Authorization: Bearer $LLM_ROUTER_KEY"'] : []),
    `--data-raw ${shellQuote(JSON.stringify({ ...request, stream: true }))}`,
  ].join(' \\\n  ');
}

/** A value of JSON as Python writes it. */
function python(value, indent = '') {
  if (value === null) return 'None';
  if (value === true) return 'True';
  if (value === false) return 'False';
  if (typeof value !== 'object') return JSON.stringify(value); // Python reads JSON's strings and numbers
  const inner = `${indent}    `;
  const list = Array.isArray(value)
    ? value.map((x) => python(x, inner))
    : Object.entries(value).map(([k, x]) => `${JSON.stringify(k)}: ${python(x, inner)}`);
  const [open, close] = Array.isArray(value) ? '[]' : '{}';
  return list.length === 0 ? open + close : `${open}\n${list.map((x) => `${inner}${x},\n`).join('')}${indent}${close}`;
}

const named = (request) =>
  Object.entries(request)
    .map(([name, value]) => `    ${name}=${python(value, '    ')},\n`)
    .join('');

function toPython(request, { origin, needsKey }) {
  return `${needsKey ? 'import os\n' : ''}from openai import OpenAI

client = OpenAI(base_url=${JSON.stringify(`${origin}/v1`)}, api_key=${needsKey ? 'os.environ["LLM_ROUTER_KEY"]' : '"none"'})
stream = client.chat.completions.create(
${named(request)}    stream=True,
)
for chunk in stream:
    if chunk.choices:
        print(chunk.choices[0].delta.content or "", end="", flush=True)
`;
}

function toJavaScript(request, { origin, needsKey }) {
  // The build takes a plain import in this text for one of this module.
  return `import OpenAI from ${'"openai"'};

const client = new OpenAI({ baseURL: ${JSON.stringify(`${origin}/v1`)}, apiKey: ${needsKey ? 'process.env.LLM_ROUTER_KEY' : '"none"'} });
const stream = await client.chat.completions.create(${JSON.stringify({ ...request, stream: true }, null, 2)});
for await (const chunk of stream) process.stdout.write(chunk.choices[0]?.delta?.content ?? "");
`;
}

/** Most clients do not start without a key. */
const keyWord = (needsKey) => (needsKey ? '"$LLM_ROUTER_KEY"' : 'none');

const toClaudeCode = (model, { origin, needsKey }) =>
  `ANTHROPIC_BASE_URL=${shellQuote(origin)} ANTHROPIC_AUTH_TOKEN=${keyWord(needsKey)} \\\n  claude --model ${shellQuote(model)}\n`;

function toCodex(model, { origin, needsKey }) {
  const provider = `model_providers.llm-router={name="llm-router", base_url="${origin}/v1", wire_api="responses"${
    needsKey ? ', env_key="LLM_ROUTER_KEY"' : ''
  }}`;
  return `codex -m ${shellQuote(model)} -c model_provider=llm-router \\\n  -c ${shellQuote(provider)}\n`;
}

/** @param {Record<string, unknown> & {model: string}} request @param {{origin: string, needsKey: boolean}} where */
export const snippets = (request, where) => [
  { id: 'curl', name: 'curl', language: 'bash', text: toCurl(request, where) },
  { id: 'python', name: 'Python', language: 'python', text: toPython(request, where) },
  { id: 'javascript', name: 'JavaScript', language: 'javascript', text: toJavaScript(request, where) },
  { id: 'claude', name: 'Claude Code', language: 'bash', text: toClaudeCode(request.model, where) },
  { id: 'codex', name: 'Codex', language: 'bash', text: toCodex(request.model, where) },
];
