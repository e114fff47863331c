import { Backoff } from "@/net/backoff";
import { type Comeback, comeback } from "@/net/recovery";
import { onWake } from "@/net/wake";
import { ack, Close, decode, input, ping, sizeWish, takeSize } from "./codec";
import { Offsets } from "./offsets";

/** connecting: first try; live: open; waiting: cut, will try again; ended: the session is over; gone, denied: no use trying. */
export type Phase = "connecting" | "live" | "waiting" | "ended" | "gone" | "denied";

export interface LinkState {
  phase: Phase;
  /** ms UTC of the next try, while waiting. */
  retryAt: number;
  /** ms UTC since when there is no connection; 0 while there is one. */
  downSince: number;
}

export interface LinkEvents {
  /** Call done when the bytes are parsed. */
  output(bytes: Uint8Array, end: number, done: () => void): void;
  /** The current screen, in bytes for a terminal of the size sent before. */
  snapshot(bytes: Uint8Array): void;
  gap(bytes: number): void;
  size(cols: number, rows: number): void;
  state(json: unknown): void;
  exit(json: unknown): void;
  error(json: unknown): void;
  /** The server has less than we have: everything comes anew. */
  reset(): void;
  link(s: LinkState): void;
  /** A lost connection is back and this many bytes were caught up. */
  back(bytes: number): void;
  /** Several tries failed in a row, or the server hung up on us: it may know us no more. */
  trouble(): void;
}

export interface LinkConfig {
  /** The socket's address without from. */
  url: (from: number | undefined) => string;
  events: LinkEvents;
  connect?: (url: string) => WebSocket;
  random?: () => number;
  comeback?: Pick<Comeback, "wait">;
}

const PING_AFTER = 15_000; // of silence
const PONG_WITHIN = 10_000;
const PONG_SOON = 5_000; // for somebody who has come back to the page
const QUIET_ACK = 1_000;
const BACK_QUIET = 300;

/**
 * One session's terminal socket. It begins with the screen as the server has it, and from then on reconnects by offset, so that no byte is lost or shown twice, acknowledges what was
 * parsed, and refuses input while there is no connection: typed keys are never queued.
 */
export class TerminalLink {
  private socket: WebSocket | undefined;
  private offsets = new Offsets();

  /** How far the output has come. */
  get offset(): number | undefined {
    return this.offsets.next;
  }
  private readonly backoff: Backoff;
  private state: LinkState = { phase: "connecting", retryAt: 0, downSince: 0 };
  private retry: ReturnType<typeof setTimeout> | undefined;
  private silence: ReturnType<typeof setTimeout> | undefined;
  private quiet: ReturnType<typeof setTimeout> | undefined;
  private exited = false;
  private fresh = false;
  private closed = false;
  private unwait = (): void => {};
  private sleep = (): void => {};
  private caughtUp = -1; // bytes since a reconnect, -1 when nothing is being caught up
  private backTimer: ReturnType<typeof setTimeout> | undefined;

  constructor(private readonly config: LinkConfig) {
    this.backoff = new Backoff(500, 15_000, config.random);
  }

  start(): void {
    this.sleep = onWake(this.wake);
    this.connect();
  }

  close(): void {
    this.closed = true;
    this.clearTimers();
    this.sleep();
    this.socket?.close(1000);
  }

  get live(): boolean {
    return this.state.phase === "live";
  }

  /** Bytes handed to the socket that the network has not taken yet. */
  get buffered(): number {
    return this.socket?.bufferedAmount ?? 0;
  }

  /** Sends input. False when there is no connection: it is dropped, not kept for later. */
  send(frame: Uint8Array<ArrayBuffer>): boolean {
    if (!this.live || this.socket?.readyState !== 1) return false;
    this.socket.send(frame);
    return true;
  }

  type(data: string): boolean {
    return this.send(input(data));
  }

  wish(cols: number, rows: number): boolean {
    return this.send(sizeWish(cols, rows));
  }

  takeSize(): boolean {
    return this.send(takeSize());
  }

  /** The session is not there, or not to be seen any more: nothing is tried again. */
  gone(): void {
    if (this.closed || this.live) return;
    this.clearTimers();
    this.retry = undefined;
    this.set({ phase: "gone", retryAt: 0, downSince: 0 });
  }

  /** Tries at once instead of waiting for the timer. */
  readonly now = (): void => {
    if (this.closed || this.retry === undefined) return;
    clearTimeout(this.retry);
    this.retry = undefined;
    this.connect();
  };

  /** A connection that seems open may have ended while the machine slept or changed its network: it is asked. */
  private readonly wake = (): void => {
    if (this.live) this.probe();
    else this.now();
  };

