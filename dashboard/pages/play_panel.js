// pages/play_panel.js - conversations and settings beside a chat (part of the playground).
import { html } from 'htm/preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import { noSettings, schemaProblem, search, toolsProblem } from '../lib/chats.js';
import { ago } from '../lib/format.js';
import { t } from '../lib/i18n.js';
import { Button, Field, Icon } from '../lib/ui.js';
import { schemaExamples, toolExamples } from './play_examples.js';

/** The title as a box to type in: Enter keeps, Escape does not. */
function Rename({ title, onDone }) {
  const box = useRef(null);
  useEffect(() => box.current.select(), []);
  const key = (event) => {
    if (event.isComposing) return;
    if (event.key === 'Enter') onDone(event.currentTarget.value.trim() || title);
    if (event.key === 'Escape') {
      event.preventDefault(); // the dialog around it stays
      event.stopPropagation();
      onDone(title);
    }
  };
  return html`<input ref=${box} class="rename" type="text" aria-label=${t('playground.renameLabel')} defaultValue=${title} maxlength="80" onKeyDown=${key} onBlur=${(e) => onDone(e.currentTarget.value.trim() || title)} />`;
}

function Entry({ chat, isCurrent, onOpen, onRename, onRemove }) {
  const [isNamed, setNamed] = useState(false);
  const title = chat.title || t('playground.untitled');
  if (isNamed)
    return html`<li><${Rename} title=${chat.title} onDone=${(text) => {
      setNamed(false);
      onRename(chat, text);
    }} /></li>`;
  return html`<li><button type="button" class="chat" aria-current=${isCurrent ? 'true' : undefined} onClick=${() => onOpen(chat)}>
      <span class="chat-title">${title}</span><span class="chat-at">${[chat.model, ago(new Date(chat.at))].filter(Boolean).join(' · ')}</span></button>
    <${Button} kind="quiet" icon="edit" label=${t('playground.renameChat', { title })} onClick=${() => setNamed(true)} />
    <${Button} kind="quiet" icon="trash" label=${t('playground.removeChat', { title })} onClick=${() => onRemove(chat)} /></li>`;
}

export function History({ chats, current, onOpen, onRename, onRemove, onClear, onExport }) {
  const [words, setWords] = useState('');
  if (chats.length === 0) return html`<p class="small muted">${t('playground.noChats')}</p>`;
  const found = search(chats, words);
  return html`${chats.length > 1 && html`<div class="search chat-search"><${Icon} name="search" /><input type="search" aria-label=${t('playground.search')} placeholder=${t('playground.search')} value=${words} onInput=${(e) => setWords(e.currentTarget.value)} /></div>`}
    ${found.length === 0 && html`<p class="small muted" role="status">${t('common.nothingFound')}</p>`}
    <ul class="chats">${found.map((chat) => html`<${Entry} key=${chat.id} chat=${chat} isCurrent=${chat.id === current} onOpen=${onOpen} onRename=${onRename} onRemove=${onRemove} />`)}</ul>
    <div class="row history-foot"><${Button} kind="quiet" icon="save" onClick=${onExport}>${t('playground.exportAll')}<//><${Button} kind="quiet" onClick=${onClear}>${t('playground.clear')}<//></div>`;
}

const numbers = [
  { id: 'temperature', min: 0, max: 2, step: 0.1 },
  { id: 'topP', min: 0, max: 1, step: 0.05 },
  { id: 'maxTokens', min: 1, step: 1 },
  { id: 'seed', step: 1 },
];

/** JSON with examples to begin with; says what is wrong while it is typed. */
function JsonField({ label, hint, value, problem, examples, onChange }) {
  const isJson = value.trim() !== '' && !problem;
  return html`<div class="json-field"><${Field} label=${label} hint=${hint} error=${problem}>${(props) => html`
      <textarea rows=${Math.max(3, Math.min(14, value.split('\n').length))} class="mono" spellcheck=${false} ...${props} value=${value} onInput=${(e) => onChange(e.currentTarget.value)} />`}<//>
    <div class="row json-tools"><select aria-label=${`${label}: ${t('playground.examples')}`} value="" onChange=${(
      e,
    ) => {
      const found = examples.find((x) => x.id === e.currentTarget.value);
      e.currentTarget.value = '';
      if (found) onChange(JSON.stringify(found.value, null, 2));
    }}><option value="">${t('playground.examples')}</option>${examples.map(({ id }) => html`<option value=${id}>${t(`playground.example.${id}`)}</option>`)}</select>
    <${Button} kind="quiet" class="small" disabled=${!isJson} onClick=${() => onChange(JSON.stringify(JSON.parse(value), null, 2))}>${t('playground.format')}<//>
    <${Button} kind="quiet" class="small" disabled=${value === ''} onClick=${() => onChange('')}>${t('playground.empty')}<//></div></div>`;
}

export function Settings({ settings, onChange }) {
  const put = (name, value) => onChange({ ...settings, [name]: value });
  const set = (name) => (event) => put(name, event.currentTarget.value);
  const sentence = (problem, otherwise) =>
    problem &&
    (problem === 'list' || problem === 'object' ? otherwise : t('playground.toolsJson', { reason: problem }));
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
    <${JsonField} label=${t('playground.schema')} hint=${t('playground.schemaHint')} value=${settings.schema} examples=${schemaExamples}
      problem=${sentence(schemaProblem(settings.schema), t('playground.schemaObject'))} onChange=${(text) => put('schema', text)} />
    <${JsonField} label=${t('playground.tools')} hint=${t('playground.toolsHint')} value=${settings.tools} examples=${toolExamples}
      problem=${sentence(toolsProblem(settings.tools), t('playground.toolsList'))} onChange=${(text) => put('tools', text)} />
    <${Button} kind="quiet" onClick=${() => onChange({ ...noSettings, model: settings.model })}>${t('playground.reset')}<//></div>`;
}
