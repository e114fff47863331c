import { t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import RFB from "@novnc/novnc";
import { useEffect, useRef, useState } from "react";
import { api, data, socketUrl, type Workspace } from "@/api/client";
import { keys } from "@/api/queries";
import { ControlBar, Controlled, type ControlState } from "@/browser/control";
import type { Phase } from "@/browser/live";
import { Button } from "@/kit/button";
import { inputClass } from "@/kit/field";
import { Skeleton } from "@/kit/states";
import { useAction } from "@/kit/use-action";
import { keysymOfKey, keysymsOf, program } from "./keys";
import { DesktopLink, MOST_CLIPBOARD } from "./link";

/** The screen of a running desktop, and using it. noVNC comes with it. */
export default function Live({
  workspace: w,
  canUse,
  chromium,
  onEnded,
  onDenied,
}: {
  workspace: Workspace;
  canUse: boolean;
  chromium: boolean;
  onEnded: () => void;
  onDenied: () => void;
}) {
  const params = { path: { id: w.id } };
  const box = useRef<HTMLDivElement>(null);
  const field = useRef<HTMLTextAreaElement>(null);
  const link = useRef<DesktopLink>(undefined);
  const tell = useRef({ onEnded, onDenied });
  tell.current = { onEnded, onDenied };
  const [phase, setPhase] = useState<Phase>("connecting");
  const [state, setState] = useState<ControlState>();
  const [clipboard, setClipboard] = useState("");
  const [showClipboard, setShowClipboard] = useState(false);
  const [fits, setFits] = useState(true);
  useEffect(() => {
    if (!box.current) return;
    const l = new DesktopLink(socketUrl(`/workspaces/${encodeURIComponent(w.id)}/desktop/live`), RFB, box.current, {
      phase: (p) => (p === "denied" ? tell.current.onDenied() : setPhase(p)),
      state: setState,
      clipboard: setClipboard,
      ended: () => tell.current.onEnded(),
    });
    link.current = l;
    l.start();
    return () => l.close();
  }, [w.id]);
  const yours = state?.yours ?? false;
  useEffect(() => {
    if (yours) link.current?.rfb?.focus({ preventScroll: true });
  }, [yours]);
  const turn = useAction({
    act: () =>
      data(
        api.POST("/workspaces/{id}/desktop/control", {
          params,
          body: yours ? { do: "give" } : { do: "take", force: Boolean(state?.control.person.id) },
        }),
      ),
    failed: yours ? t`Control was not given back.` : t`You have not taken over.`,
  });
  const open = useAction({
    act: (what: { url: string } | { argv: string[] }) =>
      data(api.POST("/workspaces/{id}/desktop", { params, body: what })),
    failed: t`Nothing was opened.`,
  });
  const end = useAction({
    act: () => data(api.DELETE("/workspaces/{id}/desktop", { params })),
    confirm: {
      title: t`End the desktop?`,
      body: t`All programs on it end. What they have not saved is lost.`,
      action: t`End`,
      danger: true,
    },
    refresh: [keys.desktop(w.id)],
    failed: t`The desktop was not ended.`,
  });
  const toggle = () => void (state && !turn.busy && turn.run());
  return (
    <Controlled canUse={canUse} toggle={toggle}>
      {state && (
        <ControlBar state={state} phase={phase} canUse={canUse} toggle={toggle}>
          <form
            className="flex min-w-0 flex-1 basis-56 gap-1"
            onSubmit={(e) => {
              e.preventDefault();
              const what = program(String(new FormData(e.currentTarget).get("what")));
              if (what) void open.run(what);
              e.currentTarget.reset();
            }}
          >
            <input
              name="what"
              aria-label={chromium ? t`Address or program to open` : t`Program to open`}
              placeholder={chromium ? t`https://… or a program` : t`A program, such as xterm`}
              className={inputClass}
              autoCapitalize="off"
              spellCheck={false}
              maxLength={8000}
            />
            <Button type="submit" busy={open.busy && t`Opening`}>
              <Trans>Open</Trans>
            </Button>
          </form>
          {yours && (
            <>
              <Button className="pointer-fine:hidden" onClick={() => field.current?.focus({ preventScroll: true })}>
                <Trans>Keyboard</Trans>
              </Button>
              <Button aria-expanded={showClipboard} onClick={() => setShowClipboard(!showClipboard)}>
                <Trans>Clipboard</Trans>
              </Button>
            </>
          )}
          <Button
            aria-pressed={!fits}
            onClick={() => {
              link.current?.scale(!fits);
              setFits(!fits);
            }}
          >
            {fits ? t`Actual size` : t`Fit to window`}
          </Button>
          <Button busy={end.busy && t`Ending`} onClick={() => void end.run()}>
            <Trans>End</Trans>
          </Button>
        </ControlBar>
      )}
      {yours && showClipboard && (
        <form
          className="flex items-end gap-2 border-b border-hairline bg-bg2 px-3 py-2"
          onSubmit={(e) => {
            e.preventDefault();
            link.current?.rfb?.clipboardPasteFrom(clipboard);
            setShowClipboard(false);
            link.current?.rfb?.focus({ preventScroll: true });
          }}
        >
          <label className="min-w-0 flex-1 text-meta text-fg2">
            <Trans>Text in the desktop's clipboard</Trans>
            <textarea
              rows={3}
              maxLength={MOST_CLIPBOARD}
              className={`${inputClass} mt-1 block w-full`}
              value={clipboard}
              onChange={(e) => setClipboard(e.target.value)}
            />
          </label>
          <Button type="submit" look="primary">
            <Trans>Put there</Trans>
          </Button>
        </form>
      )}
      {!state && <Skeleton rows={6} label={t`Connecting to the desktop`} />}
      <div className="relative min-h-0 flex-1 bg-bg2">
        <div
          ref={box}
          role="application"
          aria-label={t`The desktop. Control, Shift and O take over and give back.`}
          className="h-full w-full"
        />
        {yours && (
          <textarea
            ref={field}
            tabIndex={-1}
            aria-label={t`Types on the desktop`}
            className="absolute top-0 left-0 h-px w-px resize-none opacity-0"
            autoCapitalize="off"
            autoCorrect="off"
            spellCheck={false}
            onKeyDown={(e) => {
              const keysym = keysymOfKey(e.key);
              if (keysym === undefined || e.nativeEvent.isComposing) return;
              e.preventDefault();
              link.current?.press([keysym]);
            }}
            onInput={(e) => {
              if ((e.nativeEvent as InputEvent).isComposing) return;
              link.current?.press(keysymsOf(e.currentTarget.value));
              e.currentTarget.value = "";
            }}
            onCompositionEnd={(e) => {
              link.current?.press(keysymsOf(e.currentTarget.value));
              e.currentTarget.value = "";
            }}
          />
        )}
      </div>
    </Controlled>
  );
}
