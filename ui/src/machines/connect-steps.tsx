import { t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useState } from "react";
import { useNow } from "@/format/now";
import { bytes } from "@/format/text";
import { clock } from "@/format/time";
import { Button, buttonClass } from "@/kit/button";
import { DialogBody, DialogFoot } from "@/kit/dialog";
import { Field, inputClass } from "@/kit/field";
import { Shape } from "@/kit/mark";
import { CopyLine, copyText } from "@/kit/states";
import { useTeam } from "@/state/team";
import { type Machine, type MadeToken, machinesQuery } from "./api";
import { DANGER, Danger } from "./danger";
import { likelyPlatform, machineStands, modeWords, platformId, runLine, systemWords } from "./words";

/** The most common options beyond those in the command. */
const FLAGS = [
  ["--folder DIR", t`a folder on the machine whose repository agents may work on; can be repeated`],
  ["--share team", t`everyone in the team may use it, not only you`],
  ["--access ask", t`the machine asks you before anything starts or writes`],
  ["--quiet 22:00-07:00", t`nothing new starts during these hours`],
  ["--proxy URL", t`connects to this server through a proxy`],
] as const;

interface Props {
  made: MadeToken;
  /** Whether a machine is the new one. */
  arrived: (m: Machine) => boolean;
  onClose: () => void;
  /** Makes another token. */
  onMore?: () => void;
}

/** The steps at the machine, and whether it has connected. */
export function ConnectSteps({ made, arrived, onClose, onMore }: Props) {
  const team = useTeam();
  const now = useNow(1000);
  // Events announce it immediately; the faster polling covers a lost connection.
  const machines = useQuery({ ...machinesQuery(team.slug), refetchInterval: 3000 });
  const [platform, setPlatform] = useState(() => likelyPlatform(navigator.platform ?? "", navigator.userAgent));
  const there = machines.data?.filter(arrived) ?? [];
  const download = made.downloads.find((d) => platformId(d) === platform) ?? made.downloads[0];
  const line = download?.available ? download.install : "";
  const command = runLine(made.command);
  const ended = made.expires_at !== null && made.expires_at <= now && there.length === 0;
  return (
    <>
      <DialogBody className="flex flex-col gap-5">
        <section aria-labelledby="get-program">
          <h3 id="get-program" className="mb-2 text-title font-semibold">
            <Trans>1. Get the program</Trans>
          </h3>
          <Field
            label={t`The machine runs`}
            hint={t`On Windows, open WSL2, choose Linux here, and run the commands there.`}
            className="mb-2 max-w-72"
          >
            {(ids) => (
              <select {...ids} className={inputClass} value={platform} onChange={(e) => setPlatform(e.target.value)}>
                {made.downloads.map((d) => (
                  <option key={platformId(d)} value={platformId(d)}>
                    {d.name}
                  </option>
                ))}
              </select>
            )}
          </Field>
          {line ? (
            <>
              <CopyLine text={line} label={t`the download command`} />
              <p className="mt-1 text-meta text-fg3">
                <Trans>
                  {bytes(download?.size ?? 0)}
                  {download?.version && t`, version ${download.version}`}. The command fails if the checksum does not
                  match.
                </Trans>
              </p>
            </>
          ) : (
            <p className="text-needs">
              {download
                ? t`This server does not have the program yet: ${download.reason || t`it was not built`}`
                : t`This server offers no downloads. Build them on the server with \`make downloads\`.`}
            </p>
          )}
        </section>
        <section aria-labelledby="run-program">
          <h3 id="run-program" className="mb-2 text-title font-semibold">
            <Trans>2. Start it</Trans>
          </h3>
          {made.command.includes("--dangerous") && (
            <p className="mb-2">
              <Danger /> {DANGER}
            </p>
          )}
          <CopyLine text={command} label={t`the command`} />
          <p className="mt-1 text-meta text-fg3">
            <Trans>
              The token in it is not shown again.{" "}
              {made.reusable
                ? t`It connects machines until you revoke it.`
                : t`It connects one machine${made.expires_at ? t`, until ${clock(made.expires_at, now)}` : ""}.`}
            </Trans>
          </p>
          <details className="mt-1">
            <summary className="w-fit cursor-pointer text-meta text-accent">
              <Trans>More options</Trans>
            </summary>
            <dl className="mt-1 grid grid-cols-[auto_minmax(0,1fr)] gap-x-4 gap-y-1 text-meta">
              {FLAGS.map(([flag, means]) => (
                <div key={flag} className="contents">
                  <dt className="font-mono">{flag}</dt>
                  <dd className="text-fg2">{means}</dd>
                </div>
              ))}
            </dl>
          </details>
          {line && (
            <Button
              className="mt-2"
              onClick={() => void copyText(`${line} && ${command}`, t`both commands as one line`)}
            >
              <Trans>Copy both as one line</Trans>
            </Button>
          )}
        </section>
        <section aria-labelledby="wait-machine">
          <h3 id="wait-machine" className="mb-2 text-title font-semibold">
            <Trans>3. Wait for the machine</Trans>
          </h3>
          <div role="status" data-arrived={there.length}>
            {there.length > 0 ? (
              <ul className="flex flex-col gap-2">
                {there.map((m) => (
                  <Arrived key={m.id} machine={m} now={now} />
                ))}
              </ul>
            ) : ended ? (
              <p className="rounded-md border border-needs px-3 py-2 text-needs">
                <span aria-hidden>◆ </span>
                <Trans>The token has expired. Make a new one.</Trans>
              </p>
            ) : (
              <p className="flex items-center gap-2 rounded-md border border-hairline px-3 py-2 text-fg2">
                <Shape kind="running" />
                <Trans>Waiting for the machine…</Trans>
              </p>
            )}
          </div>
        </section>
      </DialogBody>
      <DialogFoot>
        {onMore && (there.length > 0 || ended) && (
          <Button look="quiet" onClick={onMore}>
            {ended ? t`Make a new token` : t`Connect another`}
          </Button>
        )}
        <Button look={there.length > 0 ? "primary" : "plain"} onClick={onClose}>
          {there.length > 0 ? t`Done` : t`Close`}
        </Button>
      </DialogFoot>
    </>
  );
}

function Arrived({ machine: m, now }: { machine: Machine; now: number }) {
  const team = useTeam();
  const s = machineStands(m, now);
  return (
    <li className={`rounded-md border px-3 py-2 ${m.available ? "border-merged" : "border-needs"}`}>
      <p className="flex flex-wrap items-baseline gap-x-2">
        <Shape kind={s.mark} />
        <span className="font-medium break-words">
          <Trans>{m.name} is connected</Trans>
        </span>
        {m.dangerous && <Danger />}
        <Link
          to="/$team/machines/$machine"
          params={{ team: team.slug, machine: m.id }}
          className={buttonClass("quiet", "ml-auto -my-1")}
        >
          <Trans>Open</Trans>
        </Link>
      </p>
      <p className="text-meta text-fg3">{[modeWords(m), systemWords(m)].join(" · ")}</p>
      {!m.available && (
        <p className="mt-1 text-needs">
          <Trans>
            It does not accept work yet: {m.reason} {m.hint}
          </Trans>
        </p>
      )}
    </li>
  );
}
