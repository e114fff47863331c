import { t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { useQuery } from "@tanstack/react-query";
import { useNow } from "@/format/now";
import { visible } from "@/format/text";
import { ago } from "@/format/time";
import { type Machine, machineQuery } from "./api";

interface Props {
  machineId: string;
  /** Which questions are meant. */
  about: (q: Machine["questions"][number]) => boolean;
}

/** Pending approvals of the machine's owner. Renders nothing if there are none. */
export default function OwnersYes({ machineId, about }: Props) {
  const machine = useQuery(machineQuery(machineId));
  const now = useNow();
  const m = machine.data;
  const asked = m?.questions.filter(about) ?? [];
  if (!m || asked.length === 0) return null;
  return (
    <section
      aria-label={t`Waiting for ${m.mine ? t`your` : t`the owner's`} approval`}
      className="border-b border-hairline bg-bg2 px-4 py-2"
    >
      <p role="status" className="font-medium">
        <span aria-hidden className="text-needs">
          ◆{" "}
        </span>
        <Trans>
          Waiting for {m.mine ? t`your` : `${m.user_name}'s`} approval at {m.name}
        </Trans>
      </p>
      <ul>
        {asked.map((q) => (
          <li key={q.id} className="break-words text-fg2">
            {visible(q.text)}{" "}
            <span className="text-meta text-fg3">
              <Trans>asked {ago(q.asked_at, now)}</Trans>
            </span>
            {m.mine && (
              <span className="text-meta text-fg3">
                <Trans>
                  . Answer there: <code className="select-all">parawork runner allow {q.id}</code>
                </Trans>
              </span>
            )}
          </li>
        ))}
      </ul>
    </section>
  );
}
