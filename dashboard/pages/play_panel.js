// pages/play_panel.js - conversations and settings beside a chat (part of the playground).
import { html } from 'htm/preact';
import { noSettings, toolsProblem } from '../lib/chats.js';
import { ago } from '../lib/format.js';
import { t } from '../lib/i18n.js';
import { Button, Field } from '../lib/ui.js';

export function History({ chats, current, onOpen, onRemove, onClear }) {
  if (chats.length === 0) return html`<p class="small muted">${t('playground.noChats')}</p>`;
  return html`<ul class="chats">${chats.map(
    (chat) => html`<li key=${chat.id}>
      <button type="button" class="chat" aria-current=${chat.id === current ? 'true' : undefined} onClick=${() => onOpen(chat)}>
        <span class="chat-title">${chat.title || t('playground.untitled')}</span><span class="chat-at">${ago(new Date(chat.at))}</span></button>
      <${Button} kind="quiet" icon="trash" label=${t('playground.removeChat', { title: chat.title || t('playground.untitled') })} onClick=${() => onRemove(chat)} /></li>`,
  )}</ul>
    <${Button} kind="quiet" onClick=${onClear}>${t('playground.clear')}<//>`;
}

const numbers = [
  { id: 'temperature', min: 0, max: 2, step: 0.1 },
  { id: 'topP', min: 0, max: 1, step: 0.05 },
  { id: 'maxTokens', min: 1, step: 1 },
  { id: 'seed', step: 1 },
];

export function Settings({ settings, onChange }) {
  const set = (name) => (event) => onChange({ ...settings, [name]: event.currentTarget.value });
  const problem = toolsProblem(settings.tools);
  const problemText =
    problem && (problem === 'list' ? t('playground.toolsList') : t('playground.toolsJson', { reason: problem }));
  return html`<div class="stack">
    <${Field} label=${t('playground.system')}>${(props) => html`<textarea rows="2" ...${props} value=${settings.system} onInput=${set('system')} />`}<//>
    <div class="pairs">${numbers.map(
      ({ id, ...range }) =>
        html`<${Field} key=${id} label=${t(`playground.${id}`)}>${(props) => html`
      <input type="number" inputmode="decimal" ...${range} ...${props} value=${settings[id]} placeholder=${t('playground.default')} onInput=${set(id)} />`}<//>`,
    )}</div>
    <${Field} label=${t('playground.effort')}>${(
      props,
    ) => html`<select ...${props} value=${settings.effort} onChange=${set('effort')}>
      <option value="">${t('playground.default')}</option><option value="low">${t('playground.low')}</option><option value="medium">${t('playground.medium')}</option><option value="high">${t('playground.high')}</option></select>`}<//>
    <${Field} label=${t('playground.tools')} hint=${t('playground.toolsHint')} error=${problemText}>${(props) => html`
      <textarea rows="3" class="mono" spellcheck=${false} ...${props} value=${settings.tools} onInput=${set('tools')} />`}<//>
    <${Button} kind="quiet" onClick=${() => onChange({ ...noSettings, model: settings.model })}>${t('playground.reset')}<//></div>`;
}
