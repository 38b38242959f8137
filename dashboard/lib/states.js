// lib/states.js - the name and the colour of each state of a model, for all pages.
import { html } from 'htm/preact';
import { t, tOr } from './i18n.js';
import { Badge } from './ui.js';

const tones = {
  ready: 'good',
  present: 'plain',
  absent: 'faint',
  failed: 'bad',
  waiting: 'warn',
  draining: 'warn',
  fetching: 'busy',
  verifying: 'busy',
  starting: 'busy',
  loading: 'busy',
};

/** Nothing is served from it until somebody acts, or a retry works. @param {string} state */
export const isBroken = (state) => state === 'failed' || state === 'waiting';

/** @param {string} state a state of the API */
export const stateName = (state) => (tones[state] ? t(`models.state.${state}`) : state);

export const StateBadge = ({ state }) => html`<${Badge} tone=${tones[state] ?? 'plain'}>${stateName(state)}<//>`;

/**
 * A reason of the API in the language of the page: by its code and parameters, else in the API's own words.
 * @param {string|null|undefined} text
 * @param {string} [code] @param {Record<string, string>} [params]
 */
export const reasonText = (text, code, params) =>
  code
    ? tOr(`reasons.${code}`, text ?? '', {
        ...params,
        ...(params?.cause_code ? { cause: reasonText(params.cause, params.cause_code, params.cause_params) } : {}),
      })
    : (text ?? '');

/** The reason of a model, or of a model on a node. @param {{reason?: string, reason_code?: string, reason_params?: object}} item */
export const reasonOf = (item) => reasonText(item.reason, item.reason_code, item.reason_params);

/** The GPUs of a node, "8 × NVIDIA H200" where several have one name; else its device. */
export function deviceText(node) {
  const counts = new Map();
  for (const pool of node.memory) if (pool.name !== 'ram') counts.set(pool.title, (counts.get(pool.title) ?? 0) + 1);
  return (
    [...counts].map(([title, count]) => (count > 1 ? `${count} × ${title}` : title)).join(', ') ||
    node.device.toUpperCase()
  );
}
