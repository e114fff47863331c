import { plural, t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { useQuery } from "@tanstack/react-query";
import { type KeyboardEvent, useEffect, useMemo, useRef, useState } from "react";
import type { Session } from "@/api/client";
import { type Moment, momentsQuery } from "@/api/history";
import { exact } from "@/format/time";
import { Button, IconButton } from "@/kit/button";
import { cx } from "@/kit/cx";
import { Icon } from "@/kit/icon";
import { copyLink, useGone } from "@/kit/link";
import { Failure } from "@/kit/states";
import { hasEnded } from "@/sessions/sessions";
import { useStore } from "@/state/store";
import { Moments } from "./moments";
import { activity, stamp } from "./recording";
import { Replay, type ReplayView, SPEEDS } from "./replay";

interface Props {
  session: Session;
  /** Where to begin: an offset of the output. */
  offset: number | undefined;
  /** Or a time. */
  moment: number | undefined;
}

/** Plays a session as it was. */
export function Player(props: Props) {
  const { id } = props.session;
  const [replay, setReplay] = useState<Replay>();
  useEffect(() => {
    const made = new Replay(id);
    setReplay(made);
    return () => made.dispose();
  }, [id]);
  return replay && replay.sessionId === id && <Screen key={id} {...props} replay={replay} />;
}

function Screen({ session, offset, moment, replay }: Props & { replay: Replay }) {
  const running = !hasEnded(session);
  const host = useRef<HTMLDivElement>(null);
  const box = useRef<HTMLElement>(null);
  const v = useStore(replay.view);
  const [first] = useState({ offset, moment });
  const moments = useQuery(momentsQuery(session));
  const [list, setList] = useState(true);

  useEffect(() => {
    if (!host.current) return;
    void replay.attach(host.current);
    void replay.load(first.offset).then(() => {
      if (first.moment !== undefined) void replay.seek(first.moment);
    });
  }, [replay, first]);
  useEffect(() => replay.setRunning(running), [replay, running]);

  const known = useRef(first);
  useEffect(() => {
    // Another result was chosen for the same session.
    if (v.phase !== "ready" || (known.current.offset === offset && known.current.moment === moment)) return;
    known.current = { offset, moment };
    replay.pause();
    if (offset !== undefined) void replay.seekOffset(offset);
    else if (moment !== undefined) void replay.seek(moment);
  }, [replay, offset, moment, v.phase]);

  const kept = v.timeline?.first;
  useGone(
    offset !== undefined && kept !== undefined && offset < kept ? t`The linked output is not kept any more` : undefined,
    t`The recording begins later: its beginning was deleted.`,
  );
  const all = moments.data ?? [];
  const jump = (to: Moment | undefined) => to && void replay.seek(to.at);
  const onKeyDown = (e: KeyboardEvent) => {
    const target = e.target as HTMLElement;
    const slider = target instanceof HTMLInputElement && target.type === "range";
    if (
      e.ctrlKey ||
      e.metaKey ||
      e.altKey ||
      (target.closest("button,select,a") && (e.key === " " || e.key === "Enter"))
    )
      return;
    const by = (ms: number) => void replay.seek(v.at + ms);
    const acts: Record<string, () => void> = {
      " ": () => replay.toggle(),
      k: () => replay.toggle(),
      ArrowLeft: () => by(e.shiftKey ? -30_000 : -5000),
      ArrowRight: () => by(e.shiftKey ? 30_000 : 5000),
      Home: () => by(v.from - v.at),
      End: () => by(v.to - v.at),
      "<": () => replay.setSpeed(stepSpeed(v.speed, -1)),
      ">": () => replay.setSpeed(stepSpeed(v.speed, 1)),
      p: () => jump(all.findLast((m) => m.at < v.at - 1000)),
      n: () => jump(all.find((m) => m.at > v.at + 50)),
      s: () => replay.setSkip(!v.skip),
    };
    const act = acts[e.key];
    if (!act || (slider && e.key === " ")) return;
    e.preventDefault();
    act();
  };

  if (v.phase === "failed")
    return (
      <Failure
        className="m-4"
        what={t`The replay could not be loaded.`}
        error={v.error}
        retry={() => void replay.load(offset)}
      />
    );
  return (
    <section
      ref={box}
      aria-label={t`Replay of ${session.agent_name}`}
      className="flex h-full min-h-0 flex-col bg-bg0 outline-none"
      // biome-ignore lint/a11y/noNoninteractiveTabindex: the player takes the focus so that its keys work
      tabIndex={0}
      onKeyDown={onKeyDown}
    >
      <div className="flex min-h-0 flex-1 @max-5xl:flex-col">
        <div className="term-frame relative min-h-0 min-w-0 flex-1 bg-(--term-bg)">
          <div
            ref={host}
            data-replay={session.id}
            data-offset={v.offset}
            className="absolute inset-y-1.5 right-0 left-3 overflow-auto"
          />
          {(v.phase === "loading" || v.seeking) && (
            <p
              role="status"
              className="late absolute top-2 right-4 rounded-md bg-bg3 px-2.5 py-1 text-meta shadow-float"
            >
              <Trans>Seeking…</Trans>
            </p>
          )}
        </div>
        {list && all.length > 0 && (
          <Moments moments={all} at={v.at} from={v.from} session={session} onGo={(m) => void replay.seek(m.at)} />
        )}
      </div>
      {v.error !== undefined && (
        <Failure
          className="m-3"
          what={t`The replay stopped: output could not be read.`}
          error={v.error}
          retry={() => void replay.seek(v.at)}
        />
      )}
      <Controls
        replay={replay}
        v={v}
        running={running}
        moments={all}
        list={list}
        onList={all.length > 0 ? () => setList((x) => !x) : undefined}
      />
    </section>
  );
}

function stepSpeed(speed: number, by: number): number {
  const i = SPEEDS.indexOf(speed as (typeof SPEEDS)[number]);
  return SPEEDS[Math.min(SPEEDS.length - 1, Math.max(0, i + by))]!;
}

interface ControlsProps {
  replay: Replay;
  v: ReplayView;
  running: boolean;
  moments: Moment[];
  list: boolean;
  onList: (() => void) | undefined;
}

function Controls({ replay, v, running, moments, list, onList }: ControlsProps) {
  const length = Math.max(1, v.to - v.from);
  return (
    <div className="border-t border-hairline bg-bg1 px-3 py-2 pb-[max(8px,env(safe-area-inset-bottom))]">
      <div className="relative mb-1 h-9">
        <Activity v={v} moments={moments} />
        <input
          type="range"
          aria-label={t`Moment of the replay`}
          aria-valuetext={t`${stamp(v.at - v.from)} of ${stamp(length)}, ${exact(v.at)}`}
          min={0}
          max={length}
          step={Math.max(1, Math.round(length / 1000))}
          value={v.at - v.from}
          disabled={v.phase !== "ready"}
          onChange={(e) => void replay.seek(v.from + Number(e.target.value))}
          className="replay-range absolute inset-0 h-full w-full cursor-pointer"
        />
      </div>
      <div className="flex flex-wrap items-center gap-x-3 gap-y-1.5">
        <Button look="primary" onClick={() => replay.toggle()} disabled={v.phase !== "ready"} className="min-w-20">
          {v.playing ? t`Pause` : t`Play`}
        </Button>
        <span className="text-meta tabular-nums whitespace-nowrap text-fg2" title={exact(v.at)}>
          {stamp(v.at - v.from)}{" "}
          <span className="text-fg3">
            <Trans>of {stamp(length)}</Trans>
          </span>
          {running && (
            <span className="text-fg3">
              <Trans>, running</Trans>
            </span>
          )}
        </span>
        <label className="flex items-center gap-1.5 text-meta text-fg2">
          <Trans>Speed</Trans>
          <select
            value={v.speed}
            onChange={(e) => replay.setSpeed(Number(e.target.value))}
            className="control-h rounded-md border border-control bg-bg1 px-1.5 text-fg"
          >
            {SPEEDS.map((s) => (
              <option key={s} value={s}>
                {s}×
              </option>
            ))}
          </select>
        </label>
        <label className="flex min-h-6 items-center gap-1.5 text-meta text-fg2">
          <input type="checkbox" checked={v.skip} onChange={(e) => replay.setSkip(e.target.checked)} />
          <Trans>Skip silences</Trans>
        </label>
        <span className="ml-auto flex items-center gap-3 text-meta text-fg3">
          <span className="tabular-nums @max-3xl:hidden">
            {v.cols}×{v.rows}
          </span>
          <IconButton
            label={t`Copy link to this moment`}
            disabled={v.phase !== "ready"}
            onClick={() => copyLink({ tab: "history", session: replay.sessionId, at: v.offset }, t`the link`)}
          >
            <Icon name="copy" size={14} />
          </IconButton>
          {onList && (
            <button type="button" onClick={onList} aria-expanded={list} className="min-h-6 text-accent hover:underline">
              {list ? t`Hide` : t`Show`} {plural(moments.length, { one: "# moment", other: "# moments" })}
            </button>
          )}
        </span>
      </div>
      <p className="mt-1 text-meta text-fg3 @max-3xl:hidden pointer-coarse:hidden">
        <Trans>
          Space plays or pauses. Arrows seek 5 s (with Shift 30 s). n and p go to the next and previous moment, &lt; and
          &gt; change the speed, s skips silences.
        </Trans>
      </p>
    </div>
  );
}

const BARS = 160;

/** How busy the session was over its time, with its moments. Decoration: the slider above it says the same in words. */
function Activity({ v, moments }: { v: ReplayView; moments: Moment[] }) {
  const bars = useMemo(() => (v.timeline ? activity(v.timeline, v.from, v.to, BARS) : []), [v.timeline, v.from, v.to]);
  const length = Math.max(1, v.to - v.from);
  const x = (at: number) => `${(100 * (at - v.from)) / length}%`;
  return (
    <svg
      aria-hidden
      width="100%"
      height="100%"
      preserveAspectRatio="none"
      viewBox={`0 0 ${BARS} 36`}
      className="absolute inset-0"
    >
      {bars.map((h, i) => (
        <rect key={i} x={i} width={0.8} y={26 - 22 * h} height={22 * h} className="fill-control" />
      ))}
      <rect x={0} width={BARS * ((v.at - v.from) / length)} y={27} height={2} className="fill-accent" />
      {moments.map((m) => (
        <rect
          key={m.key}
          x={(BARS * (m.at - v.from)) / length - 0.25}
          data-at={x(m.at)}
          width={0.5}
          y={m.kind === "commit" ? 0 : 22}
          height={m.kind === "commit" ? 26 : 12}
          className={cx(m.kind === "question" ? "fill-needs" : m.kind === "commit" ? "fill-merged" : "fill-fg2")}
        />
      ))}
    </svg>
  );
}
