import type { ReactNode } from "react";
import { Check, Segmented } from "@/kit/field";
import { type Density, type Look, look, setLook, type Theme } from "@/state/look";
import { useStore } from "@/state/store";

/** How the page looks and behaves in this browser. */
export default function AppearanceSettings() {
  const l = useStore(look);
  return (
    <div className="flex flex-col gap-5">
      <Row name="Theme">
        <Segmented<Theme>
          label="Theme"
          value={l.theme}
          onChange={(theme) => setLook({ theme })}
          options={[
            ["system", "System"],
            ["light", "Light"],
            ["dark", "Dark"],
          ]}
        />
      </Row>
      <Row name="Density">
        <Segmented<Density>
          label="Density"
          value={l.density}
          onChange={(density) => setLook({ density })}
          options={[
            ["comfortable", "Comfortable"],
            ["compact", "Compact"],
          ]}
        />
      </Row>
      <Row name="Terminal">
        <Segmented<Look["terminalTheme"]>
          label="Terminal colours"
          value={l.terminalTheme}
          onChange={(terminalTheme) => setLook({ terminalTheme })}
          options={[
            ["page", "Same as page"],
            ["light", "Light"],
            ["dark", "Dark"],
          ]}
        />
      </Row>
      <Row name="Terminal font size">
        <Segmented
          label="Terminal font size"
          value={String(l.terminalFont)}
          onChange={(v) => setLook({ terminalFont: Number(v) })}
          options={["11", "12", "13", "14", "16", "18"].map((v) => [v, v] as const)}
        />
      </Row>
      <Check
        label="Single keys"
        hint="Keys such as j, k and g w work without a modifier outside fields and terminals."
        checked={l.singleKeys}
        onChange={(e) => setLook({ singleKeys: e.target.checked })}
      />
      <Check
        label="Terminal for screen readers"
        hint="Announces what a program writes. Slower with a lot of output."
        checked={l.screenReader}
        onChange={(e) => setLook({ screenReader: e.target.checked })}
      />
      <Check
        label="Programs may copy to the clipboard"
        hint="Only the terminal you are typing in, and you are notified each time. Reading the clipboard is never allowed."
        checked={l.clipboard === "write"}
        onChange={(e) => setLook({ clipboard: e.target.checked ? "write" : "block" })}
      />
      <p className="text-meta text-fg3">Stored in this browser.</p>
    </div>
  );
}

function Row({ name, children }: { name: string; children: ReactNode }) {
  return (
    <div>
      <p className="mb-1 font-medium">{name}</p>
      {children}
    </div>
  );
}
