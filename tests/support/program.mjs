// The program under test and its engines.  Those made for tests lie apart from the ones a user is
// offered, in a folder that also links to these; every process a test starts is told of it.
import path from 'node:path';
import { fileURLToPath } from 'node:url';

export const ROOT = path.resolve(path.dirname(fileURLToPath(import.meta.url)), '../..');
export const BIN = process.env.LLM_ROUTER_BIN ?? path.join(ROOT, 'build/release/bin/llm-router');
export const BUILD = path.resolve(path.dirname(BIN), '..');
export const ENGINES = (process.env.LLM_ROUTER_ENGINES_DIR ??= path.join(BUILD, 'testing/engines'));
