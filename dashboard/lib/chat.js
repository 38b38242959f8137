// lib/chat.js - one request to /v1/chat/completions, streamed; no view.
//
//   const answer = await ask(request, {signal, onChange: (answer) => ...})
//
// `answer` grows with the stream and is passed to onChange after each piece (the same
// object); it is complete when the promise resolves.  A failure throws the API's error, also
// in the middle of a stream; the last onChange has the part that had arrived.
import { api, ApiError } from './api.js';

/**
 * @typedef {{id: string, name: string, arguments: string}} ToolCall
 * @typedef {{content: string, reasoning: string, toolCalls: ToolCall[], finish: string|null,
 *   node: string, usage: {prompt_tokens: number, completion_tokens: number}|null,
 *   pieces: number, firstMs: number|null, lastMs: number|null}} Answer
 */

/** Splits a text/event-stream into the data of its events; keeps what is not whole yet. */
export class EventParser {
  #rest = '';

  #data = [];

  /** @param {string} text @returns {string[]} */
  feed(text) {
    const out = [];
    this.#rest += text;
    // A CR at the very end may be half of a CR LF.
    for (let match; (match = /\r\n|\n|\r(?!$)/.exec(this.#rest)); ) {
      const line = this.#rest.slice(0, match.index);
      this.#rest = this.#rest.slice(match.index + match[0].length);
      if (line === '') {
        if (this.#data.length) out.push(this.#data.join('\n'));
        this.#data = [];
      } else if (line.startsWith('data:')) {
        this.#data.push(line.slice(line[5] === ' ' ? 6 : 5));
      }
    }
    return out;
  }
}

/** @returns {Answer} */
const nothing = () => ({
  content: '',
  reasoning: '',
  toolCalls: [],
  finish: null,
  node: '',
  usage: null,
  pieces: 0,
  firstMs: null,
  lastMs: null,
});

function takeDelta(answer, delta) {
  answer.content += delta.content ?? '';
  answer.reasoning += delta.reasoning_content ?? '';
  for (const part of delta.tool_calls ?? []) {
    const call = (answer.toolCalls[part.index ?? 0] ??= { id: '', name: '', arguments: '' });
    if (part.id) call.id = part.id;
    call.name += part.function?.name ?? '';
    call.arguments += part.function?.arguments ?? '';
  }
}

/** @param {Answer} answer @param {any} chunk */
function takeChunk(answer, chunk, began) {
  if (chunk.error)
    throw new ApiError(String(chunk.error.message), { status: 200, type: chunk.error.type, code: chunk.error.code });
  if (chunk.usage) answer.usage = chunk.usage;
  const choice = chunk.choices?.[0];
  if (!choice) return;
  const before = answer.content.length + answer.reasoning.length + answer.toolCalls.length;
  const { toolCalls } = answer;
  const argumentsBefore = toolCalls.reduce((n, c) => n + c.arguments.length, 0);
  takeDelta(answer, choice.delta ?? {});
  const grew =
    answer.content.length + answer.reasoning.length + toolCalls.length > before ||
    toolCalls.reduce((n, c) => n + c.arguments.length, 0) > argumentsBefore;
  if (grew) {
    answer.lastMs = performance.now() - began;
    answer.firstMs ??= answer.lastMs;
    answer.pieces++;
  }
  if (choice.finish_reason) answer.finish = choice.finish_reason;
}

/**
 * @param {Record<string, unknown>} request
 * @param {{signal?: AbortSignal, onChange?: (answer: Answer) => void}} [options]
 * @returns {Promise<Answer>}
 */
export async function ask(request, { signal, onChange = () => {} } = {}) {
  const answer = nothing();
  const began = performance.now();
  const response = await api.raw('/v1/chat/completions', {
    method: 'POST',
    body: { ...request, stream: true, stream_options: { include_usage: true } },
    signal,
  });
  answer.node = response.headers.get('X-LLM-Router-Node') ?? '';
  const parser = new EventParser();
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  for (let isOver = false; !isOver; ) {
    const { done, value } = await reader.read();
    if (done) break;
    for (const data of parser.feed(value)) {
      isOver = data === '[DONE]';
      if (!isOver) takeChunk(answer, JSON.parse(data), began);
    }
    onChange(answer);
  }
  if (answer.finish === null)
    throw new ApiError('The answer ended before it was complete.', { status: response.status, code: 'cut_off' });
  return answer;
}

const BURST_MS = 50;

/** Tokens a second after the first; the engine's count where it is known.  Of an answer that
 * came in one burst, from the request on. @param {Answer} answer */
export function speed({ usage, pieces, firstMs, lastMs }) {
  const count = usage?.completion_tokens ?? pieces;
  if (firstMs === null || count < 2) return null;
  return lastMs - firstMs < BURST_MS ? (count * 1000) / lastMs : ((count - 1) * 1000) / (lastMs - firstMs);
}

/** One word for a POSIX shell, whatever is in it. @param {string} text */
export const shellQuote = (text) => `'${text.replaceAll("'", "'\\''")}'`;

/**
 * The request as a command.  The key is never in it: the shell's LLM_ROUTER_KEY is.
 * @param {Record<string, unknown>} request @param {{origin: string, needsKey: boolean}} where
 */
export function toCurl(request, { origin, needsKey }) {
  return [
    `curl ${shellQuote(`${origin}/v1/chat/completions`)}`,
    '-N',
    `-H ${shellQuote('Content-Type: application/json')}`,
    ...(needsKey ? ['-H "Authorization: Bearer $LLM_ROUTER_KEY"'] : []),
    `--data-raw ${shellQuote(JSON.stringify({ ...request, stream: true }))}`,
  ].join(' \\\n  ');
}

/** A line for each kind of client; most clients do not start without a key. */
export function toClients(model, { origin, needsKey }) {
  const key = needsKey ? '"$LLM_ROUTER_KEY"' : 'none';
  const provider = `model_providers.llm-router={name="llm-router", base_url="${origin}/v1", wire_api="responses"${
    needsKey ? ', env_key="LLM_ROUTER_KEY"' : ''
  }}`;
  return [
    '# openai (Python, JavaScript)',
    `export OPENAI_BASE_URL=${shellQuote(`${origin}/v1`)} OPENAI_API_KEY=${key}`,
    '# Claude Code',
    `ANTHROPIC_BASE_URL=${shellQuote(origin)} ANTHROPIC_AUTH_TOKEN=${key} claude --model ${shellQuote(model)}`,
    '# Codex',
    `codex -m ${shellQuote(model)} -c model_provider=llm-router -c ${shellQuote(provider)}`,
  ].join('\n');
}
