// What is typed into a form while its fields are on their way anew is put back into the new ones.
(() => {
  const target = (event) => event.detail.target?.id === "fields" && event.detail.target;
  const values = (fields) => new Map([...fields.querySelectorAll("[id][name]")].map((field) => [field.id, field.value]));
  let sent = new Map(), typed = new Map();

  // Where a term of the reward was removed, those after it move up by a place: the ID that a field has then, or null.
  const moved = (id, action) => {
    const removed = /^remove-(\d+)$/.exec(action), place = /^([fp]-term[-.])(\d+)([-.].*)$/.exec(id);
    if (!removed || !place || +place[2] < +removed[1]) return id;
    return +place[2] === +removed[1] ? null : `${place[1]}${place[2] - 1}${place[3]}`;
  };

  document.addEventListener("htmx:beforeRequest", (event) => {
    const fields = target(event);
    if (fields) sent = values(fields);
  });
  document.addEventListener("htmx:beforeSwap", (event) => {
    const fields = target(event);
    if (!fields) return;
    const action = event.detail.requestConfig.parameters.do;
    const later = [...values(fields)].filter(([id, value]) => sent.has(id) && sent.get(id) !== value);
    typed = new Map(later.map(([id, value]) => [moved(id, action), value]));
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
