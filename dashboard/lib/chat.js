// lib/chat.js - one request to /v1/chat/completions, streamed; no view.
//
//   const answer = await ask(request, {signal, onChange: (answer) => ...})
//   newAnswer()                the answer before its first piece
//
// Until the first piece, answer.progress says what the request waits for (the router's comments,
// X-LLM-Router-Progress).  `answer` grows with the stream and is passed to onChange after each piece (the same
// object); it is complete when the promise resolves.  A failure throws the API's error, also
// in the middle of a stream; the last onChange has the part that had arrived.
import { api, ApiError } from './api.js';

/**
 * @typedef {{id: string, name: string, arguments: string}} ToolCall
 * @typedef {{content: string, reasoning: string, toolCalls: ToolCall[], finish: string|null,
 *   node: string, usage: {prompt_tokens: number, completion_tokens: number, prompt_tokens_details?: {cached_tokens: number}}|null,
 *   progress: {state: 'queued'|'sent'|'loading'|'prefill', ahead?: number, wait_ms?: number, done?: number, total?: number, node?: string}|null,
 *   pieces: number, firstMs: number|null, lastMs: number|null}} Answer
 */

/** Splits a text/event-stream into the data of its events; keeps what is not whole yet. */
export class EventParser {
  #rest = '';

  #data = [];

  /** @param {string} text @param {(comment: string) => void} [onComment] @returns {string[]} */
  feed(text, onComment = () => {}) {
    const out = [];
    this.#rest += text;
    // A CR at the very end may be half of a CR LF.
    for (let match; (match = /\r\n|\n|\r(?!$)/.exec(this.#rest)); ) {
      const line = this.#rest.slice(0, match.index);
      this.#rest = this.#rest.slice(match.index + match[0].length);
      if (line === '') {
        if (this.#data.length) out.push(this.#data.join('\n'));
        this.#data = [];
      } else if (line.startsWith(': ')) {
        onComment(line.slice(2));
      } else if (line.startsWith('data:')) {
        this.#data.push(line.slice(line[5] === ' ' ? 6 : 5));
      }
    }
    return out;
  }
}

/** @returns {Answer} */
export const newAnswer = () => ({
  content: '',
  reasoning: '',
  toolCalls: [],
  finish: null,
  node: '',
  usage: null,
  progress: null,
  pieces: 0,
  firstMs: null,
  lastMs: null,
});

const PROGRESS = 'progress ';

/** @param {Answer} answer @param {string} comment */
function takeComment(answer, comment) {
  if (!comment.startsWith(PROGRESS)) return;
  try {
    answer.progress = JSON.parse(comment.slice(PROGRESS.length));
    answer.node = answer.progress.node ?? answer.node;
  } catch {
    /* of a router that says it in other words */
  }
}

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
  const answer = newAnswer();
  const began = performance.now();
  const response = await api.raw('/v1/chat/completions', {
    method: 'POST',
    body: { ...request, stream: true, stream_options: { include_usage: true } },
    signal,
    headers: { 'X-LLM-Router-Progress': '1' },
  });
  answer.node = response.headers.get('X-LLM-Router-Node') ?? '';
  const parser = new EventParser();
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  for (let isOver = false; !isOver; ) {
    const { done, value } = await reader.read();
    if (done) break;
    for (const data of parser.feed(value, (comment) => takeComment(answer, comment))) {
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
