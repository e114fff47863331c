import { t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { hourly, usd } from "@/format/money";
import { sentence } from "@/format/text";
import { minutes } from "@/format/time";
import { Check, Choice } from "@/kit/field";
import { CopyLine } from "@/kit/states";
import { MayUse } from "./may-use";
import type { Place, Size } from "./remote";
import { canHave, chosenSize, commandIn, fallbackChanges, fallbackPlace, sizeId, sizeName } from "./remote-words";
import { placeId } from "./which";

interface Props {
  place: Place;
  places: Place[];
  size?: string;
  onSize?: (id: string) => void;
  fallback?: boolean;
  onFallback?: (yes: boolean) => void;
  /** Chooses another place, for who is refused this one. */
  onPlace?: (place: string) => void;
}

/** Settings of a paid place: size, idle time, and what happens when it is not available. */
export default function PlaceTerms({ place, places, size, onSize, fallback, onFallback, onPlace }: Props) {
  const { sizes } = place;
  const chosen = chosenSize(place, size);
  const local = fallbackPlace(places);
  return (
    <div className="mt-3 flex flex-col gap-3">
      <MayUse
        place={place}
        local={
          onPlace && local ? { name: local.name, kind: local.kind, choose: () => onPlace(placeId(local)) } : undefined
        }
      />
      {onSize && sizes.length > 0 && (
        <div>
          <Choice
            name={`size-${place.kind}`}
            legend={t`Size`}
            value={chosen ? sizeId(chosen) : undefined}
            onChange={onSize}
            options={sizes.map((s) => ({
              value: sizeId(s),
              disabled: !canHave(s),
              label: <SizeLabel size={s} />,
              hint: sizeHint(s),
            }))}
          />
          <SizeCommands sizes={sizes} />
          {place.idle_minutes > 0 && place.pause_free && (
            <p className="mt-1 text-meta text-fg3">
              <Trans>
                Falls asleep after {minutes(place.idle_minutes)} without use. It costs nothing while asleep.
              </Trans>
            </p>
          )}
        </div>
      )}
      {onFallback && place.own_disk && place.fallback && (
        <Check
          label={t`If ${place.name} is not available, start on this server instead`}
          hint={
            local
              ? t`In ${local.name}. ${fallbackChanges(place, local).join(" ")} You are notified when this happens.`
              : t`No place on this server is available now, so this would fail as well.`
          }
          checked={Boolean(fallback) && local !== undefined}
          disabled={!local}
          onChange={(e) => onFallback(e.target.checked)}
        />
      )}
    </div>
  );
}

export function SizeLabel({ size: s }: { size: Size }) {
  return (
    <>
      <span className="tabular-nums">{sizeName(s)}</span>
      {s.price_nano_per_hour > 0 && (
        <span className="text-meta text-fg2 tabular-nums">
          <Trans>
            {hourly(s.price_nano_per_hour)} an hour, {usd(s.price_nano_per_hour * 24)} a day
          </Trans>
        </span>
      )}
      {s.default && (
        <span className="text-meta text-fg3">
          <Trans>default</Trans>
        </span>
      )}
    </>
  );
}

/** Why a size cannot be had, and what helps. */
function sizeHint(s: Size): string | undefined {
  if (canHave(s)) return undefined;
  const [why, hint] = s.available && s.refused ? [s.refused.reason, s.refused.hint] : [s.reason, plainHint(s)];
  return [sentence(why), sentence(hint)].filter(Boolean).join(" ");
}

/** The cure without the command that stands below, ready to be copied. */
function plainHint(s: Size): string {
  return commandIn(s.hint) ? t`An operator can build it with the command below` : s.hint;
}

/** The commands that make sizes available, to copy. */
export function SizeCommands({ sizes }: { sizes: readonly Size[] }) {
  const missing = sizes.filter((s) => !s.available && commandIn(s.hint));
  if (missing.length === 0) return null;
  return (
    <details className="mt-1">
      <summary className="w-fit cursor-pointer text-meta text-accent">
        {missing.length === 1 ? t`Command for the missing size` : t`Commands for the missing sizes`}
      </summary>
      <ul className="mt-1 flex flex-col gap-1">
        {missing.map((s) => (
          <li key={sizeId(s)}>
            <span className="text-meta text-fg3">{sizeName(s)}</span>
            <CopyLine text={commandIn(s.hint)} label={t`the command for ${sizeName(s)}`} />
          </li>
        ))}
      </ul>
    </details>
  );
}
