import { type HandleConfig, TerminalHandle } from "./handle";

/** A hidden terminal is closed after this long; shown again, it is read in anew. */
const HIDDEN_MS = 5 * 60_000;
/** Hidden terminals kept at most: each may hold some 30 MB. */
const HIDDEN_MOST = 10;

interface Entry {
  handle: TerminalHandle;
  hiddenAt: number;
  timer?: ReturnType<typeof setTimeout>;
}

const entries = new Map<string, Entry>();

/** The terminal of a session; made on first use, the same one afterwards. */
export function terminalOf(config: HandleConfig): TerminalHandle {
  const known = entries.get(config.sessionId);
  if (known && known.handle.config.writer === config.writer) return known.handle;
  if (known) close(config.sessionId);
  const handle = new TerminalHandle(config);
  entries.set(config.sessionId, { handle, hiddenAt: Date.now() });
  return handle;
}

/** Notes that a terminal is on screen. */
export function shown(id: string): void {
  const entry = entries.get(id);
  if (!entry) return;
  clearTimeout(entry.timer);
  entry.hiddenAt = 0;
}

/** Notes that a terminal left the screen: it goes on reading for a while. */
export function hidden(id: string): void {
  const entry = entries.get(id);
  if (!entry) return;
  entry.hiddenAt = Date.now();
  entry.timer = setTimeout(() => close(id), HIDDEN_MS);
  const rest = [...entries].filter(([, e]) => e.hiddenAt > 0).sort(([, a], [, b]) => a.hiddenAt - b.hiddenAt);
  for (const [old] of rest.slice(0, Math.max(0, rest.length - HIDDEN_MOST))) close(old);
}

function close(id: string): void {
  const entry = entries.get(id);
  if (!entry || entry.handle.attached) return;
  clearTimeout(entry.timer);
  entries.delete(id);
  entry.handle.dispose();
}
