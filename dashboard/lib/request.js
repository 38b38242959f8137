// lib/request.js - how a request of the log is told: its state, why its node was chosen, its steps.
import { html } from 'htm/preact';
import { number } from './format.js';
import { t, tOr } from './i18n.js';
import { Badge } from './ui.js';

const tone = (status) =>
  status === 0 ? 'busy' : status < 400 ? 'good' : status === 499 || status < 429 ? 'warn' : 'bad';

/** The status with its word: "200 ok", "running: decoding", "503 unavailable". */
export function RequestBadge({ request }) {
  const text =
    request.status === 0
      ? tOr(`requests.phase_${request.phase}`, request.phase)
      : request.status < 400
        ? String(request.status)
        : `${request.status} ${tOr(`requests.error_${request.error_code}`, (request.error_code ?? '').replaceAll('_', ' '))}`;
  return html`<${Badge} tone=${tone(request.status)}>${text}<//>`;
}

/** Why this node, from what the scheduler knew. @param {{chosen?: object, reason?: string}} request */
export function whyNode({ chosen, reason }) {
  if (!chosen) return reason ?? '';
  return [
    chosen.nodes === 1 ? t('requests.why_only') : t('requests.why_cheapest', { count: chosen.nodes }),
    chosen.loaded ? '' : t('requests.why_loads'),
    chosen.cached > 0 ? t('requests.why_cached', { percent: number(chosen.cached * 100) }) : '',
    chosen.active > 0 ? t('requests.why_active', { count: chosen.active }) : '',
  ]
    .filter(Boolean)
    .join(', ');
}

const PHASES = {
  queued: 'queue',
  sent: 'send',
  accepted: 'prefill',
  loading: 'load',
  loaded: 'prefill',
  prefill: 'prefill',
  first_token: 'decode',
};

/**
 * The way of one choice as spans of time, for a picture: what it waited for or did, from when to when, on which node.
 * @param {{step: string, at_ms: number, choice: number, node?: string}[]} steps
 * @param {number} totalMs
 * @returns {{kind: string, from: number, to: number, node: string}[]}
 */
export function spans(steps, totalMs, choice = 0) {
  const mine = steps.filter((s) => s.choice === choice).sort((a, b) => a.at_ms - b.at_ms);
  const out = [];
  let kind = 'accept';
  let from = 0;
  let node = '';
  const end = (to, next, nextNode) => {
    if (to > from && kind) out.push({ kind, from, to, node });
    kind = next;
    from = to;
    node = nextNode;
  };
  for (const s of mine) {
    const next = PHASES[s.step] ?? (s.step === 'choice_done' ? '' : 'queue');
    if (next !== kind || (s.node ?? '') !== node)
      end(s.at_ms, next, PHASES[s.step] && next !== 'queue' ? (s.node ?? '') : '');
  }
  end(totalMs, '', '');
  return out;
}
