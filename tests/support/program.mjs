// The program under test and its engines.  The engines for tests are in a separate folder that
// also has links to the other engines; every process of a test gets the name of that folder.
import path from 'node:path';
import { fileURLToPath } from 'node:url';

export const ROOT = path.resolve(path.dirname(fileURLToPath(import.meta.url)), '../..');
export const BIN = process.env.LLM_ROUTER_BIN ?? path.join(ROOT, 'build/release/bin/llm-router');
// With sanitizers and failpoints.
export const DEBUG_BIN = process.env.LLM_ROUTER_DEBUG_BIN ?? path.join(ROOT, 'build/debug/bin/llm-router');
export const BUILD = path.resolve(path.dirname(BIN), '..');
export const ENGINES = (process.env.LLM_ROUTER_ENGINES_DIR ??= path.join(BUILD, 'testing/engines'));
