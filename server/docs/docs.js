// Draws the API's description. Everything is put into the page as text: no part of the description can become markup.
"use strict";

const METHODS = ["get", "post", "put", "patch", "delete"];
const BASE = "/api/v1";
let spec;

/** An element with attributes and children; strings are text. */
function el(name, attributes, ...children) {
  const node = document.createElement(name);
  for (const [k, v] of Object.entries(attributes || {})) if (v !== undefined && v !== false) node.setAttribute(k, v === true ? "" : v);
  node.append(...children.flat().filter((c) => c !== undefined && c !== null && c !== ""));
  return node;
}

/** Text with `code` in backticks. */
function prose(text) {
  return String(text || "")
    .trim()
    .split(/(`[^`]+`)/)
    .map((part) => (part.length > 2 && part.startsWith("`") ? el("code", {}, part.slice(1, -1)) : part));
}

function paragraphs(text) {
  return String(text || "")
    .trim()
    .split(/\n\s*\n/)
    .filter(Boolean)
    .map((p) => el("p", {}, prose(p.replace(/\n/g, " "))));
}

function resolve(o) {
  let name = "";
  for (let hops = 0; o && o.$ref && hops < 10; hops++) {
    name = o.$ref.split("/").pop();
    o = o.$ref.replace("#/", "").split("/").reduce((at, key) => at && at[key], spec);
  }
  return { value: o || {}, name };
}

/** What a schema is, in words. */
function typeOf(schema) {
  const { value: s, name } = resolve(schema);
  const or = s.nullable ? " or null" : "";
  if (s.allOf) return typeOf(s.allOf[0]) + or;
  if (s.enum) return s.enum.map((v) => JSON.stringify(v)).join(" | ") + or;
  if (s.type === "array") return `list of ${typeOf(s.items || {})}${or}`;
  if (s.type === "object" && s.additionalProperties) return `object of ${typeof s.additionalProperties === "object" ? typeOf(s.additionalProperties) : "anything"}${or}`;
  if (s.format === "binary") return "bytes";
  return (name || s.type || "anything") + or;
}

/** The schema that has fields: the thing itself, or what a list holds. */
function fieldsOf(schema) {
  const { value: s, name } = resolve(schema);
  if (s.allOf) return fieldsOf(s.allOf[0]);
  if (s.type === "array") return fieldsOf(s.items || {});
  return s.properties ? { s, name } : undefined;
}

function tree(schema, seen = []) {
  const found = fieldsOf(schema);
  if (!found) return undefined;
  const { s, name } = found;
  if (seen.includes(name)) return undefined;
  return el("ul", { class: "tree" }, Object.entries(s.properties).map(([field, sub]) => {
    const line = [
      el("code", {}, field), " ", el("span", { class: "type" }, typeOf(sub)), " ",
      (s.required || []).includes(field) ? "" : el("span", { class: "type" }, "may be absent"), " ", prose(resolve(sub).value.description),
    ];
    const inner = tree(sub, [...seen, name]);
    return el("li", {}, inner ? el("details", {}, el("summary", {}, line), inner) : line);
  }));
}

function content(body) {
  return Object.entries((body && body.content) || {}).flatMap(([media, { schema }]) => [
    el("p", {}, el("code", {}, media), " ", el("span", { class: "type" }, typeOf(schema || {}))),
    tree(schema || {}),
  ]);
}

/** A body to start from: what must be there, with a value of its type. */
function sample(schema, depth = 0) {
  const { value: s } = resolve(schema);
  if (s.allOf) return sample(s.allOf[0], depth);
  if (s.enum) return s.enum[0];
  if (s.type === "array") return depth > 3 ? [] : [sample(s.items || {}, depth + 1)];
  if (s.properties) {
    const keys = (s.required || []).length ? s.required : Object.keys(s.properties).slice(0, 1);
    return Object.fromEntries(keys.map((k) => [k, sample(s.properties[k] || {}, depth + 1)]));
  }
  return { integer: 0, boolean: true, object: {} }[s.type] ?? "...";
}

function curl(op) {
  if (op.socket) return undefined;
  const query = op.params.filter((p) => p.in === "query" && p.required).map((p) => `${p.name}=...`).join("&");
  const lines = [`curl -X ${op.method.toUpperCase()} "$PW${op.path}${query ? `?${query}` : ""}"`];
  if (!op.open) lines.push(`  -H "Authorization: Bearer $TOKEN"`);
  const media = op.raw.requestBody && op.raw.requestBody.content;
  if (media && media["application/json"]) {
    lines.push(`  -H 'Content-Type: application/json'`, `  -d '${JSON.stringify(sample(media["application/json"].schema))}'`);
  } else if (media) lines.push(`  -H 'Content-Type: application/octet-stream' --data-binary @file`);
  return el("pre", { tabindex: "0", "aria-label": "Example" }, el("code", {}, lines.join(" \\\n")));
}

function operations() {
  const out = [];
  for (const [path, item] of Object.entries(spec.paths)) {
    for (const method of METHODS) {
      const raw = item[method];
      if (!raw) continue;
      const params = [...(item.parameters || []), ...(raw.parameters || [])].map((p) => resolve(p).value);
      const tag = (raw.tags || ["other"])[0];
      out.push({ id: raw.operationId, path, method, raw, params, tag, socket: tag === "sockets", open: Array.isArray(raw.security) && raw.security.length === 0 });
    }
  }
  return out;
}

function badge(op) {
  return el("span", { class: `method ${op.socket ? "socket" : op.method}` }, op.socket ? "WS" : op.method.toUpperCase());
}

function pathOf(path) {
  return el("span", { class: "path" }, path.split(/(\{[^}]+\})/).map((p) => (p.startsWith("{") ? el("b", {}, p) : p)));
}

