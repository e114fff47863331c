import { expect, test } from "vitest";
import { withReport } from "./with-report";

test("a report follows a description, once", () => {
  const once = withReport("It was broken.\n", "# PW-1\n\n- one\n");
  expect(once).toBe(
    "It was broken.\n\n<!-- parawork report -->\n<details><summary>Report</summary>\n\n# PW-1\n\n- one\n\n</details>\n",
  );
  expect(withReport(once, "# PW-1\n\n- one\n")).toBe(once);
  expect(withReport("", "x").startsWith("<!-- parawork report -->")).toBe(true);
});

test("a long report is cut at a line and says so", () => {
  const cut = withReport("", `${"- a line of it\n".repeat(5000)}`);
  expect(cut.length).toBeLessThan(20_200);
  expect(cut).toContain("- a line of it\n- … the rest is in the report in Parawork\n");
});
