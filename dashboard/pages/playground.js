// pages/playground.js - chat with a model, or with two side by side: streamed answers, tools, settings, conversations.
//
// Only the request itself leaves the browser; conversations stay in its storage.  A lane is a
// conversation with its settings; two lanes get the same questions.
import { html } from 'htm/preact';
import { useEffect, useMemo, useRef, useState } from 'preact/hooks';
import { api } from '../lib/api.js';
import { branch, newChat, openChats, schemaProblem, toMarkdown, toolsProblem, toRequest } from '../lib/chats.js';
import { t } from '../lib/i18n.js';
import { live } from '../lib/live.js';
import { prepareProse } from '../lib/prose.js';
import { stateName } from '../lib/states.js';
import { Button, confirm, Dialog, Empty, ErrorNote, Icon, Page } from '../lib/ui.js';
import { CodeDialog } from './play_code.js';
import { Composer } from './play_compose.js';
import { History, Settings } from './play_panel.js';
import { useConversation } from './play_talk.js';
import { Turns } from './play_turns.js';

const NEAR_END_PX = 120;
const STARTERS = ['table', 'code', 'formula'];

/** Which models are good to begin with; the last are never chosen by the page itself. */
const RANKS = [
  'ready',
  'loading',
  'starting',
  'present',
  'draining',
  'fetching',
  'verifying',
  'waiting',
  'failed',
  'absent',
];
const isBroken = (m) => !m.ready && (m.state === 'failed' || m.state === 'absent' || m.state === 'waiting');
const rank = (m) => (m.ready ? 0 : 1 + RANKS.indexOf(m.state));

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
              .sort((a, b) => rank(a) - rank(b) || a.id.localeCompare(b.id)),
            error: null,
          }),
        (error) => isThere && setModels((before) => ({ items: before.items ?? [], error })),
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

function ModelChooser({ items, value, onChange, label = t('playground.model') }) {
  const groups = [
    [t('playground.ready'), items.filter((m) => m.ready)],
    [t('playground.notReady'), items.filter((m) => !m.ready && !isBroken(m))],
    [t('playground.broken'), items.filter(isBroken)],
  ];
  return html`<label class="chooser"><span class="visually-hidden">${label}</span>
    <select value=${value} onChange=${(e) => onChange(e.currentTarget.value)}>${value === '' && html`<option value="">${t('playground.choose')}</option>`}${groups
      .filter(([, list]) => list.length > 0)
      .map(
        ([name, list]) => html`
      <optgroup label=${name}>${list.map((m) => html`<option value=${m.id}>${m.ready ? m.id : `${m.id} (${stateName(m.state)})`}</option>`)}</optgroup>`,
      )}</select></label>`;
}

/** Follows the end of the page while whoever reads is there. */
function useFollow(chats) {
  const isNear = useRef(true);
  useEffect(() => {
    const look = () => {
      isNear.current = innerHeight + scrollY > document.documentElement.scrollHeight - NEAR_END_PX;
    };
    addEventListener('scroll', look, { passive: true });
    return () => removeEventListener('scroll', look);
  }, []);
  useEffect(() => {
    if (isNear.current && chats.some((c) => c.messages.length > 0)) scrollTo(0, document.documentElement.scrollHeight);
  }, chats);
  return isNear;
}

/** What was asked for by name; what was used last, unless it is broken; else the best. */
function chooseModel(items, asked, last) {
  for (const id of asked) if (id && items.some((m) => m.id === id)) return id;
  return items.find((m) => m.id === last && !isBroken(m))?.id ?? items.find((m) => !isBroken(m))?.id ?? '';
}

/** One conversation with its settings. */
function useLane(store, items, { lane, asked = '', otherModel = '' }) {
  const [kept, setKept] = useState(() => store.settings(lane));
  const [chosen, setChosen] = useState(''); // the model, since the page was opened for one
  const rest = items.filter((m) => m.id !== otherModel);
  const model = chooseModel(items, [chosen, asked], kept.model || (rest.find((m) => m.ready) ?? items[0])?.id);
  const settings = { ...kept, model };
  const change = (next) => {
    setKept(next);
    store.putSettings(next, lane);
  };
  useEffect(() => setChosen(''), [asked]);
  return {
    settings,
    change,
    choose(id) {
      setChosen(id);
      change({ ...settings, model: id });
    },
    isRight: model !== '' && !toolsProblem(settings.tools) && !schemaProblem(settings.schema),
    talk: useConversation(store, settings),
  };
}

