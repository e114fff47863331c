import { t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { hourly } from "@/format/money";
import { plain, sentence } from "@/format/text";
import { Lock } from "@/kit/settings/lock";
import type { Size } from "@/sandboxes/remote";
import { commandIn, sizeId, sizeName } from "@/sandboxes/remote-words";
import { SizeCommands } from "@/sandboxes/terms";

interface Props {
  sizes: readonly Size[];
  /** The size of workspaces that ask for none, by its id. */
  chosen: string;
  locked: boolean;
  onChoose: (size: string) => void;
}

/** The sizes of a place with their prices; one that is not there says why, and the command that builds it. */
export function SizeTable({ sizes, chosen, locked, onChoose }: Props) {
  return (
    <fieldset className="min-w-0">
      <legend className="mb-1 flex w-full items-baseline justify-between gap-2 font-medium">
        <Trans>Sizes</Trans>
        <Lock on={locked} />
      </legend>
      <div className="overflow-x-auto">
        <table className="w-full text-left">
          <thead className="text-meta text-fg3">
            <tr>
              <th className="py-1 pr-3 font-normal">
                <Trans>Default</Trans>
              </th>
              <th className="py-1 pr-3 font-normal">
                <Trans>Size</Trans>
              </th>
              <th className="py-1 pr-3 text-right font-normal">
                <Trans>Per hour</Trans>
              </th>
              <th className="py-1 font-normal">
                <Trans>State</Trans>
              </th>
            </tr>
          </thead>
          <tbody>
            {sizes.map((s) => (
              <tr key={sizeId(s)} className="border-t border-hairline align-baseline">
                <td className="py-1.5 pr-3">
                  <input
                    type="radio"
                    name="default-size"
                    aria-label={t`${sizeName(s)} by default`}
                    className="size-3 accent-fill"
                    disabled={locked || !s.available}
                    checked={sizeId(s) === chosen}
                    onChange={() => onChoose(sizeId(s))}
                  />
                </td>
                <td className="py-1.5 pr-3 whitespace-nowrap">{sizeName(s)}</td>
                <td className="py-1.5 pr-3 text-right whitespace-nowrap">
                  {s.price_nano_per_hour > 0 ? hourly(s.price_nano_per_hour) : t`not known`}
                </td>
                <td className="py-1.5 text-meta text-fg2">
                  {s.available ? (
                    <span>
                      <span aria-hidden className="text-merged">
                        ✓{" "}
                      </span>
                      <Trans>available</Trans>
                    </span>
                  ) : (
                    <span>
                      <span aria-hidden className="text-failed">
                        ▲{" "}
                      </span>
                      {sentence(s.reason)}{" "}
                      {commandIn(s.hint) ? t`Build it with the command below.` : plain(sentence(s.hint))}
                    </span>
                  )}
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      <SizeCommands sizes={sizes} />
    </fieldset>
  );
}
