/** Acknowledge each this many parsed bytes. The server stops 256 KiB ahead of the last acknowledgement. */
export const ACK_EVERY = 64 * 1024;

/** What to do with a frame of output. */
export interface Taken {
  /** The bytes not seen before; empty for a repeat. */
  bytes: Uint8Array;
  /** Bytes that were skipped before these: the server no longer keeps them. */
  gap: number;
  /** The absolute offset behind the last byte. */
  end: number;
}

/** Keeps account of one session's output: what came, what xterm has parsed, what was acknowledged. */
export class Offsets {
  /** The offset of the next byte to come; undefined before the first attach. */
  next: number | undefined;
  private parsed = 0;
  private acked = 0;

  /** Takes a frame of output: drops repeated bytes and reports a gap. */
  take(offset: number, bytes: Uint8Array): Taken {
    const end = offset + bytes.length;
    const next = this.next ?? offset;
    if (this.next === undefined) {
      this.parsed = offset;
      this.acked = offset;
    }
    if (end <= next) return { bytes: bytes.subarray(0, 0), gap: 0, end: next };
    this.next = end;
    if (offset < next) return { bytes: bytes.subarray(next - offset), gap: 0, end };
    return { bytes, gap: offset - next, end };
  }

  /** A snapshot of the screen: output goes on from its offset. */
  reset(offset: number): void {
    this.next = offset;
    this.parsed = offset;
    this.acked = offset;
  }

  /** A new connection forgets what the last one acknowledged. */
  reconnected(): void {
    this.acked = this.parsed;
  }

  /** xterm has parsed everything before `end`. Returns the offset to acknowledge now, or undefined to wait for more. */
  done(end: number): number | undefined {
    if (end > this.parsed) this.parsed = end;
    if (this.parsed - this.acked < ACK_EVERY) return undefined;
    return this.flush();
  }

  /** The offset to acknowledge when the stream falls quiet, or undefined when there is nothing new. */
  flush(): number | undefined {
    if (this.parsed <= this.acked) return undefined;
    this.acked = this.parsed;
    return this.acked;
  }

  /** Bytes that came but are not parsed yet. */
  get behind(): number {
    return (this.next ?? 0) - this.parsed;
  }
}
