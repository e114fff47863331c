// Finds words for people in the source that are not in the catalogue: text in JSX, and strings where people read them.
import { parseSync, traverse } from "@babel/core";

// Attributes of components and keys of objects whose strings people read.
const READ = new Set(
  (
    "about action actionLabel alt aria-description aria-label aria-placeholder aria-roledescription aria-valuetext " +
    "body busy button cancel caption confirm confirmLabel description detail done empty error explain explanation " +
    "failed heading help hint label legend loading message means more name note overage placeholder question reason " +
    "refused shown subject subtitle summary text tip title tooltip verb what why word words"
  ).split(" "),
);
// The same where one word in small letters is a code, of a state or an icon.
const READ_AS_PROSE = new Set(
  "action done empty error failed loading message name note more reason refused subject text verb what why".split(" "),
);
// Attributes and keys whose strings are never for people.
const CODE = new Set(
  (
    "accept align autoCapitalize autoComplete className class color d dateTime fieldClass form format href htmlFor " +
    "icon id key keys kind lang language look method mode mono path rel role row side src state style target to type " +
    "value field fill stroke strategy code scope group data-testid enterKeyHint inputMode pattern content fontFamily api " +
    "aria-keyshortcuts backgroundColor border textDecorationColor transform example Accept Authorization sort"
  ).split(" "),
);
// Functions whose arguments are never for people.
const CODE_CALLS = new Set(
  (
    "GET POST PUT PATCH DELETE HEAD cx cn buttonClass fetch addEventListener removeEventListener querySelector " +
    "querySelectorAll closest matches getElementById lazyRouteComponent getRouteApi matchMedia createElement remember " +
    "recall setItem getItem removeItem startsWith endsWith includes indexOf has split replace replaceAll match test " +
    "setAttribute getAttribute useMedia URL RegExp Worker register NumberFormat DateTimeFormat Collator RelativeTimeFormat " +
    "ListFormat Set toLocaleString execCommand setData getData encodeURIComponent log warn debug info setProperty raw " +
    "getPropertyValue after TextDecoder CustomEvent Event KeyboardEvent setRequestHeader TypeError"
  ).split(" "),
);
// Functions whose first string people read, whatever it looks like.
const READ_CALLS = new Set("toast toastError useTitle plural".split(" "));
const NOT_TEXT = new Set(["code", "kbd", "pre", "style", "script", "Kbd", "Mono", "Code"]);
const TRANS = new Set(["Trans", "Plural", "Select", "SelectOrdinal"]);
const INLINE = new Set(
  "a abbr b bdi cite code del em i ins kbd mark q s small span strong sub sup time u var".split(" "),
);
const BLOCK = new Set(
  (
    "address article aside blockquote button canvas dd details div dl dt fieldset figure footer form h1 h2 h3 h4 h5 h6 " +
    "header hr iframe input label legend li main nav object ol optgroup option p pre section select summary svg table " +
    "tbody td textarea tfoot th thead tr ul video"
  ).split(" "),
);
const PICTURE =
  /Icon|Spinner|Dot|Mark|Face|Avatar|Chevron|Arrow|Logo|Badge|Input|Check|Switch|Field|Button|Dialog|Menu|Picture|Bar$/;

const STOP = new Set(
  (
    "a an the of is are was were be to in on at by for from with without and or not no it its this that these those " +
    "your you their they he she has have had can cannot could will may must do does did if when while than then as " +
    "all any each every more only there here up out into over after before until since so but now who which what how"
  ).split(" "),
);

// Names are the same in every language.
const BRANDS = new Set(
  (
    "parawork Parawork Linux Windows Android Chrome Firefox Safari Edge Opera Python Stripe Gitea Forgejo Docker Discord " +
    "GitHub GitLab JavaScript HTML JSON Markdown Asciicast Ctrl Alt Shift Esc"
  ).split(" "),
);

const WORD = /\p{L}{2,}/u;
const unescaped = (s) => s.replace(/\{\}/g, " ");

/** Whether a string in a place for words is words, and not code that is shown as such. */
function isWords(s) {
  const text = unescaped(s).trim();
  if (!WORD.test(text) || BRANDS.has(text)) return false;
  if (/monospace|\*|^mod\+|\w\+\w|^(lazy|eager)$/.test(text)) return false;
  if (/\s/.test(text)) return !/^(curl|git|npm|ssh|parawork|\.\/|sudo|docker) /.test(text);
  if (/[/_=@\\<>]|\.\w|\w:\w|::|--/.test(text)) return false;
  if (/^[A-Z0-9]+$/.test(text) || /\d/.test(text)) return false;
  if (/^\p{Ll}+\p{Lu}|^\p{Lu}\p{Ll}+\p{Lu}/u.test(text)) return false;
  return true;
}

