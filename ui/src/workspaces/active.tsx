import { t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { useQuery } from "@tanstack/react-query";
import { getRouteApi, useNavigate } from "@tanstack/react-router";
import { type ReactNode, Suspense, useCallback, useEffect, useMemo, useRef, useState } from "react";
import type { Workspace } from "@/api/client";
import { executorsQuery } from "@/api/queries";
import { count } from "@/format/text";
import { Button, IconButton } from "@/kit/button";
import { Chip } from "@/kit/chip";
import { cx } from "@/kit/cx";
import { inputClass } from "@/kit/field";
import { Icon } from "@/kit/icon";
import { Menu, MenuItem, MenuLabel, MenuLine } from "@/kit/menu";
import { BOARD, TABLE } from "@/kit/more-icons";
import { lazy } from "@/kit/part";
import { Empty } from "@/kit/states";
import { findPlace } from "@/sandboxes/which";
import { useStore } from "@/state/store";
import { useTeam } from "@/state/team";
import { useBulk } from "./bulk";
import { BulkBar } from "./bulk-bar";
import { FILTER_NAMES } from "./column-names";
import { filterValue, type Item, itemsOf, labelOf, overview, valuesOf } from "./overview";
import { asOf, dropView, isSameView, rememberAs, saveView, viewsOf } from "./saved-views";
import { FILTERS, type Filter, type OverviewSearch } from "./search";
import { WorkspaceTable } from "./table";

const Board = lazy(() => import("./board"));

const route = getRouteApi("/$team/w");

/** The active workspaces as a table or a board, with filters that live in the address. */
export function ActiveWorkspaces({ list, head }: { list: readonly Workspace[]; head: ReactNode }) {
  const team = useTeam();
  const search = route.useSearch();
  const as = asOf(search);
  const places = useQuery(executorsQuery(team.slug)).data;
  const placeName = useCallback(
    (w: Workspace) => findPlace(places, w)?.name ?? (w.runner_name || w.executor),
    [places],
  );
  const items = useMemo(() => itemsOf(list), [list]);
  const shown = useMemo(() => overview(items, search), [items, search]);
  const bulk = useBulk();
  const [chosen, setChosen] = useState<ReadonlySet<string>>(new Set());
  // What is not shown is not acted on.
  const selected = useMemo(() => shown.filter((i) => chosen.has(i.workspace.id)), [shown, chosen]);
  const scroller = useRef<HTMLDivElement>(null);
  return (
    <div ref={scroller} className="@container h-full overflow-y-auto">
      <div className={cx("flex flex-col", as === "board" ? "h-full" : "min-h-full")}>
        <div className="shrink-0 px-4 pt-5 md:px-6 short:pt-1">
          {head}
          <Toolbar items={items} shown={shown.length} as={as} placeName={placeName} />
        </div>
        {shown.length === 0 ? (
          <NothingFound />
        ) : as === "board" ? (
          <Suspense>
            <Board items={shown} bulk={bulk} />
          </Suspense>
        ) : (
          <WorkspaceTable
            items={shown}
            scroller={scroller}
            chosen={chosen}
            onChosen={setChosen}
            bulk={bulk}
            placeName={placeName}
          />
        )}
        {as === "table" && selected.length > 0 && (
          <BulkBar selected={selected} bulk={bulk} onClear={() => setChosen(new Set())} />
        )}
      </div>
    </div>
  );
}

function NothingFound() {
  const navigate = useNavigate({ from: "/$team/w" });
  return (
    <Empty
      title={t`No workspace matches`}
      action={
        <Button onClick={() => void navigate({ search: (s) => ({ as: s.as }) })}>
          <Trans>Clear the filters</Trans>
        </Button>
      }
    />
  );
}

interface ToolbarProps {
  items: readonly Item[];
  shown: number;
  as: "table" | "board";
  placeName: (w: Workspace) => string;
}

function Toolbar({ items, shown, as, placeName }: ToolbarProps) {
  const search = route.useSearch();
  const navigate = useNavigate({ from: "/$team/w" });
  const go = (change: Partial<OverviewSearch>) =>
    void navigate({ search: (s) => ({ ...s, ...change }), replace: true });
  const [text, setText] = useState(search.q ?? "");
  // An address that changed otherwise, by a saved view or Back, changes the field.
  useEffect(() => setText(search.q ?? ""), [search.q]);
  const look = (next: "table" | "board") => {
    rememberAs(next);
    go({ as: next });
  };
  return (
    <div className="flex flex-wrap items-center gap-1.5 py-2">
      <input
        type="search"
        aria-label={t`Find workspaces`}
        placeholder={t`Find by name, branch, question…`}
        value={text}
        onChange={(e) => {
          setText(e.target.value);
          go({ q: e.target.value || undefined });
        }}
        className={cx(inputClass, "basis-52 max-sm:grow sm:max-w-64")}
      />
      {FILTERS.map((f) => (
        <FilterChip key={f} filter={f} items={items} placeName={placeName} chosen={valuesOf(search, f)} onChange={go} />
      ))}
      <Views search={search} />
      <span role="status" className="text-meta text-fg3 tabular-nums">
        {shown === items.length ? count(shown) : t`${count(shown)} of ${count(items.length)}`}
      </span>
      <span className="ml-auto flex">
        <IconButton label={t`Table`} aria-pressed={as === "table"} onClick={() => look("table")}>
          <Icon path={TABLE} />
        </IconButton>
        <IconButton label={t`Board`} aria-pressed={as === "board"} onClick={() => look("board")}>
          <Icon path={BOARD} />
        </IconButton>
      </span>
    </div>
  );
}

interface FilterProps {
  filter: Filter;
  items: readonly Item[];
  placeName: (w: Workspace) => string;
  chosen: readonly string[];
  onChange: (change: Partial<OverviewSearch>) => void;
}

/** One filter: the values there are, each with the number of its workspaces. */
function FilterChip({ filter, items, placeName, chosen, onChange }: FilterProps) {
  const values = useMemo(() => {
    const found = new Map<string, { label: string; n: number }>();
    for (const i of items) {
      const value = filterValue(i, filter);
      const known = found.get(value);
      if (known) known.n++;
      else if (value) found.set(value, { label: labelOf(i, filter, value, placeName), n: 1 });
    }
    return [...found].sort((a, b) => a[1].label.localeCompare(b[1].label));
  }, [items, filter, placeName]);
  if (values.length < 2 && chosen.length === 0) return null;
  const named = chosen.map((v) => values.find(([id]) => id === v)?.[1].label ?? v);
  const toggle = (id: string) => {
    const next = chosen.includes(id) ? chosen.filter((v) => v !== id) : [...chosen, id];
    onChange({ [filter]: next.join(",") || undefined });
  };
  return (
    <Chip
      label={FILTER_NAMES[filter]}
      value={
        named.length === 0
          ? FILTER_NAMES[filter]
          : named.length < 3
            ? named.join(", ")
            : `${named.length} × ${FILTER_NAMES[filter]}`
      }
    >
      <fieldset>
        <legend className="sr-only">{FILTER_NAMES[filter]}</legend>
        {values.map(([id, { label, n }]) => (
          <label key={id} className="row-h flex items-center gap-2">
            <input type="checkbox" checked={chosen.includes(id)} onChange={() => toggle(id)} />
            <span className="min-w-0 flex-1 break-words">{label}</span>
            <span className="text-meta text-fg3 tabular-nums">{n}</span>
          </label>
        ))}
      </fieldset>
      {chosen.length > 0 && (
        <Button className="self-start" onClick={() => onChange({ [filter]: undefined })}>
          <Trans>Clear</Trans>
        </Button>
      )}
    </Chip>
  );
}

/** Views this person has saved. */
function Views({ search }: { search: OverviewSearch }) {
  const team = useTeam();
  const navigate = useNavigate({ from: "/$team/w" });
  const views = useStore(viewsOf(team.slug));
  const [naming, setNaming] = useState(false);
  const current = views.find((v) => isSameView(v.search, search));
  const plain = isSameView(search, {});
  if (plain && views.length === 0) return null;
  if (naming)
    return (
      <form
        className="flex items-center gap-1.5"
        onSubmit={(e) => {
          e.preventDefault();
          const name = String(new FormData(e.currentTarget).get("name") ?? "").trim();
          if (name) saveView(team.slug, name, search);
          setNaming(false);
        }}
        onKeyDown={(e) => e.key === "Escape" && setNaming(false)}
      >
        <input
          name="name"
          // biome-ignore lint/a11y/noAutofocus: the user has just asked for this field
          autoFocus
          maxLength={60}
          required
          aria-label={t`Name of the view`}
          placeholder={t`Name of the view`}
          className={cx(inputClass, "w-40")}
        />
        <Button type="submit">
          <Trans>Save</Trans>
        </Button>
      </form>
    );
  return (
    <Menu
      align="start"
      trigger={
        <Button look="quiet">
          {current ? current.name : t`Views`}
          <Icon name="chevronDown" size={12} />
        </Button>
      }
    >
      {views.length > 0 && (
        <MenuLabel>
          <Trans>Saved views</Trans>
        </MenuLabel>
      )}
      {views.map((v) => (
        <MenuItem
          key={v.name}
          icon={v === current ? <Icon name="check" size={14} /> : <span className="w-3.5" />}
          onSelect={() => void navigate({ search: (s) => ({ as: s.as, ...v.search }) })}
        >
          {v.name}
        </MenuItem>
      ))}
      {views.length > 0 && <MenuLine />}
      {!plain && (
        <MenuItem onSelect={() => void navigate({ search: (s) => ({ as: s.as }) })}>
          <Trans>Clear the filters</Trans>
        </MenuItem>
      )}
      {!plain && !current && (
        <MenuItem onSelect={() => setNaming(true)}>
          <Trans>Save as a view…</Trans>
        </MenuItem>
      )}
      {current && (
        <MenuItem onSelect={() => dropView(team.slug, current.name)}>
          <Trans>Delete this view</Trans>
        </MenuItem>
      )}
    </Menu>
  );
}
