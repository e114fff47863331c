import { t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { sentence } from "@/format/text";
import { Button } from "@/kit/button";
import { Choice } from "@/kit/field";
import { type Latencies, nearest, type Region, regionWords } from "./regions";

interface Props {
  /** The place, which means the nearest of its regions. */
  place: string;
  name: string;
  regions: Region[];
  mine: Latencies | undefined;
  value: string;
  onChange: (place: string) => void;
}

/** Chooses a region of a place: the nearest by itself, another by hand. One that is down is shown and offers the next with a button. */
export default function RegionChoice({ place, name, regions, mine, value, onChange }: Props) {
  const near = nearest(regions, mine);
  const next =
    near && !near.available
      ? nearest(
          regions.filter((r) => r.available),
          mine,
        )
      : undefined;
  return (
    <div className="mt-3">
      <Choice
        name={`region-${place}`}
        legend={t`Region`}
        value={value}
        onChange={onChange}
        options={[
          {
            value: place,
            label: t`The nearest`,
            hint: near ? `${near.name}: ${regionWords(near, mine)}.` : t`Of the regions of ${name}.`,
            disabled: near?.available === false,
          },
          ...regions.map((r) => ({
            value: r.executor,
            label: r.name,
            hint: r.available
              ? `${regionWords(r, mine)}.`
              : [sentence(r.reason), sentence(r.hint)].filter(Boolean).join(" "),
            disabled: !r.available,
          })),
        ]}
      />
      {next && value === place && (
        <div className="mt-1 flex flex-wrap items-center gap-x-3 gap-y-1">
          <p role="status" className="min-w-0 flex-1 basis-64 text-needs">
            <span aria-hidden>◆ </span>
            <Trans>
              {near?.name} is the nearest and cannot be used now. The next region is {next.name} (
              {regionWords(next, mine)}).
            </Trans>
          </p>
          <Button onClick={() => onChange(next.executor)}>
            <Trans>Use {next.name}</Trans>
          </Button>
        </div>
      )}
    </div>
  );
}
