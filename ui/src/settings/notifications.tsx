import { t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { useState } from "react";
import { KIND_LIST, type Kind, loadRules, rules, type Show, setRule, setVolume } from "@/inbox/notify/rules";
import { play } from "@/inbox/notify/sound";
import { askPermission, permission, showSystem } from "@/inbox/notify/system";
import { Button } from "@/kit/button";
import { Check, Segmented } from "@/kit/field";
import { useStore } from "@/state/store";
import { useMe } from "@/state/team";
import { toast } from "@/state/toasts";
import { Push } from "./push";

const WORDS: Record<Kind, { name: string; about: string }> = {
  question: { name: t`An agent needs me`, about: t`It asks for permission or for an answer.` },
  failed: { name: t`An agent failed`, about: t`It ended with an error, or its workspace could not be created.` },
  stuck: { name: t`An agent is stuck`, about: t`It works, but nothing has happened for a while.` },
  limited: { name: t`An agent reached a limit`, about: t`Its provider lets it go on later, or with another account.` },
  budget: {
    name: t`Work reached a limit`,
    about: t`Hours or a budget are used up: a sandbox is paused, or is about to be.`,
  },
  review: { name: t`An agent has worked on my review`, about: t`Its turn has ended: review its changes.` },
  finished: { name: t`An agent has finished`, about: t`Its work is ready for review.` },
};

/** What makes itself heard, and how: in this browser while it is open, and through push services when it is not. */
export default function NotificationSettings() {
  return (
    <div className="flex flex-col gap-8">
      <ThisBrowser />
      <Push />
    </div>
  );
}

function ThisBrowser() {
  const me = useMe();
  loadRules(me.user.id);
  const r = useStore(rules);
  const [may, setMay] = useState(permission);
  const system = KIND_LIST.some((k) => r.kinds[k].show === "system");
  const sound = KIND_LIST.some((k) => r.kinds[k].sound);
  return (
    <section aria-labelledby="notify-browser" className="flex flex-col gap-4">
      <div>
        <h2 id="notify-browser" className="text-title font-semibold">
          <Trans>In this browser</Trans>
        </h2>
        <p className="text-fg2">
          <Trans>While a tab of Parawork is open. Never about a workspace you are looking at.</Trans>
        </p>
      </div>
      <ul className="divide-y divide-hairline border-y border-hairline">
        {KIND_LIST.map((kind) => (
          <li key={kind} className="flex flex-wrap items-center gap-x-4 gap-y-2 py-2.5">
            <span className="min-w-0 flex-1 basis-56">
              <span className="block font-medium">{WORDS[kind].name}</span>
              <span className="block text-meta text-fg3">{WORDS[kind].about}</span>
            </span>
            <Segmented<Show>
              label={WORDS[kind].name}
              value={r.kinds[kind].show}
              onChange={(show) => setRule(kind, { show })}
              options={[
                ["off", t`Off`],
                ["toast", t`On the page`],
                ["system", t`System`],
              ]}
            />
            <Check
              label={t`Sound`}
              aria-label={t`Sound: ${WORDS[kind].name}`}
              checked={r.kinds[kind].sound}
              onChange={(e) => setRule(kind, { sound: e.target.checked })}
            />
          </li>
        ))}
      </ul>
      <System may={may} wanted={system} onAsk={() => void askPermission().then(setMay)} />
      <div className="flex flex-wrap items-center gap-3">
        <label htmlFor="notify-volume" className="font-medium">
          <Trans>Volume</Trans>
        </label>
        <input
          id="notify-volume"
          type="range"
          min={0}
          max={100}
          step={5}
          value={Math.round(r.volume * 100)}
          aria-valuetext={t`${Math.round(r.volume * 100)} percent`}
          onChange={(e) => setVolume(Number(e.target.value) / 100)}
          className="h-6 w-40 accent-fill pointer-coarse:h-11"
        />
        <span className="w-10 text-fg2 tabular-nums">{Math.round(r.volume * 100)} %</span>
        <Button
          disabled={r.volume === 0}
          onClick={() =>
            void play("question", r.volume).then(
              (ok) =>
                ok || toast({ kind: "bad", title: t`The browser plays no sound`, text: t`Allow sound for this page.` }),
            )
          }
        >
          <Trans>Play sound</Trans>
        </Button>
        {!sound && (
          <span className="text-meta text-fg3">
            <Trans>No kind above makes a sound yet.</Trans>
          </span>
        )}
      </div>
      <p className="text-meta text-fg3">
        <Trans>Stored in this browser, only for you.</Trans>
      </p>
    </section>
  );
}

interface SystemProps {
  may: ReturnType<typeof permission>;
  wanted: boolean;
  onAsk: () => void;
}

/** Whether the browser lets us show notifications of the system, and what to do where it does not. */
function System({ may, wanted, onAsk }: SystemProps) {
  const test = () => {
    const shown = showSystem(
      {
        show: "system",
        sound: undefined,
        tag: "test",
        title: t`This is a sample notification`,
        body: "Parawork",
        item: undefined,
      },
      "/",
      () => {},
    );
    if (!shown)
      toast({
        kind: "bad",
        title: t`The browser shows no notifications`,
        text: t`On this device they need push: turn it on below.`,
      });
  };
  return (
    <div role="status" className="flex flex-wrap items-center gap-x-3 gap-y-2">
      {may === "granted" && (
        <>
          <span>
            <Trans>System notifications are allowed.</Trans>
          </span>
          <Button onClick={test}>
            <Trans>Show a sample</Trans>
          </Button>
        </>
      )}
      {may === "default" && (
        <>
          <span>
            {wanted
              ? t`System notifications are chosen, but not allowed yet.`
              : t`System notifications need your permission.`}
          </span>
          <Button look={wanted ? "primary" : "plain"} onClick={onAsk}>
            <Trans>Allow system notifications</Trans>
          </Button>
        </>
      )}
      {may === "denied" && (
        <span className="text-fg2">
          <Trans>
            The browser blocks notifications of this page. Allow them in the address bar. Until then they appear on the
            page.
          </Trans>
        </span>
      )}
      {may === "none" && (
        <span className="text-fg2">
          <Trans>
            System notifications need HTTPS, or Parawork on this computer. Until then they appear on the page.
          </Trans>
        </span>
      )}
    </div>
  );
}
