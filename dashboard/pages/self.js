// pages/self.js - the page of one's own key: what it may, what it has used this month, and how to call the API with it.
import { html } from 'htm/preact';
import { bytes, dateTime, number } from '../lib/format.js';
import { t } from '../lib/i18n.js';
import { useResource } from '../lib/live.js';
import { Table } from '../lib/table.js';
import { Badge, ErrorNote, Facts, Meter, Note, Page, Skeleton } from '../lib/ui.js';
import { Snippets } from './play_code.js';

const isLimited = (limit) => limit !== undefined;

/** How much of a budget is used, with colours where it runs out. */
export function Budget({ used, limit, soft = 0, label }) {
  const tone = used >= limit ? 'bad' : soft > 0 && used >= soft ? 'warn' : '';
  return html`<div class="memory-cell"><${Meter} value=${used} max=${limit} label=${label} tone=${tone} />
    <span class="small muted number">${t('self.usedOf', { used: number(used), limit: number(limit) })}</span></div>`;
}

function Limits({ limits = {} }) {
  const {
    requests_per_minute: requests,
    tokens_per_minute: tokens,
    concurrent_requests: together,
    request_bytes: size,
    tokens_per_month: month,
  } = limits;
  const rate = (limit) => t('self.rate', { limit: number(limit.limit), remaining: number(limit.remaining) });
  const items = [
    isLimited(month) && [
      t('self.month'),
      html`<${Budget} used=${month.used} limit=${month.limit} soft=${month.soft} label=${t('self.month')} /><span class="small muted">${t('self.resets', { time: dateTime(month.resets) })}</span>`,
    ],
    isLimited(requests) && [t('self.requests'), rate(requests)],
    isLimited(tokens) && [t('self.tokens'), rate(tokens)],
    isLimited(together) && [
      t('self.together'),
      t('self.usedOf', { used: number(together.used), limit: number(together.limit) }),
    ],
    isLimited(size) && [t('self.size'), bytes(size.limit)],
  ].filter(Boolean);
  return items.length > 0 ? html`<${Facts} items=${items} />` : html`<p class="muted">${t('self.noLimits')}</p>`;
}

export default function Self({ me }) {
  const { data, error } = useResource('/v0/self');
  const models = useResource('/v1/models');
  const ids = (models.data?.data ?? []).map((m) => m.id);
  const figure = (id, label) => ({ id, label, end: true, sort: (r) => r[id], cell: (r) => number(r[id]) });
  if (!data)
    return html`<${Page} title=${t('self.title')}><${ErrorNote} error=${error} />${!error && html`<${Skeleton} lines=${6} />`}<//>`;
  const request = { model: ids[0] ?? 'MODEL', messages: [{ role: 'user', content: 'Hello' }] };
  return html`<${Page} title=${t('self.title')} lead=${t('self.lead')}>
    ${data.keep_texts && html`<${Note} tone="warn"><p><b>${t('keys.textsKept')}</b> ${t('self.textsKept')}</p><//>`}
    <section class="card card-pad"><${Facts} items=${[
      [t('self.name'), data.name || me.name || '–'],
      [t('self.role'), html`<${Badge}>${data.role}<//>`],
      data.owner && [t('self.owner'), data.owner],
      data.label && [t('keys.label'), data.label],
      data.addresses && [t('keys.addresses'), data.addresses.join(', ')],
      data.expires && [t('self.expires'), dateTime(data.expires)],
      [
        t('self.usage'),
        t('self.usageText', {
          requests: number(data.usage.requests),
          tokens: number(data.usage.prompt_tokens + data.usage.completion_tokens),
        }),
      ],
      typeof data.usage.cost === 'number' && [t('self.cost'), `${number(data.usage.cost, 4)} ${data.currency ?? ''}`],
    ]} /></section>
    <section class="section"><h2>${t('self.limits')}</h2><div class="card card-pad"><${Limits} limits=${data.limits} /></div></section>
    ${
      (data.usage.models ?? []).length > 0 &&
      html`<section class="section"><h2>${t('self.byModel')}</h2><${Table} caption=${t('self.byModel')} rows=${data.usage.models} rowKey=${(r) => r.model} columns=${[
        { id: 'model', label: t('self.model'), sort: (r) => r.model, cell: (r) => r.model },
        figure('requests', t('self.requestCount')),
        figure('prompt_tokens', t('self.promptTokens')),
        figure('completion_tokens', t('self.completionTokens')),
        ...(data.usage.models.some((m) => typeof m.cost === 'number')
          ? [{ ...figure('cost', t('self.cost')), cell: (r) => (typeof r.cost === 'number' ? number(r.cost, 4) : '–') }]
          : []),
      ]} /></section>`
    }
    <section class="section"><h2>${t('self.models')}</h2><ul class="aliases own-models">${ids.map((id) => html`<li key=${id}><a href=${`#/playground?model=${encodeURIComponent(id)}`}>${id}</a></li>`)}</ul>
      <${Snippets} request=${request} me=${me} /></section><//>`;
}
