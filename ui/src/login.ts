import { startLanguage } from "./language/start";
import { signInPage } from "./signin/page";
import { forgetKnown } from "./state/known";
import "./styles/app.css";

// Every end of a login leads here: what the app kept of the person goes.
void forgetKnown();

// The sign-in page is what everybody loads first: plain elements, without React, the router and the app.
void startLanguage(() => import("./language/de.po?signin")).then(() => signInPage(document.getElementById("root")!));

/** Gets the app into the browser's cache while somebody types. */
async function fetchApp(): Promise<void> {
  const index = await fetch("/").then((r) => r.text());
  const app = new DOMParser().parseFromString(index, "text/html");
  document.head.append(...app.querySelectorAll("link[rel=modulepreload]"));
}
addEventListener("keydown", () => void fetchApp().catch(() => {}), { once: true });
