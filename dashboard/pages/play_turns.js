// pages/play_turns.js - the messages of a conversation (part of the playground).
import { html } from 'htm/preact';
import { useState } from 'preact/hooks';
import { duration, figure, number } from '../lib/format.js';
import { t } from '../lib/i18n.js';
import { Prose } from '../lib/prose.js';
import { Button, CopyButton, ErrorNote, Field, Icon } from '../lib/ui.js';

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
  if (!facts) return null;
  return html`<p class="turn-facts">${[
    t('playground.tokens', { count: number(facts.tokens) }),
    facts.speed !== null && t('playground.speed', { value: figure(facts.speed) }),
    facts.firstMs !== null && t('playground.firstToken', { value: duration(Math.round(facts.firstMs)) }),
    message.isStopped ? t('playground.stopped') : message.finish === 'length' && t('playground.cutByLength'),
  ]
    .filter(Boolean)
    .map((text) => html`<span>${text}</span>`)}</p>`;
}

function UserTurn({ message }) {
  return html`<li class="turn user"><h3 class="visually-hidden">${t('playground.you')}</h3><p class="bubble">${message.content}</p></li>`;
}

function ModelTurn({ message, isRunning, results, onAnswer, onRetry }) {
  const { content, reasoning = '', toolCalls = [], error } = message;
  const isSilent = isRunning && !content && !reasoning && toolCalls.length === 0;
  return html`<li class="turn model" aria-busy=${isRunning ? 'true' : undefined}><h3 class="turn-name">${message.facts?.model || t('playground.model')}</h3>
    ${reasoning && html`<${Reasoning} text=${reasoning} isOpen=${isRunning && !content} />`}
    ${isSilent && html`<p class="waiting"><span class="spinner" aria-hidden="true"></span>${t('playground.waiting')}</p>`}
    ${content && html`<${Prose} text=${content} />`}
    ${toolCalls.length > 0 && html`<${ToolCalls} calls=${toolCalls} results=${results} onAnswer=${isRunning ? null : onAnswer} />`}
    ${error && html`<${ErrorNote} error=${error} />`}
    <div class="turn-foot"><${Facts} message=${message} />
      ${
        !isRunning &&
        html`<div class="turn-tools">${content && html`<${CopyButton} text=${content} />`}
        ${onRetry && html`<${Button} kind="quiet" icon="reload" onClick=${onRetry}>${t('playground.again')}<//>`}</div>`
      }</div></li>`;
}

/** @param {{messages: import('../lib/chats.js').Message[], isRunning: boolean}} props */
export function Turns({ messages, isRunning, onAnswer, onRetry }) {
  const results = {};
  for (const m of messages) if (m.role === 'tool') results[m.toolCallId] = m.content;
  const shown = messages.map((message, i) => ({ message, i })).filter(({ message }) => message.role !== 'tool');
  return html`<ol class="turns">${shown.map(({ message, i }) => {
    const isLast = i === messages.length - 1;
    return message.role === 'user'
      ? html`<${UserTurn} key=${i} message=${message} />`
      : html`<${ModelTurn} key=${i} message=${message} isRunning=${isRunning && isLast} results=${results}
          onAnswer=${isLast ? onAnswer : null} onRetry=${isLast ? onRetry : null} />`;
  })}</ol>`;
}
