// pages/request.js - one request of the log: its facts, its way as a picture and as a list of steps.
import { html } from 'htm/preact';
import { dateTime, duration, figure, number } from '../lib/format.js';
import { t } from '../lib/i18n.js';
import { useResource } from '../lib/live.js';
import { RequestBadge, spans, whyNode } from '../lib/request.js';
import { href } from '../lib/route.js';
import { reasonOf, reasonText } from '../lib/states.js';
import { Badge, CopyButton, Empty, ErrorNote, Facts, Note, Page, Skeleton } from '../lib/ui.js';

const ms = (value) =>
  value === undefined
    ? '–'
    : value < 100
      ? `${number(value, 1)} ms`
      : value < 10000
        ? `${number(value)} ms`
        : duration(value);

const bad = ['failed_over', 'worker_lost'];
const uneasy = ['busy', 'preempted', 'recalled', 'paused'];

function Picture({ request }) {
  const rows = Math.min(request.choices || 1, 8);
  const all = Array.from({ length: rows }, (_, choice) => spans(request.steps, request.total_ms, choice));
  const total = Math.max(request.total_ms, 0.001);
  const kinds = [...new Set(all.flat().map((s) => s.kind))];
  return html`<figure class="way card card-pad" role="img" aria-label=${t('requests.wayText', { parts: all[0].map((s) => `${t(`requests.span_${s.kind}`)} ${ms(s.to - s.from)}`).join(', ') })}>
    ${all.map(
      (
        list,
        choice,
      ) => html`<div class="way-row" key=${choice}>${rows > 1 && html`<span class="way-choice">${number(choice + 1)}</span>`}
        <div class="way-bar">${list.map(
          (s, i) =>
            html`<span key=${i} class="way-part" data-span=${s.kind} style=${{ flexGrow: Math.max((s.to - s.from) / total, 0.004) }} title=${`${t(`requests.span_${s.kind}`)} ${ms(s.to - s.from)}${s.node ? ` · ${s.node}` : ''}`}></span>`,
        )}</div></div>`,
    )}
    <div class="way-scale number" aria-hidden="true"><span>0</span><span>${ms(total / 2)}</span><span>${ms(total)}</span></div>
    <ul class="legend blocks">${kinds.map((kind) => html`<li key=${kind}><span class="line" data-span=${kind}></span>${t(`requests.span_${kind}`)} ${ms(all[0].filter((s) => s.kind === kind).reduce((sum, s) => sum + s.to - s.from, 0))}</li>`)}</ul></figure>`;
}

const Steps = ({ request }) => html`<ol class="steps card">
  <li><span class="step-at number">0</span><span class="step-what">${t('requests.step_arrived')}</span></li>
  ${[...request.steps]
    .sort((a, b) => a.at_ms - b.at_ms)
    .map(
      (
        s,
        i,
      ) => html`<li key=${i} class=${bad.includes(s.step) ? 'bad' : uneasy.includes(s.step) ? 'uneasy' : ''}><span class="step-at number">${ms(s.at_ms)}</span>
    <span class="step-what">${t(`requests.step_${s.step}`)}${s.node ? html` <span class="muted">${s.node}</span>` : ''}${request.choices > 1 ? html` <${Badge}>${t('requests.choice', { number: s.choice + 1 })}<//>` : ''}
      ${s.tokens > 0 && (bad.includes(s.step) || uneasy.includes(s.step)) && html` <span class="muted small">${t('requests.hadTokens', { count: number(s.tokens) })}</span>`}
      ${s.reason && html`<span class="reason step-reason">${reasonOf(s)}</span>`}</span></li>`,
    )}
  ${request.steps_left_out > 0 && html`<li><span class="step-at"></span><span class="muted">${t('requests.leftOut', { count: request.steps_left_out })}</span></li>`}
  ${request.status > 0 && html`<li class=${request.status >= 500 || request.status === 429 ? 'bad' : ''}><span class="step-at number">${ms(request.total_ms)}</span><span class="step-what">${t(request.status < 400 ? 'requests.step_done' : request.error_code === 'cancelled' ? 'requests.step_left' : 'requests.step_refused')}${request.error && html`<span class="reason step-reason">${reasonText(request.error, request.error_reason_code, request.error_reason_params)}</span>`}</span></li>`}</ol>`;

const PART = { content: 'requests.answer', reasoning: 'requests.reasoning', tool_call: 'requests.toolCall' };

