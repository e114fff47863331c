import { t } from "@lingui/core/macro";
import { Check, Choice } from "@/kit/field";

export interface PermissionChoice {
  all: boolean;
  confirmed: boolean;
}

interface Props {
  value: PermissionChoice;
  onChange: (p: PermissionChoice) => void;
  /** The place isolates agents. */
  isolated: boolean;
}

/** Chooses whether an agent asks before it acts, and shows what isolates it when it does not. */
export function Permissions({ value, onChange, isolated }: Props) {
  return (
    <div>
      <Choice
        name="permissions"
        legend={t`Permissions`}
        value={value.all ? "all" : "ask"}
        onChange={(v) => onChange({ all: v === "all", confirmed: false })}
        options={[
          { value: "ask", label: t`Ask first`, hint: t`The agent's questions go to your inbox.` },
          {
            value: "all",
            label: t`All`,
            hint: isolated
              ? t`It works without asking. Its sandbox contains it.`
              : t`It works without asking, and nothing contains it: this place is not isolated.`,
          },
        ]}
      />
      {value.all && !isolated && (
        <Check
          className="mt-2"
          label={t`Start it anyway`}
          hint={t`It can read and change everything the server's user can.`}
          checked={value.confirmed}
          onChange={(e) => onChange({ all: true, confirmed: e.target.checked })}
        />
      )}
    </div>
  );
}
