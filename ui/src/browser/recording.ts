export interface RecordedAction {
  /** ms since the start. */
  at: number;
  /** A person's name; "" = an agent. */
  by: string;
  tool: string;
  target?: string;
  error?: string;
}

export interface Recording {
  /** ms. */
  length: number;
  frames: { at: number; jpeg: Uint8Array<ArrayBuffer> }[];
  actions: RecordedAction[];
}

const MAGIC = "PWBR1\n";

/** Reads a recording; undefined: the file is none. One that was cut, because a server was killed, is good up to there. */
export function readRecording(raw: ArrayBuffer): Recording | undefined {
  if (new TextDecoder().decode(raw.slice(0, MAGIC.length)) !== MAGIC) return undefined;
  const r: Recording = { length: 0, frames: [], actions: [] };
  const v = new DataView(raw);
  for (let i = MAGIC.length; i + 9 <= raw.byteLength; ) {
    const [kind, at, size] = [String.fromCharCode(v.getUint8(i)), v.getUint32(i + 1), v.getUint32(i + 5)];
    i += 9;
    if (i + size > raw.byteLength) break;
    if (kind === "f") r.frames.push({ at, jpeg: new Uint8Array(raw, i, size) });
    else if (kind === "a") {
      const a = parse(new Uint8Array(raw, i, size));
      if (a) r.actions.push({ ...a, at });
    }
    r.length = Math.max(r.length, at);
    i += size;
  }
  return r;
}

function parse(raw: Uint8Array<ArrayBuffer>): RecordedAction | undefined {
  try {
    return JSON.parse(new TextDecoder().decode(raw)) as RecordedAction;
  } catch {
    return undefined;
  }
}

/** The index of the picture that is shown at a time. */
export function frameAt(frames: { at: number }[], at: number): number {
  let i = 0;
  while (i + 1 < frames.length && (frames[i + 1]?.at ?? 0) <= at) i++;
  return i;
}
