// pages/overview.js - the state of the fleet: six small charts, open alerts, models and nodes.
import { html } from 'htm/preact';
import { useMemo, useState } from 'preact/hooks';
import { Chart, Legend } from '../lib/chart.js';
import { clock, duration, figure, number } from '../lib/format.js';
import { t } from '../lib/i18n.js';
import { useLive } from '../lib/live.js';
import { href } from '../lib/route.js';
import { Badge, Empty, ErrorNote, Icon, Page } from '../lib/ui.js';
import { Alerts } from './alerts.js';

const ms = (value) =>
  value === null || value === undefined ? '–' : value < 10 ? `${number(value, 1)} ms` : duration(Math.round(value));
const count = (value) => figure(value);

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

function StatCard({ card, points, minute }) {
  const [hover, setHover] = useState(null);
  const title = t(`overview.${card.id}`);
  const shown = hover === null ? (minute ?? points.at(-1)) : (points[hover] ?? points.at(-1));
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
  const aside =
    hover !== null && shown
      ? clock(shown.time)
      : card.high
        ? high === null
          ? ''
          : t('overview.p99Short', { value: card.format(high) })
        : shown && card.aside
          ? card.aside(shown)
          : t('overview.lastMinute');
  return html`<section class="card stat"><div class="stat-head"><h2>${title}</h2>${card.high && html`<${Legend} series=${[...series].reverse()} />`}</div>
    <p class="stat-figure"><span class="stat-value">${value === null || value === undefined ? '–' : card.format(value)}</span>
    <span class="stat-aside">${aside}</span></p>
    <${Chart} label=${t('overview.chartText', { title, value: value === null || value === undefined ? '–' : card.format(value), most: card.format(most) })}
      times=${times} series=${series} format=${card.format} height=${112} onHover=${setHover} /></section>`;
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

export default function Overview() {
  const { points, minute } = useLive('stats');
  return html`<${Page} title=${t('overview.title')} lead=${t('overview.lead')}>
    <${Fleet} />
    <div class="stats">${cards.map((card) => html`<${StatCard} key=${card.id} card=${card} points=${points} minute=${minute} />`)}</div>
    <${Alerts} /><//>`;
}
