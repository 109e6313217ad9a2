// Elements from plain descriptions, changed in place.
//
// `h` describes an element; `render` makes what is on the page look like the descriptions, and touches only what
// differs: focus, selection and scroll positions stay. Every text becomes a text node, so nothing that a user wrote is
// ever read as HTML. An element with a `key` is the same one wherever it moves to among its siblings.

export function h(tag, props, ...children) {
  const { key, ...rest } = props || {};
  return { tag, key, props: rest, children: children.flat(Infinity).filter((each) => each != null && each !== false) };
}

export function render(parent, ...wanted) {
  patchChildren(parent, wanted.flat(Infinity).filter((each) => each != null && each !== false));
}

const SVG = "http://www.w3.org/2000/svg";
const SVG_TAGS = new Set(["svg", "path", "rect", "circle", "line", "g", "polyline"]);
const BY_PROPERTY = new Set(["value", "checked", "disabled", "hidden", "selected", "open"]);

function patchChildren(parent, wanted) {
  const keyed = new Map();
  for (const node of parent.childNodes) if (node.rotaKey !== undefined) keyed.set(node.rotaKey, node);
  const staying = new Set(wanted.map((each) => each.key));
  let at = parent.firstChild;
  for (const each of wanted) {
    while (at && at.rotaKey !== undefined && !staying.has(at.rotaKey)) at = removed(at);
    const found = matching(each, at, keyed);
    if (found) {
      if (found === at) at = at.nextSibling;
      else parent.insertBefore(found, at);
      patch(found, each);
    } else {
      parent.insertBefore(made(each), at);
    }
  }
  while (at) at = removed(at);
}

// Take a node away; the one behind it.
function removed(node) {
  const next = node.nextSibling;
  node.remove();
  return next;
}

function matching(wanted, at, keyed) {
  if (typeof wanted === "object" && wanted.key !== undefined) {
    const found = keyed.get(wanted.key);
    return found && found.rotaTag === wanted.tag ? found : null;
  }
  if (!at || at.rotaKey !== undefined) return null;
  if (typeof wanted !== "object") return at.nodeType === Node.TEXT_NODE ? at : null;
  return at.rotaTag === wanted.tag ? at : null;
}

function made(wanted) {
  if (typeof wanted !== "object") return document.createTextNode(String(wanted));
  const element = SVG_TAGS.has(wanted.tag)
    ? document.createElementNS(SVG, wanted.tag)
    : document.createElement(wanted.tag);
  element.rotaTag = wanted.tag;
  if (wanted.key !== undefined) element.rotaKey = wanted.key;
  patch(element, wanted);
  return element;
}

function patch(node, wanted) {
  if (typeof wanted !== "object") {
    if (node.nodeValue !== String(wanted)) node.nodeValue = String(wanted);
    return;
  }
  const before = node.rotaProps || {};
  for (const name in before) if (!(name in wanted.props)) set(node, name, undefined, before[name]);
  if (!wanted.props.own) patchChildren(node, wanted.children);
  for (const name in wanted.props) set(node, name, wanted.props[name], before[name]);
  const isNew = node.rotaProps === undefined;
  node.rotaProps = wanted.props;
  if (isNew) wanted.props.made?.(node);
}

function set(node, name, value, before) {
  if (name === "made" || name === "own") return;
  if (name.startsWith("on")) node[name] = value || null;
  else if (name === "style") setStyle(node, value || {}, before || {});
  else if (BY_PROPERTY.has(name)) {
    if (node[name] !== (value ?? "")) node[name] = value ?? (name === "value" ? "" : false);
  } else if (value === before) return;
  else if (value == null || value === false) node.removeAttribute(name);
  else node.setAttribute(name, value === true ? "" : String(value));
}

// Set one by one: the policy of the page allows no style attributes.
function setStyle(node, style, before) {
  for (const name in before) if (!(name in style)) node.style.removeProperty(name);
  for (const name in style) if (style[name] !== before[name]) node.style.setProperty(name, style[name]);
}
