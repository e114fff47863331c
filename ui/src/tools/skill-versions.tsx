import { t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { api, data, type Schemas } from "@/api/client";
import { keys } from "@/api/queries";
import { useNow } from "@/format/now";
import { ago, exact } from "@/format/time";
import { DiffBlock } from "@/highlight/code";
import { Button } from "@/kit/button";
import { Failure, Skeleton } from "@/kit/states";
import { useAction } from "@/kit/use-action";
import { lineDiff } from "./skill-diff";

type Skill = Schemas["TeamSkill"];
type Version = Schemas["SkillVersion"];

const whole = (v: Version | undefined) => (v ? `${v.description}\n\n${v.text}` : "");

/** The versions of a skill, each with what it changes: to accept or reject a draft, or to go back to an older one. */
export default function Versions({ skill: s, readOnly }: { skill: Skill; readOnly: boolean }) {
  const list = useQuery({
    queryKey: keys.skills("versions", s.id),
    queryFn: () => data(api.GET("/skills/{id}/versions", { params: { path: { id: s.id } } })),
  });
  const [shown, setShown] = useState(s.draft || s.in_use);
  const now = useNow();
  const client = useQueryClient();
  const use = useAction({
    act: (version: number) =>
      data(api.PATCH("/skills/{id}", { params: { path: { id: s.id } }, body: { use_version: version } })),
    done: () => client.invalidateQueries({ queryKey: keys.skills() }),
    failed: t`The version was not put into use`,
  });
  const reject = useAction({
    act: () =>
      s.in_use > 0
        ? data(api.PATCH("/skills/{id}", { params: { path: { id: s.id } }, body: { use_version: s.in_use } }))
        : data(api.DELETE("/skills/{id}", { params: { path: { id: s.id } } })),
    confirm: () =>
      s.in_use === 0 && { title: t`Reject ${s.name}?`, body: t`It is deleted.`, action: t`Reject`, danger: true },
    done: () => client.invalidateQueries({ queryKey: keys.skills() }),
    failed: t`The draft was not rejected`,
  });
  if (list.isPending) return <Skeleton rows={3} label={t`Loading the versions`} />;
  if (!list.data) return <Failure what={t`The versions could not be loaded.`} error={list.error} />;
  const all = list.data.items;
  const at = all.findIndex((v) => v.version === shown);
  const v = all[at];
  // A draft is compared with what it would replace, any other version with the one before it.
  const before = v && v.version === s.draft ? all.find((x) => x.version === s.in_use) : all[at + 1];
  return (
    <div className="mt-2 flex flex-col gap-3 border-l-2 border-hairline pl-3">
      <ul aria-label={t`Versions of ${s.name}`} className="flex flex-col gap-0.5">
        {all.map((x) => (
          <li key={x.version} className="flex flex-wrap items-center gap-x-3">
            <Button look="quiet" aria-pressed={x.version === shown} onClick={() => setShown(x.version)}>
              <Trans>Version {x.version}</Trans>
            </Button>
            <span className="text-meta text-fg3">
              {x.version === s.in_use ? t`in use · ` : x.version === s.draft ? t`draft · ` : ""}
              {x.agent ? t`${x.agent}, for ` : ""}
              {x.saved_by.name || t`somebody who has left`},{" "}
              <span title={exact(x.saved_at)}>{ago(x.saved_at, now)}</span>
            </span>
            {!readOnly && x.version === s.draft && (
              <>
                <Button busy={use.busy && t`Accepting`} onClick={() => void use.run(x.version)}>
                  <Trans>Accept</Trans>
                </Button>
                <Button look="quiet" busy={reject.busy && t`Rejecting`} onClick={() => void reject.run()}>
                  <Trans>Reject</Trans>
                </Button>
              </>
            )}
            {!readOnly && x.version !== s.draft && x.version !== s.in_use && (
              <Button look="quiet" busy={use.busy && t`Restoring`} onClick={() => void use.run(x.version)}>
                <Trans>Restore</Trans>
                <span className="sr-only">
                  {" "}
                  <Trans>version {x.version}</Trans>
                </span>
              </Button>
            )}
          </li>
        ))}
      </ul>
      {v && (
        <>
          <p className="text-meta text-fg3">
            {before ? t`Version ${v.version} beside version ${before.version}:` : t`Version ${v.version}:`}
          </p>
          <DiffBlock
            key={v.version}
            diff={before ? lineDiff(whole(before), whole(v)) : indented(whole(v))}
            cut={false}
          />
        </>
      )}
    </div>
  );
}

/** A text as the lines of a diff that changes nothing. */
function indented(text: string): string {
  return text.replace(/^/gm, " ");
}
