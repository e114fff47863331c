// The composer of a new workspace, as a person uses it: the prompt, and a chip for each choice.

/** The composer on a page, whether over it or in it. */
export function composer(page) {
  const form = page.getByRole("form", { name: "New workspace" });
  const chip = (label) => form.getByRole("button", { name: new RegExp(`^${label}`) });
  return {
    form,
    prompt: form.getByLabel(/^(Prompt|Command)$/),
    create: form.getByRole("button", { name: /^(Create|Run and compare)/ }),
    chip,
    /** Opens what is behind a chip. */
    async open(label) {
      await chip(label).click();
      const panel = page.getByRole("dialog", { name: label, exact: true });
      await panel.waitFor();
      return panel;
    },
    /** Closes what is behind a chip, and leaves the composer as it is. */
    async close() {
      await page.keyboard.press("Escape");
      await page.getByRole("dialog", { name: /^(Agent and model|Attempts|Where it runs|Permissions|Name, branch and privacy)$/ }).waitFor({ state: "detached" });
    },
    /** Chooses an agent, a shell, a command or none by its name. */
    async agent(name) {
      const panel = await this.open("Agent and model");
      await panel.getByRole("group", { name: "Agent", exact: true }).getByRole("radio", { name }).check();
      await this.close();
    },
  };
}
