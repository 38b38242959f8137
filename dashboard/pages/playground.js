// pages/playground.js - chat with a model: streamed answers, tools, settings, conversations.
//
// A conversation is a list of messages; sending adds one and lets the model add the next.
// Only the request itself leaves the browser; conversations stay in its storage.
import { html } from 'htm/preact';
import { useEffect, useMemo, useRef, useState } from 'preact/hooks';
import { api } from '../lib/api.js';
import { ask, speed, toClients, toCurl } from '../lib/chat.js';
import { newChat, openChats, toolsProblem, toRequest } from '../lib/chats.js';
import { t } from '../lib/i18n.js';
import { live } from '../lib/live.js';
import { prepareProse } from '../lib/prose.js';
import { Button, CopyButton, confirm, Dialog, Empty, ErrorNote, Icon, Page } from '../lib/ui.js';
import { History, Settings } from './play_panel.js';
import { Turns } from './play_turns.js';

const SHOW_MS = 40; // between two looks at a stream: fast enough for the eye
const NEAR_END_PX = 120;

/** Ready ones first, each group by name. */
function useModels() {
  const [models, setModels] = useState({ items: null, error: null });
  useEffect(() => {
    let isThere = true;
    const read = () =>
      api.get('/v1/models').then(
        ({ data }) =>
          isThere &&
          setModels({
            items: data
              .filter((m) => m.capabilities?.includes('chat') ?? true)
              .sort((a, b) => Number(b.ready) - Number(a.ready) || a.id.localeCompare(b.id)),
            error: null,
          }),
        (error) => isThere && setModels({ items: [], error }),
      );
    let timer = 0;
    const stop = live.subscribe(({ event }) => {
      if (!/^(model\.|node\.(model|online|offline|joined))/.test(event)) return;
      clearTimeout(timer);
      timer = setTimeout(read, 300);
    });
    read();
    return () => {
      isThere = false;
      clearTimeout(timer);
      stop();
    };
  }, []);
  return models;
}

function useWide() {
  const query = matchMedia('(min-width: 1100px)');
  const [isWide, setWide] = useState(query.matches);
  useEffect(() => {
    const change = () => setWide(query.matches);
    query.addEventListener('change', change);
    return () => query.removeEventListener('change', change);
  }, []);
  return isWide;
}

function ModelChooser({ items, value, onChange }) {
  const groups = [
    [t('playground.ready'), items.filter((m) => m.ready)],
    [t('playground.notReady'), items.filter((m) => !m.ready)],
  ];
  return html`<label class="chooser"><span class="visually-hidden">${t('playground.model')}</span>
    <select value=${value} onChange=${(e) => onChange(e.currentTarget.value)}>${groups
      .filter(([, list]) => list.length > 0)
      .map(
        ([label, list]) => html`
      <optgroup label=${label}>${list.map((m) => html`<option value=${m.id}>${m.ready ? m.id : `${m.id} (${m.state})`}</option>`)}</optgroup>`,
      )}</select></label>`;
}

function Composer({ isRunning, canSend, draft, onDraft, onSend, onStop }) {
  const ref = useRef(null);
  useEffect(() => {
    const area = ref.current;
    area.style.height = 'auto';
    area.style.height = `${Math.min(area.scrollHeight + 2, 240)}px`;
  }, [draft]);
  // Enter that ends the composition of a Japanese word does not send.
  const key = (event) => {
    if (event.key === 'Escape' && isRunning) onStop();
    if (event.key !== 'Enter' || event.shiftKey || event.isComposing || event.keyCode === 229) return;
    event.preventDefault();
    if (!isRunning && canSend) onSend();
  };
  return html`<div class="composer card"><textarea ref=${ref} rows="1" aria-label=${t('playground.message')} placeholder=${t('playground.placeholder')} value=${draft}
      onInput=${(e) => onDraft(e.currentTarget.value)} onKeyDown=${key} />
    ${
      isRunning
        ? html`<${Button} icon="stop" label=${t('playground.stop')} onClick=${onStop} />`
        : html`<${Button} kind="primary" icon="send" label=${t('playground.send')} disabled=${!canSend} onClick=${onSend} />`
    }</div>`;
}

