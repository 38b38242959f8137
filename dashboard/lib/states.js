// lib/states.js - the name and the colour of each state of a model, for all pages.
import { html } from 'htm/preact';
import { t } from './i18n.js';
import { Badge } from './ui.js';

const tones = {
  ready: 'good',
  present: 'plain',
  absent: 'plain',
  failed: 'bad',
  waiting: 'warn',
  draining: 'warn',
  fetching: 'busy',
  verifying: 'busy',
  starting: 'busy',
  loading: 'busy',
};

/** @param {string} state a state of the API */
export const stateName = (state) => (tones[state] ? t(`models.state.${state}`) : state);

export const StateBadge = ({ state }) => html`<${Badge} tone=${tones[state] ?? 'plain'}>${stateName(state)}<//>`;
