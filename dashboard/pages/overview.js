// pages/overview.js - the state of the fleet: small charts, open alerts, models and nodes.
import { html } from 'htm/preact';
import { useMemo, useState } from 'preact/hooks';
import { Chart, Legend } from '../lib/chart.js';
import { clock, dateTime, duration, figure, number } from '../lib/format.js';
import { getLang, t } from '../lib/i18n.js';
import { meansOf, measuredOf, toPoints, useLive, useResource } from '../lib/live.js';
import { href } from '../lib/route.js';
import { Badge, Empty, ErrorNote, Icon, Page, usePainted } from '../lib/ui.js';
import { Alerts } from './alerts.js';

const ms = (value) =>
  value === null || value === undefined ? '–' : value < 10 ? `${number(value, 1)} ms` : duration(Math.round(value));
/** What is more than nothing is never written as 0. */
const count = (value) => (value > 0 && value < 0.01 ? '< 0.01' : figure(value));

/** Each: title, the figure of the last minute, what stands beside it, the lines of its chart. */
const cards = [
  {
    id: 'requests',
    value: (s) => s.requests_per_second,
    format: count,
    aside: (s) => t('overview.inFlight', { count: number(s.in_flight) }),
  },
  { id: 'tokens', value: (s) => s.tokens_per_second, format: count },
  { id: 'firstToken', value: (s) => s.first_token_ms.p50, high: (s) => s.first_token_ms.p99, format: ms },
  { id: 'interToken', value: (s) => s.inter_token_ms.p50, high: (s) => s.inter_token_ms.p99, format: ms },
  { id: 'queue', value: (s) => s.queue, format: count, aside: () => t('overview.now') },
  { id: 'errors', value: (s) => s.errors_per_second, format: count, tone: 3 },
];

/** The card of a figure that the router describes: a rate, or percentiles. */
const cardOf = ({ series, title }) => ({
  id: series,
  title: title[getLang()],
  value: (s) => (s[series]?.p50 === undefined ? s[series] : s[series].p50),
  ...(series.endsWith('_ms') && { high: (s) => s[series]?.p99 }),
  format: series.endsWith('_ms') ? ms : count,
});

/** Chosen in the tools above the charts; what a browser showed last is not remembered: the page begins live. */
const ranges = { '15m': 900, '1h': 3600, '24h': 86400, '7d': 7 * 86400 };

/** The columns of /v0/history as the points of a chart. */
const historyPoints = (h) => toPoints(h).map((p) => ({ ...p, queue: p.queued, in_flight: p.running }));

/** Means over the whole range; of percentiles the last one that was measured. */
const wholeRange = (points) =>
  points.length === 0 ? null : { ...points.at(-1), ...meansOf(points, 'queue', 'in_flight'), ...measuredOf(points) };

function StatCard({ card, points, figures, windowS, isLive }) {
  const [hover, setHover] = useState(null);
  const title = card.title ?? t(`overview.${card.id}`);
  const shown = hover === null ? (figures ?? points.at(-1)) : (points[hover] ?? points.at(-1));
  const value = shown ? card.value(shown) : null;
  const high = shown && card.high ? card.high(shown) : null;
  const most = Math.max(0, ...points.map((p) => (card.high ?? card.value)(p) ?? 0));
  const times = useMemo(() => points.map((p) => p.time), [points]);
  const series = useMemo(() => {
    const lines = [
      {
        label: card.high ? t('overview.p50') : title,
        values: points.map((p) => card.value(p) ?? null),
        tone: card.tone ?? 1,
      },
    ];
    return card.high
      ? [{ label: t('overview.p99'), values: points.map((p) => card.high(p) ?? null), tone: 2, fill: false }, ...lines]
      : lines;
  }, [points]);
  let aside = isLive ? t('overview.lastMinute') : t('overview.meanOf');
  if (hover !== null && shown) aside = windowS > 86400 ? dateTime(shown.time) : clock(shown.time);
  else if (card.high) aside = high === null ? '' : t('overview.p99Short', { value: card.format(high) });
  else if (shown && card.aside && isLive) aside = card.aside(shown);
  return html`<section class="card stat"><div class="stat-head"><h2>${title}</h2>${card.high && html`<${Legend} series=${[...series].reverse()} />`}</div>
    <p class="stat-figure"><span class="stat-value">${value === null || value === undefined ? '–' : card.format(value)}</span>
    <span class="stat-aside">${aside}</span></p>
    <${Chart} label=${t('overview.chartText', { title, value: value === null || value === undefined ? '–' : card.format(value), most: card.format(most) })}
      times=${times} series=${series} format=${card.format} height=${112} windowS=${windowS} onHover=${setHover} /></section>`;
}

const Choice = ({ label, value, onChange, children }) =>
  html`<span class="inline"><select aria-label=${label} value=${value} onChange=${(e) => onChange(e.currentTarget.value)}>${children}</select></span>`;