const LeftOut = ({ count }) =>
  count > 0 && html`<p class="small muted" role="note">${t('requests.bytesLeftOut', { count: number(count) })}</p>`;

const Text = ({ title, text }) =>
  html`<h3>${title}</h3><pre class="kept-text card card-pad" tabindex="0" role="region" aria-label=${title}>${text}</pre>`;

/** The prompt as the model got it and the answer as the client got it; else why they are not here. */
function Texts({ request }) {
  const { prompt, answers = [] } = request;
  if (request.texts !== 'kept')
    return html`<section class="section"><h2>${t('requests.texts')}</h2><${Note}><p>${t(request.key || request.texts !== 'off' ? `requests.texts_${request.texts}` : 'requests.texts_noKey')}</p>
      ${request.texts === 'off' && request.key && html`<p><a href=${href('keys')}>${t('requests.toKeys')}</a></p>`}<//></section>`;
  return html`<section class="section texts"><h2>${t('requests.texts')}</h2><p class="small muted">${t('requests.texts_kept')}</p>
    <${Text} title=${t('requests.prompt')} text=${prompt.begin} />
    <${LeftOut} count=${prompt.left_out} />
    ${prompt.end && html`<${Text} title=${t('requests.promptEnd')} text=${prompt.end} />`}
    ${answers.map(
      (answer, choice) =>
        html`<div key=${choice}>${answer.parts.map((part, i) => {
          const title = `${t(PART[part.kind], { name: part.name ?? '' })}${answers.length > 1 ? ` (${t('requests.choice', { number: choice + 1 })})` : ''}`;
          return html`<${Text} key=${i} title=${title} text=${part.text} />`;
        })}<${LeftOut} count=${answer.left_out} /></div>`,
    )}</section>`;
}

export default function Request({ id }) {
  const { data, error } = useResource(`/v0/requests/${encodeURIComponent(id)}`, { everyS: 1 });
  const back = { href: href('requests'), text: t('requests.title') };
  if (error?.status === 404)
    return html`<${Page} title=${t('requests.goneTitle')} back=${back}><${Empty} icon="requests" title=${t('requests.goneTitle')} text=${t('requests.goneText')}><a class="button" href=${href('requests')}>${t('requests.title')}</a><//><//>`;
  if (!data)
    return html`<${Page} title=${t('requests.one')} back=${back}><${ErrorNote} error=${error} />${!error && html`<${Skeleton} lines=${6} />`}<//>`;
  return html`<${Page} title=${t('requests.one')} back=${back} lead=${html`<code class="break">${data.request_id}</code>`} actions=${html`<${CopyButton} text=${data.request_id} label=${t('requests.copyId')} />`}>
    <${ErrorNote} error=${error} />
    <section class="card card-pad"><${Facts} items=${[
      [t('requests.status'), html`<span role="status"><${RequestBadge} request=${data} /></span>`],
      [t('requests.time'), dateTime(data.time_ms / 1000)],
      [t('requests.model'), data.model ? html`<a href=${href('models', data.model)}>${data.model}</a>` : '–'],
      [
        t('requests.key'),
        data.key
          ? html`<a href=${`#/requests?key=${encodeURIComponent(data.key)}`}>${data.key_name || data.key}</a>`
          : t('requests.noKey'),
      ],
      [
        t('requests.node'),
        data.node ? html`<a href=${href('nodes', data.node)}>${data.node_name || data.node}</a>` : '–',
      ],
      [t('requests.why'), whyNode(data) || '–'],
      [t('requests.wait'), ms(data.wait_ms)],
      [t('requests.first'), ms(data.first_token_ms)],
      [t('requests.speed'), data.tokens_per_second === undefined ? '–' : figure(data.tokens_per_second)],
      [
        t('requests.tokens'),
        `${number(data.prompt_tokens)} → ${number(data.completion_tokens)}${data.cached_tokens ? ` (${t('requests.cached', { count: number(data.cached_tokens) })})` : ''}`,
      ],
      [t('requests.total'), ms(data.total_ms)],
      [
        t('requests.api'),
        html`<code>${data.api}</code>${data.stream ? html` <${Badge}>${t('requests.stream')}<//>` : ''}`,
      ],
    ]} /></section>
    <section class="section"><h2>${t('requests.way')}</h2><${Picture} request=${data} /><${Steps} request=${data} /></section>
    <${Texts} request=${data} /><//>`;
}
