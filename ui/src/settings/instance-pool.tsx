import { useState } from "react";
import { Button } from "@/kit/button";
import { Check, TextField } from "@/kit/field";
import type { Place } from "@/sandboxes/remote";
import { amount, poolCostWords, wrongNumber } from "./instance-api";
import { Lock, Locked, PartError, type PartProps, sent } from "./instance-parts";

/** Sandboxes made before anybody asks for them, and what they cost. */
export function Pool({ settings, place, save }: PartProps & { place: Place | undefined }) {
  const s = settings.pool;
  const [on, setOn] = useState(s.enabled.value);
  const [min, setMin] = useState(amount(s.min.value));
  const [max, setMax] = useState(amount(s.max.value));
  const mine = sent(save, "pool");
  const wrong =
    wrongNumber(min) ??
    wrongNumber(max) ??
    (Number(max || 0) < Number(min || 0) ? "At least as many as are kept ready." : undefined);
  const price = place?.sizes.find((x) => x.default)?.price_nano_per_hour ?? place?.price_nano_per_hour ?? 0;
  return (
    <form
      aria-labelledby="instance-pool"
      className="flex flex-col gap-3"
      onSubmit={(e) => {
        e.preventDefault();
        if (wrong) return;
        save.mutate({
          pool: {
            ...(s.enabled.locked ? {} : { enabled: on }),
            ...(s.min.locked ? {} : { min: Number(min || 0) }),
            ...(s.max.locked ? {} : { max: Number(max || 0) }),
          },
        });
      }}
    >
      <div>
        <h3 id="instance-pool" className="font-semibold">
          Sandboxes made ahead of time
        </h3>
        <p className="text-fg2">Workspaces start at once. What waits for them costs, whether it is used or not.</p>
      </div>
      <Locked on={s.enabled.locked}>
        <Check
          label="Keep some ready"
          checked={on}
          disabled={s.enabled.locked}
          onChange={(e) => setOn(e.target.checked)}
        />
      </Locked>
      <div className="grid max-w-md grid-cols-2 gap-4">
        <TextField
          label="Ready at least"
          inputMode="numeric"
          aside={<Lock on={s.min.locked} />}
          disabled={!on || s.min.locked}
          value={min}
          onChange={(e) => setMin(e.target.value)}
        />
        <TextField
          label="At most"
          inputMode="numeric"
          aside={<Lock on={s.max.locked} />}
          disabled={!on || s.max.locked}
          value={max}
          error={on ? wrong : undefined}
          onChange={(e) => setMax(e.target.value)}
        />
      </div>
      {on && !wrong && <PoolCost price={price} least={Number(min || 0)} />}
      <PartError save={save} mine={mine} named={false} />
      <Button
        type="submit"
        className="self-start"
        disabled={(on && Boolean(wrong)) || (s.enabled.locked && s.min.locked && s.max.locked)}
        busy={mine && save.isPending && "Saving"}
      >
        Save the pool
      </Button>
    </form>
  );
}

function PoolCost({ price, least }: { price: number; least: number }) {
  if (price === 0 || least === 0) return null;
  return (
    <p className="text-meta text-needs tabular-nums">
      <span aria-hidden>◆ </span>
      {poolCostWords(price, least)}
    </p>
  );
}
