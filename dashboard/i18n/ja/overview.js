export default {
  title: '概要',
  lead: '直近 15 分間の状況です。',
  requests: 'リクエスト毎秒',
  tokens: 'トークン毎秒',
  firstToken: '最初のトークンまでの時間',
  interToken: 'トークン間隔',
  queue: '待機中',
  errors: 'エラー毎秒',
  inFlight: '処理中 {count} 件',
  p99: '99 パーセンタイル',
  p99Short: 'p99 {value}',
  alerts: 'アラート',
  calm: '対応が必要なものはありません。',
  times: { other: '{count} 回' },
  over: '解消済み',
  earlier: '過去のアラート',
  whatToDo: '対応:',
  moreNodes: 'ほか {count} ノード',
  silence: 'ミュート',
  unsilence: 'ミュートを解除',
  silenceTitle: 'このアラートをミュート',
  silenceText: 'アラートは一覧に残りますが、すべてのルーターで、Webhook への送信と集計の対象から外れます。',
  silenceFor: '期間',
  silenceComment: 'ほかの運用者へのメモ',
  silencedUntil: '{time} までミュート',
  for_3600: '1 時間',
  for_14400: '4 時間',
  for_86400: '1 日',
  for_604800: '1 週間',
  models: 'モデル',
  nodes: 'ノード',
  modelsReady: { other: '/ {count} 準備完了' },
  nodesOnline: { other: '/ {count} オンライン' },
  emptyTitle: 'モデルがまだ登録されていません',
  emptyText: '登録すると、実行できるすべてのノードが自動的に取得します。',
  emptyAction: 'モデルを登録',
  noNodeTitle: 'ノードがまだ参加していません',
  noNodeText: 'モデルはノードで動きます。トークンを作り、GPU のあるマシンでノードを起動してください。',
  noNodeAction: 'ノードを追加',
  'advice.node_offline':
    'ノードのプロセス、ログ、ネットワークを確認してください。リクエストはほかのノードへ送られます。',
  'advice.node_unreachable':
    'ノードのポートをルーターに対して開く（ファイアウォール）か、ルーターから届く URL を --advertise に指定してノードを起動してください。ルーターから届けば、すぐにまた使われます。',
  'advice.node_cloned':
    'どちらかのプロセスを止めてください。データフォルダーをコピーした場合は、コピー側の node-identity.json を削除し、参加トークンで起動してください。',
  'advice.memory_alert':
    'モデルをアンロードするか固定を解除するか、別のノードで提供してください。待機中のモデルは自動的にアンロードされます(設定 memory-threshold)。',
  'advice.gpu_faulty':
    'ノードはこの GPU を使わなくなりました。実行中のリクエストは終わるか、ほかの GPU で続きます。ノードを止め、GPU をリセットする（nvidia-smi --gpu-reset -i ID）かマシンを再起動してから、ノードを起動してください。エラーが繰り返す場合は GPU を交換してください。',
  'advice.watchdog_kill':
    'ノードは自動的に別のワーカーを起動します。モデルが再び応答するか、リクエストがなくなると、この警告は終わります。繰り返す場合はエンジンを更新するか、デバイスが遅いだけなら step-timeout か load-timeout を増やしてください。',
  'advice.worker_died':
    'ノードは自動的に別のワーカーを起動します。モデルが再び応答するか、リクエストがなくなると、この警告は終わります。繰り返す場合はノードのログを確認し、エンジンを更新してください。',
  'advice.download_failed': 'ノードは自動的に再試行します。ディスクの空きと Hub への経路を確認してください。',
  'advice.no_engine':
    '自然には回復しません。メッセージが示すランタイムのエンジンをノードに入れるか、エンジンが実行できる形式でモデルを登録してください。ほかのノードが提供している場合は、このアラートをミュートしてください。',
  'advice.model_waiting':
    'ノードは 5 分以内の間隔で自動的に再試行します。メッセージが示す原因を取り除き、モデルをロードするとすぐに再試行されます。',
  'advice.model_failed': 'メッセージが示す原因を取り除き、モデルをもう一度ロードしてください。',
  'advice.engine_refused': 'このリリース用のエンジンを入れるか、そのフォルダーを削除してください。',
  'advice.reload_failed':
    '以前のバージョンが引き続き動作しています。新しいバージョンを直してから再ロードしてください。',
  'advice.webhook_failed':
    '受信側と設定 alert-webhook を確認してください。メッセージはデータベースで待ち、受信側が受け取れるようになると送られます。',
  'advice.certificate_ends':
    '証明書を更新してください。tls-cert と tls-key のファイルを差し替えると 10 秒以内に使われます。',
  'advice.database_failed':
    'データベースを復旧するか、ディスクの空きを増やしてください。その間もリクエストは処理され、利用量はメモリに保持されます。変更は拒否されます。',
  chartText: '{title}: 現在 {value}、直近 15 分間の最大 {most}',
};