function CurlDialog({ open, onClose, request, me }) {
  const text = open ? toCurl(request, { origin: location.origin, needsKey: me.needs_key }) : '';
  return html`<${Dialog} open=${open} title=${t('playground.curl')} wide onClose=${onClose} footer=${html`<${CopyButton} text=${text} label=${t('playground.copyCommand')} />`}>
    ${me.needs_key && html`<p class="muted">${t('playground.curlKey')} <code>LLM_ROUTER_KEY</code></p>`}<pre class="curl" tabindex="0">${text}</pre>
    <h3>${t('playground.clients')}</h3><pre class="clients" tabindex="0">${open && toClients(request.model, { origin: location.origin, needsKey: me.needs_key })}</pre><//>`;
}

/** Runs the conversation: what is said, what is coming, how to stop it. */
function useConversation(store, settings) {
  const [chat, setChat] = useState(newChat);
  const [isRunning, setRunning] = useState(false);
  const running = useRef(null);
  const stop = () => running.current?.abort();
  useEffect(() => stop, []);

  async function answer(base) {
    const controller = new AbortController();
    running.current = controller;
    setRunning(true);
    let partial = {
      content: '',
      reasoning: '',
      toolCalls: [],
      usage: null,
      pieces: 0,
      firstMs: null,
      lastMs: null,
      finish: null,
      node: '',
    };
    const toMessage = (more = {}) => ({
      role: 'assistant',
      content: partial.content,
      reasoning: partial.reasoning,
      toolCalls: partial.toolCalls.map((c) => ({ ...c })),
      finish: partial.finish,
      facts: {
        tokens: partial.usage?.completion_tokens ?? partial.pieces,
        speed: speed(partial),
        firstMs: partial.firstMs,
        model: settings.model,
        node: partial.node,
      },
      ...more,
    });
    let timer = 0;
    const show = () => {
      timer = 0;
      setChat({ ...base, messages: [...base.messages, toMessage()] });
    };
    show();
    let more = {};
    try {
      await ask(toRequest(base.messages, settings), {
        signal: controller.signal,
        onChange: (a) => {
          partial = a;
          timer ||= setTimeout(show, SHOW_MS);
        },
      });
    } catch (error) {
      if (controller.signal.aborted) more = { isStopped: true };
      else
        more = {
          error: {
            message: error.message,
            status: error.status ?? 0,
            code: error.code ?? null,
            requestId: error.requestId ?? '',
          },
        };
    }
    clearTimeout(timer);
    const done = { ...base, messages: [...base.messages, toMessage(more)] };
    if (running.current === controller) {
      running.current = null;
      setRunning(false);
      setChat(done);
    }
    store.put(done);
  }

  return {
    chat,
    isRunning,
    stop,
    say(text) {
      const title = chat.title || text.trim().replace(/\s+/g, ' ').slice(0, 80);
      return answer({
        ...chat,
        title,
        model: settings.model,
        messages: [...chat.messages, { role: 'user', content: text }],
      });
    },
    answerTools: (results) =>
      answer({
        ...chat,
        messages: [...chat.messages, ...results.map(({ id, content }) => ({ role: 'tool', toolCallId: id, content }))],
      }),
    retry: () => answer({ ...chat, messages: chat.messages.slice(0, -1) }),
    open(next) {
      stop();
      running.current = null;
      setRunning(false);
      setChat(next);
    },
  };
}

/** Follows the end of the page while whoever reads is there. */
function useFollow(chat) {
  const isNear = useRef(true);
  useEffect(() => {
    const look = () => {
      isNear.current = innerHeight + scrollY > document.documentElement.scrollHeight - NEAR_END_PX;
    };
    addEventListener('scroll', look, { passive: true });
    return () => removeEventListener('scroll', look);
  }, []);
  useEffect(() => {
    if (isNear.current && chat.messages.length > 0) scrollTo(0, document.documentElement.scrollHeight);
  }, [chat]);
  return isNear;
}

function chooseModel(items, wanted) {
  for (const id of wanted) if (id && items.some((m) => m.id === id)) return id;
  return items[0]?.id ?? '';
}

