import { Backoff } from "@/net/backoff";
import { comeback } from "@/net/recovery";
import { onWake } from "@/net/wake";

export type Phase = "connecting" | "live" | "waiting" | "denied";

const NOT_ALLOWED = 4003;

export interface LiveEvents {
  phase(p: Phase): void;
  /** A connection is open. */
  opened?(s: WebSocket): void;
  /** It has ended, or could not be opened. */
  ended?(): void;
  message(s: WebSocket, data: unknown): void;
}

/**
 * A connection to a live view of a browser or a desktop. It reconnects by itself. Whoever may not use what they see any more is disconnected
 * once, and comes back as somebody who watches. "denied" is who is not let in then.
 */
export class LiveSocket {
  private socket: WebSocket | undefined;
  private retry: ReturnType<typeof setTimeout> | undefined;
  private readonly backoff = new Backoff(500, 10_000);
  private closed = false;
  private refused = false;
  private unwait = (): void => {};
  private sleep: (() => void) | undefined;

  constructor(
    private readonly url: string,
    private readonly events: LiveEvents,
  ) {}

  start(): void {
    this.sleep ??= onWake(this.again);
    if (!this.refused) this.events.phase("connecting");
    const s = new WebSocket(this.url);
    this.socket = s;
    s.binaryType = "arraybuffer";
    s.onmessage = (e) => {
      if (this.isNow(s)) this.events.message(s, e.data);
    };
    s.onopen = () => {
      this.backoff.reset();
      this.refused = false;
      this.events.opened?.(s);
      this.events.phase("live");
    };
    s.onclose = (e) => {
      if (!this.isNow(s)) return;
      this.events.phase(this.refused ? "denied" : "waiting");
      if (e.code === NOT_ALLOWED) this.refused = true;
      this.events.ended?.();
      this.retry = setTimeout(this.again, this.backoff.next());
      this.unwait();
      this.unwait = comeback.wait(this.again);
    };
  }

  /** Tries at once instead of waiting for the timer. */
  private readonly again = (): void => {
    if (this.closed || this.retry === undefined) return;
    this.forget();
    this.start();
  };

  private forget(): void {
    clearTimeout(this.retry);
    this.retry = undefined;
    this.unwait();
  }

  /** Whether a connection is the one that counts. */
  isNow = (s: WebSocket): boolean => !this.closed && this.socket === s;

  /** Ends a connection that is of no use any more. Another one follows. */
  drop(): void {
    this.socket?.close();
  }

  close(): void {
    this.closed = true;
    this.forget();
    this.sleep?.();
    this.socket?.close();
  }

  /** Sends something, unless there is no connection: nothing is kept for later. */
  send(what: string | Uint8Array<ArrayBuffer>): void {
    if (this.socket?.readyState === WebSocket.OPEN) this.socket.send(what);
  }
}