function download(name, text, type) {
  const url = URL.createObjectURL(new Blob([text], { type }));
  const link = document.createElement('a');
  link.href = url;
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(url), 10000);
}

const Start = ({ onChoose }) =>
  html`<div class="play-start"><div class="empty-icon"><${Icon} name="playground" /></div><h2>${t('playground.startTitle')}</h2><p class="muted">${t('playground.startText')}</p>
    <div class="starters">${STARTERS.map((id) => html`<button type="button" class="starter card" onClick=${() => onChoose(t(`playground.starter.${id}`))}>${t(`playground.starter.${id}`)}</button>`)}</div></div>`;

const Status = ({ talk }) =>
  html`<p class="visually-hidden" role="status">${talk.isRunning ? t('playground.running') : talk.chat.messages.at(-1)?.role === 'assistant' ? t('playground.done') : ''}</p>`;

/** The request that would be sent now, for the dialog with code. */
function nextRequest({ chat }, settings, draft, files) {
  const said = draft.trim();
  const messages = chat.messages.filter((m, i) => !(i === chat.messages.length - 1 && m.role === 'assistant' && !said));
  const isNew = said !== '' || files.length > 0 || chat.messages.length === 0;
  return toRequest(
    isNew ? [...messages, { role: 'user', content: said || (files.length ? '' : 'Hello!'), files }] : messages,
    settings,
  );
}

