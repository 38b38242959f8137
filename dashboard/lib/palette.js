// lib/palette.js - the palette (Ctrl-K): pages, models, nodes, keys, conversations and actions by name.
//
//   <Palette me actions onClose />     a dialog; `actions`: [{id, text, icon, run}], of the shell
//   <Shortcuts onClose />              the list of keys (?)
//
// Loaded when it is opened first (app.js).  What there is to find is read then.
import { html } from 'htm/preact';
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from 'preact/hooks';
import { api } from './api.js';
import { openChats, search } from './chats.js';
import { t } from './i18n.js';
import { mayChange } from './me.js';
import { href } from './route.js';
import { stateName } from './states.js';
import { Dialog, Icon } from './ui.js';

const SHOWN_MAX = 40;
const CHATS_SHOWN = 5;

const read = (path, member) =>
  api.get(path).then(
    (answer) => answer[member] ?? [],
    () => [],
  );

/** Everything of the fleet that has a name. */
async function readFleet(isAdmin) {
  if (!isAdmin) return { models: await read('/v1/models', 'data'), nodes: [], keys: [] };
  const [models, nodes, keys] = await Promise.all([
    read('/v0/models?brief=true', 'models'),
    read('/v0/nodes?brief=true', 'nodes'),
    read('/v0/keys', 'keys'),
  ]);
  return { models, nodes, keys };
}

const go = (hash) => () => {
  location.hash = hash;
};

function toEntries({ models, nodes, keys }, isAdmin) {
  return [
    ...models.flatMap((m) => [
      ...(isAdmin
        ? [
            {
              kind: 'models',
              text: m.id,
              aside: stateName(m.state ?? ''),
              icon: 'models',
              run: go(href('models', m.id)),
            },
          ]
        : []),
      ...(mayChange() && (m.capabilities ?? ['chat']).includes('chat')
        ? [
            {
              kind: 'chat',
              text: t('palette.chatWith', { id: m.id }),
              icon: 'playground',
              run: go(href('playground', m.id)),
            },
          ]
        : []),
    ]),
    ...nodes.map((n) => ({
      kind: 'nodes',
      text: n.name,
      aside: t(n.online ? 'palette.online' : 'palette.offline'),
      icon: 'nodes',
      run: go(href('nodes', n.id)),
    })),
    ...keys.map((k) => ({ kind: 'keys', text: k.name || k.id, aside: k.role, icon: 'keys', run: go(href('keys')) })),
  ];
}

/** A word at the beginning counts more than one inside; every word must be there. */
export function score(text, words) {
  const low = text.toLowerCase();
  let sum = 0;
  for (const word of words) {
    const at = low.indexOf(word);
    if (at < 0) return 0;
    sum += at === 0 ? 3 : /[\s\-_/.:]/.test(low[at - 1]) ? 2 : 1;
  }
  return sum + 1 / (1 + text.length);
}

function find(entries, text, store) {
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  if (words.length === 0) return entries.filter((e) => e.kind === 'go' || e.kind === 'actions');
  const found = entries
    .map((entry) => ({ entry, points: score(entry.text, words) }))
    .filter(({ points }) => points > 0)
    .sort((a, b) => b.points - a.points)
    .slice(0, SHOWN_MAX)
    .map(({ entry }) => entry);
  const chats = search(store.list(), text)
    .slice(0, CHATS_SHOWN)
    .map((c) => ({
      kind: 'chats',
      text: c.title,
      icon: 'list',
      run: go(`#/playground?chat=${encodeURIComponent(c.id)}`),
    }));
  return [...found, ...chats];
}

/** Kinds stay together, in the order of their best entry. */
function group(entries) {
  const kinds = new Map();
  for (const entry of entries) kinds.set(entry.kind, [...(kinds.get(entry.kind) ?? []), entry]);
  return [...kinds];
}

