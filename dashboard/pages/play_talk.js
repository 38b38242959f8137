// pages/play_talk.js - runs a conversation: what is said, what is coming, how to stop it (part of the playground).
//
// A conversation is a list of messages; sending adds one and lets the model add the next.
import { useEffect, useRef, useState } from 'preact/hooks';
import { ask, newAnswer, speed } from '../lib/chat.js';
import { branch, newChat, toRequest } from '../lib/chats.js';
import { t } from '../lib/i18n.js';

const SHOW_MS = 40; // between two looks at a stream: fast enough for the eye
const CHARS_A_MS = 2000; // a long answer is drawn less often

const toTitle = (text) => text.trim().replace(/\s+/g, ' ').slice(0, 80);

const toFailure = (error) => ({
  message: error.message,
  status: error.status ?? 0,
  code: error.code ?? null,
  requestId: error.requestId ?? '',
});

/** @param {import('../lib/chat.js').Answer} a */
const toMessage = (a, model) => ({
  role: 'assistant',
  content: a.content,
  reasoning: a.reasoning,
  toolCalls: a.toolCalls.map((c) => ({ ...c })),
  finish: a.finish,
  facts: {
    tokens: a.usage?.completion_tokens ?? a.pieces,
    prompt: a.usage?.prompt_tokens,
    cached: a.usage?.prompt_tokens_details?.cached_tokens,
    speed: speed(a),
    firstMs: a.firstMs,
    model,
    node: a.node,
  },
});

export function useConversation(store, settings) {
  const [chat, setChat] = useState(newChat);
  const [run, setRun] = useState(null); // {began, progress} while the model answers
  const running = useRef(null);
  const stop = () => running.current?.abort();
  useEffect(() => stop, []);

  async function answer(base) {
    stop();
    const controller = new AbortController();
    running.current = controller;
    const isCurrent = () => running.current === controller;
    const began = performance.now();
    let partial = newAnswer();
    let timer = 0;
    const show = () => {
      timer = 0;
      if (!isCurrent()) return;
      setRun({ began, progress: partial.progress });
      setChat({ ...base, messages: [...base.messages, toMessage(partial, settings.model)] });
    };
    show();
    let more = {};
    try {
      await ask(toRequest(base.messages, settings), {
        signal: controller.signal,
        onChange: (a) => {
          partial = a;
          timer ||= setTimeout(show, SHOW_MS + a.content.length / CHARS_A_MS);
        },
      });
    } catch (error) {
      more = controller.signal.aborted ? { isStopped: true } : { error: toFailure(error) };
    }
    clearTimeout(timer);
    const done = { ...base, messages: [...base.messages, { ...toMessage(partial, settings.model), ...more }] };
    if (isCurrent()) {
      running.current = null;
      setRun(null);
      setChat(done);
    }
    store.put(done);
  }

  const open = (next) => {
    stop();
    running.current = null;
    setRun(null);
    setChat(next);
  };
  return {
    chat,
    run,
    isRunning: run !== null,
    stop,
    open,
    say: (content, files = []) =>
      answer({
        ...chat,
        title: chat.title || toTitle(content || files[0]?.name || ''),
        model: settings.model,
        messages: [...chat.messages, { role: 'user', content, ...(files.length ? { files } : {}) }],
      }),
    /** The changed question begins a branch; the conversation as it was stays in the list. */
    edit: (i, content) =>
      answer({
        ...branch(chat, [...chat.messages.slice(0, i), { ...chat.messages[i], content }]),
        title: i === 0 ? toTitle(content) : t('playground.branchTitle', { title: chat.title }),
      }),
    /** A conversation of its own, up to and with message i. */
    branch(i) {
      const next = {
        ...branch(chat, chat.messages.slice(0, i + 1)),
        title: t('playground.branchTitle', { title: chat.title }),
      };
      store.put(next);
      open(next);
    },
    answerTools: (results) =>
      answer({
        ...chat,
        messages: [...chat.messages, ...results.map(({ id, content }) => ({ role: 'tool', toolCallId: id, content }))],
      }),
    retry: () => answer({ ...chat, messages: chat.messages.slice(0, -1) }),
    rename: (title) => setChat({ ...chat, title }),
  };
}
