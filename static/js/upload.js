// Sends a file of rows shard by shard with progress; chosen again after a reload, it goes on where it was.
(() => {
  "use strict";
  const ROUTES = "/v1/registry/dataset-uploads", TRIES = 8;
  const wait = (seconds) => new Promise((done) => setTimeout(done, seconds * 1000));

  const isArchive = async (file) => {
    const head = new Uint8Array(await file.slice(0, 4).arrayBuffer());
    return String.fromCharCode(...head) === "PK\x03\x04";
  };

  class Refusal extends Error {
    constructor(document) { super(document.detail); this.document = document; }
  }

  // One request; a box that does not answer is asked again, because what it holds already is not lost.
  const ask = async (form, method, path, body, progress = () => {}) => {
    for (let tried = 0; ; tried++) {
      const answer = await new Promise((done) => {
        const request = new XMLHttpRequest();
        request.open(method, path);
        request.setRequestHeader("X-CSRFToken", form.querySelector("[name=csrfmiddlewaretoken]").value);
        if (!(body instanceof Blob)) request.setRequestHeader("Content-Type", "application/json");
        request.upload.onprogress = (event) => progress(event.loaded);
        request.onload = () => done(request);
        request.onerror = () => done(null);
        request.send(body instanceof Blob ? body : JSON.stringify(body));
      });
      let document = null;
      try { document = answer && JSON.parse(answer.responseText); } catch { /* no document: something before the box answered */ }
      if (answer && answer.status < 400 && document) return document;
      if (answer && answer.status < 500 || document && tried >= TRIES) throw new Refusal(document || { detail: `The box answered ${answer.status}.` });
      if (tried >= TRIES) throw new Refusal({ detail: "The box does not answer.", hint: "Choose the file again later: what was sent is kept for seven days." });
      say(form, "The box does not answer; trying again…");
      await wait(Math.min(30, 0.5 * 2 ** tried));
    }
  };

  const say = (form, words) => { form.querySelector("[data-upload-said]").textContent = words; };

  const show = (form, share) => {
    const bar = form.querySelector("[data-upload-bar]");
    bar.hidden = false;
    bar.setAttribute("aria-valuenow", Math.floor(share * 100));
    bar.firstElementChild.style.width = `${share * 100}%`;
  };

  const planned = (form, file) => new Promise((done, failed) => {
    const worker = new Worker(form.dataset.worker);
    let read = 0;
    worker.onerror = () => failed(new Refusal({ detail: "The browser could not read the file." }));
    worker.onmessage = ({ data }) => {
      if (data.read) show(form, (read += data.read) / file.size);
      if (data.failure) failed(new Refusal({ detail: data.failure }));
      if (data.shards) done(data.shards);
    };
    worker.postMessage({ file, most: Number(form.dataset.shardBytes) });
  });

  const upload = async (form, file) => {
    const stated = Object.fromEntries(["reference", "alias", "description"].map((name) => [name, form.elements[name].value.trim()]));
    say(form, "Reading the file…");
    const shards = await planned(form, file);
    const opened = await ask(form, "POST", ROUTES, { ...stated, shards: shards.map((shard) => ({ sha256: shard.sha256, bytes: shard.end - shard.start })) });
    const missing = new Set(opened.missing);
    let sent = 0;
    for (const [place, item] of opened.shards.entries()) {
      if (missing.has(item.path)) {
        const before = sent, words = shards.length > 1 ? `Sending shard ${place + 1} of ${shards.length}…` : "Sending…";
        say(form, words);
        const progress = (loaded) => { say(form, loaded < item.bytes ? words : "Checking the rows…"); show(form, (before + loaded) / file.size); };
        await ask(form, "PUT", `${ROUTES}/${opened.id}/shards/${item.path}`, file.slice(shards[place].start, shards[place].end), progress);
      }
      sent += item.bytes;
      show(form, sent / file.size);
    }
    say(form, "Registering…");
    return ask(form, "POST", `${ROUTES}/${opened.id}/complete`, {});
  };

  const element = (name, text, className = "") => Object.assign(document.createElement(name), { textContent: text, className });

  // A refusal beside the form, in the words of the API.
  const refuse = (form, { detail, hint = "", problems = [], moreBadLines = 0 }) => {
    const note = element("div", "", "note bad"), body = element("div", "");
    note.setAttribute("role", "alert");
    body.append(element("b", detail), ` ${hint}`);
    const list = element("ul", "", "stack tight");
    for (const problem of problems) {
      const item = element("li", "");
      item.append(element("code", problem.path), ` ${problem.message}`, element("div", problem.hint || "", "soft small pre"));
      list.append(item);
    }
    if (problems.length) body.append(list);
    if (moreBadLines) body.append(element("p", `And ${moreBadLines} more bad lines.`));
    note.append(body);
    form.querySelector("[data-upload-refused]").replaceChildren(note);
    say(form, "");
    form.querySelector("[data-upload-bar]").hidden = true;
  };

  const leaving = (event) => event.preventDefault();

  const run = async (form, file) => {
    const button = form.querySelector("button.primary");
    button.disabled = true;
    form.querySelector("[data-upload-refused]").replaceChildren();
    addEventListener("beforeunload", leaving);
    try {
      const made = await upload(form, file);
      removeEventListener("beforeunload", leaving);
      location.assign(`?done=${made.versionId}${made.isNew ? "&new" : ""}`);
    } catch (error) {
      if (!(error instanceof Refusal)) throw error;
      refuse(form, error.document);
    } finally {
      removeEventListener("beforeunload", leaving);
      button.disabled = false;
    }
  };

  // An archive, and a browser without workers, take the plain form.
  document.addEventListener("submit", (event) => {
    const form = event.target.closest("form[data-shard-bytes]"), file = form?.elements.file.files[0];
    if (!file || !window.Worker || event.defaultPrevented || form.dataset.plain) return;
    event.preventDefault();
    event.stopPropagation();
    isArchive(file).then((is) => {
      if (!is) return run(form, file);
      form.dataset.plain = "yes";
      delete form.dataset.sent;
      form.requestSubmit();
      delete form.dataset.plain;
    });
  }, { capture: true });
})();