export default function Playground({ route, me }) {
  const store = useMemo(() => openChats(me.id), [me.id]);
  const models = useModels();
  const isWide = useWide();
  const [kept, setKept] = useState(store.settings);
  const [chosen, setChosen] = useState(''); // the model, since the page was opened for one
  const [draft, setDraft] = useState('');
  const [panel, setPanel] = useState(''); // '', 'chats', 'settings', 'curl'
  const [, setChats] = useState(store.list());
  const items = models.items ?? [];
  const model = chooseModel(items, [chosen, route.id, kept.model]);
  const settings = { ...kept, model };
  const talk = useConversation(store, settings);
  const { chat, isRunning } = talk;
  const near = useFollow(chat);
  const change = (next) => {
    setKept(next);
    store.putSettings(next);
  };
  const choose = (id) => {
    setChosen(id);
    change({ ...settings, model: id });
  };
  useEffect(() => {
    prepareProse();
  }, []);
  useEffect(() => setChosen(''), [route.id]);
  useEffect(() => setChats(store.list()), [chat]);

  const canSend = draft.trim() !== '' && model !== '' && !toolsProblem(settings.tools);
  const send = () => {
    near.current = true;
    talk.say(draft);
    setDraft('');
  };
  const open = (next) => {
    talk.open(next);
    setPanel('');
    if (items.some((m) => m.id === next.model)) choose(next.model);
  };
  const remove = (one) => {
    store.remove(one.id);
    setChats(store.list());
    if (one.id === chat.id) talk.open(newChat());
  };
  const clear = async () => {
    if (
      !(await confirm({
        title: t('playground.clearTitle'),
        text: t('playground.clearText'),
        action: t('playground.clear'),
        danger: true,
      }))
    )
      return;
    store.clear();
    talk.open(newChat());
  };
  const request = toRequest(
    [
      ...chat.messages.filter((m, i) => !(i === chat.messages.length - 1 && m.role === 'assistant' && !draft.trim())),
      ...(draft.trim() || chat.messages.length === 0 ? [{ role: 'user', content: draft.trim() || 'Hello!' }] : []),
    ],
    settings,
  );

  const history = html`<${History} chats=${store.list()} current=${chat.id} onOpen=${open} onRemove=${remove} onClear=${clear} />`;
  const form = html`<${Settings} settings=${settings} onChange=${change} />`;
  const actions = html`${items.length > 0 && html`<${ModelChooser} items=${items} value=${model} onChange=${choose} />`}
    <${Button} icon="plus" onClick=${() => open({ ...newChat(), model })}>${t('playground.new')}<//>
    ${!isWide && html`<${Button} onClick=${() => setPanel('chats')}>${t('playground.chats')}<//><${Button} onClick=${() => setPanel('settings')}>${t('playground.settings')}<//>`}
    <${Button} onClick=${() => setPanel('curl')} disabled=${!model}>${t('playground.curl')}<//>`;
  const last = chat.messages.at(-1);
  let body;
  if (models.items === null) body = null;
  else if (items.length === 0 && !models.error)
    body = html`<${Empty} icon="models" title=${t('playground.noModelTitle')} text=${t('playground.noModelText')}>
    ${me.role === 'admin' && html`<a class="button primary" href="#/models?register">${t('playground.noModelAction')}</a>`}<//>`;
  else if (chat.messages.length === 0)
    body = html`<div class="play-start"><div class="empty-icon"><${Icon} name="playground" /></div><h2>${t('playground.startTitle')}</h2><p class="muted">${t('playground.startText')}</p></div>`;
  else
    body = html`<${Turns} messages=${chat.messages} isRunning=${isRunning} onAnswer=${talk.answerTools} onRetry=${last?.role === 'assistant' && !isRunning ? talk.retry : null} />`;

  return html`<${Page} title=${t('playground.title')} actions=${actions}><div class="play">
    <div class="play-main"><${ErrorNote} error=${models.error} />${body}
      <p class="visually-hidden" role="status">${isRunning ? t('playground.running') : last?.role === 'assistant' ? t('playground.done') : ''}</p>
      ${items.length > 0 && html`<${Composer} isRunning=${isRunning} canSend=${canSend} draft=${draft} onDraft=${setDraft} onSend=${send} onStop=${talk.stop} />`}</div>
    ${
      isWide &&
      html`<aside class="play-side"><section class="section"><h2>${t('playground.chats')}</h2>${history}</section>
      <section class="section"><h2>${t('playground.settings')}</h2>${form}</section></aside>`
    }</div>
    <${Dialog} open=${!isWide && panel === 'chats'} title=${t('playground.chats')} onClose=${() => setPanel('')}>${history}<//>
    <${Dialog} open=${!isWide && panel === 'settings'} title=${t('playground.settings')} onClose=${() => setPanel('')}>${form}<//>
    <${CurlDialog} open=${panel === 'curl'} onClose=${() => setPanel('')} request=${request} me=${me} /><//>`;
}
