// lib/keyboard.js - keys that work on every page: Ctrl-K and / open the palette, ? the list of keys,
// g and a letter a page.  The palette itself (lib/palette.js) is loaded when it is opened first.
import { html } from 'htm/preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import { t } from './i18n.js';
import { go } from './route.js';
import { Icon } from './ui.js';

const LETTERS = { overview: 'o', models: 'm', nodes: 'n', requests: 'r', playground: 'p', keys: 'k' };
const SEQUENCE_MS = 1200; // from g to the letter

const isTyping = (element) => element?.closest?.('input, textarea, select, [contenteditable]') != null;

/** The pages as the palette lists them. @param {string[]} names */
export const pageEntries = (names) =>
  names.map((id) => ({
    id,
    icon: id,
    text: t(`common.${id}`),
    keys: LETTERS[id] ? ['g', LETTERS[id]] : undefined,
  }));

let library = null;

/** The button that opens the palette, and the keys. */
export function Keyboard({ me, names, actions }) {
  const [shown, setShown] = useState(''); // '', 'palette', 'shortcuts'
  const [, setArrived] = useState(false);
  const before = useRef({ key: '', at: 0 });
  const open = async (what) => {
    library ??= await import('./palette.js').catch(() => null);
    setArrived(true);
    setShown(what);
  };
  useEffect(() => {
    const press = (event) => {
      if ((event.ctrlKey || event.metaKey) && !event.altKey && event.key.toLowerCase() === 'k') {
        event.preventDefault();
        if (!document.querySelector('dialog[open]')) open('palette');
        return;
      }
      if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing) return;
      if (isTyping(event.target) || document.querySelector('dialog[open]')) return;
      const { key: first, at } = before.current;
      before.current = { key: event.key, at: event.timeStamp };
      if (event.key === '/' || event.key === '?') {
        event.preventDefault();
        open(event.key === '/' ? 'palette' : 'shortcuts');
      } else if (first === 'g' && event.timeStamp - at < SEQUENCE_MS) {
        const page = names.find((name) => LETTERS[name] === event.key);
        if (page) go(page);
      }
    };
    addEventListener('keydown', press);
    return () => removeEventListener('keydown', press);
  }, [names]);
  const close = () => setShown('');
  const pages = shown ? pageEntries(names) : [];
  const all = [
    ...actions,
    { id: 'shortcuts', text: t('palette.shortcuts'), icon: 'keyboard', keys: ['?'], run: () => open('shortcuts') },
  ];
  return html`<button type="button" class="find" aria-keyshortcuts="Control+K" onClick=${() => open('palette')}><${Icon} name="search" /><span>${t('palette.open')}</span><span class="keys-shown" aria-hidden="true"><kbd>Ctrl</kbd><kbd>K</kbd></span></button>
    ${shown === 'palette' && library && html`<${library.Palette} me=${me} pages=${pages} actions=${all} onClose=${close} />`}
    ${shown === 'shortcuts' && library && html`<${library.Shortcuts} pages=${pages} onClose=${close} />`}`;
}
