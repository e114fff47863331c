// Paying: a plan is bought at a payment service that the test starts, managed in its portal, and owed when a card is declined.
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { join } from "node:path";
import { after, before, describe, test } from "node:test";
import { promisify } from "node:util";
import { axe, haveChromium, launch, newPage, shot, signIn } from "../lib/browser.mjs";
import { Instance, password, root, stripe } from "../lib/instance.mjs";

describe("paying", { skip: !haveChromium && "Chromium is not installed" }, () => {
  let service;
  let instance;
  let browser;
  let page;
  before(async () => {
    if (!haveChromium) return;
    service = await stripe();
    instance = await Instance.start({ billing: { stripe: { secretKey: "sk_test_fake", apiBase: service.url } } });
    await instance.setUp();
    const { stdout } = await promisify(execFile)(join(root, "bin/parawork"), ["billing", "setup", "--config", join(instance.dir, "config.json"), "--public-url", instance.url]);
    assert.match(stdout, /signing secret/);
    instance.config.billing.stripe.webhookSecretsFile = join(instance.data, "stripe-webhook-secrets");
    await instance.kill();
    await instance.boot();
    browser = await launch();
    page = await newPage(browser);
    await signIn(page, instance, password);
  });
  after(async () => {
    await browser?.close();
    await instance?.stop();
    service?.stop();
  });

  const open = () => page.goto(`${instance.url}/${instance.team}/settings/billing`);
  const billing = () => instance.api("GET", `/teams/${instance.team}/billing`);

  test("a plan is chosen, not paid, then paid", async () => {
    await open();
    await page.getByRole("heading", { name: "Free", exact: true }).waitFor();
    await page.getByText("Test mode: no real money moves.").waitFor();
    assert.deepEqual(await axe(page), []);
    await shot(page, "billing-offers");

    await page.getByRole("button", { name: "Choose Pro" }).click();
    await page.waitForURL((u) => u.origin === service.url);
    await page.getByRole("link", { name: "Cancel" }).click();
    await page.getByRole("status").getByText("Nothing was paid.").waitFor();
    assert.equal((await billing()).plan.id, "free");

    await page.getByLabel("Seats").fill("0");
    await page.getByText("At least 1").waitFor();
    await page.getByLabel("Seats").fill("");
    await page.getByRole("button", { name: "Choose Pro" }).click();
    await page.waitForURL((u) => u.origin === service.url);
    await page.getByRole("button", { name: "Pay", exact: true }).click();
    await page.getByRole("status").getByText("Thank you. The team has the plan Pro.").waitFor();
    assert.equal(new URL(page.url()).search, "");
    await page.getByRole("heading", { name: "Pro", exact: true }).waitFor();
    await page.getByText(/The next payment is on/).waitFor();
    await page.getByRole("cell", { name: "$20.00" }).waitFor();
    assert.equal(await page.getByRole("button", { name: "Choose Pro" }).count(), 0);
    assert.deepEqual(await axe(page), []);
    await shot(page, "billing-pro");
    const b = await billing();
    assert.deepEqual([b.plan.id, b.status, b.seats.used, b.seats.paid], ["pro", "active", 1, 1]);
  });

  test("the portal leads there and back, and what was changed there is shown", async () => {
    await open();
    await page.getByRole("button", { name: "Manage payment" }).click();
    await page.getByRole("button", { name: "Cancel plan" }).click();
    await page.getByRole("link", { name: "Return" }).click();
    await page.getByRole("status").getByText("Up to date with the payment service.").waitFor();
    await page.getByText(/It ends on/).waitFor();
    assert.ok((await billing()).cancel_at > Date.now());
    await page.getByRole("button", { name: "Manage payment" }).click();
    await page.getByRole("button", { name: "Keep plan" }).click();
    await page.getByRole("link", { name: "Return" }).click();
    await page.getByText(/The next payment is on/).waitFor();
  });

  test("a card is declined: every page says so, and for how long the plan is kept", async () => {
    await page.goto(`${instance.url}/${instance.team}/w`);
    const customer = (await service.objects("customer"))[0].id;
    await service.tell("card", { Customer: customer, Card: "declined" });
    await service.tell("advance", { Seconds: 32 * 24 * 3600 });
    // By a webhook and an event: the page was not touched.
    const banner = page.getByRole("region", { name: "Payment" });
    await banner.getByText(/The team keeps its plan for \d+ more days\. Pay the invoice or change the payment method\./).waitFor();
    await page.setViewportSize({ width: 390, height: 844 });
    assert.deepEqual(await axe(page), []);
    assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth), "nothing lies beside a phone's screen");
    await shot(page, "billing-past-due-phone");
    await page.setViewportSize({ width: 1440, height: 900 });
    await banner.getByRole("link", { name: "Billing" }).click();
    await page.getByRole("alert").getByText("A payment failed.").waitFor();
    await page.emulateMedia({ colorScheme: "dark" });
    assert.deepEqual(await axe(page), []);
    await shot(page, "billing-past-due");

    await page.getByRole("button", { name: "Manage payment" }).click();
    await page.getByRole("button", { name: "Use another card" }).click();
    await page.getByRole("link", { name: "Return" }).click();
    await page.getByRole("status").getByText("Up to date with the payment service.").waitFor();
    await banner.waitFor({ state: "detached" });
    const b = await billing();
    assert.deepEqual([b.plan.id, b.status, b.past_due], ["pro", "active", null]);
    assert.deepEqual(page.problems, []);
  });
});