function section(title, ...nodes) {
  const all = nodes.flat().filter(Boolean);
  return all.length ? [el("h3", {}, title), ...all] : [];
}

function body(op) {
  const rows = op.params.map((p) => el("tr", {},
    el("td", {}, el("code", {}, p.name), " ", p.required ? el("span", { class: "req" }, "required") : ""),
    el("td", {}, el("span", { class: "in" }, p.in), " ", el("span", { class: "type" }, typeOf(p.schema || {})), " ", prose(p.description),
      p.schema && p.schema.default !== undefined ? el("span", { class: "type" }, ` default ${p.schema.default}`) : "")));
  const answers = Object.entries(op.raw.responses || {}).map(([status, r]) => {
    const { value } = resolve(r);
    const headers = Object.keys(value.headers || {});
    return el("details", { open: /^[12]/.test(status) },
      el("summary", {}, el("span", { class: "status" }, status === "default" ? "error" : status), " ", prose(value.description)),
      headers.length ? el("p", { class: "type" }, "headers: ", headers.join(", ")) : "", content(value));
  });
  return el("div", { class: "body" },
    paragraphs(op.raw.description),
    section("Parameters", rows.length ? el("table", {}, rows) : undefined),
    section("Body", content(op.raw.requestBody)),
    section("Answer", answers),
    section("Example", curl(op)));
}

function draw() {
  const nav = document.getElementById("nav");
  const main = document.getElementById("content");
  const all = operations();
  main.replaceChildren(el("p", { class: "lead" }, `Base address ${location.origin}${BASE}`), ...paragraphs(spec.info.description));
  nav.replaceChildren();
  for (const tag of spec.tags || []) {
    const ops = all.filter((op) => op.tag === tag.name);
    if (!ops.length) continue;
    const navHead = el("h2", {}, tag.name);
    const head = el("h2", { id: `tag-${tag.name}` }, tag.name);
    const lead = el("p", { class: "lead" }, prose(tag.description));
    nav.append(navHead);
    main.append(head, lead);
    for (const op of ops) {
      const details = el("details", {}, el("summary", {}, badge(op), pathOf(op.path), el("span", { class: "sum" }, prose(op.raw.summary)),
        op.open ? el("span", { class: "open" }, "no login") : ""));
      details.addEventListener("toggle", () => {
        if (details.open && details.childElementCount === 1) details.append(body(op));
      });
      op.link = el("a", { href: `#${op.id}`, title: `${op.method.toUpperCase()} ${op.path}` }, badge(op), el("span", {}, op.raw.summary || op.path));
      op.card = el("article", { id: op.id }, details);
      op.heads = [navHead, head, lead];
      op.words = `${op.method} ${op.path} ${op.id} ${op.tag} ${op.raw.summary} ${op.raw.description || ""}`.toLowerCase();
      op.details = details;
      nav.append(op.link);
      main.append(op.card);
    }
  }
  const none = el("p", { class: "none", hidden: true }, "No operation has all of these words.");
  main.append(none);
  return { all, none };
}

function search({ all, none }, text) {
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  const heads = new Map();
  let shown = 0;
  for (const op of all) {
    const hit = words.every((w) => op.words.includes(w));
    op.card.hidden = op.link.hidden = !hit;
    if (hit) shown++;
    for (const h of op.heads) heads.set(h, heads.get(h) || hit);
  }
  for (const [h, on] of heads) h.hidden = !on;
  none.hidden = shown > 0;
  document.getElementById("status").textContent = words.length ? `${shown} operations` : "";
}

function follow(all) {
  const op = all.find((o) => `#${o.id}` === decodeURIComponent(location.hash));
  if (!op) return;
  op.details.open = true;
  op.card.scrollIntoView();
}

async function start() {
  const answer = await fetch("/api/docs/openapi.json");
  if (!answer.ok) throw new Error(`The server answered ${answer.status}.`);
  spec = await answer.json();
  const drawn = draw();
  const box = document.getElementById("search");
  box.addEventListener("input", () => search(drawn, box.value));
  addEventListener("keydown", (e) => {
    if (e.key === "/" && e.target !== box && !e.ctrlKey && !e.metaKey && !e.altKey) {
      e.preventDefault();
      box.focus();
    }
  });
  addEventListener("hashchange", () => follow(drawn.all));
  follow(drawn.all);
}

start().catch((error) => {
  document.getElementById("content").replaceChildren(el("p", {}, `The description could not be read: ${error.message} Reload the page.`));
});
