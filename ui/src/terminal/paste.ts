/** The most one paste may carry, and the size of the pieces it travels in. */
export const PASTE_MAX = 1 << 20;
export const PASTE_PIECE = 16 * 1024;

/** Lines that may be pasted without asking where the program does not mark pastes. */
const LINES_UNASKED = 5;

export interface PastePlan {
  bytes: Uint8Array;
  lines: number;
  /** Why the person is asked first; "" when not. */
  ask: "" | "lines" | "control";
  tooLarge: boolean;
}

/**
 * Prepares text for the PTY: newlines become carriage returns, as a keyboard types them; in bracketed mode the text is
 * wrapped and escape characters are dropped, so that a paste cannot end its own bracket.
 */
export function planPaste(text: string, bracketed: boolean): PastePlan {
  const typed = text.replace(/\r?\n/g, "\r");
  const lines = typed.replace(/\r$/, "").split("\r").length;
  const clean = bracketed ? `\x1b[200~${typed.replaceAll("\x1b", "")}\x1b[201~` : typed;
  const bytes = new TextEncoder().encode(clean);
  const ask = bracketed
    ? ""
    : lines > LINES_UNASKED
      ? "lines"
      : /[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]/.test(typed)
        ? "control"
        : "";
  return { bytes, lines, ask, tooLarge: bytes.length > PASTE_MAX };
}

/** Cuts bytes into pieces of at most PASTE_PIECE. */
export function* pieces(bytes: Uint8Array): Generator<Uint8Array> {
  for (let at = 0; at < bytes.length; at += PASTE_PIECE) yield bytes.subarray(at, at + PASTE_PIECE);
}