/** Six charts and those that the router names, of the last 15 minutes as they happen, or of a longer time, a model or a node from the history. */
function Figures() {
  const [wanted, setWanted] = useState({ range: '15m', model: '', node: '' });
  const stats = useLive('stats');
  const models = useLive('models').items;
  const nodes = useLive('nodes').items;
  const isLive = wanted.range === '15m' && !wanted.model && !wanted.node;
  const { data, error } = useResource(
    isLive
      ? null
      : `/v0/history?range=${wanted.range}&model=${encodeURIComponent(wanted.model)}&node=${encodeURIComponent(wanted.node)}`,
    { everyS: 10 },
  );
  const history = useMemo(() => (data ? historyPoints(data) : []), [data]);
  const points = isLive ? stats.points : history;
  const figures = useMemo(() => (isLive ? stats.minute : wholeRange(history)), [isLive, stats.minute, history]);
  const set = (name) => (value) => setWanted({ ...wanted, [name]: value });
  return html`<section class="section" aria-labelledby="figures-title"><div class="section-head"><h2 id="figures-title">${t('overview.traffic')}</h2><div class="row chart-tools">
      <${Choice} label=${t('overview.model')} value=${wanted.model} onChange=${set('model')}><option value="">${t('overview.allModels')}</option>${models.map((m) => html`<option value=${m.id}>${m.id}</option>`)}<//>
      <${Choice} label=${t('overview.node')} value=${wanted.node} onChange=${set('node')}><option value="">${t('overview.allNodes')}</option>${nodes.map((n) => html`<option value=${n.id}>${n.name}</option>`)}<//>
      <fieldset class="choice ranges"><legend class="visually-hidden">${t('overview.range')}</legend>${Object.keys(
        ranges,
      ).map(
        (name) =>
          html`<label key=${name}><input type="radio" name="range" value=${name} checked=${wanted.range === name} onChange=${() => set('range')(name)} /><span>${t(`overview.range_${name}`)}</span></label>`,
      )}</fieldset></div></div>
    <${ErrorNote} error=${error} />
    <div class="stats">${[...cards, ...(data?.charts ?? stats.charts).map(cardOf)].map((card) => html`<${StatCard} key=${card.id} card=${card} points=${points} figures=${figures} windowS=${ranges[wanted.range]} isLive=${isLive} />`)}</div></section>`;
}

const Tally = ({
  icon,
  title,
  have,
  text,
  parts,
  to,
}) => html`<section class="card tally"><a class="tally-main" href=${to}><${Icon} name=${icon} /><span class="tally-title">${title}</span>
  <span class="tally-figure"><b>${number(have)}</b> ${text}</span></a>
  ${
    parts.length > 0 &&
    html`<ul class="tally-parts">${parts.map(([tone, label, link]) => html`<li key=${label}>${link ? html`<a href=${link}><${Badge} tone=${tone}>${label}<//></a>` : html`<${Badge} tone=${tone}>${label}<//>`}</li>`)}</ul>`
  }</section>`;

/** Models by what a client gets from them: loaded, on disk and loaded with the first request, on their way, or nothing. */
function modelParts(items) {
  const busy = items.filter(
    (m) => !m.ready && ['fetching', 'verifying', 'starting', 'loading', 'draining'].includes(m.state),
  );
  const broken = items.filter((m) => !m.ready && ['failed', 'waiting'].includes(m.state));
  const absent = items.filter((m) => !m.ready && m.state === 'absent');
  const loaded = items.filter((m) => m.state === 'ready');
  const onDisk = items.length - loaded.length - busy.length - broken.length - absent.length;
  return {
    loaded: loaded.length,
    parts: [
      onDisk > 0 && ['plain', t('overview.onDisk', { count: onDisk })],
      busy.length > 0 && ['busy', t('overview.onTheirWay', { count: busy.length })],
      broken.length > 0 && ['bad', t('overview.failed', { count: broken.length }), '#/models?state=failed'],
      absent.length > 0 && ['warn', t('overview.nowhere', { count: absent.length }), '#/models?state=absent'],
    ].filter(Boolean),
  };
}

const isServing = (node) => node.online && !node.drained && !node.draining;

function nodeParts(items) {
  const offline = items.filter((n) => !n.online).length;
  const idle = items.filter((n) => n.online && !isServing(n)).length;
  return {
    serving: items.filter(isServing).length,
    parts: [
      idle > 0 && ['warn', t('overview.outOfService', { count: idle }), href('nodes')],
      offline > 0 && ['bad', t('overview.offline', { count: offline }), href('nodes')],
    ].filter(Boolean),
  };
}

function Fleet() {
  const models = useLive('models');
  const nodes = useLive('nodes');
  if (!models.isLoaded || !nodes.isLoaded) return null;
  const failed = models.error ?? nodes.error;
  if (failed && (models.items.length === 0 || nodes.items.length === 0)) return html`<${ErrorNote} error=${failed} />`;
  if (nodes.items.length === 0)
    return html`<${Empty} icon="nodes" title=${t('overview.noNodeTitle')} text=${t('overview.noNodeText')}><a class="button primary" href=${href('nodes')}>${t('overview.noNodeAction')}</a><//>`;
  if (models.items.length === 0)
    return html`<${Empty} icon="models" title=${t('overview.emptyTitle')} text=${t('overview.emptyText')}><a class="button primary" href="#/models?register">${t('overview.emptyAction')}</a><//>`;
  const { loaded, parts } = modelParts(models.items);
  const fleet = nodeParts(nodes.items);
  return html`<${ErrorNote} error=${failed} /><div class="tallies">
    <${Tally} icon="models" title=${t('overview.models')} have=${loaded} text=${t('overview.modelsLoaded', { count: models.items.length })} parts=${parts} to=${href('models')} />
    <${Tally} icon="nodes" title=${t('overview.nodes')} have=${fleet.serving} text=${t('overview.nodesServing', { count: nodes.items.length })} parts=${fleet.parts} to=${href('nodes')} /></div>`;
}

/** Charts and alerts come a frame after the heading: building them would keep the heading from being painted. */
export default function Overview() {
  const isPainted = usePainted();
  return html`<${Page} title=${t('overview.title')} lead=${t('overview.lead')}>
    <${Fleet} />${isPainted && html`<${Figures} /><${Alerts} />`}<//>`;
}
