import { t } from "@lingui/core/macro";

/** How long a description may become with a report in it, in characters; forges and the server take no more than 60,000 bytes. */
const MOST = 20_000;

const MARK = "<!-- parawork report -->";

/** A description with a report at its end, in the place of one that is there. What is too long for it is cut at a line, and said to be. */
export function withReport(body: string, report: string): string {
  const own = body.split(MARK)[0]?.trimEnd() ?? "";
  const lines = report.trimEnd().split("\n");
  let size = 0;
  const fits = lines.findIndex((l) => {
    size += l.length + 1;
    return size > MOST;
  });
  const text =
    fits < 0 ? lines.join("\n") : t`${lines.slice(0, fits).join("\n")}\n- … the rest is in the report in Parawork`;
  return `${own ? `${own}\n\n` : ""}${MARK}\n<details><summary>Report</summary>\n\n${text}\n\n</details>\n`;
}
