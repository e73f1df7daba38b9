// Parts of the page: element("p", { class: "x", onclick: f }, "words", another).
export function element(name, attributes, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (typeof value === "function") made[key] = value;
    else made.setAttribute(key, value);
  }
  made.append(...children);
  return made;
}
