import { t } from "@lingui/core/macro";
import { useState } from "react";
import { COMMAND } from "@/agents/built-in";
import type { Session } from "@/api/client";
import { promptTo, typeInto } from "@/inbox/api";
import { cx } from "@/kit/cx";
import { useTeam } from "@/state/team";
import { toast, toastError } from "@/state/toasts";
import { isShell } from "./sessions";

const KEYS: [label: string, name: string, bytes: string][] = [
  ["1", "1", "1"],
  ["2", "2", "2"],
  ["3", "3", "3"],
  [t`Enter`, t`Enter`, "\r"],
  ["Esc", t`Escape`, "\x1b"],
  ["y", "y", "y"],
  ["n", "n", "n"],
  ["↑", t`Up`, "\x1b[A"],
  ["↓", t`Down`, "\x1b[B"],
];

const KEY = "h-11 min-w-11 shrink-0 rounded-md bg-bg3 px-3 text-fg active:bg-bg2 disabled:opacity-55";

/** Quick keys and a real text field, as a phone's keyboard likes it: nothing is typed into a terminal letter by letter. */
export function Replies({ session: s, onSent }: { session: Session; onSent: () => void }) {
  const team = useTeam();
  const [text, setText] = useState("");
  const [busy, setBusy] = useState(false);
  const talks = !isShell(s) && s.agent !== COMMAND;
  const label = talks ? t`Message to ${s.agent_name}` : t`Command`;

  const send = async (what: () => Promise<void>): Promise<boolean> => {
    setBusy(true);
    try {
      await what();
      // The program needs a moment to draw what it made of it.
      setTimeout(onSent, 250);
      setTimeout(onSent, 1000);
      return true;
    } catch (error) {
      toastError(t`The message was not sent`, error);
      return false;
    } finally {
      setBusy(false);
    }
  };
  const submit = async () => {
    const words = text.trim();
    if (!words || busy) return;
    if (await send(() => say(s.id, words, talks))) setText((now) => (now.trim() === words ? "" : now));
  };
  if (!team.can("terminal.type")) return null;
  return (
    <div className="border-t border-hairline bg-bg1">
      <div role="toolbar" aria-label={t`Quick replies`} className="flex gap-1.5 overflow-x-auto px-2 pt-2">
        {KEYS.map(([face, name, bytes]) => (
          <button
            key={name}
            type="button"
            aria-label={face === name ? undefined : `${name}, ${face}`}
            disabled={busy}
            // The phone's keyboard stays as it is: a key of the bar must not take the focus.
            onPointerDown={(e) => e.preventDefault()}
            onClick={() => void send(() => typeInto(s.id, bytes))}
            className={KEY}
          >
            {face}
          </button>
        ))}
      </div>
      <form
        className="flex items-end gap-2 p-2"
        onSubmit={(e) => {
          e.preventDefault();
          void submit();
        }}
      >
        <textarea
          aria-label={label}
          placeholder={label}
          rows={Math.min(5, text.split("\n").length)}
          value={text}
          autoCapitalize={talks ? "sentences" : "none"}
          enterKeyHint={talks ? "enter" : "send"}
          maxLength={100_000}
          onChange={(e) => setText(e.target.value)}
          onKeyDown={(e) => {
            // On glass Enter is a new line; with a keyboard, Ctrl or Cmd sends.
            if (e.key === "Enter" && (e.ctrlKey || e.metaKey || !talks)) {
              e.preventDefault();
              void submit();
            }
          }}
          className="min-h-11 min-w-0 flex-1 resize-none rounded-md border border-control bg-bg1 px-3 py-2.5 text-touch leading-5"
        />
        <button
          type="submit"
          disabled={!text.trim() || busy}
          className={cx(KEY, "bg-fill px-4 font-medium text-white active:bg-fill-hover")}
        >
          {busy ? t`Sending` : t`Send`}
        </button>
      </form>
    </div>
  );
}

/** Gives an agent a prompt, at once or when it is idle; types a command into anything else. */
async function say(session: string, text: string, talks: boolean): Promise<void> {
  if (!talks) return typeInto(session, `${text}\r`);
  const prompt = await promptTo(session, text);
  if (prompt.state === "queued") {
    toast({ title: t`Queued`, text: prompt.waits || t`It is sent when the agent is idle.` });
  }
}
