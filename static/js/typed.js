// What is typed into a form while its fields are on their way anew is put back into the new ones.
(() => {
  const target = (event) => event.detail.target?.id === "fields" && event.detail.target;
  const values = (fields) => new Map([...fields.querySelectorAll("[id][name]")].map((field) => [field.id, field.value]));
  let sent = new Map(), typed = new Map();

  document.addEventListener("htmx:beforeRequest", (event) => {
    const fields = target(event);
    if (fields) sent = values(fields);
  });
  document.addEventListener("htmx:beforeSwap", (event) => {
    const fields = target(event);
    if (fields) typed = new Map([...values(fields)].filter(([id, value]) => sent.has(id) && sent.get(id) !== value));
  });
  document.addEventListener("htmx:afterSwap", (event) => {
    if (!target(event)) return;
    for (const [id, value] of typed) {
      const field = document.getElementById(id);
      if (!field) continue;
      field.value = value;
      field.dispatchEvent(new Event("input", { bubbles: true }));
    }
    typed = new Map();
  });
})();
