// @vitest-environment happy-dom
import { afterEach, expect, it, vi } from "vitest";
import { TerminalHandle } from "./handle";

vi.mock("@xterm/xterm", () => ({
  Terminal: class {
    options = {};
    parser = {
      registerCsiHandler: vi.fn(),
      registerDcsHandler: vi.fn(),
      registerOscHandler: vi.fn(),
      registerEscHandler: vi.fn(),
    };
    loadAddon = vi.fn();
    attachCustomKeyEventHandler = vi.fn();
    onData = vi.fn();
    onBinary = vi.fn();
    onTitleChange = vi.fn();
    onBell = vi.fn();
    onScroll = vi.fn();
    onWriteParsed = vi.fn();
    open = vi.fn();
    dispose = vi.fn();
  },
}));
vi.mock("@xterm/addon-fit", () => ({ FitAddon: class {} }));
vi.mock("@xterm/addon-search", () => ({ SearchAddon: class {} }));
vi.mock("@xterm/addon-unicode-graphemes", () => ({ UnicodeGraphemesAddon: class {} }));
vi.mock("@xterm/addon-web-links", () => ({ WebLinksAddon: class {} }));
vi.mock("./open-link", () => ({ openLink: vi.fn() }));
vi.mock("./link", () => ({
  TerminalLink: class {
    start = vi.fn();
    close = vi.fn();
  },
}));
vi.mock("./webgl", () => ({ withWebgl: async () => () => {} }));

afterEach(() => vi.unstubAllGlobals());

it("fits itself into the place it was put into last, also when the font came late", async () => {
  let fontIsThere = () => {};
  const font = new Promise<void>((done) => {
    fontIsThere = done;
  });
  Object.defineProperty(document, "fonts", { configurable: true, value: { load: () => font } });
  const watched = new Set<Element>();
  vi.stubGlobal(
    "ResizeObserver",
    class {
      observe = (el: Element) => watched.add(el);
      disconnect = () => watched.clear();
    },
  );
  const handle = new TerminalHandle({ sessionId: "s", writer: true, workspaceId: "w", shell: true });
  const [before, now] = [document.createElement("div"), document.createElement("div")];
  const attached = [handle.attach(before)];
  handle.detach(before); // another tab of the page, and back
  attached.push(handle.attach(now));
  fontIsThere();
  await Promise.all(attached);
  expect(watched.has(now)).toBe(true);
  handle.dispose();
});
