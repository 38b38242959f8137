// pages/play_turns.js - the messages of a conversation (part of the playground).
import { html } from 'htm/preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import { duration, figure, number } from '../lib/format.js';
import { t } from '../lib/i18n.js';
import { Prose } from '../lib/prose.js';
import { Button, CopyButton, ErrorNote, Field, Icon } from '../lib/ui.js';
import { FileChip } from './play_compose.js';
import { Waiting } from './play_wait.js';

function Reasoning({ text, isOpen }) {
  return html`<details class="reasoning"><summary><${Icon} name="spark" /><span>${isOpen ? t('playground.thinking') : t('playground.reasoning')}</span></summary>
    <p class="reasoning-text">${text}</p></details>`;
}

function pretty(text) {
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return text;
  }
}

function ToolCall({ call, answer, value, onInput }) {
  return html`<div class="tool"><p class="tool-name"><span class="muted">${t('playground.toolCall')}</span> <code>${call.name}</code></p>
    <pre tabindex="0" aria-label=${t('playground.toolArguments')}>${pretty(call.arguments)}</pre>
    ${
      answer !== undefined
        ? html`<p class="small muted">${t('playground.toolResult')}</p><pre tabindex="0">${answer}</pre>`
        : onInput &&
          html`<${Field} label=${t('playground.toolResult')}>${(props) => html`<textarea rows="2" class="mono" ...${props} value=${value} placeholder='{"ok": true}' onInput=${(e) => onInput(e.currentTarget.value)} />`}<//>`
    }</div>`;
}

/** The calls of one answer; the last answer's wait for their results. */
function ToolCalls({ calls, results, onAnswer }) {
  const [texts, setTexts] = useState({});
  const waiting = onAnswer && calls.some((c) => results[c.id] === undefined);
  return html`<div class="tools">${calls.map(
    (call, i) => html`<${ToolCall} key=${call.id || i} call=${call} answer=${results[call.id]} value=${texts[i] ?? ''}
      onInput=${waiting ? (text) => setTexts({ ...texts, [i]: text }) : null} />`,
  )}
    ${waiting && html`<${Button} kind="primary" onClick=${() => onAnswer(calls.map((call, i) => ({ id: call.id, content: texts[i] ?? '' })))}>${t('playground.sendResults', { count: calls.length })}<//>`}</div>`;
}

function Facts({ message }) {
  const { facts } = message;
  if (!facts || (facts.tokens === 0 && !message.isStopped)) return null;
  return html`<p class="turn-facts">${[
    t('playground.tokens', { count: number(facts.tokens) }),
    facts.speed !== null && t('playground.speed', { value: figure(facts.speed) }),
    facts.firstMs !== null && t('playground.firstToken', { value: duration(Math.round(facts.firstMs)) }),
    facts.prompt > 0 &&
      (facts.cached > 0
        ? t('playground.promptCached', { count: number(facts.prompt), cached: number(facts.cached) })
        : t('playground.prompt', { count: number(facts.prompt) })),
    message.isStopped ? t('playground.stopped') : message.finish === 'length' && t('playground.cutByLength'),
  ]
    .filter(Boolean)
    .map((text) => html`<span>${text}</span>`)}</p>`;
}

function EditBox({ text, onSave, onCancel }) {
  const [draft, setDraft] = useState(text);
  const area = useRef(null);
  useEffect(() => area.current.focus(), []);
  const key = (event) => {
    if (event.key === 'Escape') onCancel();
    if (event.key !== 'Enter' || event.shiftKey || event.isComposing || event.keyCode === 229) return;
    event.preventDefault();
    if (draft.trim()) onSave(draft);
  };
  return html`<div class="edit-box"><textarea ref=${area} rows=${Math.min(12, draft.split('\n').length + 1)} aria-label=${t('playground.editLabel')} value=${draft}
      onInput=${(e) => setDraft(e.currentTarget.value)} onKeyDown=${key} />
    <div class="edit-foot"><span class="hint">${t('playground.editHint')}</span><${Button} class="small" onClick=${onCancel}>${t('common.cancel')}<//>
    <${Button} class="small" kind="primary" disabled=${!draft.trim()} onClick=${() => onSave(draft)}>${t('playground.editSend')}<//></div></div>`;
}

function UserTurn({ message, onEdit }) {
  const [isEdited, setEdited] = useState(false);
  if (isEdited)
    return html`<li class="turn user"><h3 class="visually-hidden">${t('playground.you')}</h3><${EditBox} text=${message.content} onCancel=${() => setEdited(false)}
      onSave=${(text) => {
        setEdited(false);
        onEdit(text);
      }} /></li>`;
  return html`<li class="turn user"><h3 class="visually-hidden">${t('playground.you')}</h3>
    <div class="user-line">${onEdit && html`<div class="user-tools"><${Button} kind="quiet" icon="edit" label=${t('playground.edit')} onClick=${() => setEdited(true)} /><${CopyButton} text=${message.content} isBare /></div>`}
    ${message.content && html`<p class="bubble">${message.content}</p>`}</div>
    ${message.files && html`<div class="chips">${message.files.map((file, i) => html`<${FileChip} key=${i} file=${file} />`)}</div>`}</li>`;
}

function ModelTurn({ message, run, results, onAnswer, onRetry, onBranch }) {
  const isRunning = run !== null;
  const { content, reasoning = '', toolCalls = [], error } = message;
  const isSilent = isRunning && !content && !reasoning && toolCalls.length === 0;
  return html`<li class="turn model" aria-busy=${isRunning ? 'true' : undefined}><h3 class="turn-name">${message.facts?.model || t('playground.model')}</h3>
    ${reasoning && html`<${Reasoning} text=${reasoning} isOpen=${isRunning && !content} />`}
    ${isSilent && html`<${Waiting} run=${run} />`}
    ${content && html`<${Prose} text=${content} />`}
    ${toolCalls.length > 0 && html`<${ToolCalls} calls=${toolCalls} results=${results} onAnswer=${isRunning ? null : onAnswer} />`}
    ${error && html`<${ErrorNote} error=${error} />`}
    <div class="turn-foot"><${Facts} message=${message} />
      ${
        !isRunning &&
        html`<div class="turn-tools">${content && html`<${CopyButton} text=${content} />`}
        ${onBranch && html`<${Button} kind="quiet" icon="branch" label=${t('playground.branch')} onClick=${onBranch} />`}
        ${onRetry && html`<${Button} kind="quiet" icon="reload" onClick=${onRetry}>${t('playground.again')}<//>`}</div>`
      }</div></li>`;
}

/** A conversation; `run` is what the model does now, or null. */
export function Turns({ talk }) {
  const { run } = talk;
  const { messages, id } = talk.chat;
  const results = {};
  for (const m of messages) if (m.role === 'tool') results[m.toolCallId] = m.content;
  const shown = messages.map((message, i) => ({ message, i })).filter(({ message }) => message.role !== 'tool');
  return html`<ol class="turns">${shown.map(({ message, i }) => {
    const isLast = i === messages.length - 1;
    return message.role === 'user'
      ? html`<${UserTurn} key=${`${id} ${i}`} message=${message} onEdit=${run ? null : (text) => talk.edit(i, text)} />`
      : html`<${ModelTurn} key=${`${id} ${i}`} message=${message} run=${isLast ? run : null} results=${results}
          onAnswer=${isLast ? talk.answerTools : null} onRetry=${isLast && !run ? talk.retry : null} onBranch=${run ? null : () => talk.branch(i)} />`;
  })}</ol>`;
}
