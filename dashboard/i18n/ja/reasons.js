export default {
  nowhere: 'このモデルを持つオンラインのノードがありません',
  not_on_node: 'このノードにはありません',
  offline: 'オフラインです',
  unreachable: 'ルーターから届きません',
  removed: '登録が消されています',
  out_of_service: '運用から外されています',
  shutting_down: '終了処理中です',
  too_large:
    '{need} 必要ですが(重み {weights}、KV キャッシュ {kv}、作業領域 {workspace})、{device} で確保できるのは {room} です。メモリの多いマシンを使うか、max-tokens または max-sequences を下げてください',
  no_engine: 'ランタイム「{runtime}」用のエンジンがありません。このノードのエンジン: {engines}',
  engine_unusable: '{folder} に使えるエンジン「{engine}」がありません',
  gpus_faulty:
    'このノードのすべての GPU が故障しています。{gpu} ({id}): {cause}。GPU をリセットしてから、ノードを起動してください',
  engine_died_asked: 'モデルについて問い合わせたとき、エンジンが異常終了しました({how})',
  cannot_load: '現在ロードできません: {cause}(連続 {failures} 回失敗、{seconds} 秒後に再試行)',
  no_folder: 'フォルダー {folder} がありません',
  worker_exited: '終了コード {status} で終了しました',
  worker_killed: '{signal} で強制終了しました',
  node_silent: 'ノード {node} からの応答が {ms} ms 途絶えています',
  node_unreachable: 'ノード {node} はハートビートを送っていますが、ルーターから {url} に届きません: {cause}',
  memory_full: '{node} で {total} 中 {used} を使用しています',
  no_progress: 'エンジンが {ms} ms のあいだ進まず、強制終了しました',
};
