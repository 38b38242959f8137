// Before anything is painted: the theme and the language this browser chose, and whether the
// first page is the overview, so that its heading can be painted at once (not if the last
// visit ended at the sign-in).  A plain script, because a module would run after the first paint.
// The answer of /v0/whoami is read here, so that it is there when the page's own script runs.
(function () {
  globalThis.lrWhoami = fetch('/v0/whoami').then(
    (response) => (response.ok ? response.json() : null),
    () => null,
  );
  var isOverview = /^(#\/?(overview)?)?$/.test(location.hash);
  try {
    var theme = localStorage.getItem('lr.theme');
    if (theme === 'light' || theme === 'dark') document.documentElement.dataset.theme = theme;
    var lang = localStorage.getItem('lr.lang') || (navigator.language || 'en').slice(0, 2);
    document.documentElement.lang = lang === 'ja' ? 'ja' : 'en';
    if (localStorage.getItem('lr.guest')) isOverview = false;
  } catch {
    /* storage is off: the system's theme and English */
  }
  if (isOverview) document.documentElement.dataset.first = 'overview';
})();
