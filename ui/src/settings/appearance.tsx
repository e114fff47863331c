import { t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import type { ReactNode } from "react";
import { Check, Segmented } from "@/kit/field";
import { LANGUAGES } from "@/language/choice";
import { type Density, type Look, look, setLook, type Theme } from "@/state/look";
import { useStore } from "@/state/store";

/** How the page looks and behaves in this browser. */
export default function AppearanceSettings() {
  const l = useStore(look);
  return (
    <div className="flex flex-col gap-5">
      <Row name={t`Theme`}>
        <Segmented<Theme>
          label={t`Theme`}
          value={l.theme}
          onChange={(theme) => setLook({ theme })}
          options={[
            ["system", t`System`],
            ["light", t`Light`],
            ["dark", t`Dark`],
          ]}
        />
      </Row>
      <Row name={t`Density`}>
        <Segmented<Density>
          label={t`Density`}
          value={l.density}
          onChange={(density) => setLook({ density })}
          options={[
            ["comfortable", t`Comfortable`],
            ["compact", t`Compact`],
          ]}
        />
      </Row>
      <Row name={t`Language`}>
        <Segmented<Look["language"]>
          label={t`Language`}
          value={l.language}
          onChange={(language) => {
            setLook({ language });
            location.reload(); // each module has its words already
          }}
          options={[["system", t`System`], ...LANGUAGES.map(([code, name]) => [code, name] as const)]}
        />
      </Row>
      <Row name={t`Terminal`}>
        <Segmented<Look["terminalTheme"]>
          label={t`Terminal colours`}
          value={l.terminalTheme}
          onChange={(terminalTheme) => setLook({ terminalTheme })}
          options={[
            ["page", t`Same as page`],
            ["light", t`Light`],
            ["dark", t`Dark`],
          ]}
        />
      </Row>
      <Row name={t`Terminal font size`}>
        <Segmented
          label={t`Terminal font size`}
          value={String(l.terminalFont)}
          onChange={(v) => setLook({ terminalFont: Number(v) })}
          options={["11", "12", "13", "14", "16", "18"].map((v) => [v, v] as const)}
        />
      </Row>
      <Check
        label={t`Single keys`}
        hint={t`Keys such as j, k and g w work without a modifier outside fields and terminals.`}
        checked={l.singleKeys}
        onChange={(e) => setLook({ singleKeys: e.target.checked })}
      />
      <Check
        label={t`Terminal for screen readers`}
        hint={t`Announces what a program writes. Slower with a lot of output.`}
        checked={l.screenReader}
        onChange={(e) => setLook({ screenReader: e.target.checked })}
      />
      <Check
        label={t`Programs may copy to the clipboard`}
        hint={t`Only the terminal you are typing in, and you are notified each time. Reading the clipboard is never allowed.`}
        checked={l.clipboard === "write"}
        onChange={(e) => setLook({ clipboard: e.target.checked ? "write" : "block" })}
      />
      <p className="text-meta text-fg3">
        <Trans>Stored in this browser.</Trans>
      </p>
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
