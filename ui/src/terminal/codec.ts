/**
 * The terminal protocol: binary frames, integers big-endian. The first byte says what a frame is.
 * Offsets are absolute positions in the session's output; they stay below 2^53, so a number holds them exactly.
 */
export type Down =
  | { op: "output"; offset: number; bytes: Uint8Array }
  | { op: "snapshot"; offset: number; bytes: Uint8Array }
  | { op: "size"; cols: number; rows: number }
  | { op: "state"; json: unknown }
  | { op: "exit"; json: unknown }
  | { op: "error"; json: unknown }
  | { op: "pong" };

const utf8 = new TextDecoder();
const encoder = new TextEncoder();

/** Reads one frame from the server. An unknown or cut frame gives undefined: a newer server may know more than we do. */
export function decode(buffer: ArrayBuffer): Down | undefined {
  if (buffer.byteLength < 1) return undefined;
  const view = new DataView(buffer);
  switch (view.getUint8(0)) {
    case 0:
    case 1: {
      if (buffer.byteLength < 9) return undefined;
      const offset = Number(view.getBigUint64(1));
      if (!Number.isSafeInteger(offset)) return undefined;
      return { op: view.getUint8(0) === 0 ? "output" : "snapshot", offset, bytes: new Uint8Array(buffer, 9) };
    }
    case 2:
      if (buffer.byteLength < 5) return undefined;
      return { op: "size", cols: view.getUint16(1), rows: view.getUint16(3) };
    case 3:
      return json("state", buffer);
    case 4:
      return json("exit", buffer);
    case 5:
      return json("error", buffer);
    case 6:
      return { op: "pong" };
    default:
      return undefined;
  }
}

function json(op: "state" | "exit" | "error", buffer: ArrayBuffer): Down | undefined {
  try {
    return { op, json: JSON.parse(utf8.decode(new Uint8Array(buffer, 1))) };
  } catch {
    return undefined;
  }
}

type Bytes = Uint8Array<ArrayBuffer>;

/** What was typed. */
export function input(data: string | Uint8Array): Bytes {
  const bytes = typeof data === "string" ? encoder.encode(data) : data;
  const frame = new Uint8Array(1 + bytes.length);
  frame.set(bytes, 1);
  return frame;
}

/** Bytes a program asked for as one character each, such as X10 mouse reports. */
export function binaryInput(data: string): Bytes {
  const frame = new Uint8Array(1 + data.length);
  for (let i = 0; i < data.length; i++) frame[1 + i] = data.charCodeAt(i) & 0xff;
  return frame;
}

export function sizeWish(cols: number, rows: number): Bytes {
  const frame = new Uint8Array(5);
  const view = new DataView(frame.buffer);
  view.setUint8(0, 1);
  view.setUint16(1, cols);
  view.setUint16(3, rows);
  return frame;
}

export function ack(offset: number): Bytes {
  const frame = new Uint8Array(9);
  const view = new DataView(frame.buffer);
  view.setUint8(0, 2);
  view.setBigUint64(1, BigInt(offset));
  return frame;
}

/** The colours of text, background and cursor, each as #rrggbb: the reply to programs that query them. */
export function colors(...all: [string, string, string]): Bytes {
  const frame = new Uint8Array(10);
  frame[0] = 6;
  all.forEach((color, i) => {
    const rgb = Number.parseInt(color.slice(1, 7), 16) || 0;
    frame.set([rgb >> 16, (rgb >> 8) & 0xff, rgb & 0xff], 1 + 3 * i);
  });
  return frame;
}

export const ping = (): Bytes => Uint8Array.of(3);
export const takeSize = (): Bytes => Uint8Array.of(4);

/** What one wants of the keyboard. */
export function keyboardWish(wish: object): Bytes {
  const bytes = encoder.encode(JSON.stringify(wish));
  const frame = new Uint8Array(1 + bytes.length);
  frame[0] = 5;
  frame.set(bytes, 1);
  return frame;
}

/** Close codes of the terminal socket. */
export const Close = { Gone: 4001, NotAllowed: 4003, TooSlow: 4008, Restarting: 4012 } as const;