  private connect(): void {
    this.unwait();
    const from = this.offsets.next;
    const url = this.config.url(from);
    const socket = this.config.connect ? this.config.connect(url) : new WebSocket(url);
    socket.binaryType = "arraybuffer";
    this.socket = socket;
    this.offsets.reconnected();
    socket.onopen = () => {
      if (socket !== this.socket) return;
      this.backoff.reset();
      if (this.state.downSince > 0) this.beginCatchUp();
      this.set({ phase: "live", retryAt: 0, downSince: 0 });
      this.listen();
    };
    socket.onmessage = (m) => {
      if (socket !== this.socket || !(m.data instanceof ArrayBuffer)) return;
      this.listen();
      this.take(m.data);
    };
    socket.onclose = (e) => {
      if (socket === this.socket) this.onClose(e.code);
    };
  }

  private take(buffer: ArrayBuffer): void {
    const frame = decode(buffer);
    if (!frame) return;
    const { events } = this.config;
    switch (frame.op) {
      case "output": {
        const taken = this.offsets.take(frame.offset, frame.bytes);
        if (taken.gap > 0) events.gap(taken.gap);
        if (taken.bytes.length === 0) return;
        this.countBack(taken.bytes.length);
        events.output(taken.bytes, taken.end, () => this.parsed(taken.end));
        return;
      }
      case "snapshot":
        this.offsets.reset(frame.offset);
        events.snapshot(frame.bytes);
        return;
      case "size":
        events.size(frame.cols, frame.rows);
        return;
      case "state":
        events.state(frame.json);
        return;
      case "exit":
        this.exited = true;
        events.exit(frame.json);
        return;
      case "error":
        // A server that lost what it had shown (a crash of its machine) refuses our offset: begin again.
        if ((frame.json as { code?: unknown } | null)?.code === "offset_beyond_end") this.fresh = true;
        else events.error(frame.json);
        return;
      case "pong":
        return;
    }
  }

  private parsed(end: number): void {
    const now = this.offsets.done(end);
    if (now !== undefined) this.send(ack(now));
    clearTimeout(this.quiet);
    this.quiet = setTimeout(() => {
      const rest = this.offsets.flush();
      if (rest !== undefined) this.send(ack(rest));
    }, QUIET_ACK);
  }

  private onClose(code: number): void {
    clearTimeout(this.silence);
    this.socket = undefined;
    if (this.closed) return;
    if (this.fresh) {
      this.fresh = false;
      this.offsets = new Offsets();
      this.config.events.reset();
      this.again(this.backoff.next());
      return;
    }
    const stop =
      code === Close.Gone ? "gone" : code === Close.NotAllowed ? "denied" : this.exited ? "ended" : undefined;
    if (stop) {
      this.set({ phase: stop, retryAt: 0, downSince: 0 });
      if (stop === "denied") this.config.events.trouble();
      return;
    }
    // Too slow is no fault of the network: come back at once from where we are.
    this.again(code === Close.TooSlow ? 0 : this.backoff.next());
    if (this.backoff.tries > 0 && this.backoff.tries % 3 === 0) this.config.events.trouble();
  }

  private again(wait: number): void {
    const downSince = this.state.downSince || Date.now();
    this.retry = setTimeout(() => {
      this.retry = undefined;
      this.connect();
    }, wait);
    this.unwait();
    this.unwait = (this.config.comeback ?? comeback).wait(this.now);
    this.set({ phase: "waiting", retryAt: Date.now() + wait, downSince });
  }

  /** A connection that says nothing is asked; one that does not answer is cut, so that a sleeping laptop wakes up well. */
  private listen(): void {
    clearTimeout(this.silence);
    this.silence = setTimeout(() => this.probe(PONG_WITHIN), PING_AFTER);
  }

  private probe(within = PONG_SOON): void {
    this.send(ping());
    clearTimeout(this.silence);
    this.silence = setTimeout(() => {
      const dead = this.socket;
      this.onClose(1006);
      dead?.close();
    }, within);
  }

  private beginCatchUp(): void {
    this.caughtUp = 0;
    this.countBack(0);
  }

  private countBack(bytes: number): void {
    if (this.caughtUp < 0) return;
    this.caughtUp += bytes;
    clearTimeout(this.backTimer);
    this.backTimer = setTimeout(() => {
      this.config.events.back(this.caughtUp);
      this.caughtUp = -1;
    }, BACK_QUIET);
  }

  private clearTimers(): void {
    this.unwait();
    for (const t of [this.retry, this.silence, this.quiet, this.backTimer]) clearTimeout(t);
  }

  private set(state: LinkState): void {
    this.state = state;
    this.config.events.link(state);
  }
}
