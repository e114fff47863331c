import { t } from "@lingui/core/macro";
import { LiveSocket, type Phase } from "./live";

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

export interface Events {
  phase(p: Phase): void;
  state(s: BrowserState): void;
  /** The newest picture. It is closed by whoever gets it. */
  picture(p: ImageBitmap, tab: number): void;
  refused(message: string): void;
}

const HEAD = 10; // bytes before the picture

/** The head of a binary message, and where its JPEG begins. */
export function readFrame(raw: ArrayBuffer): { seq: number; tab: number; jpeg: Uint8Array<ArrayBuffer> } | undefined {
  if (raw.byteLength <= HEAD) return undefined;
  const v = new DataView(raw);
  return { seq: v.getUint32(0), tab: v.getUint16(4), jpeg: new Uint8Array(raw, HEAD) };
}

/** A connection to the live view of a browser. It acknowledges each picture when it is decoded. */
export class BrowserLink {
  private readonly socket: LiveSocket;
  private newest = 0; // number of the picture that was passed on

  constructor(
    url: string,
    private readonly events: Events,
  ) {
    this.socket = new LiveSocket(url, {
      phase: events.phase,
      opened: () => {
        this.newest = 0;
      },
      message: (s, data) => void this.take(s, data),
    });
  }

  start(): void {
    this.socket.start();
  }

  close(): void {
    this.socket.close();
  }

  send(input: Record<string, unknown>): void {
    this.socket.send(JSON.stringify(input));
  }

  private async take(s: WebSocket, data: unknown): Promise<void> {
    if (typeof data === "string") {
      const m = JSON.parse(data) as { type: string; message?: string };
      if (m.type === "state") this.events.state(m as unknown as BrowserState);
      else if (m.type === "error") this.events.refused(m.message ?? t`The server refused it.`);
      return;
    }
    const f = data instanceof ArrayBuffer ? readFrame(data) : undefined;
    if (!f) return;
    try {
      const picture = await createImageBitmap(new Blob([f.jpeg], { type: "image/jpeg" }));
      if (this.socket.isNow(s) && f.seq >= this.newest) {
        this.newest = f.seq; // one that is decoded later than the one after it is not shown
        this.events.picture(picture, f.tab);
      } else picture.close();
    } catch {
      // a picture that is none: the next one comes
    }
    if (s.readyState === WebSocket.OPEN) s.send(JSON.stringify({ type: "ack", frame: f.seq }));
  }
}
