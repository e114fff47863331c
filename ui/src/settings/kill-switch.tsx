import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { instanceKeys, killSwitchQuery, setKillSwitch } from "@/costs/operator-api";
import { exact } from "@/format/time";
import { Button } from "@/kit/button";
import { Check, TextField } from "@/kit/field";
import { Mark } from "@/kit/mark";
import { Failure, FormError, Skeleton } from "@/kit/states";

/** Stops everything that costs money, on the whole server, until it is taken back. */
export function KillSwitchPart() {
  const client = useQueryClient();
  const state = useQuery(killSwitchQuery());
  const [asking, setAsking] = useState(false);
  const [reason, setReason] = useState("");
  const [stop, setStop] = useState(false);
  const change = useMutation({
    mutationFn: setKillSwitch,
    onSuccess: () => {
      setAsking(false);
      setReason("");
      setStop(false);
    },
    onSettled: () => client.invalidateQueries({ queryKey: instanceKeys.killSwitch }),
  });
  const k = state.data;
  return (
    <section aria-labelledby="kill-switch">
      <h2 id="kill-switch" className="text-title font-semibold">
        Paid sandboxes
      </h2>
      {state.isPending ? (
        <Skeleton rows={1} label="Loading the switch" />
      ) : !k ? (
        <Failure what="The switch could not be read." error={state.error} retry={() => void state.refetch()} />
      ) : k.on ? (
        <>
          <p className="mt-1">
            <Mark kind="failed" word="Stopped" /> {k.at !== null && `since ${exact(k.at)}`}
            {k.reason && `: ${k.reason}`}. No sandbox that costs or counts begins, in no team.
            {k.stop && " Those that ran are saved and stopped."}
          </p>
          <Button
            look="primary"
            className="mt-2"
            busy={change.isPending && "Allowing"}
            onClick={() => change.mutate({ on: false, reason: "" })}
          >
            Allow them again
          </Button>
        </>
      ) : asking ? (
        <form
          aria-label="Stop paid sandboxes"
          className="mt-2 flex max-w-xl flex-col gap-3 rounded-md border border-failed bg-bg1 p-3"
          onSubmit={(e) => {
            e.preventDefault();
            change.mutate({ on: true, reason: reason.trim(), stop });
          }}
        >
          <TextField
            label="Why"
            autoFocus
            maxLength={200}
            placeholder="A runaway agent; back by noon"
            hint="Whoever is refused reads it."
            value={reason}
            onChange={(e) => setReason(e.target.value)}
          />
          <Check
            label="Stop those that run, too"
            hint="After the grace of their team: files are brought home first, agents can be resumed."
            checked={stop}
            onChange={(e) => setStop(e.target.checked)}
          />
          <div className="flex gap-2">
            <Button type="submit" look="danger" busy={change.isPending && "Stopping"}>
              Stop paid sandboxes
            </Button>
            <Button onClick={() => setAsking(false)}>Cancel</Button>
          </div>
        </form>
      ) : (
        <>
          <p className="mt-1 text-fg2">
            Sandboxes that cost begin as plans and budgets allow. This stops them at once in every team; work on this
            server goes on.
          </p>
          <Button look="danger" className="mt-2" onClick={() => setAsking(true)}>
            Stop paid sandboxes…
          </Button>
        </>
      )}
      <FormError error={change.error} />
    </section>
  );
}