export default function Playground({ route, me }) {
  const store = useMemo(() => openChats(me.id), [me.id]);
  const models = useModels();
  const isWide = useWide();
  const [draft, setDraft] = useState('');
  const [files, setFiles] = useState([]);
  const [panel, setPanel] = useState(''); // '', 'chats', 'settings', 'settings 2', 'code'
  const [isTwo, setTwo] = useState(false);
  const [, setChats] = useState(store.list());
  const items = models.items ?? [];
  const first = useLane(store, items, { lane: 0, asked: route.id });
  const second = useLane(store, items, { lane: 1, otherModel: first.settings.model });
  const lanes = isTwo ? [first, second] : [first];
  const { talk } = first;
  const near = useFollow([talk.chat, second.talk.chat]);
  useEffect(() => {
    prepareProse();
  }, []);
  useEffect(() => setChats(store.list()), [talk.chat, second.talk.chat]);
  const wanted = route.query.get('chat');
  useEffect(() => {
    const found = wanted && store.list().find((c) => c.id === wanted);
    if (found) open(found);
  }, [wanted, models.items !== null]);

  const isRunning = lanes.some((lane) => lane.talk.isRunning);
  const canSend = (draft.trim() !== '' || files.length > 0) && lanes.every((lane) => lane.isRight);
  const send = () => {
    near.current = true;
    lanes.forEach((lane) => lane.talk.say(draft, files));
    setDraft('');
    setFiles([]);
  };
  const stop = () => lanes.forEach((lane) => lane.talk.stop());
  const compare = () => {
    if (isTwo) second.talk.stop();
    else second.talk.open(branch(talk.chat, talk.chat.messages));
    setTwo(!isTwo);
  };
  const open = (next) => {
    talk.open(next);
    if (isTwo) second.talk.open(branch(next, next.messages));
    setPanel('');
    if (items.some((m) => m.id === next.model)) first.choose(next.model);
  };
  const rename = (one, title) => {
    store.rename(one.id, title);
    if (one.id === talk.chat.id) talk.rename(title);
    setChats(store.list());
  };
  const remove = (one) => {
    store.remove(one.id);
    setChats(store.list());
    if (one.id === talk.chat.id) talk.open(newChat());
  };
  const clear = async () => {
    const question = {
      title: t('playground.clearTitle'),
      text: t('playground.clearText'),
      action: t('playground.clear'),
      danger: true,
    };
    if (!(await confirm(question))) return;
    store.clear();
    talk.open(newChat());
  };
  const exportAll = () => download('conversations.json', JSON.stringify(store.list(), null, 2), 'application/json');
  const exportOne = () =>
    download(
      `${talk.chat.title.replace(/[^\p{L}\p{N}]+/gu, '-').slice(0, 40) || 'conversation'}.md`,
      toMarkdown(talk.chat, { you: t('playground.you'), tool: t('playground.toolResult') }),
      'text/markdown',
    );

  const isEmpty = models.items !== null && items.length === 0 && !models.error;
  const hasSide = isWide && !isTwo;
  const history = html`<${History} chats=${store.list()} current=${talk.chat.id} onOpen=${open} onRename=${rename} onRemove=${remove} onClear=${clear} onExport=${exportAll} />`;
  const actions = html`${items.length > 0 && !isTwo && html`<${ModelChooser} items=${items} value=${first.settings.model} onChange=${first.choose} />`}
    <${Button} icon="plus" onClick=${() => open({ ...newChat(), model: first.settings.model })}>${t('playground.new')}<//>
    ${!hasSide && html`<${Button} icon="list" onClick=${() => setPanel('chats')}>${t('playground.chats')}<//>${!isTwo && html`<${Button} icon="sliders" onClick=${() => setPanel('settings')}>${t('playground.settings')}<//>`}`}
    <${Button} icon="columns" aria-pressed=${isTwo ? 'true' : 'false'} class=${isTwo ? 'pressed' : ''} disabled=${items.length === 0} onClick=${compare}>${t('playground.compare')}<//>
    <${Button} icon="code" onClick=${() => setPanel('code')} disabled=${!first.settings.model}>${t('playground.code')}<//>
    ${talk.chat.messages.length > 0 && html`<${Button} icon="save" label=${t('playground.export')} onClick=${exportOne} />`}`;

  const body = (lane) => (lane.talk.chat.messages.length === 0 ? null : html`<${Turns} talk=${lane.talk} />`);
  let main;
  if (models.items === null) main = null;
  else if (isEmpty)
    main = html`<${Empty} icon="models" title=${t('playground.noModelTitle')} text=${t('playground.noModelText')}>
    ${me.role === 'admin' && html`<a class="button primary" href="#/models?register">${t('playground.noModelAction')}</a>`}<//>`;
  else if (isTwo)
    main = html`<div class="lanes">${lanes.map(
      (lane, i) => html`<section class="lane" key=${i} aria-label=${t('playground.lane', { number: i + 1 })}>
        <header class="lane-head"><${ModelChooser} items=${items} value=${lane.settings.model} label=${t('playground.laneModel', { number: i + 1 })} onChange=${lane.choose} />
        <${Button} kind="quiet" label=${t('playground.laneSettings', { number: i + 1 })} onClick=${() => setPanel(i ? 'settings 2' : 'settings')}>${t('playground.settings')}<//></header>
        ${body(lane)}<${Status} talk=${lane.talk} /></section>`,
    )}</div>`;
  else main = body(first) ?? html`<${Start} onChoose=${setDraft} />`;

  return html`<${Page} title=${t('playground.title')} actions=${actions}><div class="play ${hasSide ? 'has-side' : ''} ${isTwo ? 'is-two' : ''}">
    <div class="play-main"><${ErrorNote} error=${models.error} />${main}${!isTwo && html`<${Status} talk=${talk} />`}
      ${items.length > 0 && html`<${Composer} isRunning=${isRunning} canSend=${canSend} draft=${draft} onDraft=${setDraft} files=${files} onFiles=${setFiles} onSend=${send} onStop=${stop} />`}</div>
    ${
      hasSide &&
      html`<aside class="play-side"><section class="section"><h2>${t('playground.chats')}</h2>${history}</section>
      <section class="section"><h2>${t('playground.settings')}</h2><${Settings} settings=${first.settings} onChange=${first.change} /></section></aside>`
    }</div>
    <${Dialog} open=${!hasSide && panel === 'chats'} title=${t('playground.chats')} onClose=${() => setPanel('')}>${history}<//>
    <${Dialog} open=${!hasSide && panel === 'settings'} title=${t('playground.settings')} onClose=${() => setPanel('')}><${Settings} settings=${first.settings} onChange=${first.change} /><//>
    <${Dialog} open=${panel === 'settings 2'} title=${t('playground.laneSettings', { number: 2 })} onClose=${() => setPanel('')}><${Settings} settings=${second.settings} onChange=${second.change} /><//>
    <${CodeDialog} open=${panel === 'code'} onClose=${() => setPanel('')} request=${panel === 'code' ? nextRequest(talk, first.settings, draft, files) : null} me=${me} /><//>`;
}
