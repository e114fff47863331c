import { Check, Choice } from "@/kit/field";

export interface PermissionChoice {
  all: boolean;
  confirmed: boolean;
}

interface Props {
  value: PermissionChoice;
  onChange: (p: PermissionChoice) => void;
  /** The place keeps agents in. */
  isolated: boolean;
}

/** Whether an agent asks before it acts, and what stands between it and the server when it does not. */
export function Permissions({ value, onChange, isolated }: Props) {
  return (
    <div>
      <Choice
        name="permissions"
        legend="Permissions"
        value={value.all ? "all" : "ask"}
        onChange={(v) => onChange({ all: v === "all", confirmed: false })}
        options={[
          { value: "ask", label: "Asks first", hint: "Its questions come to you, wherever you are." },
          {
            value: "all",
            label: "All of them",
            hint: isolated
              ? "It works without asking. Its place keeps it in."
              : "It works without asking, and nothing keeps it in: this place is no boundary.",
          },
        ]}
      />
      {value.all && !isolated && (
        <Check
          className="mt-2"
          label="Start it all the same"
          hint="It can read and change whatever the server's user can."
          checked={value.confirmed}
          onChange={(e) => onChange({ all: true, confirmed: e.target.checked })}
        />
      )}
    </div>
  );
}
