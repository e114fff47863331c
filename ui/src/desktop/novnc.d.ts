declare module "@novnc/novnc" {
  /** What of noVNC's client is used here. */
  export default class RFB extends EventTarget {
    constructor(target: HTMLElement, channel: unknown, options?: { shared?: boolean });
    viewOnly: boolean;
    scaleViewport: boolean;
    clipViewport: boolean;
    dragViewport: boolean;
    focusOnClick: boolean;
    background: string;
    focus(options?: FocusOptions): void;
    disconnect(): void;
    sendKey(keysym: number, code: string | null, down?: boolean): void;
    clipboardPasteFrom(text: string): void;
  }
}
