import { t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { useEffect, useRef, useState } from "react";
import { Faces } from "@/kit/faces";
import { useMe } from "@/state/team";
import type { TerminalHandle } from "@/terminal/handle";
import type { Keyboard, KeyboardWish } from "@/terminal/keyboard";
import { arrivals, type Person, people } from "@/terminal/presence";
import type { TerminalView } from "@/terminal/state";

const ANNOUNCE_EVERY = 5_000;

/** Who is at the terminal and who types; announced politely when somebody comes or leaves. */
export function Presence({ view, now }: { view: TerminalView; now: number }) {
  const me = useMe().user.id;
  const all = people(view.viewers);
  const typing = view.typist && now - view.typedAt < 3_000 ? view.typist : undefined;
  const said = useAnnounced(all, me);
  return (
    <>
      {view.viewerCount > 1 && (
        <span className="flex items-center gap-1.5">
          <Faces
            label={t`Here`}
            people={all.map((p) => ({
              userId: p.userId,
              name: p.name,
              note: p.userId === me ? t`you` : p.writer ? undefined : t`watching`,
              lit: typing?.userId === p.userId,
            }))}
          />
          <span aria-hidden>
            {all.length > 1
              ? t`${view.viewerCount > 50 ? view.viewerCount : all.length} here`
              : t`${view.viewerCount} screens`}
          </span>
        </span>
      )}
      {typing && typing.userId !== me && (
        <span className="text-fg3">
          <Trans>{typing.name} is typing</Trans>
        </span>
      )}
      <span className="sr-only" aria-live="polite">
        {said}
      </span>
    </>
  );
}

/** Announces who joined and left, at most every five seconds, not who was there before. */
function useAnnounced(all: Person[], me: string): string {
  const [said, say] = useState("");
  const known = useRef<Person[] | undefined>(undefined);
  const spoke = useRef(0);
  const ids = all.map((p) => p.userId).join(" ");
  // biome-ignore lint/correctness/useExhaustiveDependencies: the ids say when people changed
  useEffect(() => {
    if (known.current === undefined) {
      if (all.length > 0) known.current = all;
      return;
    }
    const wait = Math.max(0, spoke.current + ANNOUNCE_EVERY - Date.now());
    const timer = setTimeout(() => {
      const words = arrivals(known.current ?? [], all, me);
      known.current = all;
      if (!words) return;
      spoke.current = Date.now();
      say(words);
    }, wait);
    return () => clearTimeout(timer);
  }, [ids, me]);
  return said;
}

const linkClass = "min-h-6 text-accent hover:underline";

/** Who has exclusive control of the terminal, and the actions on it. */
export function KeyboardLine({
  handle,
  view,
  writer,
}: {
  handle: TerminalHandle;
  view: TerminalView;
  writer: boolean;
}) {
  const me = useMe().user.id;
  const k = view.keyboard;
  const wish = (w: KeyboardWish) => handle.wishKeyboard(w);
  const others = people(view.viewers).some((p) => p.userId !== me && p.writer);
  if (!k) {
    if (!writer || !others) return null;
    return (
      <button
        type="button"
        className={linkClass}
        title={t`Only you can type until you release it`}
        onClick={() => wish({ do: "hold" })}
      >
        <Trans>Take exclusive control</Trans>
      </button>
    );
  }
  return (
    <span role="status" className="flex flex-wrap items-center gap-x-3">
      {k.mine ? (
        <Mine keyboard={k} wish={wish} />
      ) : (
        <Theirs keyboard={k} view={view} writer={writer} wish={wish} me={me} />
      )}
    </span>
  );
}

function Mine({ keyboard, wish }: { keyboard: Keyboard; wish: (w: KeyboardWish) => void }) {
  return (
    <>
      <span className="text-fg">
        <Trans>You have exclusive control</Trans>
      </span>
      <button type="button" className={linkClass} onClick={() => wish({ do: "release" })}>
        <Trans>Release</Trans>
      </button>
      {keyboard.asking.map((a) => (
        <span key={a.userId} className="flex items-center gap-x-2">
          <span className="text-needs">
            <Trans>◆ {a.name} asks for it</Trans>
          </span>
          <button type="button" className={linkClass} onClick={() => wish({ do: "give", to: a.userId })}>
            <Trans>Hand over</Trans>
          </button>
          <button type="button" className={linkClass} onClick={() => wish({ do: "decline", to: a.userId })}>
            <Trans>Not now</Trans>
          </button>
        </span>
      ))}
    </>
  );
}

interface TheirsProps {
  keyboard: Keyboard;
  view: TerminalView;
  writer: boolean;
  wish: (w: KeyboardWish) => void;
  me: string;
}

function Theirs({ keyboard, view, writer, wish, me }: TheirsProps) {
  const asked = keyboard.asking.some((a) => a.userId === me);
  return (
    <>
      <span className="text-fg">
        <Trans>{keyboard.name} has exclusive control</Trans>
      </span>
      {writer && !asked && (
        <button type="button" className={linkClass} onClick={() => wish({ do: "ask" })}>
          <Trans>Request control</Trans>
        </button>
      )}
      {writer && asked && (
        <>
          <span className="text-fg3">
            <Trans>Asked</Trans>
          </span>
          <button type="button" className={linkClass} onClick={() => wish({ do: "unask" })}>
            <Trans>Cancel request</Trans>
          </button>
        </>
      )}
      {view.mayTake && (
        <button type="button" className={linkClass} onClick={() => wish({ do: "hold" })}>
          <Trans>Take control</Trans>
        </button>
      )}
    </>
  );
}
