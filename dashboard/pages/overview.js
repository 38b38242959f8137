import { html } from 'htm/preact';
import { t } from '../lib/i18n.js';
import { Page } from '../lib/ui.js';

export default function View() {
  return html`<${Page} title=${t('common.overview')}><//>`;
}
