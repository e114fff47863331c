import { t } from "@lingui/core/macro";
import type { Column, Filter } from "./search";

export const FILTER_NAMES: Record<Filter, string> = {
  state: "State",
  project: t`Project`,
  agent: t`Agent`,
  where: t`Place`,
  owner: t`Owner`,
};

export const COLUMN_NAMES: Record<Column, string> = {
  ...FILTER_NAMES,
  name: t`Name`,
  branch: t`Branch`,
  changes: t`Changes`,
  cost: t`Cost`,
  checks: t`Checks`,
  activity: t`Last activity`,
};
