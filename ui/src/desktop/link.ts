import type RFB from "@novnc/novnc";
import type { ControlState } from "@/browser/control";
import { LiveSocket, type Phase } from "@/browser/live";

export interface DesktopEvents {
  phase(p: Phase): void;
  state(s: ControlState): void;
  /** The text in the desktop's clipboard, which only whoever has control gets. */
  clipboard(text: string): void;
  /** The connection has ended: the desktop may have, too. */
  ended(): void;
}

/** How much of the desktop's clipboard is kept, and sent: in characters. */
export const MOST_CLIPBOARD = 20_000;

/** What noVNC takes for its own connection: the binary messages of ours. */
interface Channel {
  binaryType: string;
  protocol: string;
  readyState: string;
  onopen: unknown;
  onerror: unknown;
  onclose: ((e: { code: number; reason: string; wasClean: boolean }) => void) | null;
  onmessage: ((e: { data: unknown }) => void) | null;
  send(data: Uint8Array<ArrayBuffer>): void;
  close(): void;
}

/** A connection to a desktop. Each one that opens gets a screen of noVNC of its own. When noVNC gives up, or cannot read what comes, another one is opened. */
export class DesktopLink {
  rfb: RFB | undefined;
  private channel: Channel | undefined;
  private readonly socket: LiveSocket;
  private scaled = true;
  private yours = false;

  constructor(
    url: string,
    private readonly Client: typeof RFB,
    private readonly target: HTMLElement,
    private readonly events: DesktopEvents,
  ) {
    this.socket = new LiveSocket(url, {
      phase: events.phase,
      opened: () => this.open(),
      ended: () => {
        this.cut();
        events.ended();
      },
      message: (_, data) => {
        if (typeof data !== "string") return this.show(data);
        const m = JSON.parse(data) as { type: string } & ControlState;
        if (m.type !== "state") return;
        this.yours = m.yours;
        this.apply();
        events.state(m);
      },
    });
  }

  start(): void {
    this.socket.start();
  }

  close(): void {
    this.socket.close();
    this.cut();
  }

  /** Whether the picture fits the window, or has its own size. */
  scale(on: boolean): void {
    this.scaled = on;
    this.apply();
  }

  /** Presses and releases keys, one after the other. */
  press(keysyms: number[]): void {
    for (const k of keysyms) this.rfb?.sendKey(k, null);
  }

  private open(): void {
    const channel: Channel = {
      binaryType: "arraybuffer",
      protocol: "",
      readyState: "open",
      onopen: null,
      onerror: null,
      onclose: null,
      onmessage: null,
      send: (data) => this.socket.send(data),
      close: () => this.socket.drop(),
    };
    this.channel = channel;
    this.target.replaceChildren();
    const rfb = new this.Client(this.target, channel, { shared: true });
    rfb.background = "transparent";
    rfb.addEventListener("clipboard", (e) =>
      this.events.clipboard((e as CustomEvent<{ text: string }>).detail.text.slice(0, MOST_CLIPBOARD)),
    );
    this.rfb = rfb;
    this.apply();
  }

  private show(data: unknown): void {
    try {
      this.channel?.onmessage?.({ data });
    } catch {
      this.socket.drop();
    }
  }

  private cut(): void {
    const c = this.channel;
    this.channel = undefined;
    this.rfb = undefined;
    if (!c) return;
    c.readyState = "closed";
    c.onclose?.({ code: 1000, reason: "", wasClean: true });
  }

  private apply(): void {
    const r = this.rfb;
    if (!r) return;
    r.viewOnly = !this.yours;
    r.scaleViewport = this.scaled;
    r.clipViewport = !this.scaled;
    r.dragViewport = !this.scaled && !this.yours;
  }
}