export function Palette({ me, pages, actions, onClose }) {
  const [text, setText] = useState('');
  const [at, setAt] = useState(0);
  const [fleet, setFleet] = useState({ models: [], nodes: [], keys: [] });
  const list = useRef(null);
  const box = useRef(null);
  const isAdmin = me.role === 'admin' || me.role === 'viewer';
  const store = useMemo(() => openChats(me.id), [me.id]);
  useLayoutEffect(() => box.current.focus(), []);
  useEffect(() => {
    let isHere = true;
    readFleet(isAdmin).then((got) => isHere && setFleet(got));
    return () => {
      isHere = false;
    };
  }, []);
  const entries = useMemo(
    () => [
      ...pages.map((p) => ({ kind: 'go', ...p, run: go(href(p.id)) })),
      ...actions.map((a) => ({ kind: 'actions', ...a })),
      ...toEntries(fleet, isAdmin),
    ],
    [fleet],
  );
  const groups = useMemo(() => group(find(entries, text, store)), [entries, text]);
  const flat = groups.flatMap(([, items]) => items);
  const chosen = Math.min(at, Math.max(0, flat.length - 1));
  useEffect(() => {
    list.current?.querySelector('[aria-selected="true"]')?.scrollIntoView({ block: 'nearest' });
  }, [chosen, text]);
  const take = (entry) => {
    onClose();
    entry.run();
  };
  const key = (event) => {
    if (event.isComposing) return;
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step && flat.length > 0) {
      event.preventDefault();
      setAt((chosen + step + flat.length) % flat.length);
    } else if (event.key === 'Enter' && flat[chosen]) {
      event.preventDefault();
      take(flat[chosen]);
    }
  };
  let count = -1;
  return html`<${Dialog} open title=${t('palette.title')} class="palette" onClose=${onClose}>
    <div class="palette-box"><${Icon} name="search" /><input ref=${box} type="text" role="combobox" aria-expanded="true" aria-controls="palette-list" aria-autocomplete="list" autocomplete="off" spellcheck=${false}
      aria-activedescendant=${flat.length > 0 ? `palette-${chosen}` : undefined} aria-label=${t('palette.title')} placeholder=${t('palette.placeholder')} value=${text}
      onInput=${(e) => {
        setText(e.currentTarget.value);
        setAt(0);
      }} onKeyDown=${key} /></div>
    <div id="palette-list" class="palette-list" role="listbox" aria-label=${t('palette.title')} ref=${list}>${groups.map(
      ([kind, items]) =>
        html`<div role="group" aria-label=${t(`palette.kind.${kind}`)} key=${kind}><p class="palette-kind" aria-hidden="true">${t(`palette.kind.${kind}`)}</p>${items.map(
          (entry) => {
            count++;
            const mine = count;
            return html`<div role="option" id=${`palette-${mine}`} class="palette-entry" aria-selected=${mine === chosen ? 'true' : 'false'} onClick=${() => take(entry)} onMouseMove=${() => mine !== chosen && setAt(mine)}>
          <${Icon} name=${entry.icon} /><span class="palette-text">${entry.text}</span><span class="palette-aside">${entry.aside}${entry.keys && html`<${Keys} keys=${entry.keys} />`}</span></div>`;
          },
        )}</div>`,
    )}</div>
    ${flat.length === 0 && html`<p class="palette-none muted" role="status">${t('common.nothingFound')}</p>`}<//>`;
}

const Keys = ({ keys }) => html`<span class="keys-shown">${keys.map((k) => html`<kbd>${k}</kbd>`)}</span>`;

const isMac = /Mac|iPhone|iPad/.test(globalThis.navigator?.platform ?? '');
const mod = isMac ? '⌘' : 'Ctrl';

export function Shortcuts({ pages, onClose }) {
  const rows = [
    [[mod, 'K'], t('palette.title')],
    [['/'], t('palette.title')],
    [['?'], t('palette.shortcuts')],
    ...pages.map((p) => [p.keys, p.text]),
    [['Enter'], t('palette.send')],
    [['Shift', 'Enter'], t('palette.line')],
    [['Esc'], t('palette.escape')],
  ];
  return html`<${Dialog} open title=${t('palette.shortcuts')} onClose=${onClose}>
    <dl class="shortcuts">${rows.map(([keys, text]) => html`<div><dt><${Keys} keys=${keys} /></dt><dd>${text}</dd></div>`)}</dl><//>`;
}
