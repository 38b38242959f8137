// pages/overview.js - the state of the fleet: six small charts, open alerts, models and nodes.
import { html } from 'htm/preact';
import { useMemo, useState } from 'preact/hooks';
import { Chart } from '../lib/chart.js';
import { clock, duration, figure, number } from '../lib/format.js';
import { t } from '../lib/i18n.js';
import { useLive } from '../lib/live.js';
import { href } from '../lib/route.js';
import { Empty, ErrorNote, Icon, Page } from '../lib/ui.js';
import { Alerts } from './alerts.js';

const ms = (value) =>
  value === null || value === undefined ? '–' : value < 10 ? `${number(value, 1)} ms` : duration(Math.round(value));
const count = (value) => figure(value);

/** Each: title, the figure of a moment, what stands beside it, the lines of its chart. */
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
  { id: 'queue', value: (s) => s.queue, format: count },
  { id: 'errors', value: (s) => s.errors_per_second, format: count, tone: 3 },
];

function StatCard({ card, points, now }) {
  const [hover, setHover] = useState(null);
  const title = t(`overview.${card.id}`);
  const shown = hover === null ? (now ?? points.at(-1)) : (points[hover] ?? points.at(-1));
  const value = shown ? card.value(shown) : null;
  const high = shown && card.high ? card.high(shown) : null;
  const most = Math.max(0, ...points.map((p) => (card.high ?? card.value)(p) ?? 0));
  const times = useMemo(() => points.map((p) => p.time), [points]);
  const series = useMemo(() => {
    const lines = [{ label: title, values: points.map((p) => card.value(p) ?? null), tone: card.tone ?? 1 }];
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
          : '';
  return html`<section class="card stat"><h2>${title}</h2>
    <p class="stat-figure"><span class="stat-value">${value === null || value === undefined ? '–' : card.format(value)}</span>
    <span class="stat-aside">${aside}</span></p>
    <${Chart} label=${t('overview.chartText', { title, value: value === null || value === undefined ? '–' : card.format(value), most: card.format(most) })}
      times=${times} series=${series} format=${card.format} height=${84} onHover=${setHover} /></section>`;
}

const Tally = ({
  icon,
  title,
  have,
  all,
  text,
  to,
}) => html`<a class="card tally" href=${to}><${Icon} name=${icon} /><span class="tally-title">${title}</span>
  <span class="tally-figure"><b>${number(have)}</b> ${text}</span></a>`;

function Fleet() {
  const models = useLive('models');
  const nodes = useLive('nodes');
  if (!models.isLoaded || !nodes.isLoaded) return null;
  const ready = models.items.filter((m) => m.ready).length;
  const online = nodes.items.filter((n) => n.online).length;
  const failed = models.error ?? nodes.error;
  if (failed) return html`<${ErrorNote} error=${failed} />`;
  if (nodes.items.length === 0)
    return html`<${Empty} icon="nodes" title=${t('overview.noNodeTitle')} text=${t('overview.noNodeText')}><a class="button primary" href=${href('nodes')}>${t('overview.noNodeAction')}</a><//>`;
  if (models.items.length === 0)
    return html`<${Empty} icon="models" title=${t('overview.emptyTitle')} text=${t('overview.emptyText')}><a class="button primary" href="#/models?register">${t('overview.emptyAction')}</a><//>`;
  return html`<div class="tallies">
    <${Tally} icon="models" title=${t('overview.models')} have=${ready} text=${t('overview.modelsReady', { count: models.items.length })} to=${href('models')} />
    <${Tally} icon="nodes" title=${t('overview.nodes')} have=${online} text=${t('overview.nodesOnline', { count: nodes.items.length })} to=${href('nodes')} /></div>`;
}

export default function Overview() {
  const { points, now } = useLive('stats');
  return html`<${Page} title=${t('overview.title')} lead=${t('overview.lead')}>
    <${Fleet} />
    <div class="stats">${cards.map((card) => html`<${StatCard} key=${card.id} card=${card} points=${points} now=${now} />`)}</div>
    <${Alerts} /><//>`;
}
