import { t as tr } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { useCallback, useEffect, useRef, useState } from "react";
import { socketUrl, type Workspace } from "@/api/client";
import { Button } from "@/kit/button";
import { Icon } from "@/kit/icon";
import { Empty, Skeleton } from "@/kit/states";
import { ControlBar, Controlled } from "./control";
import { buttonName, modifiers, within, writes } from "./input";
import { BrowserLink, type BrowserState } from "./link";
import type { Phase } from "./live";

/** The workspace's browser, live: what agents do in it, and using it oneself. */
export default function BrowserTab({ workspace: w, canUse }: { workspace: Workspace; canUse: boolean }) {
  const canvas = useRef<HTMLCanvasElement>(null);
  const link = useRef<BrowserLink>(undefined);
  const [phase, setPhase] = useState<Phase>("connecting");
  const [state, setState] = useState<BrowserState>();
  const [refused, setRefused] = useState("");
  const [starting, setStarting] = useState(false);
  const last = useRef<ImageBitmap>(undefined);
  const draw = useCallback((c: HTMLCanvasElement | null) => {
    const p = last.current;
    if (!c || !p) return;
    if (c.width !== p.width || c.height !== p.height) {
      c.width = p.width;
      c.height = p.height;
    }
    c.getContext("2d")?.drawImage(p, 0, 0);
  }, []);
  useEffect(() => {
    const l = new BrowserLink(socketUrl(`/workspaces/${encodeURIComponent(w.id)}/browser/live`), {
      phase: setPhase,
      state: (s) => {
        setState(s);
        if (s.running) setStarting(false);
      },
      refused: (m) => {
        setRefused(m);
        setStarting(false);
      },
      picture: (p) => {
        last.current?.close();
        last.current = p;
        draw(canvas.current);
      },
    });
    link.current = l;
    l.start();
    return () => {
      l.close();
      last.current?.close();
      last.current = undefined;
    };
  }, [w.id, draw]);
  const send = useCallback((input: Record<string, unknown>) => {
    setRefused("");
    link.current?.send(input);
  }, []);
  const toggle = () =>
    state && send(state.yours ? { type: "give" } : { type: "take", force: state.control.person.id !== "" });

  if (phase === "denied")
    return (
      <Empty title={tr`You may not watch this browser`}>
        <Trans>Your rights have changed.</Trans>
      </Empty>
    );
  if (!state) return <Skeleton rows={6} label={tr`Connecting to the browser`} />;
  if (!state.running)
    return (
      <Empty
        title={tr`No browser is running`}
        action={
          canUse && (
            <Button
              look="primary"
              busy={starting && tr`Starting`}
              onClick={() => {
                setStarting(true);
                send({ type: "start" });
              }}
            >
              <Trans>Start</Trans>
            </Button>
          )
        }
      >
        {state.ended && tr`The last one has ended. ${state.ended} `}
        <Trans>An agent starts one{canUse && tr`, or press Start`}.</Trans>
        {refused && (
          <p role="alert" className="mt-2 text-danger">
            {refused}
          </p>
        )}
      </Empty>
    );
  const tab = state.tabs.find((t) => t.active);
  return (
    <Controlled canUse={canUse} toggle={toggle}>
      <ControlBar
        state={state}
        phase={phase}
        canUse={canUse}
        toggle={toggle}
        notes={[state.asleep && tr`The sandbox is suspended.`, state.recording && tr`Recording.`]}
      >
        <Button
          onClick={() => send({ type: "record", do: state.recording ? "stop" : "start" })}
          title={tr`A recording is saved as an artifact`}
        >
          {state.recording ? tr`Stop recording` : tr`Record`}
        </Button>
      </ControlBar>
      <Tabs state={state} send={send} />
      <Address key={tab?.url} url={tab?.url ?? ""} loading={tab?.loading ?? false} enabled={state.yours} send={send} />
      {refused && (
        <p role="alert" className="px-3 py-1 text-danger">
          {refused}
        </p>
      )}
      {tab?.crashed && (
        <p className="px-3 py-1 text-danger">
          <Trans>The page crashed. Load it again, or open another one.</Trans>
        </p>
      )}
      {tab?.dialog && <PageDialog dialog={tab.dialog} enabled={state.yours} send={send} />}
      <Page
        canvas={(c) => {
          canvas.current = c;
          draw(c);
        }}
        picture={() => last.current}
        title={tab?.title ?? ""}
        yours={state.yours}
        send={send}
      />
      {state.notice && <p className="truncate border-t border-hairline px-3 py-1 text-meta text-fg3">{state.notice}</p>}
    </Controlled>
  );
}

type Send = (input: Record<string, unknown>) => void;

