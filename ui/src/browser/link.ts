import { Backoff } from "@/net/backoff";

export interface Dialog {
  type: string;
  message: string;
  default: string;
}

export interface BrowserTab {
  tab: number;
  url: string;
  title: string;
  active: boolean;
  loading: boolean;
  crashed: boolean;
  dialog?: Dialog;
}

/** What the server says of a workspace's browser beside its picture. */
export interface BrowserState {
  running: boolean;
  asleep: boolean;
  ended: string;
  tabs: BrowserTab[];
  agent_tab: number;
  control: { person: { id: string; name: string }; since: number };
  yours: boolean;
  viewers: number;
  recording: boolean;
  notice: string;
}

export type Phase = "connecting" | "live" | "waiting" | "denied";

export interface Events {
  phase(p: Phase): void;
  state(s: BrowserState): void;
  /** The newest picture. It is closed by whoever gets it. */
  picture(p: ImageBitmap, tab: number): void;
  refused(message: string): void;
}

const HEAD = 10; // bytes before the picture
const NOT_ALLOWED = 4003;

/** The head of a binary message, and where its JPEG begins. */
export function readFrame(raw: ArrayBuffer): { seq: number; tab: number; jpeg: Uint8Array<ArrayBuffer> } | undefined {
  if (raw.byteLength <= HEAD) return undefined;
  const v = new DataView(raw);
  return { seq: v.getUint32(0), tab: v.getUint16(4), jpeg: new Uint8Array(raw, HEAD) };
}

/**
 * A connection to the live view of a browser. It reconnects by itself, and acknowledges each picture when it is decoded. Whoever may not use
 * the browser any more is disconnected once, and comes back as somebody who watches. "denied" is who is not let in then.
 */
export class BrowserLink {
  private socket: WebSocket | undefined;
  private retry: ReturnType<typeof setTimeout> | undefined;
  private readonly backoff = new Backoff(500, 10_000);
  private closed = false;
  private refused = false;

  constructor(
    private readonly url: string,
    private readonly events: Events,
  ) {}

  start(): void {
    if (!this.refused) this.events.phase("connecting");
    let newest = 0; // number of the picture that was passed on
    const s = new WebSocket(this.url);
    this.socket = s;
    s.binaryType = "arraybuffer";
    s.onmessage = (e) =>
      void this.take(s, e.data, (seq) => {
        if (this.socket !== s || seq < newest) return false; // decoded later than the one after it
        newest = seq;
        return !this.closed;
      });
    s.onopen = () => {
      this.backoff.reset();
      this.refused = false;
      this.events.phase("live");
    };
    s.onclose = (e) => {
      if (this.closed || this.socket !== s) return;
      this.events.phase(this.refused ? "denied" : "waiting");
      if (e.code === NOT_ALLOWED) this.refused = true;
      this.retry = setTimeout(() => this.start(), this.backoff.next());
    };
  }

  close(): void {
    this.closed = true;
    clearTimeout(this.retry);
    this.socket?.close();
  }

  /** Sends input, unless there is no connection: nothing is kept for later. */
  send(input: Record<string, unknown>): void {
    if (this.socket?.readyState === WebSocket.OPEN) this.socket.send(JSON.stringify(input));
  }

  private async take(s: WebSocket, data: unknown, isNews: (seq: number) => boolean): Promise<void> {
    if (typeof data === "string") {
      const m = JSON.parse(data) as { type: string; message?: string };
      if (m.type === "state") this.events.state(m as unknown as BrowserState);
      else if (m.type === "error") this.events.refused(m.message ?? "The server refused it.");
      return;
    }
    const f = data instanceof ArrayBuffer ? readFrame(data) : undefined;
    if (!f) return;
    try {
      const picture = await createImageBitmap(new Blob([f.jpeg], { type: "image/jpeg" }));
      if (isNews(f.seq)) this.events.picture(picture, f.tab);
      else picture.close();
    } catch {
      // a picture that is none: the next one comes
    }
    if (s.readyState === WebSocket.OPEN) s.send(JSON.stringify({ type: "ack", frame: f.seq }));
  }
}
