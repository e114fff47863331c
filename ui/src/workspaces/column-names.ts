import type { Column, Filter } from "./search";

export const FILTER_NAMES: Record<Filter, string> = {
  state: "State",
  project: "Project",
  agent: "Agent",
  where: "Place",
  owner: "Owner",
};

export const COLUMN_NAMES: Record<Column, string> = {
  ...FILTER_NAMES,
  name: "Name",
  branch: "Branch",
  changes: "Changes",
  cost: "Cost",
  checks: "Checks",
  activity: "Last activity",
};