function Tabs({ state: s, send }: { state: BrowserState; send: Send }) {
  return (
    <div
      role="group"
      aria-label={tr`Tabs of the browser`}
      className="flex gap-1 overflow-x-auto border-b border-hairline px-2 py-1"
    >
      {s.tabs.map((t) => (
        <span key={t.tab} className="flex max-w-56 items-center rounded-md bg-bg2">
          <button
            type="button"
            aria-pressed={t.active}
            disabled={!s.yours}
            className="control-h min-w-0 truncate px-2 text-fg2 aria-pressed:font-medium aria-pressed:text-fg"
            onClick={() => send({ type: "tab", tab: t.tab })}
          >
            {t.title || t.url || tr`Empty page`}
            {t.tab === s.agent_tab && (
              <span className="text-fg3">
                {" "}
                <Trans>(agent)</Trans>
              </span>
            )}
          </button>
          {s.yours && (
            <button
              type="button"
              aria-label={tr`Close ${t.title || t.url}`}
              className="control-h px-1 text-fg3 hover:text-fg"
              onClick={() => send({ type: "close_tab", tab: t.tab })}
            >
              <Icon name="close" size={12} />
            </button>
          )}
        </span>
      ))}
      {s.yours && (
        <Button look="quiet" aria-label={tr`New tab`} onClick={() => send({ type: "new_tab" })}>
          <Icon name="plus" />
        </Button>
      )}
    </div>
  );
}

function Address({ url, loading, enabled, send }: { url: string; loading: boolean; enabled: boolean; send: Send }) {
  const [text, setText] = useState(url);
  return (
    <form
      className="flex items-center gap-1 border-b border-hairline px-2 py-1"
      onSubmit={(e) => {
        e.preventDefault();
        send({ type: "open", url: text });
      }}
    >
      <Button look="quiet" disabled={!enabled} aria-label={tr`Back`} onClick={() => send({ type: "go", do: "back" })}>
        <Icon name="chevronLeft" />
      </Button>
      <Button
        look="quiet"
        disabled={!enabled}
        aria-label={tr`Forward`}
        onClick={() => send({ type: "go", do: "forward" })}
      >
        <Icon name="chevronRight" />
      </Button>
      <Button
        look="quiet"
        disabled={!enabled}
        aria-label={loading ? tr`Stop loading` : tr`Load again`}
        onClick={() => send({ type: "go", do: loading ? "stop" : "reload" })}
      >
        <Icon name={loading ? "close" : "refresh"} />
      </Button>
      <input
        aria-label={tr`Address`}
        className="control-h min-w-0 flex-1 rounded-md border border-control bg-bg1 px-2"
        value={text}
        readOnly={!enabled}
        onChange={(e) => setText(e.target.value)}
        onFocus={(e) => e.target.select()}
        autoCapitalize="off"
        spellCheck={false}
      />
      {loading && (
        <span className="text-meta text-fg3">
          <Trans>Loading</Trans>
        </span>
      )}
    </form>
  );
}

function PageDialog({
  dialog: d,
  enabled,
  send,
}: {
  dialog: { type: string; message: string; default: string };
  enabled: boolean;
  send: Send;
}) {
  const [text, setText] = useState(d.default);
  return (
    <form
      className="flex flex-wrap items-center gap-2 border-b border-hairline bg-bg2 px-3 py-2"
      onSubmit={(e) => {
        e.preventDefault();
        send({ type: "dialog", accept: true, text });
      }}
    >
      <p role="alert" className="min-w-0 flex-1 whitespace-pre-wrap">
        <Trans>The page {d.type === "beforeunload" ? tr`asks whether to leave it.` : tr`says: ${d.message}`}</Trans>
      </p>
      {d.type === "prompt" && (
        <input
          aria-label={tr`Answer`}
          className="control-h rounded-md border border-control bg-bg1 px-2"
          value={text}
          onChange={(e) => setText(e.target.value)}
        />
      )}
      <Button type="submit" look="primary" disabled={!enabled}>
        <Trans>OK</Trans>
      </Button>
      {d.type !== "alert" && (
        <Button disabled={!enabled} onClick={() => send({ type: "dialog", accept: false })}>
          <Trans>Cancel</Trans>
        </Button>
      )}
    </form>
  );
}

