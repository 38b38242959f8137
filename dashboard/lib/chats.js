// lib/chats.js - conversations and settings of the playground, kept in this browser only.
//
//   const store = openChats(me.id)       one store per key: the next user of this browser
//                                        does not see the conversations of the last user
//   store.list()  store.put(chat)  store.remove(id)  store.clear()
//   store.settings()  store.putSettings(settings)
//
// The newest conversation is first.  The oldest are deleted when there are too many or the
// browser's storage is full.  A browser without storage keeps them until the page is closed.

/**
 * A message as the API takes it, and what the view shows beside it.
 * @typedef {{role: 'user'|'assistant'|'tool', content: string, reasoning?: string, toolCalls?: import('./chat.js').ToolCall[],
 *   toolCallId?: string, finish?: string|null, isStopped?: boolean, error?: {message: string, status: number, code: string|null, requestId: string},
 *   facts?: {tokens: number, speed: number|null, firstMs: number|null, model: string, node: string}}} Message
 * @typedef {{id: string, title: string, model: string, at: number, messages: Message[]}} Chat
 */

const CHATS_MAX = 50;
const BYTES_MAX = 2 << 20;

const read = (key, absent) => {
  try {
    return JSON.parse(localStorage.getItem(key)) ?? absent;
  } catch {
    return absent;
  }
};

const isChat = (c) =>
  c &&
  typeof c.id === 'string' &&
  typeof c.title === 'string' &&
  Array.isArray(c.messages) &&
  c.messages.every((m) => m && typeof m.content === 'string');

/** @param {string} owner */
export function openChats(owner) {
  const key = `lr.chats.${owner}`;
  const settingsKey = `lr.play.${owner}`;
  const stored = read(key, []);
  /** @type {Chat[]} */
  let chats = Array.isArray(stored) ? stored.filter(isChat) : [];

  function save() {
    chats = chats.slice(0, CHATS_MAX);
    for (;;) {
      const text = JSON.stringify(chats);
      if (text.length > BYTES_MAX && chats.length > 1) {
        chats = chats.slice(0, -1);
        continue;
      }
      try {
        localStorage.setItem(key, text);
        return;
      } catch {
        if (chats.length <= 1) return;
        chats = chats.slice(0, -1);
      }
    }
  }

  return {
    list: () => chats,
    /** @param {Chat} chat */
    put(chat) {
      chats = [{ ...chat, at: Date.now() }, ...chats.filter((c) => c.id !== chat.id)];
      save();
    },
    /** @param {string} id */
    remove(id) {
      chats = chats.filter((c) => c.id !== id);
      save();
    },
    clear() {
      chats = [];
      save();
    },
    settings: () => ({ ...noSettings, ...read(settingsKey, {}) }),
    putSettings(settings) {
      try {
        localStorage.setItem(settingsKey, JSON.stringify(settings));
      } catch {
        /* storage is off */
      }
    },
  };
}

/** Fields as they are typed; empty: the model's own default. */
export const noSettings = {
  model: '',
  system: '',
  temperature: '',
  topP: '',
  maxTokens: '',
  seed: '',
  effort: '',
  tools: '',
};

export const newChat = () => ({
  id: crypto.getRandomValues(new Uint32Array(2)).join('-'),
  title: '',
  model: '',
  at: Date.now(),
  messages: [],
});

/** What is wrong with a setting, or ''. @param {string} text */
export function toolsProblem(text) {
  if (!text.trim()) return '';
  try {
    return Array.isArray(JSON.parse(text)) ? '' : 'list';
  } catch (error) {
    return error.message;
  }
}

const toApi = (m) => {
  if (m.role === 'tool') return { role: 'tool', tool_call_id: m.toolCallId, content: m.content };
  if (m.role === 'assistant')
    return {
      role: 'assistant',
      content: m.content || (m.toolCalls?.length ? null : ''),
      // A model that reasoned its way to a tool goes on from there.
      ...(m.toolCalls?.length && m.reasoning ? { reasoning_content: m.reasoning } : {}),
      ...(m.toolCalls?.length
        ? {
            tool_calls: m.toolCalls.map((c) => ({
              id: c.id,
              type: 'function',
              function: { name: c.name, arguments: c.arguments },
            })),
          }
        : {}),
    };
  return { role: 'user', content: m.content };
};

/** The request that continues a conversation. @param {Message[]} messages */
export function toRequest(messages, settings) {
  const number = (text) => (text.trim() === '' ? undefined : Number(text));
  const request = {
    model: settings.model,
    messages: [
      ...(settings.system.trim() ? [{ role: 'system', content: settings.system }] : []),
      ...messages.filter((m) => !m.error || m.content || m.toolCalls?.length).map(toApi),
    ],
    temperature: number(settings.temperature),
    top_p: number(settings.topP),
    max_completion_tokens: number(settings.maxTokens),
    seed: number(settings.seed),
    reasoning_effort: settings.effort || undefined,
    tools: settings.tools.trim() && !toolsProblem(settings.tools) ? JSON.parse(settings.tools) : undefined,
  };
  return Object.fromEntries(Object.entries(request).filter(([, value]) => value !== undefined));
}
