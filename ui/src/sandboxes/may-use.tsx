import { t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { spell } from "@/costs/amounts";
import { type MyQuota, mineQuery } from "@/costs/api";
import { UpgradeWays } from "@/costs/refusal-figures";
import { whenWords } from "@/costs/words";
import { useNow } from "@/format/now";
import { sentence } from "@/format/text";
import { Button } from "@/kit/button";
import { useTeam } from "@/state/team";
import type { Place } from "./remote";
import { refusedWhole } from "./remote-words";
import { HOUR, localHelps, usedUp } from "./used-up";

/** What the user may still use of a paid place, and the alternatives when nothing is left. */
export function MayUse({ place, local }: { place: Place; local?: { name: string; kind: string; choose: () => void } }) {
  const team = useTeam();
  const [how, setHow] = useState(false);
  const costs = place.price_nano_per_hour > 0 || place.sizes.some((s) => s.price_nano_per_hour > 0);
  const mine = useQuery({ ...mineQuery(), enabled: costs, retry: false }).data?.find((m) => m.team.id === team.id);
  const refused = refusedWhole(place) ?? (costs ? usedUp(place, mine) : undefined);
  if (refused)
    return (
      <div role="status" className="rounded-md border border-failed bg-bg1 p-3">
        <p className="font-medium">
          <span aria-hidden className="text-failed">
            ▲{" "}
          </span>
          <Trans>Nothing can start in {place.name} for you right now</Trans>
        </p>
        <p className="mt-1 text-fg2">{[sentence(refused.reason), sentence(refused.hint)].filter(Boolean).join(" ")}</p>
        {mine && <Standing mine={mine} />}
        <div className="mt-2 flex flex-wrap gap-2">
          {local && localHelps(refused.code, local, mine) && (
            <Button look="primary" onClick={local.choose} title={t`Chooses ${local.name}`}>
              <Trans>Try local mode</Trans>
            </Button>
          )}
          <Button aria-expanded={how} onClick={() => setHow(!how)}>
            <Trans>Upgrade plan</Trans>
          </Button>
        </div>
        {how && (
          <div className="mt-2 text-fg2">
            <UpgradeWays code={refused.code} scope={refused.code === "quota_exceeded" ? "user_hours" : ""} />
          </div>
        )}
      </div>
    );
  return costs && mine ? <Standing mine={mine} /> : null;
}

function Standing({ mine: m }: { mine: MyQuota }) {
  const now = useNow(60_000);
  const { hours_month: hours, concurrent } = m.effective;
  if (hours === null && concurrent === null) return null;
  const left = hours === null ? 0 : Math.max(0, hours * HOUR - m.used.hours_ms);
  return (
    <p className="mt-1 text-meta text-fg2 tabular-nums">
      {hours !== null && t`${spell(left)} of your ${hours} hours are left until ${whenWords(m.resets_at, now)}`}
      {hours !== null && concurrent !== null && "; "}
      {concurrent !== null &&
        t`${m.used.running} of ${concurrent} concurrent sandboxes ${m.used.running === 1 ? t`is` : t`are`} running`}
      .
    </p>
  );
}
