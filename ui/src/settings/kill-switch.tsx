import { t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { instanceKeys, killSwitchQuery, setKillSwitch } from "@/costs/operator-api";
import { exact } from "@/format/time";
import { Button } from "@/kit/button";
import { Mark } from "@/kit/mark";
import { SettingsForm } from "@/kit/settings/form";
import { Failure, FormError, Skeleton } from "@/kit/states";
import { useAction } from "@/kit/use-action";

/** Stops everything that costs money, on the whole server, until it is taken back. */
export function KillSwitchPart() {
  const state = useQuery(killSwitchQuery());
  const [asking, setAsking] = useState(false);
  const allow = useAction({ act: () => setKillSwitch({ on: false, reason: "" }), refresh: [instanceKeys.killSwitch] });
  const k = state.data;
  return (
    <section aria-labelledby="kill-switch">
      <h2 id="kill-switch" className="text-title font-semibold">
        <Trans>Paid sandboxes</Trans>
      </h2>
      {state.isPending ? (
        <Skeleton rows={1} label={t`Loading the switch`} />
      ) : !k ? (
        <Failure what={t`The switch could not be loaded.`} error={state.error} retry={() => void state.refetch()} />
      ) : k.on ? (
        <>
          <p className="mt-1">
            <Mark kind="failed" word={t`Stopped`} /> {k.at !== null && t`since ${exact(k.at)}`}
            {k.reason && `: ${k.reason}`}
            <Trans>. No paid or metered sandbox can start in any team.</Trans>
            {k.stop && t` Running ones are saved and stopped.`}
          </p>
          <Button look="primary" className="mt-2" busy={allow.busy && t`Allowing`} onClick={() => void allow.run()}>
            <Trans>Allow them again</Trans>
          </Button>
        </>
      ) : asking ? (
        <SettingsForm
          label={t`Stop paid sandboxes`}
          className="mt-2 max-w-xl gap-3 rounded-md border border-failed bg-bg1 p-3"
          create
          loaded={{ reason: "", stop: false }}
          fields={[
            {
              name: "reason",
              label: t`Why`,
              type: "text",
              placeholder: t`A runaway agent; back by noon`,
              hint: t`Shown to users whose start is refused.`,
              input: { autoFocus: true, maxLength: 200 },
            },
            {
              name: "stop",
              label: t`Also stop running sandboxes`,
              type: "boolean",
              hint: t`After their team's grace period. Files are synced first, and agents can be resumed.`,
            },
          ]}
          save={(_, { reason, stop }) => setKillSwitch({ on: true, reason, stop })}
          refresh={[instanceKeys.killSwitch]}
          onSaved={() => setAsking(false)}
          button={t`Stop paid sandboxes`}
          busy={t`Stopping`}
          look="danger"
          cancel={() => setAsking(false)}
        />
      ) : (
        <>
          <p className="mt-1 text-fg2">
            <Trans>
              Paid sandboxes start as plans and budgets allow. This stops them immediately in every team. Work on this
              server continues.
            </Trans>
          </p>
          <Button look="danger" className="mt-2" onClick={() => setAsking(true)}>
            <Trans>Stop paid sandboxes…</Trans>
          </Button>
        </>
      )}
      <FormError error={allow.error} />
    </section>
  );
}
