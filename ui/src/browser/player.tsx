import { t } from "@lingui/core/macro";
import { useQuery } from "@tanstack/react-query";
import { useEffect, useMemo, useRef, useState } from "react";
import { Button } from "@/kit/button";
import { Failure, Skeleton } from "@/kit/states";
import { frameAt, type RecordedAction, readRecording } from "./recording";

const clock = (ms: number) => `${Math.floor(ms / 60_000)}:${String(Math.floor(ms / 1000) % 60).padStart(2, "0")}`;

/** Plays a recording of a browser, with what was done beside it. */
export default function RecordingPlayer({ url }: { url: string }) {
  const file = useQuery({
    queryKey: ["recording", url],
    queryFn: async ({ signal }) => {
      const answer = await fetch(url, { signal });
      if (!answer.ok) throw new Error(t`The server answered ${answer.status}.`);
      const r = readRecording(await answer.arrayBuffer());
      if (!r) throw new Error(t`The file is no recording of a browser.`);
      return r;
    },
    staleTime: Number.POSITIVE_INFINITY,
    gcTime: 0, // up to 64 MB
  });
  const r = file.data;
  const [at, setAt] = useState(0);
  const [playing, setPlaying] = useState(false);
  const canvas = useRef<HTMLCanvasElement>(null);
  const shown = r ? frameAt(r.frames, at) : 0;
  useEffect(() => {
    if (!playing || !r) return;
    let last = performance.now();
    const timer = setInterval(() => {
      const now = performance.now();
      const passed = now - last;
      last = now;
      setAt((t) => Math.min(t + passed, r.length));
    }, 100);
    return () => clearInterval(timer);
  }, [playing, r]);
  useEffect(() => {
    if (r && at >= r.length) setPlaying(false);
  }, [at, r]);
  useEffect(() => {
    const jpeg = r?.frames[shown]?.jpeg;
    if (!jpeg) return;
    let gone = false;
    void createImageBitmap(new Blob([jpeg], { type: "image/jpeg" })).then(
      (picture) => {
        const c = canvas.current;
        if (c && !gone) {
          c.width = picture.width;
          c.height = picture.height;
          c.getContext("2d")?.drawImage(picture, 0, 0);
        }
        picture.close();
      },
      () => {}, // a picture that is none
    );
    return () => {
      gone = true;
    };
  }, [r, shown]);
  const now = useMemo(() => r?.actions.findLastIndex((a) => a.at <= at) ?? -1, [r, at]);
  if (file.isPending) return <Skeleton rows={4} label={t`Loading the recording`} />;
  if (!r) return <Failure what={t`The recording cannot be played.`} error={file.error} />;
  return (
    <div className="flex min-h-0 flex-col gap-2 @3xl:flex-row">
      <div className="min-w-0 flex-1">
        <canvas
          ref={canvas}
          width={1280}
          height={800}
          className="w-full bg-bg2"
          role="img"
          aria-label={t`The recorded page`}
        />
        <div className="mt-2 flex items-center gap-2">
          <Button
            onClick={() => {
              if (at >= r.length) setAt(0);
              setPlaying(!playing);
            }}
          >
            {playing ? t`Pause` : t`Play`}
          </Button>
          <input
            type="range"
            className="min-w-0 flex-1"
            aria-label={t`Time`}
            aria-valuetext={clock(at)}
            min={0}
            max={r.length}
            value={at}
            onChange={(e) => setAt(Number(e.target.value))}
          />
          <span className="text-meta text-fg3 tabular-nums">
            {clock(at)} / {clock(r.length)}
          </span>
        </div>
      </div>
      <ol aria-label={t`What was done`} className="max-h-96 overflow-y-auto text-meta @3xl:w-64">
        {r.actions.map((a, i) => (
          <li key={i}>
            <button
              type="button"
              aria-current={i === now || undefined}
              className="w-full px-2 py-1 text-left text-fg2 hover:bg-bg2 aria-[current=true]:bg-bg2 aria-[current=true]:text-fg"
              onClick={() => setAt(a.at)}
            >
              <span className="tabular-nums">{clock(a.at)}</span> {words(a)}
            </button>
          </li>
        ))}
      </ol>
    </div>
  );
}

const words = (a: RecordedAction) => {
  const done = `${a.by || t`Agent`}: ${a.tool.replaceAll("_", " ")}${a.target ? ` ${a.target}` : ""}`;
  return a.error ? t`${done} (refused: ${a.error})` : done;
};
