// pages/play_code.js - a request as code of other clients (part of the playground and of the page of one's own key).
import { html } from 'htm/preact';
import { useRef, useState } from 'preact/hooks';
import { snippets } from '../lib/chat_snippets.js';
import { Code } from '../lib/code.js';
import { t } from '../lib/i18n.js';
import { Dialog } from '../lib/ui.js';

/** Tabs as the guide of ARIA has them: the arrows move, one stop for Tab. */
function Tabs({ items, chosen, onChoose }) {
  const box = useRef(null);
  const key = (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!step) return;
    const at = items.findIndex((x) => x.id === chosen);
    onChoose(items[(at + step + items.length) % items.length].id);
    box.current.children[(at + step + items.length) % items.length].focus();
  };
  return html`<div class="tabs" role="tablist" aria-label=${t('playground.code')} ref=${box} onKeyDown=${key}>${items.map(
    ({
      id,
      name,
    }) => html`<button type="button" role="tab" id=${`code-${id}`} aria-selected=${id === chosen ? 'true' : 'false'} aria-controls="code-panel"
      tabindex=${id === chosen ? 0 : -1} onClick=${() => onChoose(id)}>${name}</button>`,
  )}</div>`;
}

/** A request as code of the clients, one at a time. @param {{request: object, me: object}} props */
export function Snippets({ request, me }) {
  const [chosen, setChosen] = useState('curl');
  const all = snippets(request, { origin: location.origin, needsKey: me.needs_key });
  const shown = all.find((x) => x.id === chosen);
  return html`<${Tabs} items=${all} chosen=${chosen} onChoose=${setChosen} />
    ${me.needs_key && html`<p class="muted small">${t('playground.codeKey')} <code>LLM_ROUTER_KEY</code></p>`}
    <div id="code-panel" class="snippet" role="tabpanel" aria-labelledby=${`code-${chosen}`} key=${chosen}><${Code} text=${shown.text.trimEnd()} language=${shown.language} /></div>`;
}

export const CodeDialog = ({ open, onClose, request, me }) =>
  html`<${Dialog} open=${open} title=${t('playground.code')} wide onClose=${onClose}>${open && html`<${Snippets} request=${request} me=${me} />`}<//>`;
