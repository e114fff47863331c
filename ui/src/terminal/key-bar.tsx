import { t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { useState } from "react";
import { cx } from "@/kit/cx";
import { Icon } from "@/kit/icon";
import { toast } from "@/state/toasts";
import type { TerminalHandle } from "./handle";

const KEYS: [label: string, name: string, bytes: string][] = [
  ["Esc", t`Escape`, "\x1b"],
  [t`Tab`, t`Tab`, "\t"],
  ["⇧Tab", t`Shift Tab`, "\x1b[Z"],
  ["↑", t`Up`, "\x1b[A"],
  ["↓", t`Down`, "\x1b[B"],
  ["←", t`Left`, "\x1b[D"],
  ["→", t`Right`, "\x1b[C"],
  ["^C", t`Control C`, "\x03"],
];

const KEY =
  "h-11 min-w-11 shrink-0 rounded-md bg-bg3 px-3 text-fg aria-pressed:bg-fill aria-pressed:text-white active:bg-bg2";

/** The keys a phone's keyboard has not, and for a shell a real text field: typing into a terminal is hard on a touch screen. */
export function KeyBar({
  handle,
  agent,
  latch,
}: {
  handle: TerminalHandle;
  agent: boolean;
  latch: { ctrl: boolean; alt: boolean };
}) {
  const [text, setText] = useState("");
  // The keyboard stays as it is: a key of the bar must not take the focus.
  const keep = (e: React.PointerEvent) => e.preventDefault();
  const send = () => {
    if (!text) return;
    // Pasted as one text where the program knows pastes, then Enter.
    handle.paste(text);
    setTimeout(() => handle.type("\r"), 60);
    setText("");
  };
  const paste = async () => {
    try {
      handle.paste(await navigator.clipboard.readText());
    } catch {
      toast({
        kind: "bad",
        title: t`The browser blocked the clipboard`,
        text: t`Long-press the text field and paste there.`,
      });
    }
  };
  return (
    <div className="hidden border-t border-hairline bg-bg1 pointer-coarse:block">
      {!agent && (
        <form
          className="flex gap-2 px-2 pt-2"
          onSubmit={(e) => {
            e.preventDefault();
            send();
          }}
        >
          <input
            aria-label={t`Command`}
            placeholder={t`Command`}
            value={text}
            autoCapitalize="none"
            enterKeyHint="send"
            onChange={(e) => setText(e.target.value)}
            className="h-11 min-w-0 flex-1 rounded-md border border-control bg-bg1 px-3 text-touch"
          />
          <button type="submit" disabled={!text} className={cx(KEY, "bg-fill text-white disabled:opacity-55")}>
            <Trans>Send</Trans>
          </button>
        </form>
      )}
      <div role="toolbar" aria-label={t`Keys`} className="flex gap-1.5 overflow-x-auto p-2">
        {KEYS.slice(0, 3).map(([label, name, bytes]) => (
          <button
            key={label}
            type="button"
            aria-label={/^[A-Z]/.test(label) ? undefined : `${name}, ${label}`}
            onPointerDown={keep}
            onClick={() => handle.type(bytes)}
            className={KEY}
          >
            {label}
          </button>
        ))}
        {(["ctrl", "alt"] as const).map((k) => (
          <button
            key={k}
            type="button"
            aria-pressed={latch[k]}
            onPointerDown={keep}
            onClick={() => handle.setLatch(k)}
            className={KEY}
          >
            {k === "ctrl" ? "Ctrl" : "Alt"}
          </button>
        ))}
        {KEYS.slice(3).map(([label, name, bytes]) => (
          <button
            key={label}
            type="button"
            aria-label={/^[A-Z]/.test(label) ? undefined : `${name}, ${label}`}
            onPointerDown={keep}
            onClick={() => handle.type(bytes)}
            className={KEY}
          >
            {label}
          </button>
        ))}
        <button
          type="button"
          aria-label={t`Paste`}
          onPointerDown={keep}
          onClick={() => void paste()}
          className={cx(KEY, "grid place-items-center")}
        >
          <Icon name="paste" />
        </button>
        <button type="button" onPointerDown={keep} onClick={() => handle.scrollToEnd()} className={KEY}>
          <Trans>End</Trans>
        </button>
      </div>
    </div>
  );
}
