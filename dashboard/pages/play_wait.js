// pages/play_wait.js - what a request waits for, until its first token (part of the playground).
import { html } from 'htm/preact';
import { useEffect, useState } from 'preact/hooks';
import { duration, number } from '../lib/format.js';
import { t } from '../lib/i18n.js';
import { Meter } from '../lib/ui.js';

function useNow(everyMs) {
  const [now, setNow] = useState(performance.now());
  useEffect(() => {
    const timer = setInterval(() => setNow(performance.now()), everyMs);
    return () => clearInterval(timer);
  }, [everyMs]);
  return now;
}

/** The sentence, and for what is counted how much of it is done. */
function describe(progress) {
  const { state, ahead = 0, wait_ms: waitMs = 0, done = 0, total = 0 } = progress ?? {};
  if (state === 'queued')
    return {
      text: ahead === 0 ? t('playground.waitNext') : t('playground.waitQueued', { count: number(ahead) }),
      more: waitMs > 0 && t('playground.waitAbout', { time: duration(waitMs) }),
    };
  if (state === 'loading')
    return {
      text: t('playground.waitLoading'),
      done,
      total,
      more: total > 0 && `${Math.floor((100 * done) / total)} %`,
    };
  if (state === 'prefill')
    return {
      text: t('playground.waitPrefill'),
      done,
      total,
      more: t('playground.waitTokens', { done: number(done), total: number(total) }),
    };
  return { text: state === 'sent' ? t('playground.waitSent') : t('playground.waiting') };
}

export function Waiting({ run }) {
  const now = useNow(200);
  const { text, more, done, total } = describe(run.progress);
  const seconds = Math.max(0, Math.floor((now - run.began) / 1000));
  return html`<div class="waiting"><p class="waiting-text"><span class="spinner" aria-hidden="true"></span><span role="status">${text}</span>
    ${more && html`<span class="number">${more}</span>`}<span class="waiting-time number">${t('playground.waitSeconds', { count: seconds })}</span></p>
    ${total > 0 && html`<${Meter} value=${done} max=${total} label=${text} tone="busy" />`}</div>`;
}
