// lib/chats.js - conversations and settings of the playground, kept in this browser only.
//
//   const store = openChats(me.id)       one store per key: the next user of this browser
//                                        does not see the conversations of the last user
//   store.list()  store.put(chat)  store.rename(id, title)  store.remove(id)  store.clear()
//   search(chats, words)  toMarkdown(chat)  branch(chat, messages)
//   store.settings()  store.putSettings(settings)
//
// The newest conversation is first.  The oldest are deleted when there are too many or the
// browser's storage is full.  A browser without storage keeps them until the page is closed.

/**
 * A message as the API takes it, and what the view shows beside it.
 * @typedef {{role: 'user'|'assistant'|'tool', content: string, reasoning?: string, toolCalls?: import('./chat.js').ToolCall[],
 *   files?: {name: string, text: string}[], toolCallId?: string, finish?: string|null, isStopped?: boolean, error?: {message: string, status: number, code: string|null, requestId: string},
 *   facts?: {tokens: number, speed: number|null, firstMs: number|null, model: string, node: string, prompt?: number, cached?: number}}} Message
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
    /** @param {string} id @param {string} title */
    rename(id, title) {
      chats = chats.map((c) => (c.id === id ? { ...c, title } : c));
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
    /** @param {number} [lane] 1: the second of two that are compared */
    settings: (lane = 0) => ({ ...noSettings, ...read(settingsKey + (lane ? '.2' : ''), {}) }),
    putSettings(settings, lane = 0) {
      try {
        localStorage.setItem(settingsKey + (lane ? '.2' : ''), JSON.stringify(settings));
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
  schema: '',
};

export const newChat = () => ({
  id: crypto.getRandomValues(new Uint32Array(2)).join('-'),
  title: '',
  model: '',
  at: Date.now(),
  messages: [],
});

/** A new conversation that begins with these messages of another. @param {Chat} chat @param {Message[]} messages */
export const branch = (chat, messages) => ({ ...newChat(), title: chat.title, model: chat.model, messages });

/** Those with every word in the title or in a message. @param {Chat[]} chats @param {string} text */
export function search(chats, text) {
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  if (words.length === 0) return chats;
  return chats.filter((chat) => {
    const all = [chat.title, ...chat.messages.map((m) => m.content)].join('\n').toLowerCase();
    return words.every((word) => all.includes(word));
  });
}

/** @param {Chat} chat @param {{you: string, tool: string}} names */
export function toMarkdown(chat, names) {
  const name = (m) => (m.role === 'user' ? names.you : m.role === 'tool' ? names.tool : m.facts?.model || chat.model);
  const calls = (m) => (m.toolCalls ?? []).map((c) => `\n\n\`\`\`json\n${c.name}(${c.arguments})\n\`\`\``).join('');
  return `# ${chat.title}\n${chat.messages.map((m) => `\n## ${name(m)}\n\n${withFiles(m)}${calls(m)}\n`).join('')}`;
}

/** What is wrong with a setting, or ''. */
const problemOf = (text, isRight, otherwise) => {
  if (!text.trim()) return '';
  try {
    return isRight(JSON.parse(text)) ? '' : otherwise;
  } catch (error) {
    return error.message;
  }
};
/** @param {string} text */
export const toolsProblem = (text) => problemOf(text, Array.isArray, 'list');
/** @param {string} text */
export const schemaProblem = (text) =>
  problemOf(text, (x) => x !== null && typeof x === 'object' && !Array.isArray(x), 'object');

/** The text of a message with its files, each in a fence that its text cannot end. @param {Message} m */
export const withFiles = (m) =>
  [
    m.content,
    ...(m.files ?? []).map(({ name, text }) => {
      const fence = '`'.repeat(Math.max(3, ...[...text.matchAll(/`+/g)].map(([run]) => run.length + 1)));
      return `${name}\n${fence}\n${text}\n${fence}`;
    }),
  ]
    .filter(Boolean)
    .join('\n\n');

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
  return { role: 'user', content: withFiles(m) };
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
    response_format:
      settings.schema?.trim() && !schemaProblem(settings.schema)
        ? { type: 'json_schema', json_schema: { name: 'answer', strict: true, schema: JSON.parse(settings.schema) } }
        : undefined,
  };
  return Object.fromEntries(Object.entries(request).filter(([, value]) => value !== undefined));
}