/** The picture of the page. With control it takes the mouse, touches, and keys: a hidden field takes text, also composed and from a phone's keyboard. */
function Page({
  canvas,
  picture,
  title,
  yours,
  send,
}: {
  canvas: (c: HTMLCanvasElement | null) => void;
  picture: () => { width: number; height: number } | undefined;
  title: string;
  yours: boolean;
  send: Send;
}) {
  const field = useRef<HTMLTextAreaElement>(null);
  const box = useRef<HTMLDivElement>(null);
  const move = useRef<Record<string, unknown>>(undefined);
  const wheel = useRef<(e: WheelEvent) => void>(undefined);
  const at = (x: number, y: number) => {
    const r = box.current?.getBoundingClientRect();
    return r ? within(r, picture() ?? { width: 1280, height: 800 }, x, y) : { x: 0, y: 0 };
  };
  /** Moves are sent once per picture of the screen. */
  const later = (input: Record<string, unknown>) => {
    if (!move.current)
      requestAnimationFrame(() => {
        if (move.current) send(move.current);
        move.current = undefined;
      });
    move.current = input;
  };
  const mouse = (e: React.MouseEvent, what: string) => ({
    type: "mouse",
    do: what,
    ...at(e.clientX, e.clientY),
    button: what === "move" ? tr`none` : buttonName(e.button),
    buttons: e.buttons,
    clicks: what === "move" ? 0 : Math.max(1, e.detail),
    modifiers: modifiers(e),
  });
  const touch = (e: React.TouchEvent, what: string) => {
    const input = {
      type: "touch",
      do: what,
      points: Array.from(e.touches, (t) => ({ id: t.identifier, ...at(t.clientX, t.clientY) })),
      modifiers: modifiers(e),
    };
    if (what === "move") later(input);
    else send(input);
  };
  wheel.current = (e) => {
    e.preventDefault();
    const unit = e.deltaMode === 1 ? 20 : e.deltaMode === 2 ? 800 : 1;
    send({
      type: "mouse",
      do: "wheel",
      ...at(e.clientX, e.clientY),
      dx: e.deltaX * unit,
      dy: e.deltaY * unit,
      modifiers: modifiers(e),
    });
  };
  useEffect(() => {
    const el = box.current;
    if (!el || !yours) return;
    field.current?.focus();
    const onWheel = (e: WheelEvent) => wheel.current?.(e); // React's own cannot keep the page from scrolling
    el.addEventListener("wheel", onWheel, { passive: false });
    return () => el.removeEventListener("wheel", onWheel);
  }, [yours]);
  const on = yours
    ? {
        onMouseMove: (e: React.MouseEvent) => later(mouse(e, "move")),
        onMouseDown: (e: React.MouseEvent) => {
          e.preventDefault();
          field.current?.focus({ preventScroll: true });
          send(mouse(e, "down"));
        },
        onMouseUp: (e: React.MouseEvent) => send(mouse(e, "up")),
        onContextMenu: (e: React.MouseEvent) => e.preventDefault(),
        onTouchStart: (e: React.TouchEvent) => touch(e, "start"),
        onTouchMove: (e: React.TouchEvent) => touch(e, "move"),
        onTouchEnd: (e: React.TouchEvent) => {
          e.preventDefault(); // no mouse events afterwards
          field.current?.focus({ preventScroll: true });
          touch(e, "end");
        },
        onTouchCancel: (e: React.TouchEvent) => touch(e, "cancel"),
      }
    : {};
  const key = (e: React.KeyboardEvent, what: "down" | "up") => {
    if (e.nativeEvent.isComposing || e.key === "Process" || e.key === "Unidentified" || writes(e)) return;
    if (e.key.toLowerCase() === "v" && (e.ctrlKey || e.metaKey)) return; // the paste event follows
    if (e.key === "Tab" && e.shiftKey) return; // the way out for who uses no mouse
    e.preventDefault();
    e.stopPropagation();
    if (["Shift", "Control", "Alt", "Meta"].includes(e.key)) return;
    send({ type: "key", do: what, key: e.key, modifiers: modifiers(e) });
  };
  const flush = () => {
    const f = field.current;
    if (!f?.value) return;
    send({ type: "text", text: f.value });
    f.value = "";
  };
  return (
    <div ref={box} className="relative min-h-0 flex-1 touch-none overflow-hidden bg-bg2" {...on}>
      <canvas
        ref={canvas}
        width={1280}
        height={800}
        role="img"
        aria-label={title ? tr`The page ${title}` : tr`The page`}
        className="h-full w-full object-contain"
      />
      {yours && (
        <textarea
          ref={field}
          aria-label="Types into the page. Shift+Tab leaves it."
          className="absolute top-0 left-0 h-px w-px resize-none opacity-0"
          autoCapitalize="off"
          autoCorrect="off"
          spellCheck={false}
          onKeyDown={(e) => key(e, "down")}
          onKeyUp={(e) => key(e, "up")}
          onInput={(e) => !(e.nativeEvent as InputEvent).isComposing && flush()}
          onCompositionEnd={flush}
          onPaste={(e) => {
            e.preventDefault();
            send({ type: "text", text: e.clipboardData.getData("text/plain") });
          }}
        />
      )}
    </div>
  );
}