// Units are the same in every language.
const UNITS = /^(min|ms|px|bold|monospace)$/;

/** Whether small words stand around the values of a template: a sentence that is glued together. */
function isGlued(s) {
  if (!s.includes("{}") || /^(curl|git|parawork|bold) /.test(s)) return false;
  const words = s.split(/\s+/);
  return words.length > 1 && words.some((w) => /^\p{Ll}{2,}[.,:;]?$/u.test(w) && !UNITS.test(w));
}

/** Whether a string is words for people by its look alone. */
function isProse(s) {
  if (isGlued(s)) return true;
  const text = unescaped(s).trim();
  if (!isWords(text)) return false;
  if (/^[/.#@<[({&?]|^--|^\w+:\/\/|^https?:/.test(text) || text.includes("://")) return false;
  const words = text.split(/\s+/);
  if (words.length === 1) {
    // One word: a capital, no sign of code.
    return /^[“"'(]?\p{Lu}\p{Ll}+[.,:;!?…”"')]*$/u.test(text) || /^\p{Lu}\p{Ll}+(-\p{Ll}+)+$/u.test(text);
  }
  const natural = words.filter((w) => /^[“"'(‘]?\p{L}[\p{L}’'-]*[.,:;!?…”"')’]*$/u.test(w)).length;
  if (natural / words.length < 0.5) return false;
  if (/^[“"'(‘…]?\p{Lu}\p{Ll}*/u.test(text) && !/^[MmZzLlHhVvCc][\d. -]/.test(text)) return true;
  if (
    words.some((w) =>
      /[[\]]|^-?[a-z]+-(\d|\[)|^(sm|md|lg|xl|hover|focus|group|in-data|first|last|max-md|dark)[:-]/.test(w),
    )
  )
    return false;
  return words.some((w) => STOP.has(w.replace(/[^a-z]/g, "")));
}

const nameOf = (node) =>
  node.type === "JSXIdentifier"
    ? node.name
    : node.type === "JSXMemberExpression"
      ? node.property.name
      : node.type === "JSXNamespacedName"
        ? node.name.name
        : "";

const textOf = (node) =>
  node.type === "StringLiteral" ? node.value : node.quasis.map((q) => q.value.cooked ?? q.value.raw).join("{}");

const hasJsx = (node) => {
  let found = false;
  const visit = (n) => {
    if (found || !n || typeof n.type !== "string") return;
    if (n.type === "JSXElement" || n.type === "JSXFragment") {
      found = true;
      return;
    }
    for (const key of Object.keys(n)) {
      if (key === "loc" || key.endsWith("Comments")) continue;
      const v = n[key];
      if (Array.isArray(v)) v.forEach(visit);
      else if (v && typeof v === "object") visit(v);
    }
  };
  visit(node);
  return found;
};

const PLURALS = /^(plural|select|selectOrdinal)$/;

/** The place a value of this expression ends up in: what the string is for. */
function sinkOf(path) {
  let p = path;
  for (;;) {
    const up = p.parentPath;
    if (!up) return { kind: "none" };
    switch (up.node.type) {
      case "ConditionalExpression":
        if (p.key === "test") return { kind: "none" };
        p = up;
        continue;
      case "LogicalExpression":
        if (up.node.operator === "&&" && p.key === "left") return { kind: "none" };
        p = up;
        continue;
      case "BinaryExpression":
        if (up.node.operator !== "+") return { kind: "none" };
        p = up;
        continue;
      case "TSAsExpression":
      case "TSSatisfiesExpression":
      case "TSNonNullExpression":
      case "ParenthesizedExpression":
      case "AwaitExpression":
        p = up;
        continue;
      case "TemplateLiteral":
        if (up.parentPath.isTaggedTemplateExpression()) {
          // Inside words of the catalogue: it is read.
          const tag = up.parent.tag;
          return tag.type === "Identifier" && /^(t|tr|msg)$/.test(tag.name) ? { kind: "read" } : { kind: "none" };
        }
        p = up;
        continue;
      case "JSXExpressionContainer":
        if (up.parentPath.isJSXAttribute()) return attribute(up.parentPath);
        if (NOT_TEXT.has(nameOf(up.parent.openingElement?.name ?? { type: "" }))) return { kind: "none" };
        return { kind: "read" };
      case "JSXAttribute":
        return attribute(up);
      case "ObjectProperty": {
        if (p.key === "key" || up.node.computed) return p.key === "key" ? { kind: "none" } : { kind: "prose" };
        const key = up.node.key.name ?? up.node.key.value;
        if (up.parentPath.isObjectPattern()) return { kind: "none" };
        const call = up.parentPath.parentPath;
        if (call?.isCallExpression() && (CODE_CALLS.has(calleeName(call.node)) || PLURALS.test(calleeName(call.node))))
          return { kind: "none" };
        return named(String(key));
      }
      case "CallExpression":
      case "OptionalCallExpression":
      case "NewExpression": {
        if (p.key === "callee") return { kind: "none" };
        const callee = calleeName(up.node);
        if (/^(plural|select|selectOrdinal)$/.test(callee) && up.node.arguments[1]?.type === "ObjectExpression")
          return { kind: "none" };
        if (CODE_CALLS.has(callee)) return { kind: "none" };
        return { kind: READ_CALLS.has(callee) ? "read" : "prose", call: callee };
      }
      case "ArrayExpression": {
        // ["a", "b"].includes(x) asks about codes.
        const outer = up.parentPath;
        if (outer.isMemberExpression() && up.key === "object") {
          const method = outer.node.property.name;
          if (method === "includes" || method === "indexOf" || method === "some") return { kind: "none" };
          return { kind: "prose" };
        }
        if (outer.isNewExpression()) return { kind: "none" };
        if (outer.isJSXExpressionContainer() && outer.parentPath.isJSXAttribute()) {
          const at = attribute(outer.parentPath);
          return at.kind === "none" ? at : { kind: "prose" };
        }
        return { kind: "prose" };
      }
      case "ReturnStatement":
      case "ArrowFunctionExpression":
      case "VariableDeclarator":
      case "AssignmentExpression":
      case "AssignmentPattern":
      case "SpreadElement":
      case "ClassProperty":
      case "YieldExpression":
        if (p.key === "id" || p.key === "left") return { kind: "none" };
        if (up.isVariableDeclarator() && /class|path|regex|pattern|css/i.test(up.node.id.name ?? ""))
          return { kind: "none" };
        return { kind: "prose" };
      case "MemberExpression": // "a".repeat(2), names[0]
      case "OptionalMemberExpression":
        return { kind: "none" };
      default:
        return { kind: "none" };
    }
  }
}

function attribute(path) {
  const name = nameOf(path.node.name);
  return named(name, true);
}

function named(name, attr = false) {
  if (CODE.has(name) || name.startsWith("data-")) return { kind: "none" };
  if (name.startsWith("aria-") && !READ.has(name)) return { kind: "none" };
  if (READ.has(name) && (attr || !READ_AS_PROSE.has(name))) return { kind: name === "name" ? "prose" : "read" };
  return { kind: "prose" };
}

function calleeName(node) {
  const c = node.callee;
  return c.type === "Identifier" ? c.name : c.type === "Import" ? "import" : (c.property?.name ?? "");
}

/** Whether a child of JSX can be the first or last part of a sentence. */
function joins(child) {
  if (child.type === "JSXExpressionContainer") {
    const e = child.expression;
    if (e.type === "JSXEmptyExpression") return false;
    if (e.type === "StringLiteral" || e.type === "TemplateLiteral") return textOf(e).trim() !== "";
    if (e.type === "Identifier" && e.name === "children") return false;
    if (e.type === "LogicalExpression" && e.operator === "&&") return false;
    return !hasJsx(e);
  }
  if (child.type !== "JSXElement") return false;
  const name = nameOf(child.openingElement.name);
  if (TRANS.has(name)) return true;
  if (child.openingElement.attributes.some((a) => a.name?.name === "aria-hidden")) return false;
  if (!child.children.length) return false;
  if (child.children.some((c) => c.type === "JSXExpressionContainer" && hasJsx(c.expression))) return false;
  if (child.children.some((c) => c.type === "JSXElement" && !joins(c))) return false;
  if (INLINE.has(name)) {
    // What stands at the other side of a row, or alone in its line, is no part of the sentence.
    const cls = child.openingElement.attributes.find((a) => a.type === "JSXAttribute" && a.name.name === "className");
    const classes = cls?.value?.type === "StringLiteral" ? cls.value.value : "";
    return !/(^| )(block|flex|grid|ml-auto|sr-only|flex-1|grow|absolute|basis-\S+)( |$)/.test(classes);
  }
  return /Link|Code|Mono|Strong|Name|Path|Text|Time|Branch|Commit/.test(name) && !PICTURE.test(name);
}

const isBlock = (child) =>
  (child.type === "JSXElement" &&
    (BLOCK.has(nameOf(child.openingElement.name)) || nameOf(child.openingElement.name) === "br")) ||
  child.type === "JSXFragment";

const textual = (child) => child.type === "JSXText" && WORD.test(child.value) && !BRANDS.has(child.value.trim());
const blank = (child) =>
  (child.type === "JSXText" && child.value.trim() === "") ||
  (child.type === "JSXExpressionContainer" &&
    child.expression.type === "StringLiteral" &&
    child.expression.value.trim() === "");

/** The runs of an element's children that are one message each, as [first, last]. */
function runs(children) {
  const found = [];
  let start = 0;
  const close = (end) => {
    let part = [];
    for (let i = start; i < end; i++) part.push(i);
    if (!part.some((i) => textual(children[i]))) return;
    const edge = (i) => {
      const c = children[i];
      return c.type === "JSXText" ? c.value.trim() === "" : blank(c) || !joins(c);
    };
    while (part.length && edge(part[0])) part = part.slice(1);
    while (part.length && edge(part.at(-1))) part = part.slice(0, -1);
    if (part.length && part.some((i) => textual(children[i]))) found.push([part[0], part.at(-1)]);
  };
  children.forEach((child, i) => {
    if (!isBlock(child)) return;
    close(i);
    start = i + 1;
  });
  close(children.length);
  return found;
}

/** Whether this is a word of the catalogue: another one in each language. */
const isMessage = (node) =>
  (node?.type === "TaggedTemplateExpression" && /^(t|tr|msg)$/.test(node.tag.name ?? "")) ||
  (node?.type === "CallExpression" && PLURALS.test(node.callee.name ?? ""));

/** The statement under this comment, or its line, is no words for people. */
const NOT = /not for translation/i;

/** All finds of a file: strings and templates to mark with t, runs of JSX to wrap in Trans, and what must be done by hand. */
export function find(code, file) {
  const ast = parseSync(code, {
    filename: file,
    configFile: false,
    babelrc: false,
    parserOpts: { plugins: ["typescript", ...(file.endsWith("x") ? ["jsx"] : [])] },
  });
  const ignored = new Set();
  for (const c of ast.comments ?? []) if (NOT.test(c.value)) ignored.add(c.loc.start.line);
  const strings = [];
  const wraps = [];
  const byHand = [];
  traverse(ast, {
    enter(path) {
      if (path.node.leadingComments?.some((c) => NOT.test(c.value))) path.skip();
    },
    TSType(path) {
      path.skip();
    },
    TSModuleDeclaration(path) {
      path.skip();
    },
    "ImportDeclaration|ExportAllDeclaration|Directive"(path) {
      path.skip();
    },
    "JSXElement|JSXFragment"(path) {
      const name = path.isJSXElement() ? nameOf(path.node.openingElement.name) : "";
      if (TRANS.has(name) || NOT_TEXT.has(name)) return;
      // Inside words of the catalogue the text is theirs already.
      for (let up = path.parentPath; up; up = up.parentPath) {
        if (up.isJSXExpressionContainer() || up.isJSXAttribute()) break;
        if (up.isJSXElement() && TRANS.has(nameOf(up.node.openingElement.name))) return;
      }
      if (path.getData("inRun")) return;
      for (const [first, last] of runs(path.node.children)) {
        const children = path.node.children;
        if (children.slice(first, last + 1).some((c) => ignored.has(c.loc.start.line))) continue;
        if (children.slice(first, last + 1).some((c) => c.type === "JSXText" && /[{}]/.test(c.value)))
          byHand.push([children[first].loc.start.line, "braces in text"]);
        wraps.push({ first: children[first], last: children[last], edge: [first === 0, last === children.length - 1] });
        const mark = (p) => {
          if (p.isJSXElement() || p.isJSXFragment()) {
            p.setData("inRun", true);
            p.get("children").forEach(mark);
          }
        };
        path
          .get("children")
          .slice(first, last + 1)
          .forEach(mark);
      }
    },
    "BinaryExpression|SwitchCase"({ node }) {
      const compared = node.type === "SwitchCase" ? [node.test] : [node.left, node.right];
      if (node.operator !== "+" && compared.some(isMessage))
        byHand.push([node.loc.start.line, "compares with a word that is shown: it differs in other languages"]);
    },
    "StringLiteral|TemplateLiteral"(path) {
      const { node } = path;
      if (path.isTemplateLiteral() && path.parentPath.isTaggedTemplateExpression()) return;
      const text = textOf(node);
      if (!WORD.test(text) || ignored.has(node.loc.start.line)) return;
      const sink = sinkOf(path);
      if (sink.kind === "none") return;
      if (sink.kind === "read" ? !isWords(text) : !isProse(text)) return;
      if (/[{}]/.test(text.replace(/\{\}/g, "")) || (node.type === "StringLiteral" && text.includes("{}")))
        return void byHand.push([node.loc.start.line, `braces: ${text.slice(0, 60)}`]);
      if (/'\{\}/.test(text)) byHand.push([node.loc.start.line, `quote before a value: ${text.slice(0, 60)}`]);
      strings.push({ node, text, attribute: path.parentPath.isJSXAttribute(), path });
    },
  });
  return { ast, strings, wraps, byHand };
}
